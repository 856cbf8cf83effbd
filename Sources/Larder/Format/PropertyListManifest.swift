import LarderFiles
import LarderFoundation

/// The format of `manifest.plist`: a binary property list, as `plutil -p` shows it
///
///     {
///       "check" => "5b1f3a…"
///       "entries" => {
///         "a/b" => {
///           "expires" => 2025-11-21 10:00:00 +0000
///           "record" => "{"k":"a/b","n":16,"s":1763632800000,…}"
///           "size" => 5
///           "stored" => 2025-11-20 10:00:00 +0000
///         }
///       }
///       "header" => "{"larder":1,"g":2,"n":17,"c":"…"}"
///       "removed" => []
///     }
///
/// Only the records are read, each with its own check; everything else is for people. `check` is the sum of the XXH64
/// of all records: a list of parts from different manifests is damaged. `removed` has the `obsolete`, `remove`,
/// `clear` and keyless `life` records that are still needed.
struct PropertyListManifest {
    /// The maximum length in bytes, enough for some 80,000 entries. A longer list counts as damaged when read, and is
    /// written as JSON instead: a list is read and written as a whole, which takes many times its length in memory.
    static let longest = 32 << 20

    private var list = List()
    private var sum: UInt64 = 0
    /// The approximate length of the list so far. Bytes.
    private var length = 0

    init(version: UInt64, generation: UInt64, last: UInt64, boot: UInt64? = nil) {
        list.header = text(.header(version: version, generation: generation, last: last, boot: boot))
    }

    /// Adds a record; false when the list becomes too long.
    @discardableResult
    mutating func append(_ record: Record) -> Bool {
        add(record)
        return length <= Self.longest
    }

    private mutating func add(_ record: Record) {
        guard case .set(let entry) = record else { return list.removed.append(text(record)) }
        let metadata = entry.attachments?.metadata ?? [:]
        let fields = Fields(
            record: text(record), size: entry.size, stored: entry.stored.date,
            expires: entry.life.isForever ? nil : entry.life.expires.date, metadata: metadata.isEmpty ? nil : metadata)
        length += entry.keyText.utf8.count + 64
        // Swift's `==` equates two spellings of a key; here they are two keys.
        var label = entry.keyText
        while list.entries[label] != nil { label += " (file \(entry.file.number))" }
        list.entries[label] = fields
    }

    /// Returns the bytes of the list; nil when it is too long. O(n).
    func encoded() throws -> Data? {
        var list = list
        list.check = FileName.number(sum).description
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        let data = try encoder.encode(list)
        return data.count <= Self.longest ? data : nil
    }

    private mutating func text(_ record: Record) -> Text {
        var printer = RecordPrinter()
        printer.append(record)
        sum &+= printer.hashOfLast(printer.count, seed: 0)
        length += printer.count
        // Fields of another version are kept verbatim, and may not be text.
        return printer.withBytes { bytes in
            String(bytes: bytes, encoding: .utf8).map(Text.text) ?? .bytes(Data(bytes))
        }
    }

    private struct List: Encodable {
        var header = Text.text("")
        var check = ""
        var entries: [String: Fields] = [:]
        var removed: [Text] = []
    }

    private struct Fields: Encodable {
        let record: Text
        let size: Int
        let stored: Date
        let expires: Date?
        let metadata: [String: String]?
    }

    /// A record.
    private enum Text: Encodable {
        case text(String)
        case bytes(Data)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .bytes(let bytes): try container.encode(bytes)
            }
        }
    }
}

extension PropertyListManifest {
    /// The content of a file.
    struct Parsed {
        let version: UInt64
        let generation: UInt64
        /// The header first.
        let records: [Record]
        let damagedRecords: Int
    }

    /// Reads the bytes of a file; nil when it is too long, or shorter than its size.
    static func bytes(
        of file: borrowing FileDescriptor, size: Int, in fileSystem: any FileSystem
    ) throws(Errno) -> Data? {
        if size > longest { return nil }
        var bytes = [UInt8](repeating: 0, count: size)
        return try fileSystem.read(file, at: 0, into: &bytes) == size ? Data(bytes) : nil
    }

    /// Reads a list; nil when it is not a manifest, or a part of it is missing. O(n).
    static func content(of data: Data) -> Parsed? {
        var sum: UInt64 = 0
        // An entry takes some 350 bytes and a dozen objects; an object that takes one byte in the file takes 34 in
        // memory.
        guard let list = PropertyList(data, mostObjects: data.count / 8 + 64),
            let header = record(list["header"], &sum),
            case .header(let version, let generation, _, _) = header
        else { return nil }
        if version > Record.lastVersion {
            return Parsed(version: version, generation: 0, records: [header], damagedRecords: 0)
        }
        guard case .dictionary(let entries)? = list["entries"], let removed = list["removed"]?.array, generation > 0
        else { return nil }
        let records = removed.map { record($0, &sum) } + entries.map { record($0.value["record"], &sum) }
        let read = records.compactMap(\.self)
        let isWhole = list["check"]?.string == FileName.number(sum).description
        return Parsed(
            version: version, generation: generation, records: [header] + read,
            damagedRecords: max(records.count - read.count, isWhole ? 0 : 1))
    }

    private static func record(_ field: PropertyList?, _ sum: inout UInt64) -> Record? {
        let bytes: [UInt8]
        switch field {
        case .string(let text): bytes = Array(text.utf8)
        case .data(let data): bytes = Array(data)
        default: return nil
        }
        return bytes.withBytes { bytes in
            sum &+= XXH64.hash(bytes)
            return RecordScanner.record(on: bytes)
        }
    }
}
