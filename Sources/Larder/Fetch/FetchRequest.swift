import LarderFiles

/// What a call that fetches one key through the cache has asked for.
struct FetchRequest<Value: Sendable>: Sendable {
    let key: Key
    let order: FetchOrder
    let fetch: @Sendable (CachedValue<Value>?) async throws -> Revalidation<Value>
}

/// How what is fetched is to be kept, and what may be answered.
struct FetchOrder: Sendable {
    let ttl: TimeToLive
    let tags: [Key]
    let policy: FetchPolicy
    /// Whether the fetch wants to be given what the cache has.
    var revalidates = false
}
