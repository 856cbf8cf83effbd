/// Bare memory for entries that keep their place. Slots that were left are taken first.
///
/// An array would copy a whole entry, and count its references, to look at one field of it.
@usableFromInline
struct Slab<Entry>: ~Copyable {
    /// Below `count` all are initialized, but for those that are free.
    @usableFromInline var base: UnsafeMutablePointer<Entry>
    @usableFromInline var capacity = 0
    /// Slots ever taken.
    @usableFromInline var count = 0
    @usableFromInline var free: ContiguousArray<UInt32> = []
    /// A bit for each slot: whether it is taken.
    @usableFromInline var used: ContiguousArray<UInt64> = []

    @inlinable
    init() {
        base = UnsafeMutablePointer(bitPattern: MemoryLayout<Entry>.alignment)!
    }

    @inlinable
    deinit {
        for slot in 0..<count where isUsed(slot) { (base + slot).deinitialize(count: 1) }
        if capacity > 0 { base.deallocate() }
    }

    /// The entry of a slot that is taken.
    @inlinable
    subscript(slot: Int) -> Entry {
        @inline(__always) _read { yield base[slot] }
        @inline(__always) nonmutating _modify { yield &base[slot] }
    }

    @inlinable
    func isUsed(_ slot: Int) -> Bool { used[slot >> 6] & (1 << UInt64(slot & 63)) != 0 }

    /// Takes a slot. O(1) amortised.
    @inlinable
    mutating func insert(_ entry: consuming Entry) -> Int {
        let slot: Int
        if let vacant = free.popLast() {
            slot = Int(vacant)
        } else {
            if count == capacity { grow() }
            slot = count
            count &+= 1
        }
        (base + slot).initialize(to: entry)
        used[slot >> 6] |= 1 << UInt64(slot & 63)
        return slot
    }

    /// Leaves a slot that is taken. O(1).
    @inlinable
    mutating func remove(_ slot: Int) -> Entry {
        free.append(UInt32(slot))
        used[slot >> 6] &= ~(1 << UInt64(slot & 63))
        return (base + slot).move()
    }

    /// Calls `body` with every entry, in the order of the slots. O(n).
    func forEach(_ body: (Entry) -> Void) {
        for slot in 0..<count where isUsed(slot) { body(base[slot]) }
    }

    /// By half, not by two: it bounds the memory per entry.
    @usableFromInline
    mutating func grow() {
        let larger = capacity + capacity / 2 + 8
        // An entry of 64 bytes is then one cache line.
        let fresh = UnsafeMutableRawPointer.allocate(
            byteCount: larger * MemoryLayout<Entry>.stride, alignment: max(64, MemoryLayout<Entry>.alignment)
        ).bindMemory(to: Entry.self, capacity: larger)
        // It is full: a slot that is free would have been taken.
        fresh.moveInitialize(from: base, count: count)
        if capacity > 0 { base.deallocate() }
        base = fresh
        capacity = larger
        while used.count * 64 < larger { used.append(0) }
    }
}

/// The memory is this value's alone, and freed with it.
extension Slab: @unchecked Sendable where Entry: Sendable {}
