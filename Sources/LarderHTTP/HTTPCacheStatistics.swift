public import LarderFoundation

/// Counts of an HTTP cache since it was opened. Each hop of a redirect counts. A validation in the background counts as
/// a request of its own: as a revalidation, as a miss where the response is a new one, or as a failure.
public struct HTTPCacheStatistics: Hashable, Sendable {
    /// Requests answered from the cache without asking a server, fresh or stale.
    public var hits = 0
    /// Requests that a server answered with a new response.
    public var misses = 0
    /// Requests answered from the cache after a server had confirmed the stored response: 304.
    public var revalidations = 0
    /// Requests that waited for another one and took its response, or a stale one instead, as it did.
    public var collapsed = 0
    /// Requests answered with a stale response, for any reason. They also count as hits where no server was asked.
    public var staleAnswers = 0
    /// Requests that failed: the call threw an error, also because it was cancelled.
    public var failures = 0
    /// Responses stored or updated.
    public var stores = 0
    /// URLs that unsafe methods have invalidated, whether anything was stored for them or not.
    public var invalidations = 0
    /// Bytes of bodies that the cache answered with instead of a server.
    public var bytesSaved = 0
    /// Bytes of bodies that servers sent, after the transport has decoded them.
    public var bytesReceived = 0

    /// Creates statistics of nothing.
    public init() {}
}

extension HTTPCacheStatistics: CustomStringConvertible {
    /// The counts by name.
    public var description: String {
        "hits: \(hits), misses: \(misses), revalidations: \(revalidations), collapsed: \(collapsed), "
            + "stale answers: \(staleAnswers), failures: \(failures), stores: \(stores), "
            + "invalidations: \(invalidations), bytes saved: \(bytesSaved), bytes received: \(bytesReceived)"
    }
}

/// An event: the cache has handled a request.
public struct HTTPCacheEvent: Sendable {
    /// The method of the request.
    public let method: String
    /// The URL of the request, without user and password, as events are often logged.
    public let url: URL
    /// The status of the response; 0 when the request has failed.
    public let status: Int
    /// How the cache handled the request.
    public let cacheStatus: HTTPCacheStatus
    /// Bytes of the body that the cache answered with instead of a server.
    public let bytesSaved: Int
    /// Why the request has failed; nil when there is a response.
    public let error: (any Error)?
    /// Whether the request was a validation in the background, whose response nobody waited for.
    public let isInBackground: Bool
}

extension HTTPCacheEvent: CustomStringConvertible {
    /// The request, the status and how the cache handled it, or the error.
    public var description: String {
        let outcome = error.map { "failed: \($0)" } ?? "\(status): \(cacheStatus)"
        return "\(method) \(url.absoluteString)\(isInBackground ? " in the background" : "") \(outcome)"
    }
}
