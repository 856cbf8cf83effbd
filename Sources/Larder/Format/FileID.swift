/// The identity of the bytes of an entry: the sequence number that it was stored with, and the place of these bytes.
///
/// Numbers order the values of a key: the highest is the last. A number is never given to two values.
struct FileID: Hashable, Sendable {
    var number: UInt64
    var place = Place.ownFile
}

/// The place of an entry's bytes: a file of its own, or an offset in a segment.
///
/// Packed, because the index keeps one for each entry: the number of the segment, and the offset in units.
struct Place: Hashable, Sendable {
    /// The form in the index and in records. 0: a file of its own.
    let packed: UInt64

    static let ownFile = Place()
    /// Entries in a segment begin at multiples of it. Bytes.
    static let unit = 32
    private static let offsetBits: UInt64 = 21
    /// The end of the longest segment. Bytes.
    static let end = unit << Int(offsetBits)
    /// Segments with a higher number have no packed form.
    static let lastSegment: UInt64 = 1 << (64 - offsetBits) - 1

    private init() {
        packed = 0
    }

    /// Nil when it is no place in a segment.
    init?(packed: UInt64) {
        self.init(segment: packed >> Self.offsetBits, offset: Self.offset(of: packed))
    }

    /// Stands for all entries of a segment that cannot be read. No entry begins at that offset.
    static func whole(_ segment: UInt64) -> Place? { Place(segment: segment, offset: unit) }

    /// Nil when there cannot be an entry.
    init?(segment: UInt64, offset: Int) {
        guard segment > 0, segment <= Self.lastSegment, offset > 0, offset < Self.end, offset % Self.unit == 0 else {
            return nil
        }
        packed = segment << Self.offsetBits | UInt64(offset / Self.unit)
    }

    var isInSegment: Bool { packed != 0 }
    var isWholeSegment: Bool { offset == Self.unit }
    var segment: UInt64 { packed >> Self.offsetBits }
    /// Bytes.
    var offset: Int { Self.offset(of: packed) }

    private static func offset(of packed: UInt64) -> Int { Int(packed & (1 << offsetBits - 1)) * unit }
}

extension FileID: Comparable {
    /// A file of its own.
    init(_ number: UInt64) {
        self.init(number: number)
    }

    static func < (left: FileID, right: FileID) -> Bool {
        left.number == right.number ? left.place.packed < right.place.packed : left.number < right.number
    }
}

/// Comparisons with the number of a change.
extension FileID {
    static func == (left: FileID, right: UInt64) -> Bool { left.number == right }
    static func != (left: FileID, right: UInt64) -> Bool { left.number != right }
    static func < (left: FileID, right: UInt64) -> Bool { left.number < right }
    static func <= (left: FileID, right: UInt64) -> Bool { left.number <= right }
    static func > (left: FileID, right: UInt64) -> Bool { left.number > right }
    static func >= (left: FileID, right: UInt64) -> Bool { left.number >= right }
    static func < (left: UInt64, right: FileID) -> Bool { left < right.number }
    static func <= (left: UInt64, right: FileID) -> Bool { left <= right.number }
    static func > (left: UInt64, right: FileID) -> Bool { left > right.number }
    static func >= (left: UInt64, right: FileID) -> Bool { left >= right.number }
}
