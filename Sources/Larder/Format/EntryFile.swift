import LarderFiles

/// The format of an entry file: the payload, then a footer that describes the entry completely.
///
///     payload | record | trailer
///
/// The record is the line of `Record`, immutable. The trailer is 64 bytes, integers little-endian:
///
/// | bytes | what                                                                                          |
/// | ----- | --------------------------------------------------------------------------------------------- |
/// | 0-7   | life slot: expires at, milliseconds since 1970; Int64.max: never                              |
/// | 8-15  | life slot: the requested life, milliseconds; Int64.max: until a date, or forever           |
/// | 16-23 | life slot: number of the change                                                               |
/// | 24-31 | life slot: XXH64 of bytes 0-23, seeded with the record's check                                |
/// | 32-39 | XXH64 of the record, seeded with its length                                                   |
/// | 40-47 | length of the record                                                                          |
/// | 48-63 | `larder entry 01` and a line feed: the magic with the format's version                        |
///
/// Only the life slot is ever written again, in place. A slot whose check is wrong counts as expired.
///
/// A *tombstone* is such a file without a payload. Its record is the `clear` of a namespace or a tag, or the `remove`
/// of a key whose older files had not all been found yet. It stays until the files that it covers are deleted, so these
/// stay dead even if the index is lost. The tombstone of the part without a namespace ends with `larder entry 02`,
/// because version 1 had no such `clear`. The tombstone of an expired namespace or tag (a `life` without a key) ends
/// with `larder entry 03` and stays until the life slots of the entries that it covers have been written. An older
/// version leaves a newer version's files alone and returns no entry with a lower number, so it revives nothing.
enum EntryFile {
    static let trailerLength = 64
    static let slotLength = 32
    static let magic = Array("larder entry 01\n".utf8)
    /// The magics of the tombstones that version 1 did not know: those of the part without a namespace, and those of
    /// expired scopes.
    private static let laterMagic = Array("larder entry 02\n".utf8)
    private static let expiryMagic = Array("larder entry 03\n".utf8)
    private static let versionlessMagic = magic.prefix(13)

    /// The outcome of reading the end of a file.
    enum Footer {
        case valid(IndexEntry)
        /// A dead entry of a segment that hides the older ones of its key; its life is over.
        case last(IndexEntry)
        /// The record is longer than the bytes read: this many bytes from the end are needed.
        case longer(Int)
        /// A footer of a newer format: left alone.
        case newer
        case invalid

        /// The entry that it describes, dead or alive.
        var entry: IndexEntry? {
            switch self {
            case .valid(let entry), .last(let entry): entry
            case .longer, .newer, .invalid: nil
            }
        }
    }

    /// Prints the footer of a new entry after its record, which `printer` holds.
    static func appendTrailer(
        to printer: inout RecordPrinter, recordLength: Int, life: Life, change: UInt64, _ magic: [UInt8] = magic
    ) {
        let check = printer.hashOfLast(recordLength, seed: UInt64(recordLength))
        appendSlot(to: &printer, life: life, change: change, recordCheck: check)
        printer.append(littleEndian: check)
        printer.append(littleEndian: UInt64(recordLength))
        printer.append(magic)
    }

    /// Returns the content of a tombstone. Until it has its check, it covers nothing.
    static func tombstone(of removal: Removal, number: UInt64) -> [UInt8] {
        var printer = RecordPrinter(reserving: 256)
        printer.append(removal.record(number: number))
        appendTrailer(
            to: &printer, recordLength: printer.count, life: .forever, change: number, magic(of: removal))
        return printer.bytes
    }

    /// The bytes of a tombstone that hold its check.
    static func check(inTombstone bytes: [UInt8]) -> Range<Int> {
        let start = bytes.count - trailerLength + slotLength
        return start..<start + 8
    }

    private static func magic(of removal: Removal) -> [UInt8] {
        switch removal {
        case .scope(.namespace(.none)): laterMagic
        case .scope, .key: magic
        case .expiry: expiryMagic
        }
    }

    /// The entries that a tombstone covers: those with a file number below its own; for an expiry, those whose last
    /// change has a lower number.
    enum Removal: Hashable {
        case scope(ClearScope)
        case key(Key)
        /// The entries are not removed; they expire at the given time.
        case expiry(ClearScope, at: Timestamp)

        var isOfScope: Bool { if case .scope = self { true } else { false } }

        func covers(_ entry: IndexEntry) -> Bool {
            switch self {
            case .scope(.everything), .expiry(.everything, _): true
            case .scope(.namespace(let namespace)), .expiry(.namespace(let namespace), _):
                entry.namespace == namespace
            case .scope(.tag(let tag)), .expiry(.tag(let tag), _): entry.tags.contains(tag)
            case .key(let key): entry.isNamed(key)
            }
        }

        func record(number: UInt64) -> Record {
            switch self {
            case .scope(let scope): .clear(scope, number: number)
            case .key(let key): .remove(key: key, number: number)
            case .expiry(let scope, let time): .expire(scope, number: number, at: time)
            }
        }
    }

    /// The outcome of reading a tombstone.
    enum Tombstone: Equatable {
        case valid(Removal)
        /// A newer format: left alone.
        case newer
        case invalid
    }

    /// Reads a whole tombstone.
    static func tombstone(_ number: UInt64, _ bytes: UnsafeRawBufferPointer) -> Tombstone {
        let length = bytes.count - trailerLength
        guard length > 0, case let trailer = bytes.part(length..<bytes.count) else { return .invalid }
        let known = magic(inTrailer: trailer)
        if known == nil, isNewer(trailer) { return .newer }
        guard let known, word(trailer, at: 40) == UInt64(length),
            XXH64.hash(bytes.part(0..<length), seed: UInt64(length)) == word(trailer, at: 32)
        else { return .invalid }
        let removal: Removal
        switch RecordScanner.record(on: bytes.part(0..<length)) {
        case .clear(let scope, number) where scope != .everything: removal = .scope(scope)
        case .expire(let scope, number, let time) where scope != .everything: removal = .expiry(scope, at: time)
        case .remove(let key, number): removal = .key(key)
        default: return known == expiryMagic ? .newer : .invalid
        }
        if known == magic(of: removal) { return .valid(removal) }
        return known == magic ? .invalid : .newer
    }

    /// True for the trailer of an entry or a tombstone.
    static func isKnown(trailer: UnsafeRawBufferPointer) -> Bool {
        trailer.count == trailerLength && magic(inTrailer: trailer) != nil
    }

    private static func magic(inTrailer trailer: UnsafeRawBufferPointer) -> [UInt8]? {
        [magic, laterMagic, expiryMagic].first { trailer.suffix(magic.count).elementsEqual($0) }
    }

    /// Returns a life slot, to overwrite one in place.
    static func slot(life: Life, change: UInt64, recordCheck: UInt64) -> [UInt8] {
        var printer = RecordPrinter(reserving: slotLength)
        appendSlot(to: &printer, life: life, change: change, recordCheck: recordCheck)
        return printer.bytes
    }

    private static func appendSlot(to printer: inout RecordPrinter, life: Life, change: UInt64, recordCheck: UInt64) {
        printer.append(littleEndian: UInt64(bitPattern: life.expires.milliseconds))
        printer.append(littleEndian: UInt64(bitPattern: life.ttl))
        printer.append(littleEndian: change)
        printer.append(littleEndian: printer.hashOfLast(24, seed: recordCheck))
    }

    /// The record's check, which seeds the check of the life slot; read from a whole trailer.
    static func recordCheck(inTrailer trailer: UnsafeRawBufferPointer) -> UInt64? {
        guard trailer.count == trailerLength, trailer.suffix(magic.count).elementsEqual(magic) else { return nil }
        return word(trailer, at: 32)
    }

    /// Reads the footer of the file `number` from its last bytes.
    static func footer(of number: UInt64, tail: UnsafeRawBufferPointer, fileSize: Int) -> Footer {
        guard tail.count >= trailerLength else { return .invalid }
        let trailer = UnsafeRawBufferPointer(rebasing: tail.suffix(trailerLength))
        guard let check = recordCheck(inTrailer: trailer) else {
            return isNewer(trailer) ? .newer : .invalid
        }
        let length = word(trailer, at: 40)
        guard length <= UInt64(fileSize - trailerLength) else { return .invalid }
        let footerLength = Int(length) + trailerLength
        if footerLength > tail.count { return .longer(footerLength) }
        let record = UnsafeRawBufferPointer(rebasing: tail.suffix(footerLength).dropLast(trailerLength))
        guard XXH64.hash(record, seed: length) == check, case .set(var entry)? = RecordScanner.record(on: record),
            entry.file == FileID(number), entry.size == fileSize - footerLength
        else { return .invalid }
        entry.takeSlot(slot(in: trailer, recordCheck: check))
        return .valid(entry)
    }

    /// Reads the life slot at the beginning of `trailer`; nil when it is damaged.
    static func slot(in trailer: UnsafeRawBufferPointer, recordCheck: UInt64) -> (life: Life, change: UInt64)? {
        let content = UnsafeRawBufferPointer(rebasing: trailer[0..<24])
        let change = word(trailer, at: 16)
        guard XXH64.hash(content, seed: recordCheck) == word(trailer, at: 24), change <= Record.lastNumber else {
            return nil
        }
        let expires = Timestamp(milliseconds: Int64(bitPattern: word(trailer, at: 0)))
        return (Life(expires: expires, ttl: Int64(bitPattern: word(trailer, at: 8))), change)
    }

    private static func isNewer(_ trailer: UnsafeRawBufferPointer) -> Bool {
        guard trailer.suffix(magic.count).starts(with: versionlessMagic) else { return false }
        let digits = trailer.suffix(3).prefix(2)
        return digits.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 } && !digits.elementsEqual("00".utf8)
            && !digits.elementsEqual("01".utf8) && trailer.last == magic.last
    }

    private static func word(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> UInt64 { bytes.word(at: offset) }
}
