import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import Testing

@Suite("Transports send what the cache says", .timeLimit(.minutes(10)))
struct TransportRequestTests {
    @Test("a request without a body says so where its method has one", arguments: Transport.allCases)
    func emptyBodies(transport: Transport) async throws {
        let lengths = Lock<[String?]>([])
        let server = try SocketServer { request in
            lengths.withLock { $0.append(request.fields.value(of: "Content-Length")) }
            return Array("HTTP/1.1 204 No\r\n\r\n".utf8)
        }
        for method in ["POST", "PUT", "GET"] {
            _ = try await transport.make().send(Web.request(url: server.url("/"), method: method))
        }
        #expect(lengths.withLock { $0 } == ["0", "0", nil])
    }

    @Test("the configuration of a session is not changed")
    func configuration() {
        let configuration = URLSessionConfiguration.default
        configuration.httpShouldSetCookies = true
        _ = URLSessionTransport(configuration: configuration)
        #expect(configuration.httpShouldSetCookies && configuration.httpCookieStorage != nil)
    }

    #if Curl
        @Test("an entity tag goes back byte for byte", arguments: [[0xE9], [0xC3, 0xA9], [0x61]] as [[UInt8]])
        func entityTags(tag: [UInt8]) async throws {
            let folder = try TemporaryDirectory()
            let asked = Lock<[[UInt8]]>([])
            let server = try SocketServer { request in
                let own = request.fields.value(of: "If-None-Match")?.unicodeScalars.map { UInt8($0.value) }
                if let own { asked.withLock { $0.append(own) } }
                let head = own == nil ? "HTTP/1.1 200 OK\r\nContent-Length: 4" : "HTTP/1.1 304 Not"
                return Array("\(head)\r\nCache-Control: max-age=0\r\nETag: \"".utf8) + tag
                    + Array("\"\r\n\r\n\(own == nil ? "body" : "")".utf8)
            }
            let cache = try HTTPCache(directory: folder.appending("web"), transport: CurlTransport())
            let statuses = try await [
                cache.data(from: server.url("/")).1.cacheStatus, cache.data(from: server.url("/")).1.cacheStatus,
            ]
            #expect(asked.withLock { $0 } == [[0x22] + tag + [0x22]])
            #expect(statuses.last?.forwardedStatus == 304)
            try await cache.close()
        }

        /// A stream without bytes, which ends when it is told to.
        private final class Slow: InputStream {
            var begun = Door()
            var gate = DispatchSemaphore(value: 0)
            override var hasBytesAvailable: Bool { true }
            override func open() {}
            override func close() {}

            override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
                Task { [begun] in await begun.pass() }
                gate.wait()
                return 0
            }
        }

        @Test("a slow upload does not stop the files of other requests")
        func slowUpload() async throws {
            let server = try SocketServer { _ in Array("HTTP/1.1 204 No\r\n\r\n".utf8) }
            let stream = Slow(data: Data())
            let (begun, gate) = (stream.begun, stream.gate)
            nonisolated(unsafe) var request = URLRequest(url: server.url("/"))
            request.httpMethod = "POST"
            request.httpBodyStream = stream
            let upload = Task { try await CurlTransport().send(request).status }
            await begun.waitForArrivals()
            let web = try Web { $0.spoolLimit = 1000 }
            web.server.reply(200, "Cache-Control: max-age=60", body: String(repeating: "x", count: 5000))
            #expect(try await web.get().0.count == 5000)
            begun.open()
            gate.signal()
            #expect(try await upload.value == 204)
        }
    #endif
}
