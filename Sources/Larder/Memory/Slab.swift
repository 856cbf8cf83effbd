/// Memory for entries that keep their slots until it is compacted. Free slots are used first.
///
/// To read one field, an array would copy the whole entry and count its references.
@usableFromInline
struct Slab<Entry>: ~Copyable {
    /// All slots below `count` are initialized, except the free ones.
    @usableFromInline var base: UnsafeMutablePointer<Entry>
    @usableFromInline var capacity = 0
    /// The number of slots that have ever been used.
    @usableFromInline var count = 0
    @usableFromInline var free: ContiguousArray<UInt32> = []
    /// A bit per slot: whether it is in use.
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

    /// The entry of a slot in use.
    @inlinable
    subscript(slot: Int) -> Entry {
        @inline(__always) _read { yield base[slot] }
        @inline(__always) nonmutating _modify { yield &base[slot] }
    }

    @inlinable
    func isUsed(_ slot: Int) -> Bool { used[slot >> 6] & (1 << UInt64(slot & 63)) != 0 }

    /// Stores an entry and returns its slot. O(1) amortized.
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

    /// Frees a slot in use and returns its entry. O(1).
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

    /// Grows by half, not to twice the size, which limits the memory per entry.
    @usableFromInline
    mutating func grow() {
        let larger = Self.larger(capacity)
        let fresh = Self.allocate(larger)
        // All slots are in use: a free one would have been taken.
        fresh.moveInitialize(from: base, count: count)
        replaceMemory(with: fresh, capacity: larger)
        while used.count * 64 < larger { used.append(0) }
    }

    /// Moves all entries to less memory, where they have the slots 0, 1, 2, and so on, in the order of `slots`.
    /// O(entries).
    mutating func compact(_ slots: ContiguousArray<UInt32>) {
        let smaller = Self.larger(slots.count)
        let fresh = Self.allocate(smaller)
        for (number, slot) in slots.enumerated() { (fresh + number).moveInitialize(from: base + Int(slot), count: 1) }
        replaceMemory(with: fresh, capacity: smaller)
        count = slots.count
        free = []
        used = ContiguousArray(repeating: 0, count: (smaller + 63) / 64)
        for slot in 0..<count { used[slot >> 6] |= 1 << UInt64(slot & 63) }
    }

    private static func larger(_ capacity: Int) -> Int { capacity + capacity / 2 + 8 }

    private static func allocate(_ capacity: Int) -> UnsafeMutablePointer<Entry> {
        // With this alignment, an entry of 64 bytes is exactly one cache line.
        UnsafeMutableRawPointer.allocate(
            byteCount: capacity * MemoryLayout<Entry>.stride, alignment: max(64, MemoryLayout<Entry>.alignment)
        ).bindMemory(to: Entry.self, capacity: capacity)
    }

    private mutating func replaceMemory(with fresh: UnsafeMutablePointer<Entry>, capacity: Int) {
        if self.capacity > 0 { base.deallocate() }
        base = fresh
        self.capacity = capacity
    }
}

/// The memory belongs to this value alone, and is freed with it.
extension Slab: @unchecked Sendable where Entry: Sendable {}
