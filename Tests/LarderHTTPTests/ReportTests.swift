import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("Events and statistics say what has happened")
struct ReportTests {
    private struct Unreachable: Error {}

    /// A cache with its events.
    private func reporting() throws -> (Web, Lock<[HTTPCacheEvent]>) {
        let events = Lock<[HTTPCacheEvent]>([])
        return (try Web { $0.onEvent = { event in events.withLock { $0.append(event) } } }, events)
    }

    @Test("new and validated answers are no stale answers, whatever their age")
    func staleAnswers() async throws {
        let web = try Web()
        let clock = web.clock
        web.server.reply { request in
            clock.advance(by: .milliseconds(50))
            return request.value(forHTTPHeaderField: "If-None-Match") == nil
                ? Web.Reply(200, "Cache-Control: max-age=0, must-revalidate", "ETag: \"a\"")
                : Web.Reply(304, "ETag: \"a\"", body: "")
        }
        for _ in 1...2 { _ = try await web.get() }
        #expect(web.cache.statistics.staleAnswers == 0)
        _ = try await web.get(mode: .onlyIfCached)
        web.server.reply(200, "Cache-Control: max-age=1", body: "new")
        _ = try await web.get()
        web.clock.advance(by: .seconds(2))
        _ = try await web.get(mode: .forceCache)
        #expect(web.cache.statistics.staleAnswers == 1)
    }

    @Test("a request that fails is an event, and counts")
    func failures() async throws {
        let (web, events) = try reporting()
        web.server.reply { _ in throw Unreachable() }
        let url = URL(string: "http://ann:hunter2@example.com/page")!
        await #expect(throws: Unreachable.self) { try await web.get(url: url) }
        await #expect(throws: HTTPCacheError.self) { try await web.get(url: URL(string: "ftp://example.com/")!) }
        let texts = events.withLock { $0.map(\.description) }
        #expect(texts.count == 2 && texts[0] == "GET http://example.com/page failed: Unreachable()")
        #expect(texts[1].hasPrefix("GET ftp://example.com/ failed: "))
        #expect(events.withLock { $0.first?.error is Unreachable && $0.first?.status == 0 })
        let counts = web.cache.statistics
        #expect((counts.failures, counts.misses, counts.hits) == (2, 0, 0))
    }

    @Test("a validation in the background is an event, and counts, also when it fails")
    func background() async throws {
        let (web, events) = try reporting()
        web.server.reply(200, "Cache-Control: max-age=1, stale-while-revalidate=600", "ETag: \"a\"")
        _ = try await web.get()
        let answers: [@Sendable () throws -> Web.Reply] = [
            { Web.Reply(304, "ETag: \"a\"", body: "") }, { throw Unreachable() },
            { Web.Reply(200, "Cache-Control: max-age=1, stale-while-revalidate=600", body: "new") },
        ]
        for answer in answers {
            web.clock.advance(by: .seconds(5))
            web.server.reply { _ in try answer() }
            _ = try await web.get()
            await web.cache.waitForRevalidations()
        }
        let texts = events.withLock { $0.filter(\.isInBackground).map(\.description) }
        #expect(
            texts == [
                "GET http://example.com/page in the background 200: "
                    + "Larder; fwd=stale; fwd-status=304; stored; ttl=1",
                "GET http://example.com/page in the background failed: Unreachable()",
                "GET http://example.com/page in the background 200: Larder; fwd=stale; stored; ttl=1",
            ])
        let counts = web.cache.statistics
        #expect((counts.hits, counts.misses, counts.revalidations, counts.failures) == (3, 2, 1, 1))
        #expect((counts.staleAnswers, counts.bytesSaved) == (3, 12))
    }

    @Test("an error of the server in the background is an event, and no stale answer")
    func backgroundError() async throws {
        let (web, events) = try reporting()
        web.server.reply(200, "Cache-Control: max-age=1, stale-while-revalidate=60, stale-if-error=60")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply(503)
        _ = try await web.get()
        await web.cache.waitForRevalidations()
        let last = events.withLock { $0.last?.cacheStatus.description }
        #expect(last == "Larder; fwd=stale; fwd-status=503; ttl=-4; detail=stale-if-error")
        #expect(web.cache.statistics.staleAnswers == 1)
    }

    @Test("invalidations count URLs, whether anything was stored or not")
    func invalidations() async throws {
        let web = try Web()
        web.server.reply(201, "Location: /new")
        _ = try await web.cache.data(for: Web.request(method: "POST"))
        #expect(web.cache.statistics.invalidations == 2)
    }

    @Test("no description has a password")
    func passwords() async throws {
        let url = URL(string: "http://ann:hunter2@example.com/page")!
        let web = try Web()
        let (_, response) = try await web.cache.data(from: url)
        #expect(response.description == "200 http://example.com/page (Larder; fwd=uri-miss)")
        #expect(response.url == url)
        #expect(HTTPRequestHead(url).description == "GET http://example.com/page")
        let error = await #expect(throws: HTTPCacheError.self) {
            try await web.get(url: URL(string: "ftp://ann:hunter2@example.com/")!)
        }
        #expect(error?.message == "ftp://example.com/ is not an http or https URL with a host.")
    }
}
