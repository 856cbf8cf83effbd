public import LarderFiles

/// What the disk tier does to the memory before it. The caller holds locks: whatever leaves is released behind.
extension MemoryCache {
    /// Drops a value because that on disk changes.
    func invalidate(_ key: Key, _ cause: RemovalCause) {
        change(inBackground: true) { $0.remove(key, fingerprint: MemoryKey.fingerprint(key), cause) }
    }

    /// Drops all values, because all on disk change.
    func invalidateAll() {
        change(inBackground: true) { if $0.count > 0 { $0.removeAll() } }
    }

    /// Puts a value in with the life that it has on disk.
    func insert(_ value: Value, forKey key: Key, life: MemoryLife, cost: Int) {
        let inserted = insertKept(value, forKey: key, life: life, cost: cost, MemoryExtra())
        assert(inserted.replaced == nil, "it would be released with the caller's locks held")
        releaseInBackground(inserted.demand)
    }

    /// Returns a fresh value with its life, and notes the use.
    func lookup(_ key: Key, at now: Timestamp) -> (value: Value, life: MemoryLife)? {
        table.withLock { $0.useEntry(key, fingerprint: MemoryKey.fingerprint(key), at: now) }
    }

    /// Takes over a life that has changed on disk.
    func setLife(_ life: MemoryLife, forKey key: Key) {
        let now = time.now
        _ = table.withLock { $0.setLife(life, of: key, fingerprint: MemoryKey.fingerprint(key), at: now) }
    }
}

/// What fetches do where there is no disk: values are kept beyond their expiry, and have metadata.
extension MemoryCache {
    /// Returns a value, fresh or stale; notes no use.
    func kept(_ key: Key, at now: Timestamp) -> (value: Value, life: MemoryLife, extra: MemoryExtra)? {
        table.withLock { table in
            table.stored(key, fingerprint: MemoryKey.fingerprint(key), at: now).map {
                ($0.entry.value, $0.entry.life, $0.extra)
            }
        }
    }

    /// Puts a value in. The caller, who may hold locks, sees to the release of what leaves when he holds none.
    func insertKept(
        _ value: Value, forKey key: Key, life: MemoryLife, cost: Int, _ extra: MemoryExtra
    ) -> (replaced: Value?, demand: ReleaseDemand) {
        let now = time.now
        return table.withLock { table in
            let fingerprint = MemoryKey.fingerprint(key)
            var replaced: Value?
            if cost > costLimit {
                table.remove(key, fingerprint: fingerprint, .cost)
            } else {
                let cost = MemoryEntry<Key, Value>.bounded(cost)
                replaced = table.insert(value, for: key, fingerprint: fingerprint, life: life, cost: cost, at: now)
                table.setExtra(extra, of: key, fingerprint: fingerprint)
                table.evict(count: countLimit, cost: costLimit)
            }
            return (replaced, table.takeDemand())
        }
    }

    /// Drops a value; as above.
    func discardKept(_ key: Key) -> (wasFresh: Bool, demand: ReleaseDemand) {
        let now = time.now
        return table.withLock { table in
            let wasFresh = table.remove(key, fingerprint: MemoryKey.fingerprint(key), at: now)
            return (wasFresh, table.takeDemand())
        }
    }

    /// Drops all values; as above.
    func removeAllKept() -> ReleaseDemand {
        table.withLock { table in
            table.removeAll()
            return table.takeDemand()
        }
    }

    /// A value for who looks again when there is none: a miss is not counted.
    @inlinable
    func find(_ key: Key) -> Value? {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        return table.withLock { $0.find(key, fingerprint: fingerprint, at: now) }
    }

    /// A miss that was found out elsewhere.
    func countMiss() {
        table.withLock { $0.statistics.misses &+= 1 }
    }
}
