public import LarderFiles

/// The memory tier of a disk cache. The caller holds locks, so removed values are released in the background.
extension MemoryCache {
    /// Removes a value because the value on disk changes.
    func invalidate(_ key: Key, _ cause: RemovalCause) {
        change(inBackground: true) { $0.remove(key, fingerprint: MemoryKey.fingerprint(key), cause) }
    }

    /// Removes all values because all values on disk change.
    func invalidateAll() {
        change(inBackground: true) { if $0.count > 0 { $0.removeAll(.cleared) } }
    }

    /// Inserts a value with its life on disk.
    func insert(_ value: Value, forKey key: Key, life: MemoryLife, cost: Int, _ extra: MemoryExtra) {
        let inserted = insertKept(value, forKey: key, life: life, cost: cost, extra)
        assert(inserted.replaced == nil, "it would be released with the caller's locks held")
        releaser.releaseInBackground(inserted.demand)
    }

    /// Returns a fresh value with its life and metadata, and records the use, but counts no miss.
    func findEntry(_ key: Key, at now: Timestamp) -> Found? {
        var demand = ReleaseDemand.none
        let found = table.withLock { $0.findEntry(key, fingerprint: MemoryKey.fingerprint(key), at: now, &demand) }
        releaser.releaseInBackground(demand)
        return found
    }

    /// Applies a life that has changed on disk.
    func setLife(_ life: MemoryLife, forKey key: Key) {
        let now = time.now
        _ = table.withLock { $0.setLife(life, of: key, fingerprint: MemoryKey.fingerprint(key), at: now) }
    }
}

/// Fetching without a disk: values are kept beyond their expiry and have metadata.
extension MemoryCache {
    /// Returns a value, fresh or stale, without recording a use; or records one and returns a nil value, when the key
    /// is known to be absent.
    func kept(_ key: Key, at now: Timestamp) -> (value: Value?, life: MemoryLife, extra: MemoryExtra)? {
        table.withLock { table in
            table.stored(key, fingerprint: MemoryKey.fingerprint(key), at: now).map {
                ($0.entry.value, $0.entry.life, $0.extra)
            }
        }
    }

    /// Inserts a value. The caller may hold locks, and releases the removed values after it has unlocked them.
    func insertKept(
        _ value: Value, forKey key: Key, life: MemoryLife, cost: Int, _ extra: MemoryExtra
    ) -> (replaced: Value?, demand: ReleaseDemand) {
        let now = time.now
        let cost = MemoryLimits.bounded(cost)
        return table.withLock { table in
            let fingerprint = MemoryKey.fingerprint(key)
            var replaced: Value?
            if table.limits.allow(cost) {
                replaced = table.insert(value, for: key, fingerprint: fingerprint, life: life, cost: cost, at: now)
                table.setExtra(extra, of: key, fingerprint: fingerprint)
                table.evict(at: now)
            } else {
                table.remove(key, fingerprint: fingerprint, .cost)
            }
            return (replaced, table.takeDemand())
        }
    }

    /// Notes that a key is known to have no value. A value that it had is removed. The caller releases it, as for
    /// `insertKept`.
    func insertAbsence(
        _ key: Key, life: MemoryLife, _ extra: MemoryExtra
    ) -> (replaced: Value?, demand: ReleaseDemand) {
        let now = time.now
        let cost = MemoryKey.cost(key)
        return table.withLock { table in
            let fingerprint = MemoryKey.fingerprint(key)
            if !table.limits.allow(cost) || now >= life.expires {
                _ = table.remove(key, fingerprint: fingerprint, at: now)
            } else {
                table.insertAbsence(for: key, fingerprint: fingerprint, life: life, cost: cost, at: now)
                table.setExtra(extra, of: key, fingerprint: fingerprint)
                table.evict(at: now)
            }
            return (nil, table.takeDemand())
        }
    }

    /// Removes a value. The caller releases it, as for `insertKept`.
    func discardKept(_ key: Key) -> (wasFresh: Bool, demand: ReleaseDemand) {
        let now = time.now
        return table.withLock { table in
            let wasFresh = table.remove(key, fingerprint: MemoryKey.fingerprint(key), at: now)
            return (wasFresh, table.takeDemand())
        }
    }

    /// Removes all values. The caller releases them, as for `insertKept`.
    func removeAllKept(_ cause: RemovalCause = .cleared) -> ReleaseDemand {
        table.withLock { table in
            table.removeAll(cause)
            return table.takeDemand()
        }
    }

    /// Returns a fresh value and records the use, but counts no miss: for a second lookup.
    @inlinable
    func find(_ key: Key) -> Value? {
        if slides { return slidingValue(forKey: key, countsMiss: false) }
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        var demand = ReleaseDemand.none
        let value = table.withLock { $0.find(key, fingerprint: fingerprint, at: now, &demand) }
        if demand != .none { release(demand) }
        return value
    }

    /// Counts a miss that was detected elsewhere.
    func countMiss() {
        table.withLock { $0.statistics.misses &+= 1 }
    }

    func takeBackMiss() {
        table.withLock { $0.statistics.misses &-= 1 }
    }

    /// Counts an answer with a value that `kept` has returned.
    func countHit(isStale: Bool) {
        table.withLock { table in
            table.statistics.hits &+= 1
            if isStale { table.staleHits &+= 1 }
        }
    }
}
