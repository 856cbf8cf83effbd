import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting
import Testing

@Suite("Concurrent requests, large bodies and failing disks")
struct ConcurrencyTests {
    private struct Unreachable: Error {}

    @Test("ten requests for each of a hundred URLs, or a hundred for each, send a hundred", .timeLimit(.minutes(10)))
    func storm() async throws {
        let requests = LongRun.isOn ? 10_000 : 1_000
        let door = Door()
        let web = try Web { _ in
        } _: { request in
            await door.pass()
            return Web.Reply(200, "Cache-Control: max-age=60", body: request.url?.path ?? "")
        }
        let cache = web.cache
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<requests {
                let path = "/\(number % 100)"
                group.addTask {
                    let url = URL(string: "http://example.com\(path)")!
                    return try await cache.data(from: url).0 == Data(path.utf8)
                }
            }
            await door.waitForArrivals(100)
            door.open()
            for try await isRight in group { #expect(isRight) }
        }
        #expect(web.server.takeRequests().count == 100)
        let counts = cache.statistics
        #expect(counts.misses == 100 && counts.hits + counts.collapsed == requests - 100)
    }

    @Test("a follower takes only a response that it could have found stored", arguments: ["no-store", "max-age=60"])
    func followers(directive: String) async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { request in
            let value = request.value(forHTTPHeaderField: "Foo") ?? ""
            if value == "1" { await door.pass() }
            return Web.Reply(200, "Cache-Control: \(directive)", "Vary: Foo", body: value)
        }
        let cache = web.cache
        let first = Task { try await cache.data(for: Web.request("Foo: 1")) }
        await door.waitForArrivals()
        let second = Task { try await cache.data(for: Web.request("Foo: 2")) }
        let third = Task { try await cache.data(for: Web.request("Foo: 1")) }
        door.open()
        #expect(try await first.value.0 == Data("1".utf8))
        #expect(try await second.value.0 == Data("2".utf8))
        #expect(try await third.value.0 == Data("1".utf8))
        let requests = web.server.takeRequests().count
        #expect(directive == "no-store" ? requests == 3 : requests == 2)
    }

    @Test("the followers of a failed request fail with it")
    func failures() async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { _ in
            await door.pass()
            throw Unreachable()
        }
        let cache = web.cache
        let requests = (1...50).map { _ in Task { try await cache.data(from: Web.url) } }
        await door.waitForArrivals()
        door.open()
        for request in requests { await #expect(throws: Unreachable.self) { try await request.value } }
    }

    @Test("a process killed in any call while it stores leaves the response or nothing")
    func kills() async throws {
        var isKilled = true
        var number = 0
        while isKilled {
            number += 1
            let reached = Flag()
            let call = number
            var web = try Web { $0.memory = nil }
            web.server.reply(200, "Cache-Control: max-age=60", "Vary: Foo", "ETag: \"a\"")
            _ = try await web.get("Foo: 0")
            web.files.inject { current, _ in
                guard current == call else { return nil }
                reached.set()
                return .kill
            }
            #expect(try await web.get("Foo: 1").0 == "body")
            isKilled = reached.isSet
            try web.restart()
            web.server.reply(200, "Cache-Control: max-age=60", body: "new")
            let (text, status) = try await web.get("Foo: 1")
            #expect(text == (status.contains("hit") ? "body" : "new"), "killed in call \(number)")
            #expect(try await web.get("Foo: 0").0 == (text == "new" ? "new" : "body"))
        }
        #expect(number > 3)
    }

    @Test("two processes share what they have stored, and an invalidation reaches both")
    func processes() async throws {
        let web = try Web()
        let other = try HTTPCache(
            directory: URL(fileURLWithPath: "/web"), transport: web.server, fileSystem: web.files.another(),
            clock: web.clock)
        web.server.reply(200, "Cache-Control: max-age=60")
        _ = try await web.get()
        #expect(try await other.data(from: Web.url).1.cacheStatus.isHit)
        _ = try await other.data(for: Web.request(method: "DELETE"))
        #expect(try await web.get().1 == "Larder; fwd=uri-miss; stored; ttl=60")
    }

    @Test("the followers of a cancelled request go on")
    func cancellation() async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { _ in
            await door.pass()
            try Task.checkCancellation()
            return Web.Reply(200, "Cache-Control: max-age=60")
        }
        let cache = web.cache
        let leader = Task { try await cache.data(from: Web.url) }
        await door.waitForArrivals()
        let follower = Task { try await cache.data(from: Web.url) }
        leader.cancel()
        door.open()
        await #expect(throws: CancellationError.self) { try await leader.value }
        #expect(try await follower.value.1.status == 200)
    }

    @Test("the answer to a request that an invalidation has overtaken is not stored")
    func overtaken() async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { request in
            if request.httpMethod == "POST" { return Web.Reply(201) }
            await door.pass()
            return Web.Reply(200, "Cache-Control: max-age=60")
        }
        let cache = web.cache
        let old = Task { try await cache.data(from: Web.url) }
        await door.waitForArrivals()
        _ = try await cache.data(for: Web.request(method: "POST"))
        door.open()
        #expect(try await !old.value.1.cacheStatus.isStored)
        #expect(try await web.get().1 == "Larder; fwd=uri-miss; stored; ttl=60")
    }

    @Test("a full disk costs the cache, not the answers")
    func fullDisk() async throws {
        let web = try Web { $0.memory = nil }
        web.server.reply(200, "Cache-Control: max-age=60", body: String(repeating: "x", count: 100_000))
        web.files.limitFreeSpace(to: 0)
        #expect(try await web.get().0.count == 100_000)
        #expect(try await web.get().1 == "Larder; fwd=uri-miss")
        web.files.limitFreeSpace(to: nil)
        _ = try await web.get()
        #expect(try await web.get().1 == "Larder; hit; ttl=60")
    }

    @Test("a large body is spooled, stored and downloaded as a file")
    func spooling() async throws {
        let folder = try TemporaryDirectory()
        let body = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ $0 >> 8) })
        let server = ScriptedTransport { _ in
            let parts = AsyncStream<Data> { stream in
                for start in stride(from: 0, to: body.count, by: 7000) {
                    stream.yield(body[start..<min(start + 7000, body.count)])
                }
                stream.finish()
            }
            return Web.Reply(200, ["Cache-Control: max-age=60", "Content-Length: \(body.count)"], HTTPBody(parts))
        }
        var configuration = HTTPCache.Configuration()
        configuration.spoolLimit = 10_000
        let cache = try HTTPCache(
            directory: folder.appending("web"), transport: server, configuration: configuration,
            fileSystem: PosixFileSystem(), clock: ManualClock())
        for status in ["Larder; fwd=uri-miss; stored; ttl=60", "Larder; hit; ttl=60"] {
            let (url, response) = try await cache.download(for: URLRequest(url: Web.url))
            #expect(response.cacheStatus.description == status)
            #expect(try Data(contentsOf: url) == body)
            try FileManager.default.removeItem(at: url)
        }
        #expect(try await cache.data(from: Web.url).0 == body)
        #expect(server.takeRequests().count == 1)
        try await cache.close()
    }

    @Test("each request is an event")
    func events() async throws {
        let events = Lock<[HTTPCacheEvent]>([])
        let web = try Web { $0.onEvent = { event in events.withLock { $0.append(event) } } }
        web.server.reply(200, "Cache-Control: max-age=60")
        _ = try await web.get()
        _ = try await web.get()
        let texts = events.withLock { $0.map(\.description) }
        #expect(
            texts == [
                "GET http://example.com/page 200: Larder; fwd=uri-miss; stored; ttl=60",
                "GET http://example.com/page 200: Larder; hit; ttl=60",
            ])
        #expect(events.withLock { $0.map(\.bytesSaved) } == [0, 4])
    }
}
