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
            let entry = entries[slot]
            let isFromFuture = entry.life.isFromFuture(stored: entry.stored, at: now)
            return (
                slot: slot, used: isFromFuture ? Timestamp(milliseconds: 0) : min(entry.used, now), file: entry.file
            )
        }
        for (slot, used, _) in slots.sorted(by: { ($0.used, $0.file) < ($1.used, $1.file) }) {
            list.load(slot, usedAt: used)
        }
        uses = list
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

extension EntryTable {
    /// Sums over entries.
    struct Totals: Hashable, Sendable {
        /// Entries.
        var count = 0
        /// Payload bytes.
        var size = 0
        /// Bytes on disk, approximately.
        var allocatedSize = 0

        mutating func add(_ entry: IndexEntry) {
            count += 1
            size += entry.size
            allocatedSize += entry.allocatedSize
        }

        mutating func add(_ other: Totals, times factor: Int = 1) {
            count += other.count * factor
            size += other.size * factor
            allocatedSize += other.allocatedSize * factor
        }
    }
}
