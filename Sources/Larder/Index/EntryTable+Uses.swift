import LarderFiles

/// The order of the last use, for enforcing limits.
extension EntryTable {
    /// Keeps the entries in the order of their last use from now on. O(n log n) the first time.
    mutating func keepOrder(counting counter: AccessCounter, at now: Timestamp) {
        if uses == nil { orderAnew(counting: counter, at: now) }
    }

    /// Orders the entries by the times of their last use. Those with times in the future come first: they are misses.
    /// O(n log n).
    mutating func orderAnew(counting counter: AccessCounter, at now: Timestamp) {
        var list = RecencyList(counting: counter)
        let slots = entries.indices.filter { entries[$0].file != 0 }.map { slot in
            (slot: slot, used: entries[slot].lastUse(knownAt: now), file: entries[slot].file)
        }
        for (slot, used, _) in slots.sorted(by: { ($0.used, $0.file) < ($1.used, $1.file) }) {
            list.load(slot, usedAt: used)
        }
        uses = list
    }

    /// Puts the entries that were loaded late into their places in the order. O(n log n).
    mutating func restoreOrder() {
        uses?.restore { entries[$0].file.number }
    }

    /// Returns up to `limit` of the least recently used entries, none used after `stamp`, with their stamps, the oldest
    /// first. O(their number).
    func leastRecentlyUsed(_ limit: Int, through stamp: UInt64 = .max) -> [(entry: IndexEntry, stamp: UInt64)] {
        guard let uses else { return [] }
        var found: [(IndexEntry, UInt64)] = []
        var next = uses.oldest
        while let slot = next, found.count < limit, uses.stamp(of: slot) <= stamp {
            if !isCleared(entries[slot]) { found.append((entries[slot], uses.stamp(of: slot))) }
            next = uses.newer(than: slot)
        }
        return found
    }
}

extension IndexEntry {
    /// The time of the last use, for the order; the earliest time for an entry from the future, which is a miss.
    func lastUse(knownAt now: Timestamp) -> Timestamp {
        life.isFromFuture(stored: stored, at: now) ? Timestamp(milliseconds: 0) : min(used, now)
    }
}
