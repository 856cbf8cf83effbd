import LarderFiles

/// Fetching several values at once.
extension Cache {
    /// Returns the values of several keys: fresh ones from the cache, and those that one fetch brings for all that are
    /// missing.
    ///
    ///     let users = try await users.values(forKeys: ids, ttl: .hours(1)) { missing in try await api.users(missing) }
    ///
    /// A key that is already being fetched, alone or with others, is waited for and not fetched again. One that is known
    /// to have no value is left out, and not fetched before that knowledge expires. See
    /// `value(forKey:ttl:tags:policy:fetch:)` for the rest.
    ///
    /// - Parameters:
    ///   - keys: Any strings. Of several that Swift's `==` calls equal, the first counts.
    ///   - ttl: How long fetched values are fresh. The configured life by default.
    ///   - tags: Names by which fetched values can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: Which values may be returned, and when they are fetched. Default: the configured policy.
    ///   - fetch: Brings values for some keys; it is never called for none. Values for other keys are dropped.
    /// - Returns: The values. A key for which the fetch brings nothing is left out; so is, with `.cacheOnly`, a key
    ///   without a fresh value.
    /// - Throws: As `value(forKey:ttl:tags:policy:fetch:)`, when a failed fetch leaves a key without a value.
    public func values(
        forKeys keys: some Sequence<String>, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .default,
        fetch: @escaping @Sendable (_ keys: [String]) async throws -> [String: Value]
    ) async throws -> [String: Value] {
        try await values(forKeys: keys, ttl: ttl, tags: tags, policy: policy) { keys -> [String: FetchResult<Value>] in
            try await fetch(keys).mapValues { FetchResult.value($0) }
        }
    }

    /// Returns the values of several keys, where the fetch says on which terms each is stored.
    ///
    /// A key whose result is `.absent` is left out. See `values(forKeys:ttl:tags:policy:fetch:)`.
    @_disfavoredOverload
    public func values(
        forKeys keys: some Sequence<String>, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .default,
        fetch: @escaping @Sendable (_ keys: [String]) async throws -> [String: FetchResult<Value>]
    ) async throws -> [String: Value] {
        let (keys, options) = (Array(keys), options(ttl, tags, policy, acceptsNothing: true))
        // Few keys may all be in memory, where nothing suspends; many would hold up the caller's actor.
        return keys.count > Self.few
            ? try await manyValues(of: keys, options, fetch) : try await values(of: keys, options, fetch)
    }

    private static var few: Int { 64 }

    private func distinct(_ keys: [String]) -> [Key] {
        var known: Set<String> = []
        return keys.filter { known.insert($0).inserted }.map { backend.key($0) }
    }

    @concurrent
    private func manyValues(
        of keys: [String], _ options: FetchOptions,
        _ fetch: @escaping @Sendable ([String]) async throws -> [String: FetchResult<Value>]
    ) async throws -> [String: Value] {
        try await values(of: keys, options, fetch)
    }

    private func values(
        of keys: [String], _ options: FetchOptions,
        _ fetch: @escaping @Sendable ([String]) async throws -> [String: FetchResult<Value>]
    ) async throws -> [String: Value] {
        let request = FetchRequest(distinct(keys), options, fetch)
        var values: [String: Value] = [:]
        for (key, answer) in zip(request.keys, try await fetcher.answers(to: request)) {
            if case .found(let lookup) = answer { values[key.text] = lookup.value }
        }
        return values
    }

    /// Returns the values of several keys without fetching any, from memory or else from disk; a key without a fresh
    /// value is left out.
    ///
    /// Several threads read at a time. See ``value(forKey:)`` for the rest.
    ///
    /// - Parameter keys: Any strings. Of several that Swift's `==` calls equal, the first counts.
    /// - Returns: The values by key.
    public func values(forKeys keys: some Sequence<String>) async -> [String: Value] {
        let keys = Array(keys)
        return keys.count > Self.few ? await manyValues(of: keys) : await values(of: keys)
    }

    @concurrent
    private func manyValues(of keys: [String]) async -> [String: Value] {
        await values(of: keys)
    }

    private func values(of keys: [String]) async -> [String: Value] {
        var values: [String: Value] = [:]
        var onDisk: [Key] = []
        for key in distinct(keys) {
            if let found = backend.lookupInMemory(key.text) {
                report(found, key)
                values[key.text] = found.value
            } else {
                onDisk.append(key)
            }
        }
        if onDisk.isEmpty { return values }
        for (key, found) in zip(onDisk, await backend.lookups(onDisk)) {
            if found == nil { backend.counts.update { $0.misses += 1 } }
            report(found, key)
            values[key.text] = found?.value
        }
        return values
    }
}
