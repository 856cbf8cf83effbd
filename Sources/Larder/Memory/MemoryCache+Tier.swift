import LarderFiles

/// What the disk tier does to the memory before it. The caller holds locks: whatever leaves is released behind.
extension MemoryCache {
    /// Drops a value because that on disk changes.
    func invalidate(_ key: Key, _ cause: RemovalCause) {
        change(behind: true) { $0.drop(key, fingerprint: MemoryKey.fingerprint(key), cause) }
    }

    /// Drops all values, because all on disk change.
    func invalidateAll() {
        change(behind: true) { if $0.count > 0 { $0.removeAll() } }
    }

    /// Puts a value in with the life that it has on disk.
    func insert(_ value: Value, forKey key: Key, life: MemoryLife, cost: Int) {
        let left = insertKept(value, forKey: key, life: life, cost: cost, MemoryExtra())
        assert(left.replaced == nil, "it would be released with the caller's locks held")
        releaseBehind(left.demand)
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
