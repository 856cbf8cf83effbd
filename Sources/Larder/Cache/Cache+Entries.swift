import LarderFiles

extension Cache {
    /// Tells whether there is a fresh value. Does not read it and does not count as a use. O(1).
    public func hasValue(forKey key: String) async -> Bool {
        if memory?.hasValue(forKey: key) == true { return true }
        guard let disk else { return false }
        return await disk.store.io.run { disk.hasValue(forKey: key) }
    }

    /// Returns what the disk tier knows about a fresh entry, its metadata among it; nil for a miss, and without a disk tier. Does not
    /// count as a use. O(1).
    public func entry(forKey key: String) async -> CacheEntry? {
        guard let disk else { return nil }
        return await disk.store.io.run { disk.entry(forKey: key) }
    }

    /// Returns the keys of all fresh values, in no order. O(n).
    public func keys() async -> [String] {
        guard let disk else { return memory?.keys() ?? [] }
        return await disk.store.io.run { disk.keys() }
    }

    /// Gives a fresh value a new life, from now on, without rewriting it. O(1).
    ///
    /// - Parameters:
    ///   - ttl: Zero or less removes the value.
    ///   - key: Any string.
    /// - Returns: False when there is no fresh value.
    /// - Throws: What ``DiskCache/setTimeToLive(_:forKey:)`` throws. The old life is then still in force.
    @discardableResult
    public func setTimeToLive(_ ttl: TimeToLive, forKey key: String) async throws(CacheError) -> Bool {
        try await front.setTimeToLive(ttl, key)
    }

    /// Returns when the disk tier's index is saved and every chore begun before is done; at once without one. O(n) when anything has
    /// changed.
    ///
    /// - Throws: What ``DiskCache/flush()`` throws.
    public func flush() async throws(CacheError) {
        guard let disk else { return }
        try await disk.store.io.run { () throws(CacheError) in try disk.flush() }
    }

    /// Ends the use of the directory, by this cache and by all that share its ``DiskCache``. Afterwards reads miss and writes throw
    /// `.closed`. Nothing is lost without it: it makes the next opening quicker. Does nothing without a disk tier.
    ///
    /// - Throws: What ``DiskCache/close()`` throws; it is closed all the same.
    public func close() async throws(CacheError) {
        guard let disk else { return }
        try await disk.store.io.run { () throws(CacheError) in try disk.close() }
    }

    /// What the cache has done, tier by tier. O(1).
    public var statistics: TierStatistics {
        let counts = front.counts.withLock { $0 }
        let memory = memory?.statistics
        return TierStatistics(
            memoryHits: memory?.hits ?? 0, diskHits: counts.hits, misses: counts.misses, fetches: counts.fetches,
            memory: memory, disk: disk?.statistics)
    }

    /// What happens from now on, as ``Configuration/onEvent`` is told.
    ///
    /// Each stream keeps at most 1,000 events that have not been read, the newest. What the memory tier alone drops is still in the cache
    /// and no event, unless there is no disk tier. Without anybody who listens, an event costs next to nothing.
    public var events: AsyncStream<CacheEvent> {
        disk?.events ?? ownEvents?.stream ?? AsyncStream { $0.finish() }
    }
}
