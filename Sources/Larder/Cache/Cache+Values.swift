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
        if slides, let found = slidingLookup(key) { return found.value }
        return await lookupOnDisk(key)?.value
    }

    /// The same with what is known about the value: which tier had it, its age, its expiry.
    public func lookup(forKey key: String) async -> Lookup<Value>? {
        if slides {
            if let found = slidingLookup(key) { return found }
        } else if let memory {
            let now = memory.time.now
            if let found = memory.lookup(key, at: now) {
                return Lookup(found.value, in: .memory, life: found.life, at: now)
            }
        }
        return await lookupOnDisk(key)
    }

    /// Stores a value, on disk first. When this returns, it is on disk and every later read sees it.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long it is kept. Zero or less removes the key. The configured life by default.
    ///   - metadata: Kept on disk beside the value and readable without it; without a disk tier it is dropped. None by default.
    /// - Throws: `.unencodable`; and what ``DiskCache/setData(_:forKey:ttl:metadata:)`` throws. The old value is then still
    ///   there, in both tiers. Without a disk tier: nothing.
    public func setValue(
        _ value: Value, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:]
    ) async throws(CacheError) {
        guard let front else {
            memory?.setValue(value, forKey: key, ttl: ttl)
            return
        }
        try await front.disk.store.lane.run { () throws(CacheError) in
            try front.set(value, key, ttl: ttl, metadata: metadata)
        }
    }

    /// Removes a value from both tiers; its file is gone when the call returns. O(1).
    ///
    /// - Returns: Whether there was a fresh one.
    /// - Throws: What ``DiskCache/removeValue(forKey:)`` throws. The value is then still there.
    @discardableResult
    public func removeValue(forKey key: String) async throws(CacheError) -> Bool {
        guard let front else {
            return memory?.discard(key) ?? false
        }
        return try await front.disk.store.lane.run { () throws(CacheError) in try front.remove(key) }
    }

    /// Removes every value of this cache, its namespace's or all, from both tiers. O(1); the files are deleted behind.
    ///
    /// - Throws: What ``DiskCache/removeAll(progress:)`` throws. Everything is then still there.
    public func removeAll() async throws(CacheError) {
        guard let front else {
            memory?.removeAll()
            return
        }
        try await front.disk.store.lane.run { () throws(CacheError) in try front.removeAll() }
    }

    private func lookupOnDisk(_ key: String) async -> Lookup<Value>? {
        let found =
            if let front { await front.disk.store.lane.run { front.lookup(key) } } else { nil as Lookup<Value>? }
        counts.withLock { counts in
            if found == nil { counts.misses += 1 } else { counts.hits += 1 }
        }
        return found
    }

    /// A hit in memory that renews the life on disk.
    private func slidingLookup(_ key: String) -> Lookup<Value>? {
        guard let front, let memory else { return nil }
        let now = memory.time.now
        guard let found = memory.lookup(key, at: now), let life = front.slide(key) else { return nil }
        return Lookup(found.value, in: .memory, life: life, at: now)
    }
}
