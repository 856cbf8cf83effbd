import LarderFiles

/// An open segment, for reading, and for the words that are written in place.
final class Segment: Sendable {
    let number: UInt64
    let file: OwnedDescriptor
    /// Nil when both headers are damaged, of a newer format, or not written yet: then only payloads are read, whose
    /// checksums the index has.
    let header: SegmentFormat.Header?
    /// The names that lead to it are on stable storage.
    let isNameSynced = Flag()
    /// It was used since another segment was last closed in favour of a new one.
    let isInUse = Flag()
    private let fileSystem: any FileSystem
    private let group: GroupSync

    init(_ number: UInt64, _ file: OwnedDescriptor, _ header: SegmentFormat.Header?, in fileSystem: any FileSystem) {
        self.number = number
        self.file = file
        self.header = header
        self.fileSystem = fileSystem
        group = GroupSync(file, of: fileSystem)
    }

    /// Bytes.
    func size() throws(Errno) -> Int {
        try fileSystem.status(of: file.file).size
    }

    /// False when somebody has deleted it, perhaps with its directory: what is written to it is gone.
    func isLinked() throws(Errno) -> Bool {
        try fileSystem.status(of: file.file).isLinked
    }

    /// Takes a ticket for a write that begins and has to be on stable storage.
    func noteWrite() -> Int { group.note() }

    /// Returns when everything written so far is on stable storage. `first`: the ticket from before a write. Fails where
    /// a sync has failed since.
    func sync(since first: Int? = nil) throws(Errno) {
        let ticket = group.note()
        try group.sync(through: ticket, since: first ?? ticket)
    }

    /// Reads bytes of a payload. Returns their number.
    func read(payloadAt offset: Int, into bytes: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try fileSystem.read(file.file, at: offset + SegmentFormat.entryHeaderLength, into: bytes)
    }

    /// An entry as its segment describes it.
    enum Reading {
        case entry(IndexEntry, span: Int)
        /// It is marked as dead.
        case dead
        /// Its record is damaged, or was never written.
        case torn
        /// No entry begins there.
        case none
    }

    /// Reads the entry at a place. O(its bytes).
    func entry(at place: Place) throws(Errno) -> Reading {
        guard let salt = header?.salt else { return .none }
        var bytes = [UInt8](repeating: 0, count: 1 << 10)
        bytes.removeLast(bytes.count - (try fileSystem.read(file.file, at: place.offset, into: &bytes)))
        guard let found = bytes.withBytes({ SegmentFormat.entryHeader($0, at: place, salt: salt) }) else {
            return .none
        }
        if found.isDead { return .dead }
        if found.length > bytes.count {
            bytes = [UInt8](repeating: 0, count: found.length)
            bytes.removeLast(bytes.count - (try fileSystem.read(file.file, at: place.offset, into: &bytes)))
        }
        return bytes.withBytes { Self.reading(found, $0, at: place) }
    }

    /// Reads an entry from its bytes, of which some may be missing at the end.
    private static func reading(
        _ header: SegmentFormat.EntryHeader, _ bytes: UnsafeRawBufferPointer, at place: Place
    ) -> Reading {
        guard header.length <= bytes.count,
            let entry = SegmentFormat.entry(
                header, bytes, record: bytes.part(header.recordOffset..<header.length), at: place)
        else { return .torn }
        return header.isDead ? .dead : .entry(entry, span: header.span)
    }

    /// Returns the header of the entry at a place; nil when none begins there.
    func entryHeader(at place: Place) throws(Errno) -> SegmentFormat.EntryHeader? {
        guard let salt = header?.salt else { return nil }
        var bytes = [UInt8](repeating: 0, count: SegmentFormat.entryHeaderLength)
        guard try fileSystem.read(file.file, at: place.offset, into: &bytes) == bytes.count else { return nil }
        return bytes.withBytes { SegmentFormat.entryHeader($0, at: place, salt: salt) }
    }

    /// Reads what the header of an entry says about it.
    func condition(at place: Place) throws(Errno) -> SegmentFormat.Condition {
        var bytes = [UInt8](repeating: 0, count: SegmentFormat.entryHeaderLength)
        bytes.removeLast(bytes.count - (try fileSystem.read(file.file, at: place.offset, into: &bytes)))
        return bytes.withBytes { SegmentFormat.condition($0, at: place, salt: header?.salt) }
    }

    /// Bytes that are read at a time.
    private static let piece = 1 << 20

    /// Calls `body` with each entry from an offset on, until about `limit` bytes are read, and with each place in between
    /// where no entry begins: parts of changes that were killed, or damage. Returns the offset to go on from; nil at the
    /// end of the segment. O(bytes), in memory that of a piece.
    @discardableResult
    func forEachEntry(
        from start: Int = SegmentFormat.start, limit: Int = .max, _ body: (Place, Reading) -> Void
    ) throws(Errno) -> Int? {
        guard let salt = header?.salt else { return nil }
        var bytes = [UInt8](repeating: 0, count: min(Self.piece, limit))
        // The offset of `bytes`, and how many of them were read.
        var (base, count) = (start, 0)
        var offset = start
        while let place = Place(segment: number, offset: offset) {
            if offset - start >= limit { return offset }
            func mustRead(_ length: Int) -> Bool { offset + length > base + count }
            func fill(_ length: Int) throws(Errno) {
                if length > bytes.count { bytes = [UInt8](repeating: 0, count: length) }
                base = offset
                count = try fileSystem.read(file.file, at: base, into: &bytes)
            }
            if mustRead(SegmentFormat.entryHeaderLength) { try fill(SegmentFormat.entryHeaderLength) }
            if mustRead(SegmentFormat.entryHeaderLength) { return nil }
            let found = bytes.withBytes { bytes in
                SegmentFormat.entryHeader(bytes.part(offset - base..<count), at: place, salt: salt)
            }
            guard let found else {
                body(place, .none)
                offset += Place.unit
                continue
            }
            if mustRead(found.length) { try fill(found.length) }
            let reading = bytes.withBytes { Self.reading(found, $0.part(offset - base..<count), at: place) }
            body(place, reading)
            // Where the record was not written, other entries may follow inside the announced span.
            if case .torn = reading { offset += Place.unit } else { offset += found.span }
        }
        return nil
    }
}

/// Changes in place.
extension Segment {
    /// `wasLast`: it has the mark of a last entry, which a power cut must not take away.
    func mark(_ place: Place, wasLast: Bool = false) throws(Errno) {
        let mark = wasLast ? SegmentFormat.restOfMark : SegmentFormat.mark
        try fileSystem.write(mark, to: file.file, at: place.offset + SegmentFormat.markOffset)
    }

    /// Marks the last entry of a removed key. Others may be writing its life, so that cannot say it.
    func markLast(_ place: Place) throws(Errno) {
        try fileSystem.write(SegmentFormat.lastMark, to: file.file, at: place.offset + SegmentFormat.lastMarkOffset)
    }

    func writeSlot(_ life: Life, _ change: UInt64, _ header: SegmentFormat.EntryHeader, at place: Place) throws(Errno) {
        let slot = EntryFile.slot(life: life, change: change, recordCheck: header.recordCheck)
        try fileSystem.write(slot, to: file.file, at: place.offset)
    }

    /// Notes that no change is under way below an offset.
    func writeSettled(_ offset: Int) throws(Errno) {
        guard let salt = header?.salt else { return }
        try fileSystem.write(
            SegmentFormat.settled(offset, salt: salt), to: file.file, at: SegmentFormat.settledOffset)
    }

    /// Bytes of dead entries, as noted in the header: a hint.
    func notedDeadBytes() throws(Errno) -> Int {
        var word = [UInt8](repeating: 0, count: 8)
        guard try fileSystem.read(file.file, at: SegmentFormat.deadBytesOffset, into: &word) == word.count else {
            return 0
        }
        return Int(min(word.withBytes { $0.word(at: 0) }, UInt64(Place.end)))
    }

    func writeDeadBytes(_ count: Int) throws(Errno) {
        try fileSystem.write(SegmentFormat.deadBytes(count), to: file.file, at: SegmentFormat.deadBytesOffset)
    }
}
