/// The format of `manifest.json`: a JSON array, one record per line, the header first.
///
///     [{"larder":1,"g":2,"n":17,"c":"…"}
///     ,{"k":"a/b","n":16,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"…","c":"…"}
///     ,{"k":"b","n":17,"s":1763632800123,"z":1024,"h":"…","m":{"etag":"x"},"c":"…"}
///     ]
///
/// It is read and written a line at a time, and a bad line costs that line alone. Without the last line it is damaged.
/// After an unclean close it also keeps the `remove` and `clear` records that reconciling still needs.
enum JSONManifest {
    static func begin(_ printer: inout RecordPrinter, generation: UInt64, last: UInt64) {
        printer.append("[")
        printer.append(.header(version: Record.version, generation: generation, last: last))
    }

    static func append(_ record: Record, to printer: inout RecordPrinter) {
        printer.append("\n,")
        printer.append(record)
    }

    static func end(_ printer: inout RecordPrinter) {
        printer.append("\n]\n")
    }
}

/// One line of a manifest or a journal, read.
enum Line {
    case record(Record)
    case end
    case blank
    case damaged

    init(_ line: UnsafeRawBufferPointer) {
        switch line.first {
        case nil:
            self = .blank
        case UInt8(ascii: "]") where line.count == 1:
            self = .end
        case UInt8(ascii: ","), UInt8(ascii: "["):
            self =
                RecordScanner.record(on: UnsafeRawBufferPointer(rebasing: line.dropFirst())).map(Line.record)
                ?? .damaged
        default:
            self = RecordScanner.record(on: line).map(Line.record) ?? .damaged
        }
    }
}
