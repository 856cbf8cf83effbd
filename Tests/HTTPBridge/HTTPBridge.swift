import Foundation
import LarderHTTP
import LarderHTTPTestSupport

/// An HTTP/1.1 server that sends each request through an `HTTPCache` to an origin, for the public suite of tests.
///
///     HTTPBridge PORT ORIGIN DIRECTORY
@main
struct HTTPBridge {
    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let port = Int(arguments[1]) else {
            print("usage: HTTPBridge PORT ORIGIN DIRECTORY")
            exit(2)
        }
        var configuration = HTTPCache.Configuration()
        configuration.followsRedirects = false
        configuration.requestFields = []
        let cache = try HTTPCache(
            directory: URL(fileURLWithPath: arguments[3]), transport: SocketTransport(), configuration: configuration)
        let origin = arguments[2]
        let server = try SocketServer(port: port) { request in
            let done = DispatchSemaphore(value: 0)
            nonisolated(unsafe) var answer: [UInt8] = []
            Task.detached {
                answer = await bridge(request, origin, cache)
                done.signal()
            }
            done.wait()
            return answer
        }
        withExtendedLifetime(server) { dispatchMain() }
    }

    /// Fields of the connection to the bridge, or that the transport sets itself.
    private static let ownFields = ["host", "connection", "content-length", "keep-alive", "transfer-encoding"]

    private static func bridge(
        _ request: SocketServer.Request, _ origin: String, _ cache: HTTPCache
    ) async -> [UInt8] {
        guard let url = URL(string: origin + request.target) else { return message(400, [], Data()) }
        var forwarded = URLRequest(url: url)
        forwarded.httpMethod = request.method
        if !request.body.isEmpty { forwarded.httpBody = Data(request.body) }
        for field in request.fields where !ownFields.contains(field.name.lowercased()) {
            forwarded.addValue(field.value, forHTTPHeaderField: field.name)
        }
        do {
            let (data, response) = try await cache.data(for: forwarded)
            return message(response.status, response.fields, data, isHead: request.method == "HEAD")
        } catch {
            return message(502, [HTTPField("Content-Type", "text/plain")], Data("\(error)".utf8))
        }
    }

    private static func message(_ status: Int, _ fields: [HTTPField], _ body: Data, isHead: Bool = false) -> [UInt8] {
        var text = "HTTP/1.1 \(status) Status\r\n"
        for field in fields where !ownFields.contains(field.name.lowercased()) {
            text += "\(field.name): \(field.value)\r\n"
        }
        if isHead {
            text += fields.filter { $0.name.lowercased() == "content-length" }.map { "\($0)\r\n" }.joined()
        } else if status != 204, status != 304 {
            text += "Content-Length: \(body.count)\r\n"
        }
        return Array((text + "Connection: close\r\n\r\n").utf8) + Array(body)
    }
}
