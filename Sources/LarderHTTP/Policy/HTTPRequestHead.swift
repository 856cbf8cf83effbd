public import LarderFoundation

/// A request as a policy sees it: without its body.
public struct HTTPRequestHead: Hashable, Sendable {
    /// An `http` or `https` URL.
    public var url: URL
    /// The method. Methods are compared exactly, so those of the RFC are in capitals (RFC 9110, section 9.1).
    public var method: String
    /// The fields, in their order and with every repetition.
    public var fields: [HTTPField]

    /// Creates a head. Default: a GET without fields.
    public init(_ url: URL, method: String = "GET", fields: [HTTPField] = []) {
        self.url = url
        self.method = method
        self.fields = fields
    }

    /// The head of a request; nil when it has no URL.
    public init?(_ request: URLRequest) {
        guard let url = request.url else { return nil }
        let fields = (request.allHTTPHeaderFields ?? [:]).sorted { $0.key < $1.key }.map { HTTPField($0.key, $0.value) }
        self.init(url, method: request.httpMethod ?? "GET", fields: fields)
    }

    package var cacheControl: CacheControl { CacheControl(fields) }

    /// Whether the method changes nothing on the server (RFC 9110, section 9.2.1).
    package var isSafe: Bool { ["GET", "HEAD", "OPTIONS", "TRACE"].contains(method) }

    /// Whether the caller validates a response of its own, or the server's state (RFC 9110, section 13).
    package var hasPreconditions: Bool {
        hasServerPreconditions || ["If-None-Match", "If-Modified-Since"].contains { fields.has($0) }
    }

    /// Whether the request has preconditions that only the server can evaluate (RFC 9111, section 4.3.2).
    package var hasServerPreconditions: Bool {
        ["If-Match", "If-Unmodified-Since"].contains { fields.has($0) }
    }

    /// Whether the request wants the server's answer: `no-cache` (RFC 9111, section 5.2.1.4), or `Pragma: no-cache`
    /// from an HTTP/1.0 client, which counts without `Cache-Control` only (RFC 7234, section 5.4).
    package var forbidsReuse: Bool {
        if fields.has("Cache-Control") { return cacheControl.has("no-cache") }
        return fields.members(of: "Pragma").contains { $0.lowercased() == "no-cache" }
    }

    /// The milliseconds of staleness that the request accepts where the response allows more: none if it limits the age
    /// of its answer, those of `max-stale` (RFC 9111, section 5.2.1.2), and otherwise any.
    var acceptedStaleness: Int64 {
        let directives = cacheControl
        if forbidsReuse || directives.has("max-age") || directives.has("min-fresh") { return .min }
        return directives.seconds("max-stale", missing: .max).map(CacheControl.milliseconds) ?? .max
    }
}

extension HTTPRequestHead: CustomStringConvertible {
    /// The method and the URL, without user and password, and the fields, one per line.
    public var description: String {
        (["\(method) \(url.withoutUserinfo.absoluteString)"] + fields.map(\.description)).joined(separator: "\n")
    }
}
