import LarderFiles

/// Ending lives early, for fetches: a value kept beyond its expiry is stale from now on; all others are removed. The
/// caller releases the removed values, as for `insertKept`.
extension MemoryCache {
    /// Ends the life of a value, or removes it with the cause `.invalidated`. Removes an absence. One that has expired
    /// stays as it is. O(1).
    func expireKept(_ key: Key) -> (wasFresh: Bool, demand: ReleaseDemand) {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        return table.withLock { table in
            guard let slot = table.slot(key, fingerprint) else { return (false, .none) }
            let wasFresh = table.hasValue(slot, at: now)
            table.expire(slot, at: now)
            return (wasFresh, table.takeDemand())
        }
    }

    /// Ends all lives. O(entries).
    func expireAllKept() -> ReleaseDemand {
        let now = time.now
        return table.withLock { table in
            for slot in 0..<table.slots.count where table.slots.isUsed(slot) { table.expire(slot, at: now) }
            return table.takeDemand()
        }
    }

    /// Ends the lives of the values with a tag, and returns their keys, also of those that had expired. O(values with
    /// attributes).
    func expireAllKept(tagged tag: Larder.Key) -> (keys: Set<Key>, demand: ReleaseDemand) {
        let now = time.now
        return table.withLock { table in
            var keys: Set<Key> = []
            for slot in table.slots(tagged: tag) {
                keys.insert(table.slots[slot].key)
                table.expire(slot, at: now)
            }
            return (keys, table.takeDemand())
        }
    }
}

/// Values of which the disk tier has nothing. The caller holds locks: removed values are released in the background.
extension MemoryCache {
    /// Ends the life of such a value; drops any other, which the disk tier expires.
    func expireUnstored(_ key: Key) {
        let now = time.now
        change(inBackground: true) { table in
            let fingerprint = MemoryKey.fingerprint(key)
            guard let slot = table.slot(key, fingerprint) else { return }
            if table.extras[slot]?.isUnstored == true {
                table.expire(slot, at: now)
            } else {
                table.remove(slot, .invalidated)
            }
        }
    }

    /// Ends the lives of such values, of those with a tag or of all, and drops all others. O(values with
    /// attributes) without such values, and else O(entries).
    func expireUnstored(tagged tag: Larder.Key?) {
        let now = time.now
        changeUnstored(tagged: tag, others: .invalidated) { table, slot in table.expire(slot, at: now) }
    }

    /// Drops such values with a tag, and all others. O(values with attributes) without such values, and else
    /// O(entries).
    func invalidateStored(orTagged tag: Larder.Key) {
        changeUnstored(tagged: tag, others: .removed) { table, slot in table.remove(slot, .removed) }
    }

    private func changeUnstored(
        tagged tag: Larder.Key?, others cause: RemovalCause, _ body: (inout Table, _ slot: Int) -> Void
    ) {
        change(inBackground: true) { table in
            if !table.extras.values.contains(where: \.isUnstored) {
                if table.count > 0 { table.removeAll(cause) }
                return
            }
            for slot in 0..<table.slots.count where table.slots.isUsed(slot) {
                guard let extra = table.extras[slot], extra.isUnstored else {
                    table.remove(slot, cause)
                    continue
                }
                if tag.map({ extra.tags.contains($0) }) ?? true { body(&table, slot) }
            }
        }
    }
}

extension MemoryTable {
    /// Ends the life of an entry. One that began in the future is unusable now, but would be fresh again once the clock
    /// is set right: it ends too.
    mutating func expire(_ slot: Int, at now: Timestamp) {
        let life = slots[slot].life
        if now >= life.expires { return }
        let isKept = slots[slot].value != nil && !isAged(slot, at: now) && extras[slot]?.keptStale ?? 0 > 0
        if isKept {
            replaceLife(of: slot, with: life.ended(at: now))
        } else {
            remove(slot, isAged(slot, at: now) ? .age : .invalidated)
        }
    }
}
