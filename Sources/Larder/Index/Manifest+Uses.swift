import LarderFiles

/// The order of the last use, for who has to obey limits.
extension Manifest {
    /// From now on keeps the rows in the order of their last use. O(n log n) the first time.
    mutating func keepOrder(counting counter: UseCounter, at now: Timestamp) {
        if uses == nil { orderAnew(counting: counter, at: now) }
    }

    /// Orders the rows by the times of their last use. Those that come from the future go first: they are misses. O(n
    /// log n).
    mutating func orderAnew(counting counter: UseCounter, at now: Timestamp) {
        var list = LRUList(counting: counter)
        let slots = rows.indices.filter { rows[$0].file != 0 }.map { slot in
            let row = rows[slot]
            let isFromFuture = row.life.isFromFuture(stored: row.stored, at: now)
            return (slot: slot, used: isFromFuture ? Timestamp(milliseconds: 0) : min(row.used, now), file: row.file)
        }
        for (slot, used, _) in slots.sorted(by: { ($0.used, $0.file) < ($1.used, $1.file) }) {
            list.load(slot, usedAt: used)
        }
        uses = list
    }

    /// Returns the rows whose last use is longest ago, at most `limit`, none used after `stamp`; with their stamps, the
    /// oldest first. O(their number).
    func leastRecentlyUsed(_ limit: Int, through stamp: UInt64 = .max) -> [(row: Row, stamp: UInt64)] {
        guard let uses else { return [] }
        var found: [(Row, UInt64)] = []
        var next = uses.oldest
        while let slot = next, found.count < limit, uses.stamp(of: slot) <= stamp {
            if !isCleared(rows[slot]) { found.append((rows[slot], uses.stamp(of: slot))) }
            next = uses.newer(than: slot)
        }
        return found
    }
}
