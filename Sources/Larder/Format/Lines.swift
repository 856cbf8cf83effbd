import LarderFiles
import LarderFoundation

/// Reads a file line by line in a bounded buffer.
struct LineReader {
    /// The longest record: a key of 64 KiB, each byte escaped to six, and the metadata. Bytes.
    static let longestRecord = 1 << 20
    static let longestLine = longestRecord + 2
    private static let chunk = 256 << 10

    let fileSystem: any FileSystem

    /// Calls `body` with each line in a part of a file, without its line feed, until it returns false; a line longer
    /// than `longestLine` is split into pieces, which are not records. Returns the offset after the last byte read; nil
    /// when `body` returned false.
    func forEachLine<Failure: Error>(
        of file: borrowing FileDescriptor, in part: Range<Int> = 0..<Int.max,
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Bool
    ) throws(LineReaderError<Failure>) -> Int? {
        var buffer = [UInt8](repeating: 0, count: min(Self.chunk, max(part.count, 1)))
        var filled = 0
        var offset = part.lowerBound
        while true {
            if filled == buffer.count { buffer += [UInt8](repeating: 0, count: buffer.count) }
            let space = buffer.count - filled
            var count: Int
            do {
                count = try fileSystem.read(file, at: offset, into: &buffer, from: filled)
            } catch {
                throw .reading(error)
            }
            let isLast = count < space || count >= part.upperBound - offset
            count = min(count, part.upperBound - offset)
            offset += count
            filled += count
            guard let rest = try consume(&buffer, filled, isLast: isLast, body) else { return nil }
            filled = rest
            if isLast { return offset }
        }
    }

    /// Passes on the complete lines among the first `filled` bytes; moves the rest to the front and returns its length.
    /// Nil when `body` returned false.
    private func consume<Failure: Error>(
        _ buffer: inout [UInt8], _ filled: Int, isLast: Bool,
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Bool
    ) throws(LineReaderError<Failure>) -> Int? {
        var start = 0
        var wantsMore = true
        do {
            try buffer.withBytes { bytes throws(Failure) in
                while wantsMore, let end = Self.lineFeed(in: bytes, start..<filled) {
                    wantsMore = try body(bytes.part(start..<end))
                    start = end + 1
                }
                if wantsMore, (isLast && start < filled) || filled - start >= Self.longestLine {
                    wantsMore = try body(bytes.part(start..<filled))
                    start = filled
                }
            }
        } catch {
            throw .stopped(error)
        }
        if !wantsMore { return nil }
        buffer.replaceSubrange(0..<filled - start, with: Array(buffer[start..<filled]))
        return filled - start
    }
}

extension LineReader {
    /// Calls `body` with each line of bytes in memory, without its line feed. O(n).
    static func forEachLine(in bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        var start = 0
        while start < bytes.count {
            let end = lineFeed(in: bytes, start..<bytes.count) ?? bytes.count
            body(bytes.part(start..<end))
            start = end + 1
        }
    }

    private static func lineFeed(in bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        guard !range.isEmpty, let start = bytes.baseAddress,
            let found = memchr(start + range.lowerBound, Int32(UInt8(ascii: "\n")), range.count)
        else { return nil }
        return UnsafeRawPointer(found) - start
    }
}

/// The reason why reading lines ended early: the file could not be read, or the body threw.
enum LineReaderError<Failure: Error>: Error {
    case reading(Errno)
    case stopped(Failure)
}

/// The format of a journal: a header, then every change, one record per line, only ever appended.
///
///     {"larder":2,"g":1,"n":0,"bt":"…","c":"…"}
///     {"k":"a/b","n":1,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"…","c":"…"}
///     {"o":"remove","k":"a/b","n":2,"c":"…"}
///     {"o":"closed","n":2,"to":[0,0,0],"nt":[],"c":"…"}
///
/// A record *begins* with its line feed, so that a torn line cannot swallow the next one; the last line has none.
/// `closed` is truncated before the next session's first change: it is only ever the last record.
enum JournalFormat {
    /// Prints the first line of a journal.
    static func header(version: UInt64, generation: UInt64, last: UInt64, boot: UInt64) -> [UInt8] {
        var printer = RecordPrinter(reserving: 96)
        printer.append(.header(version: version, generation: generation, last: last, boot: boot))
        return printer.bytes
    }

    /// Prints a record after its line feed.
    static func line(_ record: Record) -> [UInt8] {
        var printer = RecordPrinter(reserving: 256)
        append(record, to: &printer)
        return printer.bytes
    }

    static func append(_ entry: IndexEntry, to printer: inout RecordPrinter) {
        printer.append("\n")
        printer.append(entry)
    }

    static func append(_ record: Record, to printer: inout RecordPrinter) {
        printer.append("\n")
        printer.append(record)
    }
}

/// The format of `manifest.json`: a JSON array, one record per line, the header first. The entries follow in groups,
/// which the last record describes; see `GroupTable`.
///
///     [{"larder":2,"g":2,"n":17,"c":"…"}
///     ,{"k":"a/b","n":16,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"…","c":"…"}
///     ,{"k":"b","n":17,"s":1763632800123,"z":1024,"h":"…","m":{"etag":"x"},"c":"…"}
///     ,{"o":"groups","g":2,"sd":"…","at":50,"gr":[[229,2,1029,8192,1763719200000,null,"…"]],"nt":[],"c":"…"}
///     ]
///
/// It is written group by group. It is read group by group or line by line, and a bad line costs only itself. Without
/// the last line it is damaged. Between the groups and the last record it keeps the `obsolete`, `remove`, `clear` and
/// keyless `life` records that are still needed.
enum JSONManifest {
    static func begin(
        _ printer: inout RecordPrinter, version: UInt64, generation: UInt64, last: UInt64, boot: UInt64?
    ) {
        printer.append("[")
        printer.append(.header(version: version, generation: generation, last: last, boot: boot))
        printer.append("\n")
    }

    static func append(_ record: Record, to printer: inout RecordPrinter) {
        printer.append(",")
        printer.append(record)
        printer.append("\n")
    }

    static func append(_ entry: IndexEntry, to printer: inout RecordPrinter) {
        printer.append(",")
        printer.append(entry)
        printer.append("\n")
    }

    static func end(_ printer: inout RecordPrinter) {
        printer.append("]\n")
    }
}

/// A parsed line of a manifest or a journal.
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
        case let first:
            let isSeparator = first == UInt8(ascii: ",") || first == UInt8(ascii: "[")
            let record = RecordScanner.record(on: isSeparator ? line.part(1..<line.count) : line)
            // Not mapped: that copies the record.
            if let record { self = .record(record) } else { self = .damaged }
        }
    }
}
