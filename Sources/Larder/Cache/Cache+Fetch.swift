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
    ///   - policy: Which values may be returned, and when one is fetched. When it is missing or has expired, by
    ///     default.
    ///   - fetch: Brings the value. Runs with no lock held, outside the caller's task.
    /// - Returns: The value.
    /// - Throws: The error of `fetch`; `CancellationError` when the caller is cancelled; `.timedOut`; `.fetchCycle`;
    ///   `.notFound` where the policy does not fetch.
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .cacheFirst, fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        if !slides, policy.memoryUse == .fresh, let value = memory?.find(key) { return value }
        if !slides, policy.memoryUse == .freshOrStale, let value = freshOrStaleValue(forKey: key, policy) {
            return value
        }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, fetch: fetch).value
    }

    /// Does the same as ``value(forKey:ttl:tags:policy:fetch:)``, and returns the value with its source, its age and
    /// its expiry.
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .cacheFirst, fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Lookup<Value> {
        let options = options(ttl, tags, policy, acceptsAbsence: false)
        return try await fetcher.existing(
            FetchRequest(backend.key(key), options) { _ in FetchResult.value(try await fetch()) })
    }

    /// Returns the value of a key: a fresh one from the cache, or else the one that `revalidate` brings or confirms.
    ///
    ///     let page = try await pages.value(forKey: url, ttl: .minutes(5)) { cached in
    ///         let response = try await get(url, ifNoneMatch: cached?.metadata["etag"])
    ///         return response.status == 304 ? .notModified : .value(response.body, metadata: ["etag": response.etag])
    ///     }
    ///
    /// An expired value is kept for revalidation for a day, or for as long as the policy says. A value that is not
    /// modified is not written again, unless its metadata or tags change. See ``value(forKey:ttl:tags:policy:fetch:)`` for the
    /// rest.
    ///
    /// - Parameters:
    ///   - key: Any string. A key of more than 64 KiB is kept in memory alone.
    ///   - ttl: How long the value is fresh, unless the answer says otherwise. The configured life by default.
    ///   - tags: Names by which the value can be removed with others; see ``removeAll(tagged:)``. None by default; a
    ///     value that is not modified then keeps the tags it has.
    ///   - policy: Which values may be returned, and when one is fetched. When it is missing or has expired, by
    ///     default.
    ///   - revalidate: Takes the value in the cache, fresh (on a reload) or stale; nil when there is none. Runs with no
    ///     lock held, outside the caller's task.
    /// - Returns: The value.
    /// - Throws: As ``value(forKey:ttl:tags:policy:fetch:)``; `.notFound` also when the answer is `.absent`, or it is
    ///   known that there is no value.
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .cacheFirst,
        revalidate: @escaping @Sendable (_ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    ) async throws -> Value {
        if !slides, policy.memoryUse == .fresh, let value = memory?.find(key) { return value }
        if !slides, policy.memoryUse == .freshOrStale, let value = freshOrStaleValue(forKey: key, policy) {
            return value
        }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, revalidate: revalidate).value
    }

    /// Does the same as ``value(forKey:ttl:tags:policy:revalidate:)``, and returns the value with its source, its age
    /// and its expiry.
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .cacheFirst,
        revalidate: @escaping @Sendable (_ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    ) async throws -> Lookup<Value> {
        let options = options(ttl, tags, policy, revalidates: true)
        return try await fetcher.existing(FetchRequest(backend.key(key), options, revalidate))
    }

    /// Returns the value of a key, or nil when there is none; absence is cached too (negative caching).
    ///
    /// While a key is known to be absent, calls of this kind fetch nothing; ``value(forKey:ttl:tags:policy:fetch:)``,
    /// which has to bring a value, does. Plain reads return nil, and ``hasValue(forKey:)`` false. See
    /// ``value(forKey:ttl:tags:policy:fetch:)`` for the rest.
    ///
    /// - Parameters:
    ///   - key: Any string. A key of more than 64 KiB is kept in memory alone.
    ///   - ttl: How long a fetched value is fresh. The configured life by default.
    ///   - absentTTL: How long absence is cached. Zero or less: not at all. A minute by default.
    ///   - tags: Names by which the result can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: Which values may be returned, and when one is fetched. When it is missing or has expired, by
    ///     default.
    ///   - fetch: Brings the value; nil when there is none.
    /// - Returns: The value; nil when it is known that there is none.
    /// - Throws: As ``value(forKey:ttl:tags:policy:fetch:)``; `.notFound` where nothing is known and the policy does
    ///   not fetch.
    public func optionalValue(
        forKey key: String, ttl: TimeToLive = .default, absentTTL: TimeToLive = .minutes(1), tags: [String] = [],
        policy: FetchPolicy = .cacheFirst, fetch: @escaping @Sendable () async throws -> Value?
    ) async throws -> Value? {
        let request = FetchRequest<Value>(backend.key(key), options(ttl, tags, policy)) { _ in
            try await fetch().map { FetchResult.value($0) } ?? .absent(ttl: absentTTL)
        }
        return try await fetcher.value(request)?.value
    }

    /// Returns the values of several keys: fresh ones from the cache, and those that one fetch brings for all that are
    /// missing.
    ///
    ///     let users = try await users.values(forKeys: ids, ttl: .hours(1)) { missing in try await api.users(missing) }
    ///
    /// A key that is already being fetched, alone or with others, is waited for and not fetched again. See
    /// ``value(forKey:ttl:tags:policy:fetch:)`` for the rest.
    ///
    /// - Parameters:
    ///   - keys: Any strings. Of several that Swift's `==` calls equal, the first counts.
    ///   - ttl: How long fetched values are fresh. The configured life by default.
    ///   - tags: Names by which fetched values can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: Which values may be returned, and when they are fetched. When they are missing or have expired, by
    ///     default.
    ///   - fetch: Brings values for some keys; it is never called for none. Values for other keys are dropped.
    /// - Returns: The values. A key for which the fetch brings nothing is left out; so is, with `.cacheOnly`, a key
    ///   without a fresh value.
    /// - Throws: As ``value(forKey:ttl:tags:policy:fetch:)``, when a failed fetch leaves a key without a value.
    public func values(
        forKeys keys: some Sequence<String>, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .cacheFirst,
        fetch: @escaping @Sendable (_ keys: [String]) async throws -> [String: Value]
    ) async throws -> [String: Value] {
        let texts = Array(keys)
        // Few keys may all be in memory, where nothing suspends; many would hold up the caller's actor.
        return texts.count > 64
            ? try await manyValues(texts, ttl, tags, policy, fetch) : try await values(texts, ttl, tags, policy, fetch)
    }

    @concurrent
    private func manyValues(
        _ texts: [String], _ ttl: TimeToLive, _ tags: [String], _ policy: FetchPolicy,
        _ fetch: @escaping @Sendable (_ keys: [String]) async throws -> [String: Value]
    ) async throws -> [String: Value] {
        try await values(texts, ttl, tags, policy, fetch)
    }

    private func values(
        _ texts: [String], _ ttl: TimeToLive, _ tags: [String], _ policy: FetchPolicy,
        _ fetch: @escaping @Sendable (_ keys: [String]) async throws -> [String: Value]
    ) async throws -> [String: Value] {
        var known: Set<String> = []
        let keys = texts.filter { known.insert($0).inserted }.map { backend.key($0) }
        let request = FetchRequest(keys, options(ttl, tags, policy, acceptsNothing: true), fetch)
        var values: [String: Value] = [:]
        for (key, answer) in zip(keys, try await fetcher.answers(to: request)) {
            if case .found(let lookup) = answer { values[key.text] = lookup.value }
        }
        return values
    }

    /// Returns a fresh value in memory, or a stale one that the policy allows while nothing better can be had.
    @inlinable
    @inline(never)
    func freshOrStaleValue(forKey key: String, _ policy: FetchPolicy) -> Value? {
        guard let memory else { return nil }
        let now = memory.time.now
        guard let found = memory.findKept(key, at: now) else { return nil }
        if let expired = found.expired, !staleGate.opens(key, expired: expired, policy, at: now) {
            memory.takeBackStaleHit()
            return nil
        }
        return found.value
    }

    private func options(
        _ ttl: TimeToLive, _ tags: [String], _ policy: FetchPolicy, revalidates: Bool = false,
        acceptsNothing: Bool = false, acceptsAbsence: Bool = true
    ) -> FetchOptions {
        FetchOptions(
            ttl: ttl, tags: tags.map { backend.key($0) }, policy: policy, revalidates: revalidates,
            acceptsNothing: acceptsNothing, acceptsAbsence: acceptsAbsence)
    }
}
