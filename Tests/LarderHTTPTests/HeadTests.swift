import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("A HEAD updates what is stored, or shows that it is outdated")
struct HeadTests {
    private func head(
        _ web: Web, _ lines: String..., mode: HTTPCacheMode? = nil
    ) async throws -> HTTPCacheResponse {
        var request = Web.request(method: "HEAD")
        for field in fields(lines) { request.addValue(field.value, forHTTPHeaderField: field.name) }
        return try await web.cache.data(for: request, mode: mode).1
    }

    @Test("a 200 does not renew a stored 404")
    func otherStatus() async throws {
        let web = try Web()
        web.server.reply(404, "Cache-Control: max-age=10", body: "not here")
        #expect(try await web.cache.data(from: Web.url).1.status == 404)
        web.clock.advance(by: .seconds(11))
        web.server.reply(200, "Cache-Control: max-age=3600", body: "")
        #expect(try await head(web).status == 200)
        web.server.reply(200, "Cache-Control: max-age=3600", body: "here")
        #expect(try await web.get() == ("here", "Larder; fwd=uri-miss; stored; ttl=3600"))
    }

    @Test("a HEAD that adds Vary keeps the response")
    func addedVary() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1", "ETag: \"a\"")
        _ = try await web.get("Foo: 1")
        web.clock.advance(by: .seconds(2))
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", "Vary: Foo", body: "")
        #expect(try await head(web, "Foo: 1").cacheStatus.isStored)
        #expect(try await web.get("Foo: 1") == ("body", "Larder; hit; ttl=60"))
        #expect(try await web.get("Foo: 2").1.contains("fwd=vary-miss"))
    }

    @Test(
        "a shorter life, or no-store, holds after the index is lost", arguments: ["max-age=1", "no-store"])
    func shortened(directive: String) async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.server.reply(200, "Cache-Control: \(directive)", "ETag: \"a\"", body: "")
        _ = try await head(web, mode: .reload)
        try web.restart(index: false)
        web.clock.advance(by: .seconds(2))
        #expect(try await !web.get().1.contains("hit"))
    }

    @Test("the length of a body that was stored without one is known")
    func length() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1", "ETag: \"a\"")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", "Content-Length: 4", body: "")
        #expect(try await head(web).cacheStatus.isStored)
        #expect(try await web.get() == ("body", "Larder; hit; ttl=60"))
    }

    @Test(
        "another content makes the stored response stale, which is validated even after the index is lost",
        arguments: ["ETag: \"b\"", "ETag: \"a\"", "Content-Length: 5", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"],
        [true, false])
    func otherContent(line: String, keepsIndex: Bool) async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", "ETag: W/\"a\"")
        _ = try await web.get()
        web.server.reply(200, "Cache-Control: max-age=600", line, body: "")
        let status = try await head(web, mode: .reload).cacheStatus
        #expect(status.forwarding == .request && !status.isStored)
        try web.restart(index: keepsIndex)
        _ = web.server.takeRequests()
        web.server.reply(304, "ETag: W/\"a\"", body: "")
        #expect(try await web.get() == ("body", "Larder; fwd=stale; fwd-status=304; stored; ttl=600"))
        #expect(web.server.takeRequests().map { $0.value(forHTTPHeaderField: "If-None-Match") } == ["W/\"a\""])
        #expect(try await web.get() == ("body", "Larder; hit; ttl=600"))
    }

    @Test("another content than that of a response which is stale already changes nothing")
    func alreadyStale() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1", "ETag: W/\"a\"")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply(200, "ETag: \"a\"", body: "")
        #expect(try await head(web).cacheStatus.description == "Larder; fwd=stale")
        #expect(web.cache.statistics.stores == 1)
        #expect(try await web.get(mode: .onlyIfCached) == ("body", "Larder; hit; ttl=-4"))
    }

    @Test("another content removes a stored response that cannot be validated")
    func noValidator() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600")
        _ = try await web.get()
        web.server.reply(200, "Content-Length: 5", body: "")
        _ = try await head(web, mode: .reload)
        #expect(try await web.get(mode: .onlyIfCached).1 == "Larder; detail=only-if-cached")
    }

    @Test("a resource that is gone is removed, with every variant that the request selects", arguments: [404, 410])
    func gone(status: Int) async throws {
        let web = try Web()
        for vary in ["Foo", "Bar"] {
            web.server.reply(200, "Cache-Control: max-age=600", "Vary: \(vary)", "ETag: \"a\"")
            _ = try await web.get("Foo: 1", "Bar: 1", mode: .reload)
            web.clock.advance(by: .seconds(1))
        }
        web.server.reply(status, body: "")
        _ = try await head(web, "Foo: 1", "Bar: 1", mode: .reload)
        #expect(try await web.get("Foo: 1", "Bar: 1", mode: .onlyIfCached).1 == "Larder; detail=only-if-cached")
    }

    @Test("stale-if-error is for a HEAD, too")
    func staleIfError() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1, stale-if-error=60", "X: 1")
        _ = try await web.get()
        web.clock.advance(by: .seconds(5))
        web.server.reply(503, body: "")
        let response = try await head(web)
        #expect(response.status == 200 && response.value(forHTTPHeaderField: "X") == "1")
        #expect(
            response.cacheStatus.description == "Larder; fwd=stale; fwd-status=503; ttl=-4; detail=stale-if-error")
    }

    @Test("a validation of the caller's own goes to the server")
    func ownValidators() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", "ETag: \"a\"")
        _ = try await web.get()
        web.server.reply(304, "ETag: \"mine\"", body: "")
        let response = try await head(web, "If-None-Match: \"mine\"")
        #expect(response.status == 304 && response.cacheStatus.description == "Larder; fwd=bypass")
        #expect(try await web.get() == ("body", "Larder; hit; ttl=600"))
    }
}
