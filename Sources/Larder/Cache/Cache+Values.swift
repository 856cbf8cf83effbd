import LarderFiles

/// Reading without a fetch.
extension Cache {
    /// Returns the value of a key, from memory or else from disk; nil for a miss. O(1) in memory, O(size) on disk.
    ///
    /// A value that cannot be read or decoded is a miss too; it is counted, reported as an event, and kept.
    @inlinable
    public func value(forKey key: String) async -> Value? {
        if mayReadMemory(), let value = memoryTier?.value(forKey: key) { return value }
        return await readValue(forKey: key)
    }

    /// Reads a value that the inlined look into memory has not returned.
    @usableFromInline
    func readValue(forKey key: String) async -> Value? {
        let key = backend.key(key)
        let found =
            if reportsHits, let found = backend.lookupInMemory(key.text) { found } else {
                await backend.lookupOnDisk(key)
            }
        report(found, key)
        return found?.value
    }

    /// Returns the value of a key with its source, its age and its expiry; nil for a miss. See ``value(forKey:)``.
    public func lookup(forKey key: String) async -> Lookup<Value>? {
        let key = backend.key(key)
        let found = await backend.lookup(key)
        report(found, key)
        return found
    }

    /// Returns the value of a key, also one that has expired and is still kept; nil for a miss.
    ///
    /// Expired values are kept where `keepStale` or the policy of a fetch says so. A value that must be revalidated is
    /// never returned once it has expired. See ``value(forKey:)`` for the rest.
    public func value(forKey key: String, allowingStale: Bool) async -> Value? {
        await lookup(forKey: key, allowingStale: allowingStale)?.value
    }

    /// Does the same as ``value(forKey:allowingStale:)``, and returns the value with its source, its age and its
    /// expiry; `isStale` says whether it has expired.
    public func lookup(forKey key: String, allowingStale: Bool) async -> Lookup<Value>? {
        guard allowingStale else { return await lookup(forKey: key) }
        let key = backend.key(key)
        // Without another machine to ask, a stale value is all there is.
        if !backend.hasRemoteTier, case .stale(_, true) = backend.freshness(of: key, at: backend.clock.now),
            let found = await staleValue(key)
        {
            report(found, key)
            return found
        }
        let fresh = await backend.lookup(key)
        let found = if let fresh { fresh } else { await staleValue(key) }
        if let found, fresh == nil { backend.takeBackMiss(of: key, found, isCountedOnDisk: true) }
        report(found, key)
        return found
    }

    private func staleValue(_ key: Key) async -> Lookup<Value>? {
        guard let stored = await backend.storedValue(for: key) else { return nil }
        let found = stored.lookup(at: backend.clock.now)
        if found.isStale && !stored.isAnswerable { return nil }
        backend.countHit(found)
        return found
    }

    func report(_ found: Lookup<Value>?, _ key: Key) {
        guard let events = backend.readEvents else { return }
        if let found { events.postHit(key, found) } else { events.post(.missed, key) }
    }
}

/// Storing and removing.
extension Cache {
    /// Stores a value, on disk first. When the call returns, the value is on disk and every later read sees it.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long it is fresh. Zero or less removes the key. Default: the configured life.
    ///   - keepStale: How long it is kept beyond its expiry, for calls that allow stale values. Default: as the
    ///     configured policy and `Configuration.keepStale` say.
    ///   - metadata: Stored beside the value and readable without it. Default: none.
    ///   - tags: Names by which it can be removed with others; see ``removeAll(tagged:)``. Default: none.
    ///   - toDisk: False keeps the value in memory alone, a secret for example: nothing of it but the key is written,
    ///     not even when ``modifyValue(forKey:ttl:metadata:tags:_:)`` changes it or a fetch confirms it, and what the
    ///     key had on disk and in a remote tier is removed. It is lost when the process ends, memory evicts it or a
    ///     remote tier is connected anew; without a memory tier at once. ``keys()`` and ``entry(forKey:)`` do not show
    ///     it. Default: true.
    /// - Throws: `.unencodable`, and the errors of ``DiskCache/setData(_:forKey:ttl:metadata:tags:)``. The old value is
    ///   then still there, in both tiers. Never throws without a disk tier.
    public func setValue(
        _ value: Value, forKey key: String, ttl: TimeToLive = .default, keepStale: TimeToLive? = nil,
        metadata: [String: String] = [:], tags: [String] = [], toDisk: Bool = true
    ) async throws(CacheError) {
        let options = SetOptions(ttl: ttl, keepStale: keepStale, metadata: metadata, tags: tags, toDisk: toDisk)
        try await backend.set([(key, value)], options)
    }

    /// Stores several values, one after the other, by ascending key. Not atomic: a kill may leave some of them stored.
    ///
    /// - Parameters:
    ///   - values: The values by key.
    ///   - ttl: How long they are fresh. Zero or less removes the keys. Default: the configured life.
    ///   - keepStale: As for ``setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``.
    ///   - tags: Names by which they can be removed with others; see ``removeAll(tagged:)``. Default: none.
    /// - Throws: The first error of ``setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``, which ends the call.
    ///   Its `keys` are those that were left as they were.
    public func setValues(
        _ values: [String: Value], ttl: TimeToLive = .default, keepStale: TimeToLive? = nil, tags: [String] = []
    ) async throws(CacheError) {
        let options = SetOptions(ttl: ttl, keepStale: keepStale, tags: tags)
        try await backend.set(values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, options)
    }

    /// Removes a value from both tiers; its file is deleted when the call returns. O(1).
    ///
    /// - Returns: Whether there was a fresh value.
    /// - Throws: The errors of ``DiskCache/removeValue(forKey:)``. The value is then still there.
    @discardableResult
    public func removeValue(forKey key: String) async throws(CacheError) -> Bool {
        try await backend.remove(key)
    }

    /// Removes several values, one after the other. Not atomic.
    ///
    /// - Returns: The number of fresh values among them.
    /// - Throws: The first error of ``removeValue(forKey:)``, which ends the call. Its `keys` are those that were left
    ///   as they were.
    @discardableResult
    public func removeValues(forKeys keys: some Sequence<String>) async throws(CacheError) -> Int {
        try await backend.remove(Array(keys))
    }

    /// Removes every value of this cache from both tiers. O(1), beside other processes O(namespaces); the files are
    /// deleted in the background.
    ///
    /// A cache that has opened its directory removes everything in it, as ``DiskCache/removeAll(progress:)`` does; one
    /// over a namespace (``init(disk:namespace:configuration:)``) removes its own values, and other caches of the
    /// directory keep theirs. A remote tier and other machines drop the values of this cache's own namespace.
    ///
    /// - Throws: The errors of ``DiskCache/removeAll(progress:)``. Everything is then still there; beside other
    ///   processes, some namespaces may be empty.
    public func removeAll() async throws(CacheError) {
        try await backend.removeAll()
    }

    /// Removes every value that was stored with a tag, from both tiers. O(1); the files are deleted in the background.
    /// Without a disk tier O(values with tags or metadata).
    ///
    /// - Throws: The errors of ``DiskCache/removeAll(tagged:progress:)``.
    public func removeAll(tagged tag: String) async throws(CacheError) {
        try await backend.removeAll(tagged: tag)
    }

    /// Removes expired values from both tiers without waiting for the sweep, on disk those of the whole directory. O(1)
    /// per expired value. Values that are kept beyond their expiry stay until that time is over.
    ///
    /// - Returns: The number of values removed: from disk, or from memory without a disk tier.
    @discardableResult
    public func removeExpired() async -> Int {
        let inMemory = memoryTier?.removeExpired() ?? 0
        guard let disk else { return inMemory }
        return await disk.store.io.run { disk.removeExpired() }
    }
}
