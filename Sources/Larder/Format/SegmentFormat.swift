import LarderFiles

/// The format of a segment: a header, twice, then entries, each at a multiple of 32 bytes. Only ever appended, except
/// for the words named below, which are written again in place. Integers are little-endian.
///
/// The header, 64 bytes:
///
/// | bytes | what                                                                                          |
/// | ----- | --------------------------------------------------------------------------------------------- |
/// | 0-15  | `larder segmt 01` and a line feed: the magic with the format's version                        |
/// | 16-23 | number of the segment                                                                         |
/// | 24-31 | salt, random                                                                                  |
/// | 32-39 | XXH64 of bytes 0-31                                                                           |
/// | 40-47 | in place: where entries end below which no change was under way                               |
/// | 48-55 | in place: XXH64 of bytes 40-47, seeded with the salt                                          |
/// | 56-63 | in place: bytes of dead entries, a hint                                                       |
///
/// The second header repeats bytes 0-39, so that one flipped bit does not cost all entries. Its bytes 40-47 name the
/// boot of the system in which the segment was begun, or are 0; the rest is 0. A segment of another boot is not
/// continued: after a power cut, records may mention entries behind its end that the disk has lost.
///
/// An entry is a header of 64 bytes, the payload, a line feed, and the record with the field `w`:
///
/// | bytes | what                                                                                          |
/// | ----- | --------------------------------------------------------------------------------------------- |
/// | 0-31  | in place: life slot, as in an entry file                                                      |
/// | 32-39 | XXH64 of the record, seeded with its length                                                   |
/// | 40-43 | length of the record                                                                          |
/// | 44-47 | length of the payload                                                                         |
/// | 48-55 | XXH64 of bytes 32-47, seeded with the salt and the entry's place                              |
/// | 56-63 | in place: 0; all bits set once the entry is dead; the second half once it is the last one of  |
/// |       | a removed key, whose older entries are dead, too. The majority of the bits counts            |
///
/// The check of the place makes sure that no payload looks like an entry, and that no entry is taken for one elsewhere.
enum SegmentFormat {
    static let headerLength = 64
    /// The offset of the first entry.
    static let start = 2 * headerLength
    static let entryHeaderLength = 64
    /// Bytes.
    static let longestPayload = 1 << 20
    /// No entry takes fewer bytes.
    static let shortestEntry = 128
    /// The offset of the word that says whether an entry is dead.
    static let markOffset = 56
    static let mark = [UInt8](repeating: .max, count: 8)
    /// The first half: completes the mark of a last entry.
    static let restOfMark = [UInt8](repeating: .max, count: 4)
    /// The second half: a mark of a dead entry that a power cut has torn begins with the first.
    static let lastMark = [UInt8](repeating: .max, count: 4)
    static let lastMarkOffset = 60
    static let numberOffset = 16
    static let settledOffset = 40
    /// In the second header.
    private static let bootOffset = 40
    static let deadBytesOffset = 56
    private static let magic = Array("larder segmt 01\n".utf8)
    private static let versionlessMagic = magic.prefix(13)

    /// The header of a segment.
    struct Header {
        let salt: UInt64
        /// Entries below this offset belong to no change that was under way at the end of the session.
        let settled: Int
        /// The boot in which it was begun; 0: unknown.
        let boot: UInt64
    }

    /// The outcome of reading both headers.
    enum Reading {
        case valid(Header)
        /// A newer format: left alone.
        case newer
        case invalid
    }

    /// Both headers of a new segment.
    static func headers(of number: UInt64, salt: UInt64, boot: UInt64) -> [UInt8] {
        var printer = RecordPrinter(reserving: start)
        for isFirst in [true, false] {
            let begin = printer.count
            printer.append(magic)
            printer.append(littleEndian: number)
            printer.append(littleEndian: salt)
            printer.append(littleEndian: printer.hashOfLast(printer.count - begin, seed: 0))
            if isFirst {
                printer.append(settled(start, salt: salt))
            } else {
                printer.append(littleEndian: boot)
                printer.append(littleEndian: 0)
            }
            printer.append(littleEndian: 0)
        }
        return printer.bytes
    }

    /// The bytes at `settledOffset`.
    static func settled(_ offset: Int, salt: UInt64) -> [UInt8] {
        var printer = RecordPrinter(reserving: 16)
        printer.append(littleEndian: UInt64(offset))
        printer.append(littleEndian: printer.hashOfLast(8, seed: salt))
        return printer.bytes
    }

    /// The bytes at `deadBytesOffset`.
    static func deadBytes(_ count: Int) -> [UInt8] {
        var printer = RecordPrinter(reserving: 8)
        printer.append(littleEndian: UInt64(count))
        return printer.bytes
    }

    /// Reads the first `start` bytes of segment `number`.
    static func header(of number: UInt64, _ bytes: UnsafeRawBufferPointer) -> Reading {
        guard bytes.count >= start else { return .invalid }
        var isNewer = false
        for begin in [0, headerLength] {
            let copy = bytes.part(begin..<begin + headerLength)
            guard copy.prefix(magic.count).elementsEqual(magic) else {
                isNewer = isNewer || copy.starts(with: versionlessMagic) && copy[15] == magic[15]
                continue
            }
            guard copy.word(at: numberOffset) == number, XXH64.hash(copy.part(0..<32)) == copy.word(at: 32) else {
                continue
            }
            let salt = copy.word(at: 24)
            // The words in place are those of the first header.
            let settled = bytes.word(at: settledOffset)
            let isSettled =
                XXH64.hash(bytes.part(40..<48), seed: salt) == bytes.word(at: 48) && settled <= UInt64(Place.end)
            return .valid(
                Header(
                    salt: salt, settled: isSettled ? max(start, Int(settled)) : start,
                    boot: bytes.word(at: headerLength + bootOffset)))
        }
        return isNewer ? .newer : .invalid
    }

    /// The bytes of an entry, up to the beginning of the next one.
    static func span(payload: Int, record: Int) -> Int {
        (entryHeaderLength + payload + 1 + record + Place.unit - 1) / Place.unit * Place.unit
    }

    /// The header of an entry.
    struct EntryHeader {
        let recordCheck: UInt64
        let recordLength: Int
        let payloadLength: Int
        let isDead: Bool
        /// It is dead, and hides the older entries of its key.
        let isLast: Bool

        /// The offset of the record from the beginning of the entry.
        var recordOffset: Int { entryHeaderLength + payloadLength + 1 }
        /// Bytes, without those up to the beginning of the next entry.
        var length: Int { recordOffset + recordLength }
        var span: Int { SegmentFormat.span(payload: payloadLength, record: recordLength) }
    }

    /// The words of the header of a new entry.
    static func entryHeader(
        _ entry: IndexEntry, recordLength: Int, recordCheck: UInt64, salt: UInt64
    ) -> EntryHeaderWords {
        let expires = UInt64(bitPattern: entry.life.expires.milliseconds)
        let ttl = UInt64(bitPattern: entry.life.ttl)
        let slotCheck = hash((expires, ttl, entry.change), seed: recordCheck)
        let lengths = UInt64(recordLength) | UInt64(entry.size) << 32
        let check = hash((recordCheck, lengths), seed: seed(salt, entry.file.place))
        return (expires, ttl, entry.change, slotCheck, recordCheck, lengths, check, 0)
    }

    typealias EntryHeaderWords = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)

    private static func hash<Words>(_ words: Words, seed: UInt64) -> UInt64 {
        withUnsafeBytes(of: words) { XXH64.hash($0, seed: seed) }
    }

    /// Reads the header of an entry from its bytes; nil when no entry begins there.
    static func entryHeader(_ bytes: UnsafeRawBufferPointer, at place: Place, salt: UInt64) -> EntryHeader? {
        guard bytes.count >= entryHeaderLength,
            XXH64.hash(bytes.part(32..<48), seed: seed(salt, place)) == bytes.word(at: 48)
        else { return nil }
        let lengths = bytes.word(at: 40)
        let header = EntryHeader(
            recordCheck: bytes.word(at: 32), recordLength: Int(lengths & 0xFFFF_FFFF),
            payloadLength: Int(lengths >> 32), isDead: isDead(bytes), isLast: !isDead(bytes) && isLast(bytes))
        // Anybody who knows the salt can make a header, and the announced bytes are read into memory.
        guard header.recordLength <= LineReader.longestRecord, header.payloadLength <= longestPayload,
            place.offset + header.span <= Place.end
        else { return nil }
        return header
    }

    /// The state of an entry, by its header.
    enum Condition {
        case live, dead
        /// The header is damaged; the payload may not be.
        case unknown
    }

    /// Reads the header of an entry that the index mentions. Bits of the mark count even where the rest is damaged.
    static func condition(_ bytes: UnsafeRawBufferPointer, at place: Place, salt: UInt64?) -> Condition {
        // It was to begin behind the end of the segment.
        guard bytes.count >= entryHeaderLength else { return .dead }
        if isDead(bytes) || isLast(bytes) { return .dead }
        return salt.flatMap { entryHeader(bytes, at: place, salt: $0) } == nil ? .unknown : .live
    }

    /// Reads an entry from its header and its record.
    static func entry(
        _ header: EntryHeader, _ headerBytes: UnsafeRawBufferPointer, record: UnsafeRawBufferPointer, at place: Place
    ) -> IndexEntry? {
        guard record.count == header.recordLength,
            XXH64.hash(record, seed: UInt64(record.count)) == header.recordCheck,
            case .set(var entry)? = RecordScanner.record(on: record), entry.file.place == place,
            entry.size == header.payloadLength
        else { return nil }
        entry.takeSlot(EntryFile.slot(in: headerBytes, recordCheck: header.recordCheck))
        if header.isLast { (entry.life, entry.change) = (.over, entry.change + 1) }
        return entry
    }

    private static func isDead(_ header: UnsafeRawBufferPointer) -> Bool {
        header.word(at: markOffset).nonzeroBitCount > 32
    }

    private static func isLast(_ header: UnsafeRawBufferPointer) -> Bool {
        (header.word(at: markOffset) >> 32).nonzeroBitCount > 16
    }

    private static func seed(_ salt: UInt64, _ place: Place) -> UInt64 {
        salt ^ UInt64(truncatingIfNeeded: place.packed &* 0x9E37_79B9_7F4A_7C15)
    }
}

extension UnsafeRawBufferPointer {
    /// The little-endian word at an offset.
    func word(at offset: Int) -> UInt64 {
        UInt64(littleEndian: loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}
