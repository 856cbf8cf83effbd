/// One hop to a server, below the cache: it has no cache of its own, follows no redirect, keeps no cookies, and adds no
/// field that a response could vary by.
///
///     nonisolated struct Recorder: HTTPTransport {
///         func send(_ request: URLRequest) async throws -> HTTPTransportResponse {
///             HTTPTransportResponse(status: 200, fields: [HTTPField("Cache-Control", "max-age=60")], body: HTTPBody())
///         }
///     }
public protocol HTTPTransport: Sendable {
    /// Sends a request and returns the response as soon as its fields are there.
    ///
    /// A transport that decodes the body (gzip, for example) removes `Content-Encoding` and `Content-Length`. The
    /// request is cancelled with the task that sends it or reads the body.
    ///
    /// - Throws: Any error when there is no response. The cache may then answer with a stale one.
    func send(_ request: URLRequest) async throws -> HTTPTransportResponse
}

/// A response as a transport received it.
public struct HTTPTransportResponse: Sendable {
    /// The status code, 200 to 599. Interim responses are not handed out.
    public var status: Int
    /// The fields, in their order and with every repetition.
    public var fields: [HTTPField]
    /// The content.
    public var body: HTTPBody

    /// Creates a response.
    public init(status: Int, fields: [HTTPField], body: HTTPBody) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

extension HTTPTransportResponse: CustomStringConvertible {
    /// The status and the fields, one per line.
    public var description: String { (["\(status)"] + fields.map(\.description)).joined(separator: "\n") }
}
