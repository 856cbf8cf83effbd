import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("Requests are answered from the cache")
struct CachingTests {
    @Test("a fresh response is the answer until it is stale, and then validated without its body")
    func life() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", "X: 1")
        #expect(try await web.get() == ("body", "Larder; fwd=uri-miss; stored; ttl=60"))
        web.clock.advance(by: .seconds(59))
        #expect(try await web.get() == ("body", "Larder; hit; ttl=1"))
        #expect(web.server.takeRequests().count == 1)
        web.clock.advance(by: .seconds(1))
        web.server.reply(304, "Cache-Control: max-age=30", "ETag: \"a\"", body: "")
        #expect(try await web.get() == ("body", "Larder; fwd=stale; fwd-status=304; stored; ttl=30"))
        #expect(web.server.takeRequests().map { $0.value(forHTTPHeaderField: "If-None-Match") } == ["\"a\""])
        web.clock.advance(by: .seconds(29))
        #expect(try await web.get() == ("body", "Larder; hit; ttl=1"))
        web.clock.advance(by: .seconds(1))
        web.server.reply(200, "Cache-Control: max-age=60", body: "new")
        #expect(try await web.get().0 == "new")
        #expect(try await web.get() == ("new", "Larder; hit; ttl=60"))
        let counts = web.cache.statistics
        #expect((counts.hits, counts.misses, counts.revalidations, counts.stores) == (3, 2, 1, 3))
        #expect((counts.bytesSaved, counts.bytesReceived) == (4 + 4 + 4 + 3, 4 + 3))
    }

    @Test("an answer from the cache has its age, its fields as they were, and our member of Cache-Status")
    func fields() async throws {
        let web = try Web()
        web.server.reply(
            200, "Cache-Control: max-age=60", "Set-Cookie: a=b", "set-cookie: c=d", "Age: 5", "Cache-Status: CDN; hit")
        _ = try await web.cache.data(from: Web.url)
        web.clock.advance(by: .seconds(3))
        let (_, response) = try await web.cache.data(from: Web.url)
        #expect(response.fields.filter { $0.name.lowercased() == "set-cookie" }.map(\.value) == ["a=b", "c=d"])
        #expect(response.value(forHTTPHeaderField: "age") == "8")
        #expect(response.value(forHTTPHeaderField: "Cache-Status") == "CDN; hit, Larder; hit; ttl=52")
        #expect(response.httpURLResponse?.statusCode == 200)
        #expect(response.url == Web.url)
    }

    @Test("responses survive a kill, and the loss of the index")
    func survival() async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "Vary: Foo")
        _ = try await web.get("Foo: 1")
        try web.restart()
        #expect(try await web.get("Foo: 1").1 == "Larder; hit; ttl=60")
        try web.restart(index: false)
        #expect(try await web.get("Foo: 1").1 == "Larder; hit; ttl=60")
        #expect(web.server.takeRequests().count == 1)
    }

    @Test("a 304 that shortens the freshness holds after the index is lost")
    func shortenedLife() async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.server.reply(304, "Cache-Control: max-age=1", "ETag: \"a\"", body: "")
        _ = try await web.get(mode: .noCache)
        try web.restart(index: false)
        web.clock.advance(by: .seconds(2))
        _ = web.server.takeRequests()
        #expect(try await web.get().1 == "Larder; fwd=stale; fwd-status=304; stored; ttl=1")
        #expect(web.server.takeRequests().count == 1)
    }

    @Test("a 304 with no-store removes the stored response for good", arguments: [true, false])
    func forbiddenLater(keepsIndex: Bool) async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.server.reply(304, "Cache-Control: no-store", "ETag: \"a\"", body: "")
        #expect(try await web.get(mode: .noCache) == ("body", "Larder; fwd=request; fwd-status=304; ttl=0"))
        try web.restart(index: keepsIndex)
        web.server.reply(200)
        #expect(try await web.get().1 == "Larder; fwd=uri-miss")
    }

    @Test("a 304 about another response is not believed: the server is asked again without validators")
    func otherResponse() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=0", "ETag: \"a\"", body: "old")
        _ = try await web.get()
        web.server.reply { request in
            request.value(forHTTPHeaderField: "If-None-Match") == nil
                ? Web.Reply(200, "ETag: \"b\"", body: "new") : Web.Reply(304, "ETag: \"b\"", body: "")
        }
        #expect(try await web.get().0 == "new")
    }

    @Test("a 304 that nobody asked for confirms nothing")
    func unasked() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60")
        _ = try await web.get()
        web.clock.advance(by: .seconds(60))
        web.server.reply(304, "Cache-Control: max-age=60", body: "")
        #expect(try await web.cache.data(from: Web.url).1.status == 304)
        web.server.reply(200, "Cache-Control: max-age=60", body: "new")
        #expect(try await web.get().0 == "new")
    }

    @Test("variants of a URL are stored side by side, and a missing field is one of them")
    func variants() async throws {
        let web = try Web()
        web.server.reply { request in
            let value = request.value(forHTTPHeaderField: "Foo") ?? "none"
            return Web.Reply(200, "Cache-Control: max-age=60", "Vary: Foo", body: value)
        }
        #expect(try await web.get("Foo: 1").1 == "Larder; fwd=uri-miss; stored; ttl=60")
        #expect(try await web.get("Foo: 2") == ("2", "Larder; fwd=vary-miss; stored; ttl=60"))
        #expect(try await web.get() == ("none", "Larder; fwd=vary-miss; stored; ttl=60"))
        #expect(try await web.get("Foo: 1") == ("1", "Larder; hit; ttl=60"))
        #expect(try await web.get("Foo: 2") == ("2", "Larder; hit; ttl=60"))
        #expect(try await web.get() == ("none", "Larder; hit; ttl=60"))
        try await web.cache.removeResponses(for: Web.url)
        #expect(try await web.get("Foo: 2").1 == "Larder; fwd=uri-miss; stored; ttl=60")
    }

    @Test("the newest of several responses that a request selects is the answer")
    func severalLists() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", "Vary: Foo", body: "by Foo")
        _ = try await web.get("Foo: 1", "Bar: 1")
        web.clock.advance(by: .seconds(1))
        web.server.reply(200, "Cache-Control: max-age=600", "Vary: Bar", body: "by Bar")
        _ = try await web.get("Foo: 1", "Bar: 1", mode: .reload)
        #expect(try await web.get("Foo: 1", "Bar: 1").0 == "by Bar")
        #expect(try await web.get("Foo: 1", "Bar: 2").0 == "by Foo")
    }

    @Test("a HEAD is answered from a stored GET, and updates a stale one")
    func head() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "X: 1")
        _ = try await web.get()
        var head = URLRequest(url: Web.url)
        head.httpMethod = "HEAD"
        let (data, response) = try await web.cache.data(for: head)
        #expect(data.isEmpty && response.cacheStatus.isHit && response.value(forHTTPHeaderField: "X") == "1")
        web.clock.advance(by: .seconds(60))
        web.server.reply(200, "Cache-Control: max-age=90", "X: 2", body: "")
        #expect(try await web.cache.data(for: head).1.cacheStatus.isStored)
        let (body, updated) = try await web.cache.data(from: Web.url)
        #expect(body == Data("body".utf8) && updated.value(forHTTPHeaderField: "X") == "2")
        #expect(updated.cacheStatus.description == "Larder; hit; ttl=90")
    }

    @Test("a stored whole answers a range, another range is the server's, and a part is not stored")
    func ranges() async throws {
        let web = try Web()
        web.server.reply(
            200, "Cache-Control: max-age=60", "Content-Length: 10", "ETag: \"a\"", "Content-Digest: sha-256=:b:",
            "Repr-Digest: sha-256=:b:", body: "0123456789")
        _ = try await web.get()
        let (part, response) = try await web.cache.data(for: Web.request("Range: bytes=2-4"))
        #expect(part == Data("234".utf8) && response.status == 206)
        #expect(response.value(forHTTPHeaderField: "Content-Range") == "bytes 2-4/10")
        #expect(response.value(forHTTPHeaderField: "Content-Length") == "3")
        #expect(response.value(forHTTPHeaderField: "Content-Digest") == nil)
        #expect(response.value(forHTTPHeaderField: "Repr-Digest") == "sha-256=:b:")
        #expect(try await web.get("Range: bytes=2-4", "If-Range: \"b\"").0 == "0123456789")
        _ = web.server.takeRequests()
        web.server.reply(206, "Cache-Control: max-age=60", "Content-Range: bytes 0-0/10", body: "0")
        #expect(try await web.get("Range: bytes=0-0,5-6").1 == "Larder; fwd=partial")
        #expect(web.server.takeRequests().count == 1)
        #expect(try await web.get() == ("0123456789", "Larder; hit; ttl=60"))
    }

    @Test("an unsafe method invalidates all variants, in every partition, unless it is refused")
    func invalidation() async throws {
        let web = try Web()
        let post = Web.request(method: "POST")
        web.server.reply(200, "Cache-Control: max-age=60", "Vary: Foo")
        _ = try await web.get("Foo: 1")
        _ = try await web.cache.data(from: Web.url, partition: "ann")
        web.server.reply(500)
        _ = try await web.cache.data(for: post)
        #expect(try await web.get("Foo: 1").1 == "Larder; hit; ttl=60")
        web.server.reply(201)
        #expect(try await web.cache.data(for: post).1.cacheStatus.description == "Larder; fwd=method")
        #expect(try await web.get("Foo: 1").1 == "Larder; fwd=uri-miss")
        #expect(try await !web.cache.data(from: Web.url, partition: "ann").1.cacheStatus.isHit)
        #expect(web.cache.statistics.invalidations == 1)
    }

    @Test("a newer answer that may not be stored replaces the stored one")
    func replacement() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(60))
        web.server.reply(200, "Cache-Control: no-store", body: "secret")
        #expect(try await web.get().0 == "secret")
        web.server.reply(200, body: "third")
        #expect(try await web.get() == ("third", "Larder; fwd=uri-miss"))
    }

    @Test("a body of another length than its fields say is an answer, but is not stored")
    func wrongLength() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "Content-Length: 100")
        #expect(try await web.get() == ("body", "Larder; fwd=uri-miss"))
    }
}
