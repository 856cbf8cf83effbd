import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("Stale responses and modes")
struct StaleTests {
    private struct Unreachable: Error {}

    @Test("stale-while-revalidate answers at once and validates in the background")
    func staleWhileRevalidate() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1, stale-while-revalidate=60", "ETag: \"a\"", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply(200, "Cache-Control: max-age=60", body: "new")
        #expect(try await web.get() == ("old", "Larder; hit; ttl=-4; detail=stale-while-revalidate"))
        await web.cache.waitForRevalidations()
        #expect(try await web.get() == ("new", "Larder; hit; ttl=60"))
        #expect(web.server.takeRequests().last?.value(forHTTPHeaderField: "If-None-Match") == "\"a\"")
        #expect(web.cache.statistics.staleAnswers == 1)
    }

    @Test("an outage of the server is answered with a stale response where it allows that")
    func staleIfError() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1, stale-if-error=60", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply(503)
        #expect(
            try await web.get() == ("old", "Larder; fwd=stale; fwd-status=503; ttl=-4; detail=stale-if-error"))
        web.clock.advance(by: .seconds(60))
        #expect(try await web.cache.data(from: Web.url).1.status == 503)
    }

    @Test("a server that cannot be reached is answered for by a stale response for a week")
    func disconnected() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1", body: "old")
        _ = try await web.get()
        web.server.reply { _ in throw Unreachable() }
        web.clock.advance(by: .seconds(7 * 86_400))
        #expect(try await web.get() == ("old", "Larder; fwd=stale; ttl=-604799; detail=disconnected"))
        await #expect(throws: Unreachable.self) { try await web.get("Cache-Control: no-cache") }
        await #expect(throws: Unreachable.self) { try await web.get(mode: .noCache) }
        await #expect(throws: Unreachable.self) { try await web.get(mode: .reload) }
        web.clock.advance(by: .seconds(2))
        await #expect(throws: Unreachable.self) { try await web.get() }
    }

    @Test("a request that limits the age of its answer gets the server's error", arguments: ["no-cache", "max-age=0"])
    func limitedAge(directive: String) async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60, stale-if-error=600", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(1))
        web.server.reply(503, body: "down")
        #expect(try await web.get("Cache-Control: \(directive)") == ("down", "Larder; fwd=request"))
        web.server.reply { _ in throw Unreachable() }
        let request = "Cache-Control: max-age=0, stale-if-error=600"
        #expect(try await web.get(request) == ("old", "Larder; fwd=request; ttl=59; detail=disconnected"))
    }

    @Test("must-revalidate forbids a stale answer, whoever fails")
    func mustRevalidate() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1, must-revalidate, stale-if-error=60")
        _ = try await web.get()
        web.clock.advance(by: .seconds(1))
        web.server.reply { _ in throw Unreachable() }
        await #expect(throws: Unreachable.self) { try await web.get() }
        web.server.reply(503)
        #expect(try await web.cache.data(from: Web.url).1.status == 503)
    }

    @Test("a connection that is cut in the body is a server that cannot be reached")
    func cutBody() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(1))
        web.server.reply { _ in
            let parts = AsyncThrowingStream<Data, any Error> { stream in
                stream.yield(Data("half".utf8))
                stream.finish(throwing: Unreachable())
            }
            return Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts))
        }
        #expect(try await web.get().0 == "old")
        try await web.cache.removeResponses(for: Web.url)
        await #expect(throws: Unreachable.self) { try await web.get() }
        web.server.reply()
        #expect(try await web.get().1 == "Larder; fwd=uri-miss")
    }

    @Test("the six modes of Fetch use the cache as they say")
    func modes() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", body: "1")
        #expect(try await web.get(mode: .onlyIfCached) == ("", "Larder; detail=only-if-cached"))
        #expect(try await web.get(mode: .noStore) == ("1", "Larder; fwd=bypass"))
        #expect(try await web.get(mode: .forceCache) == ("1", "Larder; fwd=uri-miss; stored; ttl=60"))
        web.clock.advance(by: .seconds(100))
        #expect(try await web.get(mode: .forceCache).1 == "Larder; hit; ttl=-40")
        #expect(try await web.get(mode: .onlyIfCached).1 == "Larder; hit; ttl=-40")
        _ = web.server.takeRequests()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"b\"", body: "2")
        #expect(try await web.get(mode: .reload) == ("2", "Larder; fwd=request; stored; ttl=60"))
        #expect(try await web.get(mode: .noCache) == ("2", "Larder; fwd=request; stored; ttl=60"))
        let requests = web.server.takeRequests()
        #expect(requests.map { $0.value(forHTTPHeaderField: "Cache-Control") } == ["no-cache", "max-age=0"])
        #expect(requests.map { $0.value(forHTTPHeaderField: "If-None-Match") } == [nil, "\"b\""])
    }

    @Test("the mode comes from URLRequest's policy")
    func cachePolicy() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60")
        func status(_ policy: URLRequest.CachePolicy) async throws -> String {
            var request = URLRequest(url: Web.url)
            request.cachePolicy = policy
            return try await web.cache.data(for: request).1.cacheStatus.description
        }
        #expect(try await status(.returnCacheDataDontLoad) == "Larder; detail=only-if-cached")
        #expect(try await status(.useProtocolCachePolicy) == "Larder; fwd=uri-miss; stored; ttl=60")
        #expect(try await status(.reloadIgnoringLocalCacheData) == "Larder; fwd=request; stored; ttl=60")
        #expect(try await status(.reloadRevalidatingCacheData) == "Larder; fwd=request; stored; ttl=60")
        #expect(try await status(.returnCacheDataElseLoad) == "Larder; hit; ttl=60")
    }

    @Test("the directive only-if-cached answers 504 without a fresh response")
    func onlyIfCached() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60")
        let request = Web.request("Cache-Control: only-if-cached")
        #expect(try await web.cache.data(for: request).1.status == 504)
        _ = try await web.get()
        #expect(try await web.cache.data(for: request).1.cacheStatus.isHit)
        web.clock.advance(by: .seconds(60))
        #expect(try await web.cache.data(for: request).1.status == 504)
        #expect(web.server.takeRequests().count == 1)
    }

    @Test("the caller's own validators get the server's answer")
    func ownValidators() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.server.reply(304, "ETag: \"mine\"", body: "")
        let (_, response) = try await web.cache.data(for: Web.request("If-None-Match: \"mine\""))
        #expect(response.status == 304 && response.cacheStatus.forwarding == .bypass)
        #expect(web.server.takeRequests().last?.value(forHTTPHeaderField: "If-None-Match") == "\"mine\"")
        #expect(try await web.get().1 == "Larder; hit; ttl=60")
    }

    @Test("a validation in the background is of the whole response, whatever part was asked for")
    func wholeRevalidation() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60, stale-while-revalidate=60", "ETag: \"a\"", body: "old body")
        _ = try await web.get()
        web.clock.advance(by: .seconds(61))
        web.server.reply(200, "Cache-Control: max-age=60, stale-while-revalidate=60", "ETag: \"b\"", body: "new body")
        #expect(try await web.get("Range: bytes=0-2", "If-Range: \"a\"").0 == "old")
        await web.cache.waitForRevalidations()
        let requests = web.server.takeRequests()
        #expect(requests.count == 2 && requests.last?.value(forHTTPHeaderField: "Range") == nil)
        #expect(try await web.get() == ("new body", "Larder; hit; ttl=60"))
        web.clock.advance(by: .seconds(61))
        let (_, head) = try await web.cache.data(for: Web.request(method: "HEAD"))
        #expect(head.cacheStatus.description == "Larder; hit; ttl=-1; detail=stale-while-revalidate")
        await web.cache.waitForRevalidations()
        #expect(web.server.takeRequests().map(\.httpMethod) == ["GET"])
        // The validation that a HEAD begins keeps the body.
        web.clock.advance(by: .seconds(61))
        web.server.reply(304, "Cache-Control: max-age=90, stale-while-revalidate=60", "ETag: \"b\"", body: "")
        _ = try await web.cache.data(for: Web.request(method: "HEAD"))
        await web.cache.waitForRevalidations()
        #expect(try await web.get() == ("new body", "Larder; hit; ttl=90"))
    }
}
