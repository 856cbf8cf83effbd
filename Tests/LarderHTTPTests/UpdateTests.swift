import Foundation
import LarderHTTP
import Testing

@Suite("The policy updates and invalidates what is stored")
struct UpdateTests {
    private let policy = HTTPCachePolicy()
    private let url = URL(string: "http://example.com/a/b?c")!

    @Test("a validation has both validators of the stored response, and everything else of the request")
    func validation() {
        let modified = "Last-Modified: \(date(-10))"
        let request = HTTPRequestHead(url, fields: fields(["Accept: x"]))
        let asked = policy.validation(of: response(200, "ETag: W/\"a\"", modified), for: request)
        #expect(asked.fields == fields(["Accept: x", "If-None-Match: W/\"a\"", "If-Modified-Since: \(date(-10))"]))
        #expect(policy.validation(of: response(200, "Last-Modified: x"), for: request).fields == request.fields)
    }

    @Test("a 304 replaces the fields that it has, except those about the stored bytes")
    func merge() throws {
        let stored = response(
            200, "Cache-Control: max-age=1", "Content-Length: 5", "Set-Cookie: a", "Set-Cookie: b", "X: 1",
            "ETag: \"a\"",
            "Age: 50", "Content-Encoding: br")
        var news = response(
            304, "Cache-Control: max-age=9", "Content-Length: 0", "Set-Cookie: c", "ETag: \"a\"", "Date: \(date(5))",
            "Content-Encoding: gzip", "Connection: Y", "Y: 1")
        news.received = after(5)
        let updated = try #require(policy.updated(stored, by: news))
        #expect(updated.status == 200 && updated.received == after(5))
        #expect(
            updated.fields
                == fields([
                    "Content-Length: 5", "X: 1", "ETag: \"a\"", "Content-Encoding: br", "Cache-Control: max-age=9",
                    "Set-Cookie: c", "Date: \(date(5))",
                ]))
    }

    @Test("a 304 makes a response younger, although it says nothing about its age or date")
    func rejuvenation() throws {
        let stored = response(200, "Cache-Control: max-age=60", "Age: 59", "Date: \(date(-100))")
        var news = response(304)
        (news.requested, news.received) = (after(100), after(100))
        let updated = try #require(policy.updated(stored, by: news))
        #expect(policy.age(of: updated, at: after(101)) == 1000)
    }

    @Test("a 304 with another validator is about another response")
    func otherValidator() {
        let stored = response(200, "ETag: \"a\"")
        #expect(policy.updated(stored, by: response(304, "ETag: \"b\"")) == nil)
        #expect(policy.updated(stored, by: response(304, "ETag: W/\"b\"")) == nil)
        // nginx confirms a compressed response by the tag of the file.
        for (known, news) in [("\"a\"", "W/\"a\""), ("W/\"a\"", "\"a\"")] {
            let updated = policy.updated(response(200, "ETag: \(known)"), by: response(304, "ETag: \(news)"))
            #expect(updated?.etag == known)
        }
        #expect(policy.updated(response(200, "Last-Modified: \(date())"), by: response(304, "ETag: \"b\"")) == nil)
    }

    @Test("a HEAD that describes the same content updates it, another invalidates it")
    func head() {
        let stored = response(200, "ETag: \"a\"", "Content-Length: 5", "X: 1")
        #expect(policy.updated(stored, byHead: response(200, "X: 2"))?.fields.value(of: "X") == "2")
        #expect(policy.updated(stored, byHead: response(200, "ETag: \"a\"", "Content-Length: 5")) != nil)
        #expect(policy.updated(stored, byHead: response(200, "ETag: \"b\"")) == nil)
        #expect(policy.updated(stored, byHead: response(200, "Content-Length: 6")) == nil)
        #expect(policy.updated(stored, byHead: response(200, "Last-Modified: \(date())")) == nil)
        #expect(policy.updated(stored, byHead: response(404, "X: 2")) == nil)
        #expect(policy.updated(response(404, "X: 1"), byHead: response(200, "X: 2")) == nil)
        // Tags of another strength are not the same.
        #expect(policy.updated(stored, byHead: response(200, "ETag: W/\"a\"")) == nil)
        let unknown = response(200, "ETag: \"a\"")
        #expect(policy.updated(unknown, byHead: response(200, "Content-Length: 5")) == nil)
        #expect(policy.updated(unknown, byHead: response(200, "Content-Length: 5"), size: 5) != nil)
        #expect(policy.updated(unknown, byHead: response(200, "Content-Length: 5"), size: 4) == nil)
    }

    @Test("a response that counts as stale is so for every lifetime, until it is validated")
    func stale() throws {
        let stored = response(200, "Cache-Control: max-age=99999999999", "ETag: \"a\"", "Age: 5")
        let stale = policy.stale(stored)
        #expect(policy.remaining(of: stale, at: made) <= 0 && policy.remaining(of: stored, at: made) > 0)
        let updated = try #require(policy.updated(stale, by: response(304)))
        #expect(policy.remaining(of: updated, at: made) > policy.remaining(of: stored, at: made))
    }

    @Test("Connection of a 304 lists fields of that 304, not of the stored response")
    func connection() throws {
        let stored = response(200, "Cache-Control: no-cache", "ETag: \"a\"", "X: 1", "Y: 1")
        let news = response(304, "Connection: X, Cache-Control, Y", "ETag: \"a\"", "Y: 2")
        let updated = try #require(policy.updated(stored, by: news))
        #expect(updated.fields.value(of: "X") == "1" && updated.fields.value(of: "Y") == "1")
        #expect(updated.needsValidation)
    }

    @Test("fields that no-cache lists are in an answer only after a validation")
    func noCacheFields() {
        let stored = response(200, "Cache-Control: no-cache=\"a, B\"", "A: 1", "b: 2", "C: 3")
        let plain = policy.answerFields(of: stored, isValidated: false, at: after(3))
        #expect(plain.map(\.name) == ["Cache-Control", "C", "Age"])
        let validated = policy.answerFields(of: stored, isValidated: true, at: after(3))
        #expect(validated.value(of: "a") == "1" && validated.value(of: "Age") == "3")
    }

    @Test(
        "an unsafe method invalidates its URL and both locations of the same origin",
        arguments: ["POST", "M-SEARCH", "x"])
    func invalidation(method: String) {
        let lines = fields(["Location: c", "Content-Location: http://EXAMPLE.com:80/d"])
        let urls = policy.invalidated(by: HTTPRequestHead(url, method: method), status: 201, fields: lines)
        #expect(
            urls.map(\.absoluteString) == [url.absoluteString, "http://example.com/a/c", "http://EXAMPLE.com:80/d"])
    }

    @Test("a refused or safe request, and another origin, invalidate nothing")
    func noInvalidation() {
        #expect(policy.invalidated(by: HTTPRequestHead(url, method: "POST"), status: 400, fields: []).isEmpty)
        #expect(policy.invalidated(by: HTTPRequestHead(url, method: "POST"), status: 500, fields: []).isEmpty)
        #expect(policy.invalidated(by: HTTPRequestHead(url, method: "OPTIONS"), status: 200, fields: []).isEmpty)
        #expect(policy.invalidated(by: HTTPRequestHead(url, method: "POST"), status: 303, fields: []) == [url])
        let lines = fields(["Location: http://other.com/", "Content-Location: https://example.com/a/b?c"])
        #expect(policy.invalidated(by: HTTPRequestHead(url, method: "POST"), status: 200, fields: lines) == [url])
    }

    @Test("a 304 with another date of the last change is about another response, unless entity tags say otherwise")
    func otherDate() {
        let stored = response(200, "Last-Modified: \(date(-10))")
        #expect(policy.updated(stored, by: response(304, "Last-Modified: \(date(-20))")) == nil)
        #expect(policy.updated(stored, by: response(304, "Last-Modified: \(date(-10))")) != nil)
        #expect(policy.updated(stored, by: response(304, "Last-Modified: x")) != nil)
        let tagged = response(200, "ETag: \"a\"", "Last-Modified: \(date(-10))")
        #expect(policy.updated(tagged, by: response(304, "ETag: \"a\"", "Last-Modified: \(date())")) != nil)
    }

    @Test("the loss of an update does no harm where it changes no directive and makes nothing staler")
    func harmlessLoss() {
        let stored = response(200, "Cache-Control: max-age=60", "Vary: Foo")
        func isHarmless(_ lines: String..., seconds: Double = 60) -> Bool {
            var updated = HTTPResponseHead(status: 200, fields: fields(lines), requested: made, received: made)
            (updated.requested, updated.received) = (after(seconds), after(seconds))
            return policy.mayLose(updated, over: stored, at: after(seconds))
        }
        #expect(isHarmless("Cache-Control: max-age=60", "Vary: Foo", "X: 1"))
        #expect(!isHarmless("Cache-Control: max-age=60, must-revalidate", "Vary: Foo"))
        #expect(!isHarmless("Cache-Control: max-age=60"))
        #expect(!isHarmless("Cache-Control: max-age=60", "Vary: Foo", "Age: 30", seconds: 5))
    }
}
