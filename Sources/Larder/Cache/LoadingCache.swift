/// A cache that knows how to bring its values: the loader is given once, instead of with each call.
///
///     let users = LoadingCache(try Cache<User>(name: "users"), ttl: .hours(1)) { id in try await api.user(id) }
///     let user = try await users.value(forKey: id)
///
/// It fetches through a cache as `Cache.value(forKey:ttl:tags:policy:fetch:)` does, once for all callers that wait, and
/// joins the fetches of others there. With ``FetchPolicy/eagerRefresh(after:)`` a value in use is loaded again in the
/// background. To store, remove and look at values, use ``cache``.
public struct LoadingCache<Value: Sendable>: Sendable {
    /// The cache of the values. Several loading caches may share one, in different namespaces or with different keys.
    public let cache: Cache<Value>

    private let ttl: TimeToLive
    private let tags: [String]
    private let policy: FetchPolicy
    private let load: @Sendable (_ key: String, _ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    /// Nil: each key is loaded alone.
    private let loadAll: (@Sendable (_ keys: [String]) async throws -> [String: Value])?
    /// Whether the loader is given the value in the cache.
    private let revalidates: Bool

    /// Creates a cache whose loader brings the value of a key.
    ///
    /// - Parameters:
    ///   - cache: Keeps the values.
    ///   - ttl: How long a loaded value is fresh. Default: the configured life.
    ///   - tags: Names by which loaded values can be removed with others. Default: none.
    ///   - policy: Which values may be returned, and when one is loaded. Default: the configured policy.
    ///   - load: Brings a value. Runs with no lock held, outside the caller's task.
    public init(
        _ cache: Cache<Value>, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        load: @escaping @Sendable (_ key: String) async throws -> Value
    ) {
        (self.cache, self.ttl, self.tags, self.policy) = (cache, ttl, tags, policy)
        self.load = { key, _ in .value(try await load(key)) }
        (loadAll, revalidates) = (nil, false)
    }

    /// Creates a cache whose loader brings many values at once.
    ///
    /// - Parameters:
    ///   - cache: Keeps the values.
    ///   - ttl: How long a loaded value is fresh. Default: the configured life.
    ///   - tags: Names by which loaded values can be removed with others. Default: none.
    ///   - policy: Which values may be returned, and when they are loaded. Default: the configured policy.
    ///   - loadAll: Brings values for some keys: for those of a call that are missing, never for none. A key that it
    ///     leaves out has no value.
    public init(
        _ cache: Cache<Value>, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        loadAll: @escaping @Sendable (_ keys: [String]) async throws -> [String: Value]
    ) {
        (self.cache, self.ttl, self.tags, self.policy) = (cache, ttl, tags, policy)
        load = { key, _ in
            guard let value = try await loadAll([key])[key] else { throw CacheError.notFound(Key(key)) }
            return .value(value)
        }
        (self.loadAll, revalidates) = (loadAll, false)
    }

    /// Creates a cache whose loader is given the value that the cache has, fresh on a refresh or stale, and says on
    /// which terms the new one is stored.
    ///
    /// - Parameters:
    ///   - cache: Keeps the values.
    ///   - ttl: How long a loaded value is fresh, unless the answer says otherwise. Default: the configured life.
    ///   - tags: Names by which loaded values can be removed with others. Default: none.
    ///   - policy: Which values may be returned, and when one is loaded. Default: the configured policy.
    ///   - revalidate: Brings or confirms a value.
    public init(
        _ cache: Cache<Value>, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        revalidate: @escaping @Sendable (_ key: String, _ cached: Lookup<Value>?) async throws -> FetchResult<Value>
    ) {
        (self.cache, self.ttl, self.tags, self.policy) = (cache, ttl, tags, policy)
        load = revalidate
        (loadAll, revalidates) = (nil, true)
    }

    /// Returns the value of a key: a fresh one from the cache, or else the one that the loader brings.
    ///
    /// - Throws: The error of the loader, and the others of `Cache.value(forKey:ttl:tags:policy:fetch:)`.
    public func value(forKey key: String) async throws -> Value { try await value(forKey: key, policy) }

    /// Returns the values of several keys: fresh ones from the cache, and those that the loader brings, in one call
    /// where it can.
    ///
    /// - Parameter keys: Any strings. Of several that Swift's `==` calls equal, the first counts.
    /// - Returns: The values. A key is left out when the loader brings nothing for it, or throws `.notFound`.
    /// - Throws: The first error of the loader, which ends the call.
    public func values(forKeys keys: some Sequence<String>) async throws -> [String: Value] {
        if let loadAll {
            return try await cache.values(forKeys: keys, ttl: ttl, tags: tags, policy: policy, fetch: loadAll)
        }
        return try await withThrowingTaskGroup(of: (String, Value?).self) { group in
            for key in Set(keys) {
                group.addTask { (key, try await optionalValue(forKey: key)) }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
    }

    /// Loads a value again and returns it. Meanwhile, and if that fails, calls get the value that the cache has.
    ///
    /// - Throws: The errors of ``value(forKey:)``. The cache then has the old value still.
    @discardableResult
    public func refresh(forKey key: String) async throws -> Value {
        try await value(forKey: key, policy.resolved(cache.defaultPolicy).reloading)
    }

    private func optionalValue(forKey key: String) async throws -> Value? {
        do {
            return try await value(forKey: key)
        } catch let error as CacheError where error.code == .notFound {
            return nil
        }
    }

    private func value(forKey key: String, _ policy: FetchPolicy) async throws -> Value {
        let load = load
        if revalidates {
            return try await cache.value(
                forKey: key, ttl: ttl, tags: tags, policy: policy, revalidate: { try await load(key, $0) })
        }
        return try await cache.value(forKey: key, ttl: ttl, tags: tags, policy: policy) { () -> FetchResult<Value> in
            try await load(key, nil)
        }
    }
}
