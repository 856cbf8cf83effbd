public import LarderFoundation

/// A response as the cache answers with it.
public struct HTTPCacheResponse: Sendable {
    /// The URL of the response: that of the request, or of the last redirect.
    public let url: URL
    /// The status code.
    public let status: Int
    /// The fields, in their order and with every repetition. Those of a stored response have an `Age`.
    public let fields: [HTTPField]
    /// How the cache handled the request: the last member of the field `Cache-Status`, which only we have seen.
    public let cacheStatus: HTTPCacheStatus

    /// Returns the value of a field, all its lines joined by commas; nil without one. Names are compared without regard
    /// to case.
    public func value(forHTTPHeaderField name: String) -> String? { fields.value(of: name) }

    /// The response as Foundation's type, in which a field has one line and no order.
    public var httpURLResponse: HTTPURLResponse? {
        var values: [String: String] = [:]
        for field in fields where values[field.name] == nil { values[field.name] = fields.value(of: field.name) }
        return HTTPURLResponse(url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: values)
    }
}

extension HTTPCacheResponse: CustomStringConvertible {
    /// The status, the URL without user and password, and the cache status.
    public var description: String { "\(status) \(url.withoutUserinfo.absoluteString) (\(cacheStatus))" }
}
