import Foundation
import LarderHTTP
import Testing

@Suite("The policy decides what may be stored")
struct StoringTests {
    private let policy = HTTPCachePolicy()
    private let url = URL(string: "http://example.com/")!

    private func stores(_ response: HTTPResponseHead, _ method: String = "GET", _ lines: String...) -> Bool {
        policy.mayStore(response, to: HTTPRequestHead(url, method: method, fields: fields(lines)))
    }

    @Test("only a GET is stored", arguments: ["HEAD", "POST", "PUT", "OPTIONS", "get", "FOO"])
    func methods(method: String) {
        #expect(stores(response(200, "Cache-Control: max-age=60")))
        #expect(!stores(response(200, "Cache-Control: max-age=60"), method))
    }

    @Test(
        "explicit freshness lets any final status be stored, known or not",
        arguments: [200, 201, 299, 302, 400, 404, 499, 500, 503, 599])
    func statuses(status: Int) {
        #expect(stores(response(status, "Cache-Control: max-age=60")))
    }

    @Test("interim responses, parts and answers to validations are not stored", arguments: [100, 103, 206, 304, 600])
    func otherStatuses(status: Int) {
        #expect(!stores(response(status, "Cache-Control: max-age=60", "ETag: \"a\"")))
    }

    @Test("no-store forbids storing, from either side, however it is written")
    func noStore() {
        #expect(!stores(response(200, "Cache-Control: max-age=60, No-Store")))
        #expect(!stores(response(200, "cache-control: max-age=60", "CACHE-CONTROL: no-store")))
        #expect(!stores(response(200, "Cache-Control: max-age=60"), "GET", "Cache-Control: no-store"))
    }

    @Test("must-understand cancels no-store for known statuses, and forbids unknown ones")
    func mustUnderstand() {
        let line = "Cache-Control: max-age=60, no-store, must-understand"
        #expect(stores(response(200, line)))
        #expect(!stores(response(599, line)))
        #expect(!stores(response(599, "Cache-Control: max-age=60, must-understand")))
    }

    @Test("a private cache stores private responses and those to requests with credentials")
    func privateResponses() {
        #expect(stores(response(200, "Cache-Control: private, max-age=60")))
        #expect(stores(response(200, "Cache-Control: max-age=60"), "GET", "Authorization: x", "Cookie: a=b"))
    }

    @Test(
        "a response that varies by everything or by a secret is not stored",
        arguments: ["*", "Accept, *", ", *", "authorization", "Accept, COOKIE", "Proxy-Authorization"])
    func vary(value: String) {
        #expect(stores(response(200, "Cache-Control: max-age=60", "Vary: Accept, Foo")))
        #expect(!stores(response(200, "Cache-Control: max-age=60", "Vary: \(value)")))
    }

    @Test("a response that can neither be fresh nor validated is not worth storing")
    func worth() {
        #expect(!stores(response(200)))
        #expect(!stores(response(200, "Cache-Control: max-age=0")))
        #expect(!stores(response(200, "Cache-Control: no-cache")))
        #expect(stores(response(200, "Cache-Control: no-cache", "ETag: \"a\"")))
        #expect(stores(response(200, "ETag: \"a\"")))
        #expect(stores(response(200, "Last-Modified: \(date(-10))")))
        #expect(!stores(response(200, "Last-Modified: yesterday")))
        #expect(stores(response(200, "Cache-Control: max-age=0, stale-while-revalidate=60")))
        #expect(!stores(response(200, "Cache-Control: max-age=0, stale-if-error=60, must-revalidate")))
    }

    @Test("a status without explicit freshness is stored only where the RFC says that it is cacheable")
    func heuristics() {
        #expect(stores(response(404, "ETag: \"a\"")))
        #expect(!stores(response(403, "ETag: \"a\"")))
        #expect(stores(response(403, "ETag: \"a\"", "Cache-Control: public")))
    }

    @Test("too many or too long fields, and line breaks in them, are not stored")
    func limits() {
        var many = response(200, "Cache-Control: max-age=60")
        many.fields += Array(repeating: HTTPField("X", "y"), count: 255)
        #expect(stores(many))
        many.fields.append(HTTPField("X", "y"))
        #expect(!stores(many))
        let long = "X: " + String(repeating: "y", count: 64 << 10)
        #expect(!stores(response(200, "Cache-Control: max-age=60", long)))
        var broken = response(200, "Cache-Control: max-age=60")
        broken.fields.append(HTTPField("X", "a\nSet-Cookie: b"))
        #expect(!stores(broken))
    }

    @Test("a body of another size than Content-Length says is not whole")
    func wholeness() {
        #expect(policy.isWhole(5, response(200)))
        #expect(policy.isWhole(5, response(200, "Content-Length: 5", "Content-Length: 5")))
        #expect(!policy.isWhole(4, response(200, "Content-Length: 5")))
        #expect(!policy.isWhole(6, response(200, "Content-Length: 5")))
        #expect(!policy.isWhole(5, response(200, "Content-Length: 5, 6")))
        #expect(!policy.isWhole(5, response(200, "Content-Length: -5")))
    }

    @Test("fields of the connection are not stored, and a missing date is added")
    func storable() {
        let stored = policy.storable(
            response(
                200, "Connection: X-Own, keep-alive", "X-Own: 1", "Keep-Alive: 5", "TE: a", "Upgrade: b",
                "Set-Cookie: a",
                "Transfer-Encoding: chunked", "Proxy-Authenticate: c", "Set-Cookie: b"))
        #expect(stored.fields == fields(["Set-Cookie: a", "Set-Cookie: b", "Date: \(date())"]))
    }

    @Test(
        "Connection does not take away fields for every recipient",
        arguments: ["Vary: Foo", "cache-control: no-cache"])
    func endToEnd(line: String) {
        let stored = policy.storable(response(200, "Connection: Cache-Control, VARY, X", "X: 1", line))
        #expect(stored.fields.first == fields([line]).first && !stored.fields.has("X"))
    }

    @Test(
        "an answer to what only one request or client has done is not stored, whatever its lifetime",
        arguments: [407, 412, 416, 417, 428, 429, 431, 511])
    func individual(status: Int) {
        #expect(!stores(response(status, "Cache-Control: max-age=60, public", "ETag: \"a\"")))
    }

    @Test("a Vary in which a * may hide is not stored", arguments: ["\"foo, *\"", "\"foo, *", "foo *", "foo: x"])
    func obscureVary(value: String) {
        #expect(!stores(response(200, "Cache-Control: max-age=60", "Vary: \(value)")))
    }
}
