import Foundation
import Larder
import LarderHTTP
import LarderHTTPTestSupport

/// The HTTP cache compared with the tiers that it stores in, and with the bare transport.
extension Scenario {
    private static let batch = 1_000

    static var http: [Scenario] {
        [
            hit("HTTP hit in memory", floor: "the front door's memory hit", inMemory: true),
            hit("HTTP hit on disk", floor: "the front door's disk hit", inMemory: false),
            throughput("HTTP reload, URLSession", URLSessionTransport()),
        ] + httpOverCurl
    }

    private static func hit(_ name: String, floor: String, inMemory: Bool) -> Scenario {
        Scenario(name: name, size: 1 << 10, unit: .us, floor: floor, hasWakes: true) { folder in
            let body = Data(count: 1 << 10)
            var configuration = HTTPCache.Configuration()
            if !inMemory { configuration.memory = nil }
            let web = try HTTPCache(
                directory: folder.own, transport: Constant(body: body), configuration: configuration)
            let cache = Cache<Data>(
                disk: web.disk, namespace: "floor", configuration: .init(memory: inMemory ? .init() : nil))
            let requests = (0..<batch).map { URLRequest(url: URL(string: "http://example.com/\($0)")!) }
            let keys = (0..<batch).map(Content.key)
            for request in requests { _ = try await web.data(for: request) }
            for key in keys { try await cache.setValue(body, forKey: key) }
            return Run(
                round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    for _ in 0..<10 {
                        try await timing(&samples.own, batch: batch) {
                            for request in requests {
                                let isHit = try await web.data(for: request).1.cacheStatus.isHit
                                precondition(isHit, "a stored response is missing")
                            }
                        }
                        await timing(&samples.floor, batch: batch) {
                            for key in keys {
                                let isHit = await cache.value(forKey: key) != nil
                                precondition(isHit, "a stored value is missing")
                            }
                        }
                    }
                    return samples
                }, close: { try await web.close() })
        }
    }

    /// A body of 4 MiB from a server of this process, stored each time, beside the same without a cache.
    static func throughput(_ name: String, _ transport: any HTTPTransport) -> Scenario {
        Scenario(name: name, size: 4 << 20, unit: .ms, floor: "the bare transport", hasWakes: true) { folder in
            let size = 4 << 20
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: \(size)\r\n\r\n"
            let message = Array(head.utf8) + [UInt8](repeating: 7, count: size)
            let server = try SocketServer { _ in message }
            let web = try HTTPCache(directory: folder.own, transport: transport)
            let request = URLRequest(url: server.url("/body"))
            return Run(
                round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    for _ in 0..<20 {
                        try await timing(&samples.own) {
                            let count = try await web.data(for: request, mode: .reload).0.count
                            precondition(count == size, "the body is not whole")
                        }
                        try await timing(&samples.floor) {
                            var count = 0
                            for try await part in try await transport.send(request).body { count += part.count }
                            precondition(count == size, "the body is not whole")
                        }
                    }
                    return samples
                },
                close: {
                    try await web.close()
                    withExtendedLifetime(server) {}
                })
        }
    }
}

/// A server in memory.
private struct Constant: HTTPTransport {
    let body: Data

    func send(_ request: URLRequest) async throws -> HTTPTransportResponse {
        HTTPTransportResponse(
            status: 200, fields: [HTTPField("Cache-Control", "max-age=86400")], body: HTTPBody(body))
    }
}
