import LarderFiles

/// The result of a fetch: a value with its terms, or the news that there is none, or that the cached one still holds.
///
///     response.status == 304 ? .notModified : .value(body, ttl: response.maxAge, metadata: ["etag": response.etag])
///
/// Any fetch may return it instead of a plain value.
public struct FetchResult<Value: Sendable>: Sendable {
    enum Outcome: Sendable {
        case value(Value)
        case notModified
        case absent
    }

    let outcome: Outcome
    var ttl: TimeToLive?
    var keepStale: TimeToLive?
    var tags: [String] = []
    var metadata: [String: String]?
    var mustRevalidate: Bool?
    var isStored = true
    var toDisk = true

    /// A new value, to be stored.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - ttl: How long the value is fresh. Zero or less: it is returned, and the key removed. Default: the call's
    ///     life.
    ///   - keepStale: How long the value is kept beyond its expiry. Default: as the call's policy says.
    ///   - tags: Added to the tags of the call. Default: none.
    ///   - metadata: Stored beside the value, to revalidate it for example. Default: none.
    ///   - mustRevalidate: Whether the value may never be returned once it has expired, whatever a policy allows.
    ///     Default: false.
    ///   - toDisk: False keeps the value in memory alone, as for
    ///     ``Cache/setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``. Default: true.
    /// - Returns: The result.
    public static func value(
        _ value: Value, ttl: TimeToLive? = nil, keepStale: TimeToLive? = nil, tags: [String] = [],
        metadata: [String: String] = [:], mustRevalidate: Bool = false, toDisk: Bool = true
    ) -> FetchResult {
        FetchResult(
            outcome: .value(value), ttl: ttl, keepStale: keepStale, tags: tags, metadata: metadata,
            mustRevalidate: mustRevalidate, toDisk: toDisk)
    }

    /// A new value that is returned to the waiting callers and not stored. The cache keeps the value that it has.
    public static func doNotStore(_ value: Value) -> FetchResult {
        FetchResult(outcome: .value(value), isStored: false)
    }

    /// The cached value is still valid: its life begins again, and its payload is not rewritten. Without a cached value
    /// it is an error, `.notFound`.
    public static var notModified: FetchResult { FetchResult(outcome: .notModified) }

    /// The cached value is still valid: its life begins again. Without a cached value it is an error, `.notFound`.
    ///
    /// - Parameters:
    ///   - ttl: How long the value is fresh from now on. Zero or less: it is returned, and the key removed. Default:
    ///     the call's life.
    ///   - metadata: Replaces the metadata of the value. A change rewrites the payload, so that the metadata survive
    ///     the loss of journal and manifest. Default: unchanged.
    ///   - mustRevalidate: Whether the value may never be returned once it has expired. A change rewrites the payload.
    ///     Default: unchanged.
    /// - Returns: The result.
    public static func notModified(
        ttl: TimeToLive? = nil, metadata: [String: String]? = nil, mustRevalidate: Bool? = nil
    ) -> FetchResult {
        FetchResult(outcome: .notModified, ttl: ttl, metadata: metadata, mustRevalidate: mustRevalidate)
    }

    /// There is no value, and the cache remembers that for the life of the call.
    public static var absent: FetchResult { FetchResult(outcome: .absent) }

    /// There is no value, and the cache remembers that.
    ///
    /// - Parameter ttl: For how long. Zero or less: not at all, and the key is removed. Default: the call's life.
    /// - Returns: The result.
    public static func absent(ttl: TimeToLive? = nil) -> FetchResult { FetchResult(outcome: .absent, ttl: ttl) }
}

extension FetchResult: CustomStringConvertible {
    /// The outcome and its terms.
    public var description: String {
        var text =
            switch outcome {
            case .value(let value): Wording.value(value)
            case .notModified: "not modified"
            case .absent: "absent"
            }
        if !isStored { text += ", not stored" }
        if !toDisk { text += ", in memory alone" }
        if let ttl { text += ", ttl \(ttl)" }
        if let keepStale { text += ", kept stale \(keepStale)" }
        if !tags.isEmpty { text += ", tagged \(Wording.list(tags))" }
        if let metadata, !metadata.isEmpty { text += ", \(Wording.metadata(metadata))" }
        if mustRevalidate == true { text += ", must revalidate" }
        return text
    }
}
