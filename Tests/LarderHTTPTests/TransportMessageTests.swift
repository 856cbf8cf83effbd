import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import Testing

@Suite("Transports read messages as servers write them", .timeLimit(.minutes(10)))
struct TransportMessageTests {
    /// The answer of a cache to a text, whatever the server is asked.
    private func cached(_ transport: Transport, _ text: String) async throws -> (Data, HTTPCacheResponse) {
        try await cached(transport, Array(text.utf8), [])
    }

    private func cached(
        _ transport: Transport, _ bytes: [UInt8], _ lines: [String]
    ) async throws -> (Data, HTTPCacheResponse) {
        let folder = try TemporaryDirectory()
        let server = try SocketServer { _ in bytes }
        let cache = try HTTPCache(directory: folder.appending("web"), transport: transport.make())
        var request = URLRequest(url: server.url("/"))
        for field in fields(lines) { request.addValue(field.value, forHTTPHeaderField: field.name) }
        let answer = try await cache.data(for: request)
        try await cache.close()
        return answer
    }

    @Test("a folded line is a part of the field before", arguments: Transport.allCases)
    func folded(transport: Transport) async throws {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60,\r\n no-store\r\nX: a\r\n\tb\r\nContent-Length: 4"
        let (data, response) = try await cached(transport, "\(head)\r\n\r\nbody")
        #expect(data == Data("body".utf8) && response.cacheStatus.description == "Larder; fwd=uri-miss")
        #expect(response.value(forHTTPHeaderField: "Cache-Control")?.hasSuffix("no-store") == true)
    }

    @Test("an interim response is not the answer", arguments: Transport.allCases)
    func interim(transport: Transport) async throws {
        let early = "HTTP/1.1 103 Early\r\nCache-Control: no-store\r\n\r\n"
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4"
        let (data, response) = try await cached(transport, "\(early)\(early)\(head)\r\n\r\nbody")
        #expect(response.status == 200 && data == Data("body".utf8))
        #expect(response.cacheStatus.isStored)
    }

    @Test("a repeated field has all its values", arguments: Transport.allCases)
    func repeated(transport: Transport) async throws {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Control: no-store\r\nContent-Length: 4"
        let (_, response) = try await cached(transport, "\(head)\r\n\r\nbody")
        #expect(!response.cacheStatus.isStored)
    }

    @Test("what comes after Content-Length is no part of the body", arguments: Transport.allCases)
    func longer(transport: Transport) async throws {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3"
        let (data, _) = try await cached(transport, "\(head)\r\n\r\nbody")
        #expect(data == Data("bod".utf8))
    }

    @Test(
        "a chunked body that is cut is an error", arguments: Transport.allCases,
        ["4\r\nbody\r\n", "8\r\nbody", "zz\r\n"])
    func cutChunks(transport: Transport, tail: String) async throws {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked"
        await #expect(throws: (any Error).self) { try await cached(transport, "\(head)\r\n\r\n\(tail)") }
    }

    @Test("a body that is decoded has neither coding nor length of the coded one", arguments: Transport.allCases)
    func zstd(transport: Transport) async throws {
        let bytes: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 4, 0x21, 0, 0] + Array("body".utf8)
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Encoding: zstd"
        let message = Array("\(head)\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        guard let (data, response) = try? await cached(transport, message, ["Accept-Encoding: zstd"]) else {
            // The system's library does not know the coding.
            return
        }
        let isDecoded = data == Data("body".utf8)
        #expect(isDecoded || data == Data(bytes))
        #expect((response.value(forHTTPHeaderField: "Content-Encoding") == nil) == isDecoded)
        #expect((response.value(forHTTPHeaderField: "Content-Length") == nil) == isDecoded)
        #expect(response.cacheStatus.isStored)
    }
}
