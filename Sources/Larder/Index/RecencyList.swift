/// Slots in rings, each in the order of its stamps; 16 bytes per slot.
///
/// Stamps come from a counter that all shards share, so the order holds across shards.
struct RecencyList: Sendable {
    private var rings: SlotRings
    private var stamps: [UInt64] = []

    init(rings: Int = 1) {
        self.rings = SlotRings(rings)
    }

    /// The slot with the lowest stamp.
    func oldest(in ring: Int = 0) -> Int? { rings.first(in: ring) }

    /// The next slot of its ring.
    func newer(than slot: Int) -> Int? { rings.next(after: slot) }

    func stamp(of slot: Int) -> UInt64 { stamps[slot] }

    /// Adds a slot that is not in the list. Its stamp is not lower than those in the ring, or `sort` follows. O(1)
    /// amortized.
    mutating func append(_ slot: Int, _ stamp: UInt64, to ring: Int = 0) {
        while stamps.count <= slot { stamps.append(0) }
        stamps[slot] = stamp
        rings.append(slot, to: ring)
    }

    /// Gives a slot the highest stamp of a ring, its own or another one. O(1).
    mutating func move(_ slot: Int, _ stamp: UInt64, toEndOf ring: Int = 0) {
        stamps[slot] = stamp
        rings.move(slot, toEndOf: ring)
    }

    /// Moves a slot to where its stamp belongs in a ring, but before at most `patience` others. O(1).
    mutating func insert(_ slot: Int, _ stamp: UInt64, in ring: Int = 0) {
        rings.move(slot, toEndOf: ring)
        stamps[slot] = stamp
        var later: Int?
        for _ in 0..<Self.patience {
            guard let last = rings.previous(before: later ?? slot), stamps[last] > stamp else { break }
            later = last
        }
        if let later { rings.move(slot, before: later) }
        if let previous = rings.previous(before: slot) { stamps[slot] = max(stamp, stamps[previous]) }
    }

    private static let patience = 64

    /// Removes a slot. O(1).
    mutating func remove(_ slot: Int) {
        rings.remove(slot)
    }

    /// Sorts a ring by the stamps, and by file where they are equal. O(n log n).
    mutating func sort(_ ring: Int = 0, file: (Int) -> FileID) {
        var slots: [(stamp: UInt64, file: FileID, slot: Int)] = []
        while let slot = rings.first(in: ring) {
            slots.append((stamps[slot], file(slot), slot))
            rings.remove(slot)
        }
        for (_, _, slot) in slots.sorted(by: { ($0.stamp, $0.file) < ($1.stamp, $1.file) }) {
            rings.append(slot, to: ring)
        }
    }
}
