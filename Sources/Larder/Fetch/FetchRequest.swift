import LarderFiles

/// What a call that fetches one key through the cache has asked for.
struct FetchRequest<Value: Sendable>: Sendable {
    let key: Key
    let order: FetchOptions
    let fetch: @Sendable (CachedValue<Value>?) async throws -> Revalidation<Value>
}
