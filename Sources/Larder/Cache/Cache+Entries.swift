import LarderFiles

extension Cache {
    /// The memory tier, for reading, trimming and limits; nil without one. Values are stored and removed through the
    /// cache.
    public var memory: MemoryView<Value>? { memoryTier.map { MemoryView($0) } }

    /// Returns whether there is a fresh value. Does not read it and does not count as a use. O(1).
    ///
    /// A value on disk that is not of the cache's type counts as missing for every call about its key, and is reported
    /// once, with `.undecodable`: one with another coding at once, any other after a call has tried to decode it, until
    /// one succeeds.
    public func hasValue(forKey key: String) async -> Bool {
        if disk?.store.disk.follow() == false { return false }
        if memoryTier?.hasValue(forKey: key) == true { return true }
        guard let disk else { return false }
        guard await isKnownAfterAsking(key) else { return false }
        return await disk.store.io.run { self.freshEntry(key, disk) != nil }
    }

    private func freshEntry(_ text: String, _ disk: DiskCache) -> IndexEntry? {
        let key = backend.key(text)
        guard let entry = disk.readableStore?.freshEntry(key, at: disk.now), !backend.isUndecodable(entry, key) else {
            return nil
        }
        return entry
    }

    /// Returns the description of a fresh entry, including its metadata; nil for a miss. Does not count as a use. O(1).
    ///
    /// With a disk tier it is the entry on disk; ``MemoryView/entry(forKey:)`` describes a value that is in memory
    /// alone. Without one the size is the value's cost.
    public func entry(forKey key: String) async -> CacheEntry? {
        guard let disk else { return memoryTier?.cacheEntry(forKey: key) }
        guard await isKnownAfterAsking(key) else { return nil }
        return await disk.store.io.run { self.freshEntry(key, disk).map { CacheEntry($0, at: disk.now) } }
    }

    /// Asks the remote tier for a key. Returns false when the copy here is outdated, and the server cannot be asked.
    private func isKnownAfterAsking(_ key: String) async -> Bool {
        guard let remoteLink else { return true }
        let key = backend.key(key)
        if await backend.bring([key])[0] != nil { return true }
        return backend.freshness(of: key, at: backend.clock.now) != .missing || remoteLink.isPending(key)
    }

    /// The number of entries on disk, or in memory without a disk tier: values, including expired ones that have not
    /// been removed yet, and keys that a fetch found to be absent. O(1).
    public var count: Int { disk?.count ?? memoryTier?.count ?? 0 }

    /// The payload bytes of all values on disk; without a disk tier, the sum of their costs. O(1).
    public var payloadSize: Int { disk?.payloadSize ?? memoryTier?.cost ?? 0 }

    /// Returns the keys of all fresh values on disk, or in memory without a disk tier, in no order. O(n). Nothing is
    /// decoded: values that are not of the cache's type are among them.
    public func keys() async -> [String] {
        guard let disk else { return memoryTier?.keys() ?? [] }
        return await disk.store.io.run { disk.keys() }
    }

    /// Gives a fresh value a new life, which begins now, without rewriting the value. O(1).
    ///
    /// - Parameters:
    ///   - ttl: Zero or less removes the value, also one that has expired and is still kept.
    ///   - key: Any string.
    /// - Returns: False when there is no fresh value.
    /// - Throws: The errors of ``DiskCache/setTimeToLive(_:forKey:)``. The old life is then still in force.
    @discardableResult
    public func setTimeToLive(_ ttl: TimeToLive, forKey key: String) async throws(CacheError) -> Bool {
        try await backend.setTimeToLive(ttl, key)
    }

    /// Returns when the index of the disk tier is saved and all background work begun before is done; at once without a
    /// disk tier. Does not wait for fetches: call ``waitForFetches()`` first. O(n) when anything has changed.
    ///
    /// With a remote tier that can be reached it also waits until all changes are sent, at most
    /// ``RemoteTierPolicy/timeout``.
    ///
    /// - Throws: The errors of ``DiskCache/flush()``.
    public func flush() async throws(CacheError) {
        guard let disk else { return }
        await remoteLink?.awaitSent(.everything)
        try await disk.store.io.run { () throws(CacheError) in try disk.flush() }
    }

    /// Returns when the fetches that are under way have ended and their values are stored; at once when the calling
    /// task is cancelled.
    ///
    /// It waits for the fetches of all caches on the directory, those in the background included: a value that was
    /// returned stale while a new one is fetched is replaced on disk before a short-lived program ends. Within a fetch
    /// it returns at once: others may wait for that one. O(fetches under way).
    public func waitForFetches() async {
        await fetcher.waitForFetches()
    }

    /// Waits for fetches, sends the changes that wait for the remote tier, delivers the events that are queued, and
    /// closes the directory, if this cache opened it: for this cache and all that share its ``DiskCache``. A cache that
    /// was created over a ``DiskCache`` leaves closing to the opener of the directory; a cache without a disk tier has
    /// nothing to close.
    ///
    /// A cache with a remote tier hears of no changes afterwards. So its reads miss and its writes throw `.closed`,
    /// even over a ``DiskCache`` that stays open.
    ///
    /// Afterwards reads of the disk miss and writes throw `.closed`. Values that are fetched are kept in memory, once
    /// no handle in this process has the directory open; the cache does not notice changes that others make there
    /// later. Closing makes the next opening faster; nothing is lost without it. Releasing the cache closes as well,
    /// and waits for nothing.
    ///
    /// - Parameter limit: How long to wait for fetches that are under way, see ``waitForFetches()``; those that take
    ///   longer store nothing on disk, without an error. As long again, while changes wait, for the remote tier to take
    ///   them, even if it cannot be reached yet; the others are dropped, with an event. Zero: not at all. Five seconds
    ///   by default.
    /// - Throws: The errors of ``DiskCache/close()``; the directory is closed all the same.
    public func close(waitingForFetches limit: Duration = .seconds(5)) async throws(CacheError) {
        await fetcher.waitForFetches(limit)
        watchers.end()
        await remoteLink?.close(limit)
        let events = disk?.store.events ?? ownEvents
        // A program that ends afterwards has received them.
        await withCheckedContinuation { continuation in
            if let events { events.run { continuation.resume() } } else { continuation.resume() }
        }
        guard let disk, ownsDisk else { return }
        try await disk.store.io.run { () throws(CacheError) in try disk.close() }
    }

    /// The counters of the cache, tier by tier. O(1).
    public var statistics: TierStatistics {
        var counts = backend.counts.values
        counts.fetches.staleAnswers += memoryTier?.staleHits ?? 0
        let memory = memoryTier?.statistics
        return TierStatistics(
            memoryHits: memory?.hits ?? 0, diskHits: counts.hits, remoteHits: counts.remoteHits, misses: counts.misses,
            absentAnswers: counts.absences, fetches: counts.fetches, memory: memory, disk: disk?.statistics,
            remote: remoteLink?.statistics)
    }

    /// Whether the remote tier answers, and in time; nil without one. O(1).
    public var remoteTierState: RemoteTierState? { remoteLink?.tierState }

    /// The events from now on, as ``Configuration/onEvent`` receives them.
    ///
    /// Each stream buffers the newest 1,000 events that have not been read. With a disk tier, a value that the memory
    /// tier drops is still in the cache, and dropping it is no event. An event that nobody listens to costs next to
    /// nothing.
    public var events: AsyncStream<CacheEvent> {
        disk?.events(reader: reader) ?? ownEvents?.stream ?? AsyncStream { $0.finish() }
    }
}
