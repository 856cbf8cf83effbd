import Foundation
import LarderFiles

/// Reads a file line by line in a bounded buffer.
struct LineReader {
    /// Bytes. What a record may take: a key of 64 KiB, each byte escaped to six, and the metadata.
    static let longestRecord = 1 << 20
    static let longestLine = longestRecord + 2
    private static let chunk = 256 << 10

    let fileSystem: any FileSystem

    /// Calls `body` with each line, without its line feed, until it answers false; a line longer than `longestLine`
    /// comes in pieces, which are no records. Returns the bytes read; nil when `body` had enough.
    func forEachLine<Failure: Error>(
        of file: borrowing FileDescriptor, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Bool
    ) throws(LineReaderError<Failure>) -> Int? {
        var buffer = [UInt8](repeating: 0, count: Self.chunk)
        var filled = 0
        var offset = 0
        while true {
            if filled == buffer.count { buffer += [UInt8](repeating: 0, count: buffer.count) }
            let space = buffer.count - filled
            let count: Int
            do {
                count = try fileSystem.read(file, at: offset, into: &buffer, from: filled)
            } catch {
                throw .reading(error)
            }
            offset += count
            filled += count
            let isLast = count < space
            guard let rest = try consume(&buffer, filled, isLast: isLast, body) else { return nil }
            filled = rest
            if isLast { return offset }
        }
    }

    /// Hands out the whole lines among the first `filled` bytes; moves the rest to the front and returns its length.
    /// Nil when `body` had enough.
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
    private static func lineFeed(in bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        guard !range.isEmpty, let start = bytes.baseAddress,
            let found = memchr(start + range.lowerBound, Int32(UInt8(ascii: "\n")), range.count)
        else { return nil }
        return UnsafeRawPointer(found) - start
    }
}

/// Why reading lines ended early: the file could not be read, or the reader's body refused.
enum LineReaderError<Failure: Error>: Error {
    case reading(Errno)
    case stopped(Failure)
}
