import LarderFiles

/// The orders of eviction, for enforcing limits.
extension EntryTable {
    /// Keeps the entries in order from now on. O(n log n) the first time.
    mutating func keepOrder(counting counter: AccessCounter, at now: Timestamp) {
        if uses == nil { orderAnew(counting: counter, at: now) }
    }

    /// Orders the entries by the times of their last use. Those with times in the future come first: they are misses.
    /// O(n log n).
    mutating func orderAnew(counting counter: AccessCounter, at now: Timestamp) {
        var order = UseOrder(counting: counter)
        for slot in entries.indices where entries[slot].file != 0 {
            order.load(slot, entries[slot], usedAt: entries[slot].lastUse(knownAt: now))
        }
        uses = order
        restoreOrder()
    }

    /// Puts the entries that were loaded late into their places in the order. O(n log n).
    mutating func restoreOrder() {
        uses?.restore { entries[$0].file }
    }

    /// Up to `limit` of the entries that would be evicted next: the least recently used, or those of one part. O(their
    /// number).
    func offers(_ limit: Int, of part: Rank.Part? = nil) -> EvictionPlan.Offers {
        var offers = EvictionPlan.Offers()
        guard let uses else { return offers }
        var next = part.map { uses.first(of: $0) } ?? uses.leastRecentlyUsed
        while let slot = next {
            if !isCleared(entries[slot]) {
                if offers.first.count == limit {
                    offers.hasMore = true
                    break
                }
                let lastUse = uses.stamp(of: slot)
                let turn = part == nil ? lastUse : uses.turn(of: slot)
                offers.first.append(EvictionPlan.Offer(entries[slot], slot, turn: turn, lastUse: lastUse))
            }
            next = part == nil ? uses.usedAfter(slot) : uses.next(after: slot)
        }
        return offers
    }

    /// The entry that was offered, unless it was replaced meanwhile, or used, if `sparingUsed`.
    func entry(_ offer: EvictionPlan.Offer, sparingUsed: Bool) -> IndexEntry? {
        guard let entry = entry(at: offer.slot), entry.file == offer.file,
            !sparingUsed || uses?.stamp(of: offer.slot) == offer.lastUse
        else { return nil }
        return entry
    }

    /// Moves an entry to the end of another part, and returns it, unless it is gone or was used since it was offered.
    mutating func move(_ offer: EvictionPlan.Offer, to rank: Rank) -> IndexEntry? {
        guard entry(offer, sparingUsed: true) != nil else { return nil }
        return setRank(rank, at: offer.slot)
    }

    /// Asks of the entries that were stored since the last call whether they are remembered; those have a hit more.
    /// Returns them.
    mutating func welcomeNew(_ isRemembered: (Key) -> Bool) -> [IndexEntry] {
        (uses?.takeNew() ?? []).compactMap { slot in
            guard let entry = entry(at: slot), entry.rank.part == .window, isRemembered(entry.key) else { return nil }
            return setRank(entry.rank.used, at: slot)
        }
    }
}

extension IndexEntry {
    /// The time of the last use, for the order; the earliest time for an entry from the future, which is a miss.
    func lastUse(knownAt now: Timestamp) -> Timestamp {
        life.isFromFuture(stored: stored, at: now) ? Timestamp(milliseconds: 0) : min(used, now)
    }
}
