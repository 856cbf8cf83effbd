import LarderFiles

/// A head as the metadata of an entry. The fields are text as in a message, so that order and repetition survive.
extension HTTPResponseHead {
    private static let statusKey = "http-status"
    private static let fieldsKey = "http-fields"
    private static let requestedKey = "http-requested"
    private static let receivedKey = "http-received"
    /// Absent: 0.
    private static let leadKey = "http-lead"

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
            received: Timestamp(milliseconds: received),
            lead: metadata[Self.leadKey].flatMap(Int64.init).map { min(max(0, $0), SteadyTime.longestStep) } ?? 0)
    }

    var metadata: [String: String] {
        var metadata = [
            Self.statusKey: String(status),
            Self.fieldsKey: fields.map { "\($0.name):\($0.value)\n" }.joined(),
            Self.requestedKey: String(requested.milliseconds),
            Self.receivedKey: String(received.milliseconds),
        ]
        if lead != 0 { metadata[Self.leadKey] = String(lead) }
        return metadata
    }
}

/// The names in the `Vary` of a URL's responses, stored under the URL itself while its responses vary: each list of
/// names, the newest first, leads to the variants that were selected by it.
struct VaryNote: Hashable, Sendable {
    private static let key = "http-vary"
    private static let sinceKey = "http-vary-since"
    /// Variants beyond that are forgotten.
    private static let longest = 8

    private(set) var lists: [[String]] = []
    /// When the first of these responses arrived. Older ones have been replaced by a response that did not vary, and do
    /// not come back with the next that does.
    private(set) var since: Timestamp

    init(_ names: [String], since: Timestamp) {
        lists = [names]
        self.since = since
    }

    /// Nil for metadata of something else.
    init?(metadata: [String: String]) {
        guard let text = metadata[Self.key] else { return nil }
        lists = text.split(separator: "\n").map { $0.split(separator: ",").map(String.init) }
        // Larder 0.1.0 did not note it.
        since = Timestamp(milliseconds: metadata[Self.sinceKey].flatMap(Int64.init) ?? .min)
    }

    var metadata: [String: String] {
        [
            Self.key: lists.map { $0.joined(separator: ",") }.joined(separator: "\n"),
            Self.sinceKey: String(since.milliseconds),
        ]
    }

    /// The note with a list of names at its front. Another response may have arrived before the one that began it.
    func adding(_ names: [String], received: Timestamp) -> VaryNote {
        var note = self
        note.lists = Array(([names] + lists.filter { $0 != names }).prefix(Self.longest))
        note.since = min(since, received)
        return note
    }

    /// The keys of the variants that a request selects, one for each list.
    func keys(_ key: CacheKey, for request: HTTPRequestHead) -> [String] {
        lists.compactMap { key.variant(HTTPVariant(names: $0, for: request.fields)) }
    }
}
