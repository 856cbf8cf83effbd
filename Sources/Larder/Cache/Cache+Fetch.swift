import LarderFiles

extension Cache {
    /// Returns the value of a key: a fresh one from the cache, or else the one that `fetch` brings, which is stored.
    ///
    ///     let user = try await users.value(forKey: id, ttl: .hours(1)) { try await api.user(id) }
    ///
    /// However many calls wait for a key, through any cache of this type on the directory and namespace, one fetch runs
    /// for them, in a task of the cache's own. A cancelled caller leaves at once; when the last one leaves, the fetch
    /// is cancelled. An error reaches all callers that wait, and is not cached. A key that is set or removed while it
    /// is being fetched is not overwritten by the fetched value; the callers that wait get that value all the same. A
    /// disk that fails does not fail the call: the failure is an event, and the value is kept in memory for its life.
    ///
    /// The fetch inherits the priority and the task-local values of the call that began it, as `Task {}` does: a trace
    /// shows it there, whoever else waits. A fetch may use the cache, but not wait for its own key, directly or through
    /// the fetches of other keys: that throws `.fetchCycle`. An unstructured task that a fetch starts counts as a part
    /// of it until the fetch ends, though nobody waits for the task; start a detached one to ask for the same key.
    ///
    /// - Parameters:
    ///   - key: Any string. A key of more than 64 KiB is kept in memory alone.
    ///   - ttl: How long a fetched value is fresh. Zero or less: it is returned, and the key removed. The configured
    ///     life by default.
    ///   - tags: Names by which a fetched value can be removed with others; see ``removeAll(tagged:)``. A call that
    ///     joins a fetch adds its own. None by default.
    ///   - policy: Which values may be returned, and when one is fetched. Default: the configured policy.
    ///   - fetch: Brings the value. Runs with no lock held, outside the caller's task.
    /// - Returns: The value.
    /// - Throws: The error of `fetch`; `CancellationError` when the caller is cancelled; `.timedOut`; `.fetchCycle`;
    ///   `.notFound` where the policy does not fetch.
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .default, fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        if mayReadMemory(), let value = valueInMemory(forKey: key, policy) { return value }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, fetch: fetch).value
    }

    /// Does the same as `value(forKey:ttl:tags:policy:fetch:)`, and returns the value with its source, its age and
    /// its expiry.
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .default, fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Lookup<Value> {
        let options = options(ttl, tags, policy, acceptsAbsence: false)
        return try await fetcher.existing(
            FetchRequest(backend.key(key), options) { _ in FetchResult.value(try await fetch()) })
    }

    /// Returns the value of a key: a fresh one from the cache, or else the one that `fetch` brings on its own terms.
    ///
    ///     let page = try await pages.value(forKey: url) {
    ///         let response = try await get(url)
    ///         return response.status == 200 ? .value(response.body, ttl: response.maxAge) : .doNotStore(response.body)
    ///     }
    ///
    /// See `value(forKey:ttl:tags:policy:fetch:)`; `.notFound` is thrown also when the result is `.absent`, or it is
    /// known that there is no value.
    @_disfavoredOverload
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        fetch: @escaping @Sendable () async throws -> FetchResult<Value>
    ) async throws -> Value {
        if mayReadMemory(), let value = valueInMemory(forKey: key, policy) { return value }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, fetch: fetch).value
    }

    /// Does the same as `value(forKey:ttl:tags:policy:fetch:)`, and returns the value with its source, its age and
    /// its expiry.
    @_disfavoredOverload
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        fetch: @escaping @Sendable () async throws -> FetchResult<Value>
    ) async throws -> Lookup<Value> {
        let options = options(ttl, tags, policy)
        return try await fetcher.existing(FetchRequest(backend.key(key), options) { _ in try await fetch() })
    }

    /// Returns the value of a key: a fresh one from the cache, or else the one that `revalidate` brings or confirms.
    ///
    ///     let page = try await pages.value(forKey: url, ttl: .minutes(5)) { cached in
    ///         let response = try await get(url, ifNoneMatch: cached?.metadata["etag"])
    ///         return response.status == 304 ? .notModified : .value(response.body, metadata: ["etag": response.etag])
    ///     }
    ///
    /// An expired value is kept for revalidation for a day, or for as long as the policy or `Configuration.keepStale`
    /// says. A value that is not modified is not written again, unless its metadata or tags change. See
    /// `value(forKey:ttl:tags:policy:fetch:)` for the rest.
    ///
    /// - Parameters:
    ///   - key: Any string. A key of more than 64 KiB is kept in memory alone.
    ///   - ttl: How long the value is fresh, unless the answer says otherwise. The configured life by default.
    ///   - tags: Names by which the value can be removed with others; see ``removeAll(tagged:)``. None by default; a
    ///     value that is not modified then keeps the tags it has.
    ///   - policy: Which values may be returned, and when one is fetched. Default: the configured policy.
    ///   - revalidate: Takes the value in the cache, fresh (on a reload) or stale; nil when there is none. Runs with no
    ///     lock held, outside the caller's task.
    /// - Returns: The value.
    /// - Throws: As `value(forKey:ttl:tags:policy:fetch:)`; `.notFound` also when the answer is `.absent`, or it is
    ///   known that there is no value.
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .default,
        revalidate: @escaping @Sendable (_ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    ) async throws -> Value {
        if mayReadMemory(), let value = valueInMemory(forKey: key, policy) { return value }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, revalidate: revalidate).value
    }

    /// Does the same as `value(forKey:ttl:tags:policy:revalidate:)`, and returns the value with its source, its age
    /// and its expiry.
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .default,
        revalidate: @escaping @Sendable (_ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    ) async throws -> Lookup<Value> {
        let options = options(ttl, tags, policy, revalidates: true)
        return try await fetcher.existing(FetchRequest(backend.key(key), options, revalidate))
    }

    /// Returns the value of a key, or nil when there is none; absence is cached too (negative caching).
    ///
    /// While a key is known to be absent, calls of this kind fetch nothing; `value(forKey:ttl:tags:policy:fetch:)`,
    /// which has to bring a value, does. Plain reads return nil, and ``hasValue(forKey:)`` false. See
    /// `value(forKey:ttl:tags:policy:fetch:)` for the rest.
    ///
    /// - Parameters:
    ///   - key: Any string. A key of more than 64 KiB is kept in memory alone.
    ///   - ttl: How long a fetched value is fresh. The configured life by default.
    ///   - absentTTL: How long absence is cached. Zero or less: not at all. A minute by default.
    ///   - tags: Names by which the result can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: Which values may be returned, and when one is fetched. Default: the configured policy.
    ///   - fetch: Brings the value; nil when there is none.
    /// - Returns: The value; nil when it is known that there is none.
    /// - Throws: As `value(forKey:ttl:tags:policy:fetch:)`; `.notFound` where nothing is known and the policy does
    ///   not fetch.
    public func optionalValue(
        forKey key: String, ttl: TimeToLive = .default, absentTTL: TimeToLive = .minutes(1), tags: [String] = [],
        policy: FetchPolicy = .default, fetch: @escaping @Sendable () async throws -> Value?
    ) async throws -> Value? {
        try await optionalValue(forKey: key, ttl: ttl, tags: tags, policy: policy) { () -> FetchResult<Value> in
            try await fetch().map { FetchResult.value($0) } ?? .absent(ttl: absentTTL)
        }
    }

    /// Returns the value of a key, or nil when there is none, where the fetch says on which terms.
    ///
    /// See `optionalValue(forKey:ttl:absentTTL:tags:policy:fetch:)`.
    @_disfavoredOverload
    public func optionalValue(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        fetch: @escaping @Sendable () async throws -> FetchResult<Value>
    ) async throws -> Value? {
        let request = FetchRequest(backend.key(key), options(ttl, tags, policy)) { _ in try await fetch() }
        return try await fetcher.value(request)?.value
    }

    /// Returns the value of a key, or nil when there is none, where the fetch is given the value in the cache.
    ///
    /// See `optionalValue(forKey:ttl:absentTTL:tags:policy:fetch:)` and
    /// `value(forKey:ttl:tags:policy:revalidate:)`.
    public func optionalValue(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        revalidate: @escaping @Sendable (_ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    ) async throws -> Value? {
        let options = options(ttl, tags, policy, revalidates: true)
        return try await fetcher.value(FetchRequest(backend.key(key), options, revalidate))?.value
    }

    /// Returns a value in memory that answers the call at once.
    @inlinable
    func valueInMemory(forKey key: String, _ policy: FetchPolicy) -> Value? {
        let use = policy.memoryUse == .configured ? defaultMemoryUse : policy.memoryUse
        if use == .fresh { return memoryTier?.find(key) }
        return use == .freshOrStale ? freshOrStaleValue(forKey: key, policy) : nil
    }

    /// Returns a fresh value in memory, or a stale one that the policy allows while nothing better can be had.
    @inlinable
    @inline(never)
    func freshOrStaleValue(forKey key: String, _ policy: FetchPolicy) -> Value? {
        guard let memoryTier else { return nil }
        let now = memoryTier.time.now
        guard let found = memoryTier.findKept(key, at: now) else { return nil }
        if let expired = found.expired {
            let policy = policy.memoryUse == .configured ? defaultPolicy : policy
            if !staleGate.opens(key, expired: expired, policy, at: now) {
                memoryTier.takeBackStaleHit()
                return nil
            }
        }
        return found.value
    }

    func options(
        _ ttl: TimeToLive, _ tags: [String], _ policy: FetchPolicy, revalidates: Bool = false,
        acceptsNothing: Bool = false, acceptsAbsence: Bool = true
    ) -> FetchOptions {
        FetchOptions(
            ttl: ttl, tags: tags.map { backend.key($0) }, policy: policy.resolved(defaultPolicy),
            revalidates: revalidates, acceptsNothing: acceptsNothing, acceptsAbsence: acceptsAbsence)
    }
}
