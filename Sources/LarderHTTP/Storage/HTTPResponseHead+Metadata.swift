import LarderFiles

/// A head as the metadata of an entry. The fields are text as in a message, so that order and repetition survive.
extension HTTPResponseHead {
    private static let statusKey = "http-status"
    private static let fieldsKey = "http-fields"
    private static let requestedKey = "http-requested"
    private static let receivedKey = "http-received"

    /// Nil for metadata of something else.
    init?(metadata: [String: String]) {
        guard let status = metadata[Self.statusKey].flatMap(Int.init), let lines = metadata[Self.fieldsKey],
            let requested = metadata[Self.requestedKey].flatMap(Int64.init),
            let received = metadata[Self.receivedKey].flatMap(Int64.init)
        else { return nil }
        let fields = lines.utf8.split(separator: UInt8(ascii: "\n")).compactMap { line in
            HTTPField(line: String(Substring(line)))
        }
        self.init(
            status: status, fields: fields, requested: Timestamp(milliseconds: requested),
            received: Timestamp(milliseconds: received))
    }

    var metadata: [String: String] {
        [
            Self.statusKey: String(status),
            Self.fieldsKey: fields.map { "\($0.name):\($0.value)\n" }.joined(),
            Self.requestedKey: String(requested.milliseconds),
            Self.receivedKey: String(received.milliseconds),
        ]
    }
}

/// The names in the `Vary` of a URL's responses, stored under the URL itself while its responses vary: each list of
/// names, the newest first, leads to the variants that were selected by it.
struct VaryNote: Hashable, Sendable {
    private static let key = "http-vary"
    /// Variants beyond that are forgotten.
    private static let longest = 8

    private(set) var lists: [[String]] = []

    init(_ names: [String]) {
        lists = [names]
    }

    /// Nil for metadata of something else.
    init?(metadata: [String: String]) {
        guard let text = metadata[Self.key] else { return nil }
        lists = text.split(separator: "\n").map { $0.split(separator: ",").map(String.init) }
    }

    var metadata: [String: String] { [Self.key: lists.map { $0.joined(separator: ",") }.joined(separator: "\n")] }

    func adding(_ names: [String]) -> VaryNote {
        var note = self
        note.lists = Array(([names] + lists.filter { $0 != names }).prefix(Self.longest))
        return note
    }
}
