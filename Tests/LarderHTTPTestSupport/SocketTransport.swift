import Foundation
package import LarderHTTP

/// A transport that opens a connection for each request to a port of 127.0.0.1, and adds no field but `Host`,
/// `Connection` and `Content-Length`.
package struct SocketTransport: HTTPTransport {
    package init() {}

    package func send(_ request: URLRequest) async throws -> HTTPTransportResponse {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try Self.exchange(request) }) }
        }
    }

    private static func exchange(_ request: URLRequest) throws -> HTTPTransportResponse {
        guard let url = request.url, let port = url.port else { throw URLError(.badURL) }
        let socket = try Socket.connected(to: port)
        let method = request.httpMethod ?? "GET"
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        var text = "\(method) \(path.isEmpty ? "/" : path)\(url.query.map { "?\($0)" } ?? "") HTTP/1.1\r\n"
        let fields = request.allHTTPHeaderFields ?? [:]
        if fields["Host"] == nil { text += "Host: \(url.host ?? "127.0.0.1"):\(port)\r\n" }
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        let body = [UInt8](request.httpBody ?? Data())
        if !body.isEmpty { text += "Content-Length: \(body.count)\r\n" }
        try socket.write(Array((text + "Connection: close\r\n\r\n").utf8) + body)
        var reader = MessageReader(socket)
        while let head = try reader.head() {
            guard head.line.count >= 2, let status = Int(head.line[1]) else { throw URLError(.badServerResponse) }
            // An interim response comes before the one that counts (RFC 9110, section 15.2).
            if status < 200 { continue }
            let body = try reader.responseBody(head.fields, status: status, method: method)
            return HTTPTransportResponse(status: status, fields: head.fields, body: HTTPBody(Data(body)))
        }
        throw URLError(.networkConnectionLost)
    }
}
