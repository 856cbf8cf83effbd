public import LarderFoundation

/// Counts of an HTTP cache since it was opened. Each hop of a redirect counts.
public struct HTTPCacheStatistics: Hashable, Sendable {
    /// Requests answered from the cache without asking a server, fresh or stale.
    public var hits = 0
    /// Requests that a server answered with a new response.
    public var misses = 0
    /// Requests answered from the cache after a server had confirmed the stored response: 304.
    public var revalidations = 0
    /// Requests that waited for another one and took its response.
    public var collapsed = 0
    /// Stale responses that were the answer, for whatever reason. They count as hits too where no server was asked.
    public var staleAnswers = 0
    /// Responses stored.
    public var stores = 0
    /// URLs whose responses an unsafe method has invalidated.
    public var invalidations = 0
    /// Bytes of bodies that the cache answered with instead of a server.
    public var bytesSaved = 0
    /// Bytes of bodies that servers sent.
    public var bytesReceived = 0

    /// Creates statistics of nothing.
    public init() {}
}

extension HTTPCacheStatistics: CustomStringConvertible {
    /// The counts by name.
    public var description: String {
        "hits: \(hits), misses: \(misses), revalidations: \(revalidations), collapsed: \(collapsed), "
            + "stale answers: \(staleAnswers), stores: \(stores), invalidations: \(invalidations), "
            + "bytes saved: \(bytesSaved), bytes received: \(bytesReceived)"
    }
}

/// The news that the cache has handled a request.
public struct HTTPCacheEvent: Sendable {
    /// The method of the request.
    public let method: String
    /// The URL of the request, without user and password, as events are often logged.
    public let url: URL
    /// The status of the response.
    public let status: Int
    /// How the cache handled the request.
    public let cacheStatus: HTTPCacheStatus
    /// Bytes of the body that the cache answered with instead of a server.
    public let bytesSaved: Int
}

extension HTTPCacheEvent: CustomStringConvertible {
    /// The request, the status and how the cache handled it.
    public var description: String { "\(method) \(url.absoluteString) \(status): \(cacheStatus)" }
}
