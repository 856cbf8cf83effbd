import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting
import Testing

@Suite("Requests under way", .timeLimit(.minutes(10)))
struct FlightTests {
    @Test("requests for different variants of a URL do not wait for each other once Vary is known")
    func variants() async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { request in
            let value = request.value(forHTTPHeaderField: "Accept-Language") ?? ""
            if value != "en" { await door.pass() }
            return Web.Reply(200, "Cache-Control: max-age=60", "Vary: Accept-Language", body: value)
        }
        _ = try await web.get("Accept-Language: en")
        let cache = web.cache
        let languages = ["de", "fr", "de", "fr"]
        let requests = languages.map { language in
            Task { try await cache.data(for: Web.request("Accept-Language: \(language)")) }
        }
        // Both come to the server before it answers one of them.
        await door.waitForArrivals(2)
        door.open()
        for (language, request) in zip(languages, requests) {
            #expect(try await request.value.0 == Data(language.utf8))
        }
        #expect(web.server.takeRequests().count == 3)
    }

    @Test("a body that ends because its reader was cancelled is not taken for a whole one")
    func cancelledBody() async throws {
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        let begun = Door()
        let web = try Web { _ in
        } _: { _ in
            stream.yield(Data("half".utf8))
            begun.open()
            await begun.pass()
            return Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts))
        }
        let cache = web.cache
        let request = Task { try await cache.data(from: Web.url) }
        await begun.waitForArrivals()
        request.cancel()
        await #expect(throws: CancellationError.self) { try await request.value }
        #expect(try await web.get(mode: .onlyIfCached).1 == "Larder; detail=only-if-cached")
    }

    private struct Unreachable: Error {}

    /// Fifty requests for a stale response, which wait for the first of them. Returns what they got.
    private func fifty(
        _ web: Web, _ directives: String, _ answer: @escaping @Sendable () throws -> Web.Reply
    ) async throws -> [(data: Data, status: HTTPCacheStatus)] {
        web.server.reply(200, "Cache-Control: \(directives)", "ETag: \"a\"", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        _ = web.server.takeRequests()
        let door = Door()
        web.server.reply { _ in
            await door.pass()
            return try answer()
        }
        let cache = web.cache
        let requests = (1...50).map { _ in Task { try await cache.data(from: Web.url) } }
        await door.waitForArrivals()
        await web.waitForFollowers(49)
        door.open()
        var answers: [(data: Data, status: HTTPCacheStatus)] = []
        for request in requests {
            let (data, response) = try await request.value
            answers.append((data, response.cacheStatus))
        }
        return answers
    }

    @Test("one 304 is enough for fifty requests")
    func validated() async throws {
        let web = try Web()
        let answers = try await fifty(web, "max-age=1") { Web.Reply(304, "Cache-Control: max-age=60", body: "") }
        #expect(answers.allSatisfy { $0.data == Data("old".utf8) && $0.status.ttl == 60 })
        #expect(answers.count { $0.status.isCollapsed } == 49)
        #expect(web.server.takeRequests().count == 1)
        #expect(web.cache.statistics.revalidations == 1 && web.cache.statistics.collapsed == 49)
    }

    @Test("one failed connection is enough for fifty requests with a stale answer")
    func disconnected() async throws {
        let web = try Web()
        let answers = try await fifty(web, "max-age=1") { throw Unreachable() }
        #expect(answers.allSatisfy { $0.data == Data("old".utf8) && $0.status.detail == "disconnected" })
        #expect(answers.count { $0.status.isCollapsed } == 49)
        #expect(web.server.takeRequests().count == 1)
        #expect(web.cache.statistics.staleAnswers == 50 && web.cache.statistics.failures == 0)
    }

    @Test("one error of the server is enough for fifty requests with stale-if-error")
    func refused() async throws {
        let web = try Web()
        let answers = try await fifty(web, "max-age=1, stale-if-error=60") { Web.Reply(503) }
        #expect(answers.allSatisfy { $0.data == Data("old".utf8) && $0.status.detail == "stale-if-error" })
        #expect(answers.allSatisfy { $0.status.forwardedStatus == 503 })
        #expect(web.server.takeRequests().count == 1)
        #expect(web.cache.statistics.staleAnswers == 50)
    }

    @Test("a request that accepts no stale answer asks for itself", arguments: [true, false])
    func stricterFollower(isReachable: Bool) async throws {
        let door = Door()
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1, stale-if-error=60", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply { request in
            if request.value(forHTTPHeaderField: "Cache-Control") != nil { return Web.Reply(200, body: "new") }
            await door.pass()
            if isReachable { return Web.Reply(503) }
            throw Unreachable()
        }
        let cache = web.cache
        let leader = Task { try await cache.data(from: Web.url) }
        await door.waitForArrivals()
        let follower = Task { try await cache.data(for: Web.request("Cache-Control: max-age=100")) }
        await web.waitForFollowers(1)
        door.open()
        #expect(try await leader.value.0 == Data("old".utf8))
        if isReachable {
            #expect(try await follower.value.0 == Data("new".utf8))
        } else {
            await #expect(throws: Unreachable.self) { try await follower.value }
        }
    }

    @Test("a request does not fail with one that was to give up sooner, nor wait for one that waits longer")
    func timeouts() async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { request in
            await door.pass()
            if request.timeoutInterval < 2 { throw URLError(.timedOut) }
            return Web.Reply(200, "Cache-Control: max-age=60")
        }
        let cache = web.cache
        var short = URLRequest(url: Web.url)
        short.timeoutInterval = 1
        let requests = [short, URLRequest(url: Web.url)].map { request in
            Task { try await cache.data(for: request).1.status }
        }
        await door.waitForArrivals(2)
        door.open()
        await #expect(throws: URLError.self) { try await requests[0].value }
        #expect(try await requests[1].value == 200)
    }

    @Test(
        "a request waits for no body that is of no use to it",
        arguments: [
            ["Cache-Control: no-store"], ["Cache-Control: no-cache"], ["Cache-Control: max-age=60", "Vary: X"],
        ],
        [false, true])
    func useless(fields: [String], waits: Bool) async throws {
        let (door, requests) = (Door(), Lock(0))
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        let web = try Web { _ in
        } _: { _ in
            let number = requests.withLock { number in
                number += 1
                return number
            }
            if number > 1 { return Web.Reply(200, "Cache-Control: no-store", body: "own") }
            await door.pass()
            return Web.Reply(200, fields, HTTPBody(parts))
        }
        let cache = web.cache
        let leader = Task { try await cache.data(for: Web.request("X: 1")) }
        await door.waitForArrivals()
        if !waits {
            door.open()
            stream.yield(Data("a".utf8))
        }
        let follower = Task { try await cache.data(for: Web.request("X: 2")).0 }
        if waits {
            await web.waitForFollowers(1)
            door.open()
        }
        #expect(try await follower.value == Data("own".utf8))
        stream.finish()
        _ = try await leader.value
    }

    @Test("a request waits for another one for no longer than for a server", arguments: [false, true])
    func ownTimeout(hasStale: Bool) async throws {
        let web = try Web()
        if hasStale {
            web.server.reply(200, "Cache-Control: max-age=1", "ETag: \"a\"", body: "old")
            _ = try await web.get()
            web.clock.advance(by: .seconds(1))
        }
        let door = Door()
        web.server.reply { _ in
            await door.pass()
            return Web.Reply(200, "Cache-Control: max-age=60", body: "new")
        }
        let cache = web.cache
        var request = URLRequest(url: Web.url)
        request.timeoutInterval = 2
        let requests = [request, request].map { request in Task { try await cache.data(for: request).0 } }
        await web.waitForFollowers(1)
        web.clock.advance(by: .milliseconds(1_999))
        #expect(cache.waitingRequests == 1)
        web.clock.advance(by: .milliseconds(1))
        await eventually { cache.waitingRequests == 0 }
        door.open()
        var answers: [String] = []
        for request in requests {
            do {
                answers.append(String(decoding: try await request.value, as: UTF8.self))
            } catch {
                answers.append((error as? URLError)?.code == .timedOut ? "timed out" : "\(error)")
            }
        }
        #expect(answers.sorted() == (hasStale ? ["new", "old"] : ["new", "timed out"]))
    }

    @Test("closing cancels a validation whose server never ends its answer, and waiting for it can be cancelled")
    func endlessValidation() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1, stale-while-revalidate=60", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(1))
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        let isCancelled = Door()
        stream.onTermination = { _ in isCancelled.open() }
        web.server.reply { _ in Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts)) }
        _ = web.server.takeRequests()
        #expect(try await web.get().0 == "old")
        await eventually { !web.server.takeRequests().isEmpty }
        let cache = web.cache
        let waiting = Task { await cache.waitForRevalidations() }
        waiting.cancel()
        await waiting.value
        let scheduled = web.clock.scheduledCount
        let closing = Task { try await cache.close() }
        await eventually { web.clock.scheduledCount > scheduled }
        web.clock.advance(by: .seconds(5))
        try await closing.value
        await isCancelled.pass()
    }

    @Test("no-store of the first request leaves the others to ask, that of another takes what is stored")
    func noStoreRequests() async throws {
        let (plain, noStore) = ("X: 1", "Cache-Control: no-store")
        for (first, second, requests) in [(noStore, plain, 2), (plain, noStore, 1)] {
            let door = Door()
            let web = try Web { _ in
            } _: { _ in
                await door.pass()
                return Web.Reply(200, "Cache-Control: max-age=60")
            }
            let cache = web.cache
            let leader = Task { try await cache.data(for: Web.request(first)) }
            await door.waitForArrivals()
            let follower = Task { try await cache.data(for: Web.request(second)) }
            await web.waitForFollowers(1)
            door.open()
            #expect(try await leader.value.1.cacheStatus.isStored == (requests == 1))
            #expect(try await follower.value.1.cacheStatus.isCollapsed == (requests == 1))
            #expect(web.server.takeRequests().count == requests)
        }
    }
}
