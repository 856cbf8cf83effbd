import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("A response that has been replaced does not come back")
struct ReplacementTests {
    /// Answers that may not be stored.
    private static let answers: [@Sendable () -> Web.Reply] = [
        { Web.Reply(200, "Cache-Control: no-store", body: "new") },
        { Web.Reply(200, "Cache-Control: max-age=600", "Vary: *", body: "new") },
        { Web.Reply(200, "Cache-Control: max-age=600", "Vary: Cookie", body: "new") },
        { Web.Reply(200, "Cache-Control: max-age=600", "Content-Length: 100", body: "new") },
        { Web.Reply(302, "X: 1", body: "new") },
        { Web.Reply(404, "X: 1", body: "new") },
        { Web.Reply(410, "Cache-Control: no-store", body: "new") },
    ]

    @Test(
        "the answer to a reload, or to the caller's own validators, replaces what is stored though it is not stored",
        arguments: answers.indices, [HTTPCacheMode.reload, .default])
    func unstorable(index: Int, mode: HTTPCacheMode) async throws {
        let web = try Web()
        let validator = mode == .reload ? "X: 1" : "If-None-Match: \"mine\""
        web.server.reply(200, "Cache-Control: max-age=600", body: "old")
        _ = try await web.get()
        web.server.reply { _ in Self.answers[index]() }
        #expect(try await web.get(validator, mode: mode).0 == "new")
        #expect(try await web.get().0 == "new")
    }

    @Test("a server's error, and an answer to a part, replace nothing", arguments: [206, 304, 403, 429, 500, 503])
    func passing(status: Int) async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", body: "old")
        _ = try await web.get()
        web.server.reply(status, body: "other")
        _ = try await web.get(mode: .reload)
        #expect(try await web.get() == ("old", "Larder; hit; ttl=600"))
    }

    @Test("a part of another response, instead of a 304, replaces what is stored")
    func otherPart() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", body: "0123456789")
        _ = try await web.get()
        web.server.reply(206, "ETag: \"b\"", "Content-Range: bytes 1-2/10", body: "xx")
        #expect(try await web.get("Range: bytes=1-2", mode: .noCache) == ("xx", "Larder; fwd=request"))
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"b\"", body: "xxxxxxxxxx")
        #expect(try await web.get() == ("xxxxxxxxxx", "Larder; fwd=uri-miss; stored; ttl=60"))
    }

    @Test("an older response does not come back when the newer one is gone")
    func olderList() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=3600", "Vary: Foo", body: "v1")
        _ = try await web.get("Foo: 1", "Bar: 1")
        web.clock.advance(by: .seconds(1))
        web.server.reply(200, "Cache-Control: max-age=1", "Vary: Bar", body: "v2")
        _ = try await web.get("Foo: 1", "Bar: 1", mode: .reload)
        web.clock.advance(by: .seconds(5))
        web.server.reply(404, body: "gone")
        #expect(try await web.get("Foo: 1", "Bar: 1").0 == "gone")
        #expect(try await web.get("Foo: 1", "Bar: 1").0 == "gone")
    }

    @Test("a variant does not come back once a response without Vary has replaced it", arguments: [true, false])
    func superseded(isGone: Bool) async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=3600", "Vary: Foo", body: "v1")
        _ = try await web.get("Foo: 1")
        web.clock.advance(by: .seconds(1))
        web.server.reply(200, "Cache-Control: max-age=3600", body: "v2")
        _ = try await web.get("Foo: 1", mode: .reload)
        #expect(try await web.get("Foo: 1").0 == "v2")
        web.clock.advance(by: .seconds(1))
        if isGone {
            web.server.reply(404)
            _ = try await web.get("Foo: 1", mode: .reload)
        }
        web.server.reply(200, "Cache-Control: max-age=3600", "Vary: Foo", body: "v3")
        _ = try await web.get("Foo: 2", mode: .reload)
        #expect(try await web.get("Foo: 2").0 == "v3")
        #expect(try await web.get("Foo: 1", mode: .onlyIfCached).1 == "Larder; detail=only-if-cached")
        try web.restart(index: false)
        #expect(try await web.get("Foo: 2").0 == "v3")
        #expect(try await web.get("Foo: 1", mode: .onlyIfCached).1 == "Larder; detail=only-if-cached")
    }

    @Test("variants that were asked for at the same time are all kept, whichever is whole first")
    func simultaneous() async throws {
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        let begun = Door()
        begun.open()
        let web = try Web { _ in
        } _: { request in
            let lines = ["Cache-Control: max-age=60", "Vary: Foo"]
            let isSecond = request.value(forHTTPHeaderField: "Foo") == "2"
            if !isSecond { await begun.pass() }
            return Web.Reply(200, lines, isSecond ? HTTPBody(Data("2".utf8)) : HTTPBody(parts))
        }
        let cache = web.cache
        let slow = Task { try await cache.data(for: Web.request("Foo: 1"), mode: .reload) }
        await begun.waitForArrivals()
        for _ in 0..<100 { await Task.yield() }
        web.clock.advance(by: .seconds(1))
        _ = try await web.get("Foo: 2", mode: .reload)
        stream.yield(Data("1".utf8))
        stream.finish()
        _ = try await slow.value
        #expect(try await web.get("Foo: 1", mode: .onlyIfCached).0 == "1")
        #expect(try await web.get("Foo: 2", mode: .onlyIfCached).0 == "2")
    }

    @Test("a 304 that adds Vary keeps the response")
    func addedVary() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=1", "ETag: \"a\"")
        _ = try await web.get("Foo: 1")
        web.clock.advance(by: .seconds(2))
        web.server.reply(304, "Cache-Control: max-age=60", "ETag: \"a\"", "Vary: Foo", body: "")
        #expect(try await web.get("Foo: 1").1 == "Larder; fwd=stale; fwd-status=304; stored; ttl=60")
        #expect(try await web.get("Foo: 1") == ("body", "Larder; hit; ttl=60"))
        web.server.reply(200, "Cache-Control: max-age=60", body: "other")
        #expect(try await web.get("Foo: 2") == ("other", "Larder; fwd=vary-miss; stored; ttl=60"))
    }

    @Test("of several responses that a request selects, the one with the latest Date is the answer")
    func dates() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", "Vary: Foo", body: "newer")
        _ = try await web.get("Foo: 1", "Bar: 1")
        web.clock.advance(by: .seconds(10))
        // From a cache on the way that had it a while.
        web.server.reply(200, "Cache-Control: max-age=600", "Vary: Bar", "Date: \(web.date(60))", body: "older")
        _ = try await web.get("Foo: 1", "Bar: 1", mode: .reload)
        #expect(try await web.get("Foo: 1", "Bar: 1").0 == "newer")
        #expect(try await web.get("Foo: 2", "Bar: 1").0 == "older")
    }

    @Test("an invalidation holds after the index is lost")
    func invalidationWithoutIndex() async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "Vary: Foo", "ETag: \"a\"")
        _ = try await web.get("Foo: 1")
        web.server.reply(201)
        _ = try await web.cache.data(for: Web.request(method: "POST"))
        try web.restart(index: false)
        web.server.reply(200, "Cache-Control: max-age=60", body: "new")
        #expect(try await web.get("Foo: 1").0 == "new")
    }

    @Test("Connection hides no Vary, and no directive")
    func connection() async throws {
        let web = try Web { _ in
        } _: { request in
            let value = request.value(forHTTPHeaderField: "Foo") ?? ""
            return Web.Reply(200, "Cache-Control: max-age=60", "Vary: Foo", "Connection: Vary", body: value)
        }
        _ = try await web.get("Foo: 1")
        #expect(try await web.get("Foo: 2") == ("2", "Larder; fwd=vary-miss; stored; ttl=60"))
        web.server.reply(
            200, "Cache-Control: no-cache", "ETag: \"a\"", "Last-Modified: \(web.date(1_000_000))",
            "Connection: cache-control")
        let url = URL(string: "http://example.com/other")!
        _ = try await web.get(url: url)
        #expect(try await web.get(url: url).1.contains("fwd="))
    }
}
