/// A hash table from 32-bit fingerprints to slots: open addressing, linear probing, no tombstones.
///
/// It stores no keys; the caller compares them. Slots are taken densely from 0 on. It takes four bytes per bucket, with
/// at most three quarters of the buckets full, and four bytes per slot: up to some 100,000 entries, a look-up stays in
/// the processor's cache.
@usableFromInline
struct HashIndex: Sendable {
    /// The slot in the low bits, as many as a bucket number has; above them the same bits of the fingerprint.
    @usableFromInline var buckets: ContiguousArray<UInt32> = []
    /// By slot.
    @usableFromInline var fingerprints: ContiguousArray<UInt32> = []
    @usableFromInline var count = 0

    /// No slot has the number of the last bucket.
    @inlinable static var empty: UInt32 { .max }

    @inlinable
    init() {}

    @inlinable var mask: UInt32 { UInt32(truncatingIfNeeded: buckets.count &- 1) }

    /// Returns the first slot with this fingerprint that `matches` accepts. O(1) expected.
    @inlinable
    func slot(fingerprint: UInt32, where matches: (Int) -> Bool) -> Int? {
        if buckets.isEmpty { return nil }
        let mask = mask
        var position = fingerprint & mask
        while case let bucket = buckets[Int(position)], bucket != Self.empty {
            if (bucket ^ fingerprint) & ~mask == 0, case let slot = Int(bucket & mask), matches(slot) { return slot }
            position = (position &+ 1) & mask
        }
        return nil
    }

    /// Adds a slot whose key is not there yet. O(1) amortized.
    @inlinable
    mutating func insert(fingerprint: UInt32, slot: Int) {
        if (count + 1) * 4 > buckets.count * 3 { grow() }
        precondition(slot <= count || slot < fingerprints.count, "slots are dense")
        if slot == fingerprints.count { fingerprints.append(fingerprint) } else { fingerprints[slot] = fingerprint }
        place(slot)
        count += 1
    }

    /// Removes a slot, and closes the gap that it leaves in its run. O(1) expected.
    @inlinable
    mutating func remove(_ slot: Int) {
        let mask = mask
        var gap = fingerprints[slot] & mask
        while buckets[Int(gap)] & mask != UInt32(slot) || buckets[Int(gap)] == Self.empty { gap = (gap &+ 1) & mask }
        var position = (gap &+ 1) & mask
        while case let bucket = buckets[Int(position)], bucket != Self.empty {
            let home = fingerprints[Int(bucket & mask)] & mask
            if (position &- home) & mask >= (position &- gap) & mask {
                buckets[Int(gap)] = bucket
                gap = position
            }
            position = (position &+ 1) & mask
        }
        buckets[Int(gap)] = Self.empty
        count -= 1
    }

    @inlinable
    mutating func place(_ slot: Int) {
        let mask = mask
        let fingerprint = fingerprints[slot]
        var position = fingerprint & mask
        while buckets[Int(position)] != Self.empty { position = (position &+ 1) & mask }
        buckets[Int(position)] = fingerprint & ~mask | UInt32(slot)
    }

    @usableFromInline
    mutating func grow() {
        let (old, mask) = (buckets, mask)
        buckets = ContiguousArray(repeating: Self.empty, count: max(8, old.count * 2))
        for bucket in old where bucket != Self.empty { place(Int(bucket & mask)) }
    }
}
