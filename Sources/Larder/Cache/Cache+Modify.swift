import LarderFiles

/// Changes that depend on the value that is there.
extension Cache {
    /// Stores a value unless there is a fresh one.
    ///
    /// Of several callers at a time one stores its value, and the others get it. A fetch that is under way for the key
    /// does not store its own.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long it is fresh. Zero or less stores nothing. Default: the configured life.
    ///   - keepStale: As for ``setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``.
    ///   - metadata: Stored beside the value. Default: none.
    ///   - tags: Names by which it can be removed with others. Default: none.
    /// - Returns: The fresh value that was there; nil when `value` was stored.
    /// - Throws: The errors of ``setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``; `.io` when there is a value
    ///   that cannot be read. One that a damaged index hides counts as missing.
    @discardableResult
    public func setValueIfAbsent(
        _ value: Value, forKey key: String, ttl: TimeToLive = .default, keepStale: TimeToLive? = nil,
        metadata: [String: String] = [:], tags: [String] = []
    ) async throws(CacheError) -> Value? {
        let options = SetOptions(ttl: ttl, keepStale: keepStale, metadata: metadata, tags: tags)
        let key = backend.key(key)
        if ttl.life(from: backend.clock.now, default: backend.defaultTTL) == nil {
            return try await backend.current(key).stored?.value
        }
        while true {
            let watch = backend.flights.watch(key)
            defer { backend.flights.endWatch(watch) }
            let current = try await backend.current(key)
            if let stored = current.stored { return stored.value }
            if try await backend.replace(current, with: value, options, watch) { return nil }
        }
    }

    /// Reads a value, changes it and stores it again, as one step with respect to every other change of the key.
    ///
    ///     let count = try await counters.modifyValue(forKey: "visits") { count in
    ///         count = (count ?? 0) + 1
    ///         return count
    ///     }
    ///
    /// Callers of one process take turns, in the order in which they came. `body` runs with no lock held. It runs again
    /// only when somebody else has changed the key in the meantime, or when the value was in memory alone and has been
    /// evicted or has expired.
    ///
    /// - Parameters:
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long the new value is fresh. Default: until the old one would have expired; a value that was not
    ///     there gets the configured life.
    ///   - metadata: Stored beside a value that was not there. Default: none.
    ///   - tags: Those of a value that was not there. Default: none.
    ///   - body: Changes the fresh value; nil when there is none. Setting nil removes the value. Its metadata and
    ///     its tags stay, and one in memory alone stays there. It must not wait for another change of the same key.
    /// - Returns: The result of `body`.
    /// - Throws: The error of `body`, which leaves the value as it is; the errors of
    ///   ``setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``; `.io` when there is a value that cannot be read;
    ///   `CancellationError`.
    @discardableResult
    public func modifyValue<Result: Sendable>(
        forKey key: String, ttl: TimeToLive? = nil, metadata: [String: String] = [:], tags: [String] = [],
        _ body: @Sendable (inout Value?) throws -> Result
    ) async throws -> Result {
        let options = SetOptions(ttl: ttl, metadata: metadata, tags: tags)
        let key = backend.key(key)
        try await backend.flights.turns.take(key)
        defer { backend.flights.turns.giveBack(key) }
        while true {
            try Task.checkCancellation()
            let watch = backend.flights.watch(key)
            defer { backend.flights.endWatch(watch) }
            let current = try await backend.current(key)
            var value = current.stored?.value
            let result = try body(&value)
            if value == nil, current.stored == nil { return result }
            if try await backend.replace(current, with: value, options, watch) { return result }
        }
    }
}
