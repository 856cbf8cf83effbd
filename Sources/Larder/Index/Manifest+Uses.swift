import LarderFiles

/// The order of the last use, for who has to obey limits.
extension Manifest {
    /// From now on keeps the rows in the order of their last use. O(n log n) the first time.
    mutating func keepOrder(counting counter: UseCounter) {
        if uses == nil { orderAnew(counting: counter) }
    }

    /// Orders the rows by the times of their last use. O(n log n).
    mutating func orderAnew(counting counter: UseCounter) {
        var list = LRUList(counting: counter)
        let slots = rows.indices.filter { rows[$0].file != 0 }.sorted {
            (rows[$0].used, rows[$0].file) < (rows[$1].used, rows[$1].file)
        }
        for slot in slots { list.load(slot, usedAt: rows[slot].used) }
        uses = list
    }

    /// Returns the rows whose last use is longest ago, at most `limit`, none used after `stamp`; with their stamps, the oldest
    /// first. O(their number).
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
