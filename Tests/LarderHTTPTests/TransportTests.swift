import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import Testing

/// The transports of this build.
enum Transport: CaseIterable {
    case urlSession
    #if Curl
        case curl
    #endif

    func make() -> any HTTPTransport {
        switch self {
        case .urlSession: URLSessionTransport()
        #if Curl
            case .curl: CurlTransport()
        #endif
        }
    }
}

@Suite("Transports, against servers that lie", .timeLimit(.minutes(10)))
struct TransportTests {
    /// Answers every request with a text, whatever it is.
    private func server(_ text: String) throws -> SocketServer { try SocketServer { _ in Array(text.utf8) } }

    private func body(_ response: HTTPTransportResponse) async throws -> Data {
        var data = Data()
        for try await part in response.body { data += part }
        return data
    }

    @Test("a response arrives with its status, fields and body", arguments: Transport.allCases)
    func response(transport: Transport) async throws {
        let server = try server("HTTP/1.1 404 Not\r\nX-One: 1\r\nContent-Length: 4\r\n\r\nbody")
        let response = try await transport.make().send(URLRequest(url: server.url("/")))
        #expect(response.status == 404 && response.fields.value(of: "x-one") == "1")
        #expect(try await body(response) == Data("body".utf8))
    }

    #if Curl
        @Test("the time-out counts while a request waits for one of the six connections of its host")
        func waitingForConnection() async throws {
            let (arrived, release) = (Lock(0), DispatchSemaphore(value: 0))
            let server = try SocketServer { _ in
                arrived.withLock { $0 += 1 }
                release.wait()
                return Array("HTTP/1.1 204 No\r\n\r\n".utf8)
            }
            let transport = CurlTransport()
            let request = URLRequest(url: server.url("/"))
            let others = (0..<6).map { _ in Task { try await transport.send(request).status } }
            await eventually { arrived.withLock { $0 } == 6 }
            var hasty = request
            hasty.timeoutInterval = 1
            let error = await #expect(throws: CurlError.self) { _ = try await transport.send(hasty) }
            #expect(error?.code == 28)
            // One that has its connection in time is not concerned.
            for _ in 0..<7 { release.signal() }
            for other in others { #expect(try await other.value == 204) }
            #expect(try await transport.send(hasty).status == 204)
        }
    #endif

    @Test("a request arrives with its method, target, fields and body", arguments: Transport.allCases)
    func request(transport: Transport) async throws {
        let requests = Lock<[SocketServer.Request]>([])
        let server = try SocketServer { request in
            requests.withLock { $0.append(request) }
            return Array("HTTP/1.1 204 No\r\n\r\n".utf8)
        }
        var request = Web.request("X-One: 1", "Content-Type: text/plain", url: server.url("/a%20b?c=d"), method: "PUT")
        request.httpBody = Data("body".utf8)
        let response = try await transport.make().send(request)
        #expect(response.status == 204)
        #expect(try await body(response).isEmpty)
        let arrived = try #require(requests.withLock { $0.first })
        #expect(arrived.method == "PUT" && arrived.target == "/a%20b?c=d" && arrived.body == Array("body".utf8))
        #expect(arrived.fields.value(of: "X-One") == "1")
    }

    @Test("redirects are handed out, and no cookie is kept", arguments: Transport.allCases)
    func oneHop(transport: Transport) async throws {
        let cookies = Lock<[String?]>([])
        let server = try SocketServer { request in
            cookies.withLock { $0.append(request.fields.value(of: "Cookie")) }
            return Array("HTTP/1.1 302 Found\r\nLocation: /b\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let sender = transport.make()
        for _ in 1...2 {
            #expect(try await sender.send(URLRequest(url: server.url("/a"))).status == 302)
        }
        #expect(cookies.withLock { $0 } == [nil, nil])
    }

    @Test("a connection that is cut in the body is an error, and nothing is stored", arguments: Transport.allCases)
    func cut(transport: Transport) async throws {
        let folder = try TemporaryDirectory()
        let server = try server("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100\r\n\r\nhalf")
        let cache = try HTTPCache(directory: folder.appending("web"), transport: transport.make())
        await #expect(throws: (any Error).self) { try await cache.data(from: server.url("/")) }
        #expect(try await cache.data(from: server.url("/"), mode: .onlyIfCached).1.status == 504)
        try await cache.close()
    }

    @Test("bytes that are no HTTP are an error", arguments: Transport.allCases)
    func garbage(transport: Transport) async throws {
        let server = try server("\u{1}\u{2}garbage\r\n\r\n")
        let sender = transport.make()
        await #expect(throws: (any Error).self) {
            let response = try await sender.send(URLRequest(url: server.url("/")))
            // HTTP/0.9 has no head at all: no transport may take it for a success.
            if response.status == 200 { throw URLError(.badServerResponse) }
        }
    }

    @Test("a megabyte of fields is not stored", arguments: Transport.allCases)
    func manyFields(transport: Transport) async throws {
        let folder = try TemporaryDirectory()
        let lines = (0..<10_000).map { "X-\($0): " + String(repeating: "y", count: 90) + "\r\n" }.joined()
        let server = try server("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\(lines)Content-Length: 4\r\n\r\nbody")
        let cache = try HTTPCache(directory: folder.appending("web"), transport: transport.make())
        let answer = try? await cache.data(from: server.url("/"))
        #expect(answer.map { !$0.1.cacheStatus.isStored } ?? true)
        #expect(try await cache.data(from: server.url("/"), mode: .onlyIfCached).1.status == 504)
        try await cache.close()
    }

    @Test(
        "a server whose clock is a day slow makes stale responses, one that is fast does not",
        arguments: Transport.allCases)
    func clocks(transport: Transport) async throws {
        let folder = try TemporaryDirectory()
        let now = Int64(Date().timeIntervalSince1970)
        let cache = try HTTPCache(directory: folder.appending("web"), transport: transport.make())
        for (offset, isStored, isHit) in [(Int64(-86_400), true, false), (86_400, true, true)] {
            let date = HTTPDate.text(now + offset)
            let server = try server(
                "HTTP/1.1 200 OK\r\nDate: \(date)\r\nCache-Control: max-age=3600\r\nContent-Length: 4\r\n\r\nbody")
            #expect(try await cache.data(from: server.url("/")).1.cacheStatus.isStored == isStored)
            #expect(try await cache.data(from: server.url("/")).1.cacheStatus.isHit == isHit)
        }
        try await cache.close()
    }

    @Test("a large body arrives whole", arguments: Transport.allCases)
    func largeBody(transport: Transport) async throws {
        // Copied a unit at a time: a byte at a time takes a minute under a sanitizer.
        let unit = Data(0..<251)
        let expected = (0..<20_000).reduce(into: Data()) { body, _ in body.append(unit) }
        let server = try SocketServer { _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(expected.count)\r\n\r\n".utf8) + Array(expected)
        }
        let response = try await transport.make().send(URLRequest(url: server.url("/")))
        #expect(try await body(response) == expected)
    }

    @Test("a server that nobody listens for is an error", arguments: Transport.allCases)
    func refused(transport: Transport) async throws {
        let url = try #require(URL(string: "http://127.0.0.1:1/"))
        await #expect(throws: (any Error).self) { _ = try await transport.make().send(URLRequest(url: url)) }
    }

    @Test("a request of a cancelled task ends, whenever it is cancelled", arguments: Transport.allCases)
    func cancelledAtOnce(transport: Transport) async throws {
        let server = try server("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
        let sender = transport.make()
        // Side by side: on a busy machine, each of them may wait for its turn several times.
        await withTaskGroup(of: Void.self) { group in
            for pauses in 0..<40 {
                group.addTask {
                    let task = Task { try await body(sender.send(URLRequest(url: server.url("/")))) }
                    for _ in 0..<pauses % 20 { await Task.yield() }
                    task.cancel()
                    // Its answer may have been faster.
                    if let data = try? await task.value { #expect(data == Data("body".utf8) || data.isEmpty) }
                }
            }
        }
        #expect(try await body(sender.send(URLRequest(url: server.url("/")))) == Data("body".utf8))
    }

    #if Curl
        @Test("libcurl refuses a request that would be two")
        func injection() async throws {
            let server = try server("HTTP/1.1 204 No\r\n\r\n")
            var request = URLRequest(url: server.url("/"))
            request.setValue("a\r\nEvil: b", forHTTPHeaderField: "X")
            // Foundation may have refused already.
            guard request.value(forHTTPHeaderField: "X") == "a\r\nEvil: b" else { return }
            let sent = request
            await #expect(throws: CurlError.self) { _ = try await CurlTransport().send(sent) }
        }

        @Test(
            "a coding that nobody asked for is decoded by libcurl, or handed out as it is",
            arguments: ["foo", "gzip, foo", "identity"])
        func codings(coding: String) async throws {
            let server = try server(
                "HTTP/1.1 200 OK\r\nContent-Encoding: \(coding)\r\nContent-Length: 4\r\n\r\nbody")
            for accepted in ["gzip", nil] {
                var request = URLRequest(url: server.url("/"))
                request.setValue(accepted, forHTTPHeaderField: "Accept-Encoding")
                let response = try await CurlTransport().send(request)
                let isDecoded = coding == "identity" && accepted != nil
                #expect(response.fields.value(of: "Content-Encoding") == (isDecoded ? nil : coding))
                #expect(try await body(response) == Data("body".utf8))
            }
        }

        @Test("fields without end are an error of libcurl's transport")
        func endlessFields() async throws {
            let lines = (0..<60_000).map { "X-\($0): " + String(repeating: "y", count: 90) + "\r\n" }.joined()
            let server = try server("HTTP/1.1 200 OK\r\n\(lines)Content-Length: 4\r\n\r\nbody")
            await #expect(throws: CurlError.self) {
                _ = try await CurlTransport().send(URLRequest(url: server.url("/")))
            }
        }

        @Test("libcurl keeps repeated fields in their order, and reads trailers")
        func trailers() async throws {
            let server = try server(
                "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"
                    + "cache-control: private\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
                    + "4\r\nbody\r\n0\r\nX: 1\r\n\r\n")
            let response = try await CurlTransport().send(URLRequest(url: server.url("/")))
            #expect(response.fields.values(of: "Cache-Control") == ["no-store", "private"])
            #expect(!response.fields.has("Link"))
            #expect(try await body(response) == Data("body".utf8))
            #expect(!response.fields.has("X"))
        }

        @Test("libcurl adds no field but Host")
        func ownFields() async throws {
            let names = Lock<[String]>([])
            let server = try SocketServer { request in
                names.withLock { $0 = request.fields.map(\.name) }
                return Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            _ = try await CurlTransport().send(Web.request("X-One: 1", "X-Empty:", url: server.url("/")))
            #expect(names.withLock { $0.sorted() } == ["Host", "X-Empty", "X-One"])
        }

        @Test("libcurl sends the path as it is, and neither user nor fragment")
        func target() async throws {
            let requests = Lock<[SocketServer.Request]>([])
            let server = try SocketServer { request in
                requests.withLock { $0.append(request) }
                return Array("HTTP/1.1 204 No\r\n\r\n".utf8)
            }
            let text = server.url("/a/../b?c=d#e").absoluteString
            let url = try #require(URL(string: text.replacingOccurrences(of: "//", with: "//user:secret@")))
            _ = try await CurlTransport().send(URLRequest(url: url))
            let arrived = try #require(requests.withLock { $0.first })
            #expect(arrived.target == "/a/../b?c=d" && arrived.fields.map(\.name) == ["Host"])
        }

        @Test("many requests at once get their own answers from libcurl")
        func many() async throws {
            let server = try SocketServer { request in
                Array("HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\n\r\n\(request.target)".utf8)
            }
            let transport = CurlTransport()
            let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<300 {
                    group.addTask {
                        let response = try await transport.send(URLRequest(url: server.url("/\(number)")))
                        return try await body(response) != Data("/\(number)".utf8)
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(wrong == 0)
        }

        @Test("a reader that is slower than the server gets the whole body from libcurl, and one that stops ends it")
        func slowReader() async throws {
            let size = 8_000_000
            let server = try SocketServer { _ in
                Array("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8) + [UInt8](repeating: 7, count: size)
            }
            let transport = CurlTransport()
            let response = try await transport.send(URLRequest(url: server.url("/")))
            // Another exchange takes place while the first body waits at its limit.
            let other = try await transport.send(URLRequest(url: server.url("/")))
            #expect(try await body(response).count == size)
            for try await part in other.body {
                #expect(!part.isEmpty)
                break
            }
        }

        @Test("cancelling a task ends its transfer")
        func cancellation() async throws {
            let arrived = Door()
            let answer = DispatchSemaphore(value: 0)
            let server = try SocketServer { _ in
                Task { await arrived.pass() }
                answer.wait()
                return []
            }
            let task = Task { try await CurlTransport().send(URLRequest(url: server.url("/"))) }
            await arrived.waitForArrivals()
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            arrived.open()
            answer.signal()
        }
    #endif
}
