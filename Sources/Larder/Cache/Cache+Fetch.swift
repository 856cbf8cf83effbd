import LarderFiles

extension Cache {
    /// Returns the value of a key: a fresh one from the cache, or else what `fetch` brings, which is stored.
    ///
    ///     let user = try await users.value(forKey: id, ttl: .hours(1)) { try await api.user(id) }
    ///
    /// However many calls wait for a key, of whatever cache of this type on the directory and namespace, one fetch runs for them, in
    /// a task of the cache's own. A caller that is cancelled leaves at once; with the last one the fetch is cancelled. An
    /// error reaches all who wait, and is not cached. What is set or removed while a fetch is under way is not overwritten
    /// by what it brings; its callers get that all the same. A disk that fails does not fail the call: that is an event.
    ///
    /// - Parameters:
    ///   - key: Any string. With a disk tier, one of more than 64 KiB is fetched each time.
    ///   - ttl: How long a fetched value is fresh. Zero or less: it is answered, and the key removed. The configured life by default.
    ///   - tags: Names by which a fetched value can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: What may be answered, and when the value is fetched. When it is missing or has expired, by default.
    ///   - fetch: Brings the value. Runs with no lock held, outside of the caller's task. It may use the cache; but it must not wait for
    ///     its own key, which is to wait for itself.
    /// - Returns: The value.
    /// - Throws: What `fetch` throws; `CancellationError` when the caller is cancelled; `.timedOut`; `.notFound` where the
    ///   policy does not fetch, or it is known that there is no value.
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .whenMissingOrExpired, fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        if !slides, policy.takesAnyFresh, let value = memory?.find(key) { return value }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, fetch: fetch).value
    }

    /// The same with what is known about the value: where it came from, its age, its expiry.
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .whenMissingOrExpired, fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Lookup<Value> {
        let request = request(key, ttl, tags, policy) { _ in .modified(try await fetch()) }
        return try await fetcher.existing(request)
    }

    /// Returns the value of a key: a fresh one from the cache, or else what `revalidate` makes of what the cache has.
    ///
    ///     let page = try await pages.value(forKey: url, ttl: .minutes(5)) { cached in
    ///         let response = try await get(url, ifNoneMatch: cached?.metadata["etag"])
    ///         return response.status == 304 ? .notModified : .modified(response.body, metadata: ["etag": response.etag])
    ///     }
    ///
    /// What has expired is kept for revalidation for a day, or as long as the policy says. What is not modified is not written again,
    /// unless its tags change. See ``value(forKey:ttl:tags:policy:fetch:)`` for the rest.
    ///
    /// - Parameters:
    ///   - key: Any string. With a disk tier, one of more than 64 KiB is fetched each time.
    ///   - ttl: How long the value is fresh, unless the answer says otherwise. The configured life by default.
    ///   - tags: Names by which the value can be removed with others; see ``removeAll(tagged:)``. None by default: what is not
    ///     modified has those that it had.
    ///   - policy: What may be answered, and when the value is fetched. When it is missing or has expired, by default.
    ///   - revalidate: Is given what the cache has, fresh (on a reload) or stale, nil for nothing. Runs with no lock held, outside
    ///     of the caller's task.
    /// - Returns: The value.
    /// - Throws: As ``value(forKey:ttl:tags:policy:fetch:)``; `.notFound` also when the answer is `.absent`.
    @inlinable
    public func value(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .whenMissingOrExpired,
        revalidate: @escaping @Sendable (_ cached: CachedValue<Value>?) async throws -> Revalidation<Value>
    ) async throws -> Value {
        if !slides, policy.takesAnyFresh, let value = memory?.find(key) { return value }
        return try await lookup(forKey: key, ttl: ttl, tags: tags, policy: policy, revalidate: revalidate).value
    }

    /// The same with what is known about the value: where it came from, its age, its expiry.
    public func lookup(
        forKey key: String, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .whenMissingOrExpired,
        revalidate: @escaping @Sendable (_ cached: CachedValue<Value>?) async throws -> Revalidation<Value>
    ) async throws -> Lookup<Value> {
        try await fetcher.existing(request(key, ttl, tags, policy, revalidates: true, revalidate))
    }

    /// Returns the value of a key, or nil when there is none; and remembers that too, so that it is not asked for again and again.
    ///
    /// What is known to be absent is no miss: nothing is fetched, and ``value(forKey:ttl:tags:policy:fetch:)`` throws `.notFound`.
    /// Plain reads return nil, and ``hasValue(forKey:)`` false. See there for the rest.
    ///
    /// - Parameters:
    ///   - key: Any string. With a disk tier, one of more than 64 KiB is fetched each time.
    ///   - ttl: How long a fetched value is fresh. The configured life by default.
    ///   - absentTTL: How long it is remembered that there is none. Zero or less: it is not. A minute by default.
    ///   - tags: Names by which what is fetched can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: What may be answered, and when the value is fetched. When it is missing or has expired, by default.
    ///   - fetch: Brings the value; nil: there is none.
    /// - Returns: The value; nil when it is known that there is none.
    /// - Throws: As ``value(forKey:ttl:tags:policy:fetch:)``; `.notFound` where nothing is known and the policy does not fetch.
    public func optionalValue(
        forKey key: String, ttl: TimeToLive = .default, absentTTL: TimeToLive = .minutes(1), tags: [String] = [],
        policy: FetchPolicy = .whenMissingOrExpired, fetch: @escaping @Sendable () async throws -> Value?
    ) async throws -> Value? {
        let request = request(key, ttl, tags, policy) { _ in
            try await fetch().map { .modified($0) } ?? .absent(ttl: absentTTL)
        }
        return try await fetcher.value(request)?.value
    }

    /// Returns the values of several keys: fresh ones from the cache, and those of one fetch for all that are missing.
    ///
    ///     let users = try await users.values(forKeys: ids, ttl: .hours(1)) { missing in try await api.users(missing) }
    ///
    /// Keys that are being fetched already, alone or with others, are waited for, and not fetched again. See
    /// ``value(forKey:ttl:tags:policy:fetch:)`` for the rest.
    ///
    /// - Parameters:
    ///   - keys: Any strings. Of several that Swift's `==` calls equal the first counts.
    ///   - ttl: How long fetched values are fresh. The configured life by default.
    ///   - tags: Names by which fetched values can be removed with others; see ``removeAll(tagged:)``. None by default.
    ///   - policy: What may be answered, and when values are fetched. When they are missing or have expired, by default.
    ///   - fetch: Brings values for some keys, never for none. What it brings for others is dropped.
    /// - Returns: What there is. A key that the fetch brings nothing for is not in it; nor, with `.cacheOnly`, is one that has no
    ///   fresh value.
    /// - Throws: As ``value(forKey:ttl:tags:policy:fetch:)``, when a key is left without a value by a fetch that fails.
    public func values(
        forKeys keys: some Sequence<String>, ttl: TimeToLive = .default, tags: [String] = [],
        policy: FetchPolicy = .whenMissingOrExpired,
        fetch: @escaping @Sendable (_ keys: [String]) async throws -> [String: Value]
    ) async throws -> [String: Value] {
        var known: Set<String> = []
        let keys = keys.filter { known.insert($0).inserted }.map { front.key($0) }
        let order = FetchOptions(ttl: ttl, tags: tags.map { front.key($0) }, policy: policy)
        let found = try await fetcher.values(keys, order, fetch)
        return Dictionary(uniqueKeysWithValues: found.map { ($0.key.text, $0.value.value) })
    }

    private func request(
        _ key: String, _ ttl: TimeToLive, _ tags: [String], _ policy: FetchPolicy, revalidates: Bool = false,
        _ fetch: @escaping @Sendable (CachedValue<Value>?) async throws -> Revalidation<Value>
    ) -> FetchRequest<Value> {
        FetchRequest(
            key: front.key(key),
            order: FetchOptions(
                ttl: ttl, tags: tags.map { front.key($0) }, policy: policy, revalidates: revalidates),
            fetch: fetch)
    }
}
