/// A hash table from 32-bit tags to slots: open addressing, linear probing, no tombstones.
///
/// It stores no keys; who asks compares them. Eight bytes a bucket, at most three quarters full.
@usableFromInline
struct KeyTable: Sendable {
    @usableFromInline
    struct Bucket: Sendable {
        @usableFromInline var tag: UInt32
        @usableFromInline var slot: UInt32

        @inlinable
        init(tag: UInt32, slot: UInt32) {
            self.tag = tag
            self.slot = slot
        }
    }

    @usableFromInline static let empty = UInt32.max

    @usableFromInline var buckets: [Bucket] = []
    @usableFromInline var count = 0

    @inlinable
    init() {}

    @inlinable var mask: Int { buckets.count - 1 }

    /// Returns the first slot with this tag that `matches` accepts. O(1) expected.
    @inlinable
    func slot(tag: UInt32, where matches: (Int) -> Bool) -> Int? {
        bucket(tag: tag, where: matches).map { Int(buckets[$0].slot) }
    }

    @inlinable
    func bucket(tag: UInt32, where matches: (Int) -> Bool) -> Int? {
        if buckets.isEmpty { return nil }
        var position = Int(tag) & mask
        while buckets[position].slot != Self.empty {
            if buckets[position].tag == tag, matches(Int(buckets[position].slot)) { return position }
            position = (position + 1) & mask
        }
        return nil
    }

    /// Adds a slot whose key is not yet there. O(1) amortised.
    @inlinable
    mutating func insert(tag: UInt32, slot: Int) {
        if (count + 1) * 4 > buckets.count * 3 { grow() }
        place(Bucket(tag: tag, slot: UInt32(slot)))
        count += 1
    }

    /// Takes a slot out, and closes the gap that it leaves in its run. O(1) expected.
    @inlinable
    mutating func remove(tag: UInt32, slot: Int) {
        guard var gap = bucket(tag: tag, where: { $0 == slot }) else { return }
        var position = (gap + 1) & mask
        while buckets[position].slot != Self.empty {
            let home = Int(buckets[position].tag) & mask
            if (position - home) & mask >= (position - gap) & mask {
                buckets[gap] = buckets[position]
                gap = position
            }
            position = (position + 1) & mask
        }
        buckets[gap].slot = Self.empty
        count -= 1
    }

    @inlinable
    mutating func place(_ bucket: Bucket) {
        var position = Int(bucket.tag) & mask
        while buckets[position].slot != Self.empty { position = (position + 1) & mask }
        buckets[position] = bucket
    }

    @usableFromInline
    mutating func grow() {
        let old = buckets
        buckets = Array(repeating: Bucket(tag: 0, slot: Self.empty), count: max(8, old.count * 2))
        for bucket in old where bucket.slot != Self.empty { place(bucket) }
    }
}
