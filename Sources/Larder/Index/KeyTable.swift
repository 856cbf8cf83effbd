/// A hash table from 32-bit tags to slots: open addressing, linear probing, no tombstones.
///
/// It stores no keys; who asks compares them. Eight bytes a bucket, at most three quarters full.
struct KeyTable: Sendable {
    private struct Bucket {
        var tag: UInt32
        var slot: UInt32
    }

    private static let empty = UInt32.max

    private var buckets: [Bucket] = []
    private var count = 0

    private var mask: Int { buckets.count - 1 }

    /// Returns the first slot with this tag that `matches` accepts. O(1) expected.
    func slot(tag: UInt32, where matches: (Int) -> Bool) -> Int? {
        bucket(tag: tag, where: matches).map { Int(buckets[$0].slot) }
    }

    private func bucket(tag: UInt32, where matches: (Int) -> Bool) -> Int? {
        if buckets.isEmpty { return nil }
        var position = Int(tag) & mask
        while buckets[position].slot != Self.empty {
            if buckets[position].tag == tag, matches(Int(buckets[position].slot)) { return position }
            position = (position + 1) & mask
        }
        return nil
    }

    /// Adds a slot whose key is not yet there. O(1) amortised.
    mutating func insert(tag: UInt32, slot: Int) {
        if (count + 1) * 4 > buckets.count * 3 { grow() }
        place(Bucket(tag: tag, slot: UInt32(slot)))
        count += 1
    }

    /// Takes a slot out, and closes the gap that it leaves in its run. O(1) expected.
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

    private mutating func place(_ bucket: Bucket) {
        var position = Int(bucket.tag) & mask
        while buckets[position].slot != Self.empty { position = (position + 1) & mask }
        buckets[position] = bucket
    }

    private mutating func grow() {
        let old = buckets
        buckets = Array(repeating: Bucket(tag: 0, slot: Self.empty), count: max(8, old.count * 2))
        for bucket in old where bucket.slot != Self.empty { place(bucket) }
    }
}
