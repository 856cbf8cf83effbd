/// How a request uses the cache: the six cache modes of [Fetch](https://fetch.spec.whatwg.org/#requestcache).
public struct HTTPCacheMode: Hashable, Sendable, CustomStringConvertible {
    /// The name of the mode, as Fetch spells it.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// Answers with a fresh response, and otherwise asks the server, with the validators of the stored one.
    public static let `default` = HTTPCacheMode("default")
    /// Asks the server as if there were no cache, and stores nothing.
    public static let noStore = HTTPCacheMode("no-store")
    /// Asks the server as if nothing were stored, and stores the response.
    public static let reload = HTTPCacheMode("reload")
    /// Validates the stored response with the server, even a fresh one. One that is `immutable` and fresh is not
    /// validated (RFC 8246).
    public static let noCache = HTTPCacheMode("no-cache")
    /// Answers with a stored response however stale it is, unless it forbids that (`must-revalidate`, `no-cache`); asks
    /// the server only without one.
    public static let forceCache = HTTPCacheMode("force-cache")
    /// Answers with a stored response however stale it is, unless it forbids that (`must-revalidate`, `no-cache`);
    /// otherwise with status 504. Never asks the server.
    public static let onlyIfCached = HTTPCacheMode("only-if-cached")
}
