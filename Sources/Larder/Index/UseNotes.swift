import LarderFiles

/// Decides which uses are saved, so that the order of use and extended sliding lives outlive the process.
struct UseNotes {
    let isSliding: Bool
    /// The session ends: an extended sliding life is saved in full, however small the extension.
    let isClosing: Bool

    /// A use is saved when it is newer than the saved one by this much. Milliseconds.
    static let tolerance: Int64 = 60_000

    /// An entry whose last use is to be saved.
    struct Use {
        let entry: IndexEntry
        /// Whether the life slot of the file is written too; it may lag by a tenth of the TTL.
        let isSlotBehind: Bool
    }

    enum Decision {
        case write(Use)
        /// Not yet.
        case keep
        /// It is already saved.
        case drop
    }

    /// `saved` is the last use that is saved on disk.
    func decision(on entry: IndexEntry, saved: Timestamp) -> Decision {
        let newer = entry.used.millisecondsSince(saved)
        if newer <= 0 { return .drop }
        let slides = isSliding && Self.canSlide(entry)
        let isSlotBehind = slides && Self.isSlotBehind(entry, saved: saved)
        let isDue = newer >= Self.tolerance || isSlotBehind || (isClosing && slides)
        return isDue ? .write(Use(entry: entry, isSlotBehind: isSlotBehind)) : .keep
    }

    private static func canSlide(_ entry: IndexEntry) -> Bool {
        entry.life.ttl != Life.unlimited && !entry.life.isForever
    }

    /// True when the last use falls into another tenth of a sliding life than the saved one.
    static func isSlotBehind(_ entry: IndexEntry, saved: Timestamp) -> Bool {
        canSlide(entry) && tenth(entry.used, of: entry) != tenth(saved, of: entry)
    }

    /// The tenth of the TTL that a time falls into, counted from the time of storing. A life slot is written when a use
    /// falls into another tenth than the saved one, so the content of the slot need not be remembered.
    private static func tenth(_ time: Timestamp, of entry: IndexEntry) -> Int64 {
        time.millisecondsSince(entry.stored) / max(1, entry.life.ttl / 10)
    }
}

/// A set of slots that can be listed, with a bit for each slot.
struct SlotNotes: Sendable {
    private var bits: [UInt64] = []
    private var slots: [UInt32] = []

    /// O(1) amortized.
    mutating func insert(_ slot: Int) {
        while bits.count <= slot / 64 { bits.append(0) }
        let bit: UInt64 = 1 << UInt64(slot % 64)
        if bits[slot / 64] & bit != 0 { return }
        bits[slot / 64] |= bit
        slots.append(UInt32(slot))
    }

    /// Empties the set. O(its size).
    mutating func takeAll() -> [Int] {
        let all = slots.map(Int.init)
        for slot in all { bits[slot / 64] = 0 }
        slots = []
        return all
    }

    var count: Int { slots.count }
}
