import Foundation
import LarderFiles

/// The format of `manifest.plist`: a binary property list, as `plutil -p` shows it
///
///     {
///       "count" => 1
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
/// What is read are the records, each with its own check; all else is for people. Without `header`, or with fewer entries than
/// `count`, it is damaged. `removed` has the `remove` and `clear` records that reconciling still needs.
struct PropertyListManifest {
    /// Bytes; what is longer is read as damaged.
    static let longest = 1 << 30

    private var entries: [String: Any] = [:]
    private var removed: [Any] = []
    private let header: Any

    init(generation: UInt64, last: UInt64) {
        header = Self.text(.header(version: Record.version, generation: generation, last: last))
    }

    mutating func append(_ record: Record) {
        guard case .set(let row) = record else { return removed.append(Self.text(record)) }
        var entry: [String: Any] = ["record": Self.text(record), "size": row.size, "stored": row.stored.date]
        if !row.life.isForever { entry["expires"] = row.life.expires.date }
        if let metadata = row.attachments?.metadata, !metadata.isEmpty { entry["metadata"] = metadata }
        // Swift calls two spellings of a key equal; here they are two.
        var label = row.key
        while entries[label] != nil { label += " (file \(row.file))" }
        entries[label] = entry
    }

    /// Returns the bytes of the list. O(n).
    func encoded() throws -> Data {
        let list: [String: Any] = ["header": header, "count": entries.count, "entries": entries, "removed": removed]
        return try PropertyListSerialization.data(fromPropertyList: list, format: .binary, options: 0)
    }

    private static func text(_ record: Record) -> Any {
        var printer = RecordPrinter()
        printer.append(record)
        // Fields of another version are kept as they are, and need not be text.
        return String(bytes: printer.bytes, encoding: .utf8) ?? Data(printer.bytes)
    }
}

extension PropertyListManifest {
    /// What a file holds.
    struct Content {
        let version: UInt64
        let generation: UInt64
        /// The header first.
        let records: [Record]
        let damagedRecords: Int
    }

    /// Reads a file; nil when it is no manifest, or a part of it is missing. O(n).
    static func content(of data: Data) -> Content? {
        guard let list = PropertyList(data), let header = record(list["header"]),
            case .header(let version, let generation, _) = header
        else { return nil }
        if version > Record.version {
            return Content(version: version, generation: 0, records: [header], damagedRecords: 0)
        }
        guard case .integer(let count)? = list["count"], case .dictionary(let entries)? = list["entries"],
            let removed = list["removed"]?.array, entries.count == count, generation > 0
        else { return nil }
        let records = removed.map(record) + entries.map { record($0.value["record"]) }
        let read = records.compactMap(\.self)
        return Content(
            version: version, generation: generation, records: [header] + read,
            damagedRecords: records.count - read.count)
    }

    private static func record(_ field: PropertyList?) -> Record? {
        switch field {
        case .string(let text): Array(text.utf8).withBytes { RecordScanner.record(on: $0) }
        case .data(let data): data.withUnsafeBytes { RecordScanner.record(on: $0) }
        default: nil
        }
    }
}
