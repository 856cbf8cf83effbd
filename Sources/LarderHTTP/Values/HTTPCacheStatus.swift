/// How the cache handled a request: its member of the field `Cache-Status` (RFC 9211).
///
///     Larder; hit; ttl=376
///     Larder; fwd=stale; fwd-status=304; stored; ttl=600
public struct HTTPCacheStatus: Hashable, Sendable {
    /// Why a request went to the server (RFC 9211, section 2.2).
    public struct Forwarding: Hashable, Sendable, CustomStringConvertible {
        /// The token.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// The cache was not to handle the request, such as one with a `Host` or preconditions of its own.
        public static let bypass = Forwarding("bypass")
        /// Its method is not answered from the cache.
        public static let method = Forwarding("method")
        /// Nothing was stored for the URL.
        public static let uriMiss = Forwarding("uri-miss")
        /// Responses were stored for the URL, but `Vary` selected none of them.
        public static let varyMiss = Forwarding("vary-miss")
        /// The request or its mode wanted the server's answer, although the stored one was fresh.
        public static let request = Forwarding("request")
        /// The stored response was stale, or had to be validated.
        public static let stale = Forwarding("stale")
        /// The stored response did not have the requested ranges.
        public static let partial = Forwarding("partial")
    }

    /// Whether the answer came from the cache without asking the server.
    public var isHit = false
    /// Why the server was asked; nil for a hit, and for a 504 because it may not be asked.
    public var forwarding: Forwarding?
    /// The status of the server's answer, where it differs from that of the response; nil otherwise.
    public var forwardedStatus: Int?
    /// Seconds for which the response remains fresh, negative once it is stale; nil without a stored response.
    public var ttl: Int?
    /// Whether the response was stored, or the stored one updated.
    public var isStored = false
    /// Whether the request waited for another one and took its response, or a stale one instead, as it did.
    public var isCollapsed = false
    /// Why a stale response was the answer: "stale-while-revalidate", "stale-if-error" or "disconnected". Why there is
    /// none: "only-if-cached". Nil otherwise.
    public var detail: String?

    /// Creates a status.
    public init() {}

    static func hit(ttl: Int) -> HTTPCacheStatus {
        var status = HTTPCacheStatus()
        (status.isHit, status.ttl) = (true, ttl)
        return status
    }

    static func forward(_ reason: Forwarding) -> HTTPCacheStatus {
        var status = HTTPCacheStatus()
        status.forwarding = reason
        return status
    }
}

extension HTTPCacheStatus: CustomStringConvertible {
    /// The member of the field `Cache-Status`.
    public var description: String {
        var parts = ["Larder"]
        if isHit { parts.append("hit") }
        if let forwarding { parts.append("fwd=\(forwarding)") }
        if let forwardedStatus { parts.append("fwd-status=\(forwardedStatus)") }
        if isStored { parts.append("stored") }
        if isCollapsed { parts.append("collapsed") }
        if let ttl { parts.append("ttl=\(ttl)") }
        if let detail { parts.append("detail=\(detail)") }
        return parts.joined(separator: "; ")
    }
}
