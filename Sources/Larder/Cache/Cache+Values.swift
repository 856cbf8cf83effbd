import LarderFiles

extension Cache {
    /// Returns the value of a key, from memory or else from disk; nil for a miss. O(1) in memory, O(size) on disk.
    ///
    /// A value that cannot be read or decoded is a miss too, counted and reported as an event, and kept.
    @inlinable
    public func value(forKey key: String) async -> Value? {
        if !slides, let value = memory?.value(forKey: key) { return value }
        return await valueBehindMemory(forKey: key)
    }

    @usableFromInline
    func valueBehindMemory(forKey key: String) async -> Value? {
        if slides, let found = front.lookupInMemory(key) { return found.value }
        return await front.lookupBehindMemory(key)?.value
    }

    /// The same with what is known about the value: where it came from, its age, its expiry.
    public func lookup(forKey key: String) async -> Lookup<Value>? {
        await front.lookup(key)
    }

    /// Stores a value, on disk first. When this returns, it is on disk and every later read sees it.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long it is kept. Zero or less removes the key. The configured life by default.
    ///   - metadata: Kept on disk beside the value and readable without it; without a disk tier it is dropped. None by default.
    ///   - tags: Names by which it can be removed with others; see ``removeAll(tagged:)``. None by default.
    /// - Throws: `.unencodable`; and what ``DiskCache/setData(_:forKey:ttl:metadata:tags:)`` throws. The old value is then still
    ///   there, in both tiers. Without a disk tier: nothing.
    public func setValue(
        _ value: Value, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) async throws(CacheError) {
        try await front.set(value, key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Removes a value from both tiers; its file is gone when the call returns. O(1).
    ///
    /// - Returns: Whether there was a fresh one.
    /// - Throws: What ``DiskCache/removeValue(forKey:)`` throws. The value is then still there.
    @discardableResult
    public func removeValue(forKey key: String) async throws(CacheError) -> Bool {
        try await front.remove(key)
    }

    /// Removes every value of this cache, its namespace's or all, from both tiers. O(1); the files are deleted behind.
    ///
    /// - Throws: What ``DiskCache/removeAll(progress:)`` throws. Everything is then still there.
    public func removeAll() async throws(CacheError) {
        try await front.removeAll()
    }

    /// Removes every value that was stored with a tag, from both tiers. O(1); the files are deleted behind. Without a disk tier tags are
    /// not kept: everything is removed.
    ///
    /// - Throws: What ``DiskCache/removeAll(tagged:progress:)`` throws.
    public func removeAll(tagged tag: String) async throws(CacheError) {
        try await front.removeAll(tagged: tag)
    }
}
