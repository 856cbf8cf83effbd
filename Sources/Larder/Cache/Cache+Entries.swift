import LarderFiles

extension Cache {
    /// Returns whether there is a fresh value. Does not read it and does not count as a use. O(1).
    public func hasValue(forKey key: String) async -> Bool {
        if memory?.hasValue(forKey: key) == true { return true }
        guard let disk else { return false }
        return await disk.store.io.run { disk.hasValue(forKey: key) }
    }

    /// Returns what the disk tier knows about a fresh entry, including its metadata; nil for a miss, and without a disk
    /// tier. Does not count as a use. O(1).
    public func entry(forKey key: String) async -> CacheEntry? {
        guard let disk else { return nil }
        return await disk.store.io.run { disk.entry(forKey: key) }
    }

    /// Returns the keys of all fresh values, in no order. O(n).
    public func keys() async -> [String] {
        guard let disk else { return memory?.keys() ?? [] }
        return await disk.store.io.run { disk.keys() }
    }

    /// Gives a fresh value a new life, which begins now, without rewriting the value. O(1).
    ///
    /// - Parameters:
    ///   - ttl: Zero or less removes the value.
    ///   - key: Any string.
    /// - Returns: False when there is no fresh value.
    /// - Throws: The errors of ``DiskCache/setTimeToLive(_:forKey:)``. The old life is then still in force.
    @discardableResult
    public func setTimeToLive(_ ttl: TimeToLive, forKey key: String) async throws(CacheError) -> Bool {
        try await backend.setTimeToLive(ttl, key)
    }

    /// Returns when the index of the disk tier is saved and all background work begun before is done; at once without a
    /// disk tier. O(n) when anything has changed.
    ///
    /// - Throws: The errors of ``DiskCache/flush()``.
    public func flush() async throws(CacheError) {
        guard let disk else { return }
        try await disk.store.io.run { () throws(CacheError) in try disk.flush() }
    }

    /// Closes the directory, for this cache and for all that share its ``DiskCache``. Afterwards reads miss and writes
    /// throw `.closed`. Closing makes the next opening faster; nothing is lost without it. Does nothing without a disk
    /// tier.
    ///
    /// - Throws: The errors of ``DiskCache/close()``; the directory is closed all the same.
    public func close() async throws(CacheError) {
        guard let disk else { return }
        try await disk.store.io.run { () throws(CacheError) in try disk.close() }
    }

    /// The counters of the cache, tier by tier. O(1).
    public var statistics: TierStatistics {
        let counts = backend.counts.values
        let memory = memory?.statistics
        return TierStatistics(
            memoryHits: memory?.hits ?? 0, diskHits: counts.hits, misses: counts.misses, fetches: counts.fetches,
            memory: memory, disk: disk?.statistics)
    }

    /// The events from now on, as ``Configuration/onEvent`` receives them.
    ///
    /// Each stream buffers the newest 1,000 events that have not been read. With a disk tier, a value that the memory
    /// tier drops is still in the cache, and dropping it is no event. An event that nobody listens to costs next to
    /// nothing.
    public var events: AsyncStream<CacheEvent> {
        disk?.events ?? ownEvents?.stream ?? AsyncStream { $0.finish() }
    }
}
