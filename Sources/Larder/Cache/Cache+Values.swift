import LarderFiles

extension Cache {
    /// Returns the value of a key, from memory or else from disk; nil for a miss. O(1) in memory, O(size) on disk.
    ///
    /// A value that cannot be read or decoded is a miss too; it is counted, reported as an event, and kept.
    @inlinable
    public func value(forKey key: String) async -> Value? {
        if !slides, let value = memory?.value(forKey: key) { return value }
        return await readValue(forKey: key)
    }

    /// Reads a value that the inlined look into memory has not returned.
    @usableFromInline
    func readValue(forKey key: String) async -> Value? {
        if slides, let found = backend.lookupInMemory(key) { return found.value }
        return await backend.lookupOnDisk(backend.key(key))?.value
    }

    /// Returns the value of a key with its source, its age and its expiry; nil for a miss. See ``value(forKey:)``.
    public func lookup(forKey key: String) async -> Lookup<Value>? {
        await backend.lookup(backend.key(key))
    }

    /// Stores a value, on disk first. When the call returns, the value is on disk and every later read sees it.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long it is kept. Zero or less removes the key. The configured life by default.
    ///   - metadata: Stored beside the value and readable without it. None by default.
    ///   - tags: Names by which it can be removed with others; see ``removeAll(tagged:)``. None by default.
    /// - Throws: `.unencodable`, and the errors of ``DiskCache/setData(_:forKey:ttl:metadata:tags:)``. The old value is
    ///   then still there, in both tiers. Never throws without a disk tier.
    public func setValue(
        _ value: Value, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) async throws(CacheError) {
        try await backend.set(value, key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Removes a value from both tiers; its file is gone when the call returns. O(1).
    ///
    /// - Returns: Whether there was a fresh value.
    /// - Throws: The errors of ``DiskCache/removeValue(forKey:)``. The value is then still there.
    @discardableResult
    public func removeValue(forKey key: String) async throws(CacheError) -> Bool {
        try await backend.remove(key)
    }

    /// Removes every value of this cache from both tiers: those of its namespace, or without one. O(1); the files are
    /// deleted in the background.
    ///
    /// Other caches of the directory keep theirs; ``DiskCache/removeAllNamespaces(progress:)`` removes everything.
    ///
    /// - Throws: The errors of ``DiskCache/removeAll(progress:)``. Everything is then still there.
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
}
