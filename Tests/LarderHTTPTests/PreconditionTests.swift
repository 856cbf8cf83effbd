import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("Preconditions of the caller's own")
struct PreconditionTests {
    private let policy = HTTPCachePolicy()
    private let url = URL(string: "http://example.com/")!

    /// A mode, or the directive that says the same.
    private static let modes: [(mode: HTTPCacheMode?, line: String)] = [
        (.onlyIfCached, "X: 1"), (nil, "Cache-Control: only-if-cached"), (.forceCache, "X: 1"),
    ]

    private func stored() async throws -> Web {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", "Last-Modified: \(web.date(1000))")
        _ = try await web.get()
        _ = web.server.takeRequests()
        return web
    }

    @Test("a caller that wants a stored response gets it, or 304 where its own is that one", arguments: modes)
    func evaluated(mode: HTTPCacheMode?, line: String) async throws {
        let web = try await stored()
        let cases = [
            ("If-None-Match: \"x\"", 200), ("If-None-Match: \"x\", W/\"a\"", 304), ("If-None-Match: *", 304),
            ("If-Modified-Since: \(web.date(1000))", 304), ("If-Modified-Since: \(web.date(1001))", 200),
            ("If-Modified-Since: yesterday", 200),
        ]
        for (precondition, status) in cases {
            for method in ["GET", "HEAD"] {
                let request = Web.request(precondition, line, method: method)
                let (data, response) = try await web.cache.data(for: request, mode: mode)
                #expect(response.status == status && response.cacheStatus.isHit, "\(method) \(precondition)")
                #expect(data.isEmpty == (status == 304 || method == "HEAD"), "\(method) \(precondition)")
            }
        }
        // RFC 9110, section 13.2.2: before the range, and If-None-Match before If-Modified-Since.
        let ranged = Web.request("If-None-Match: \"a\"", "Range: bytes=0-1", line)
        #expect(try await web.cache.data(for: ranged, mode: mode).1.status == 304)
        let both = Web.request("If-None-Match: \"x\"", "If-Modified-Since: \(web.date())", line)
        #expect(try await web.cache.data(for: both, mode: mode).1.status == 200)
        #expect(web.server.takeRequests().isEmpty)
    }

    @Test(
        "only-if-cached is 504 where nothing is stored, and where only a server can evaluate the precondition",
        arguments: ["GET", "HEAD"], ["If-Match: \"a\"", "If-Unmodified-Since: Thu, 01 Jan 2026 00:00:00 GMT"])
    func onlyIfCached(method: String, precondition: String) async throws {
        for (mode, line) in Self.modes.prefix(2) {
            let web = try await stored()
            let request = Web.request(precondition, line, method: method)
            #expect(try await web.cache.data(for: request, mode: mode).1.status == 504)
            let other = Web.request("If-None-Match: \"x\"", line, url: url, method: method)
            #expect(try await web.cache.data(for: other, mode: mode).1.status == 504)
            #expect(web.server.takeRequests().isEmpty)
        }
    }

    @Test("without a stored response, and for the server's preconditions, force-cache asks the server")
    func forceCache() async throws {
        let web = try await stored()
        web.server.reply(412)
        #expect(try await web.get("If-Match: \"b\"", mode: .forceCache).1 == "Larder; fwd=bypass")
        #expect(try await web.get("If-None-Match: \"b\"", mode: .forceCache, url: url).1 == "Larder; fwd=bypass")
        let requests = web.server.takeRequests()
        #expect(requests.map { $0.value(forHTTPHeaderField: "If-Match") } == ["\"b\"", nil])
        #expect(requests.map { $0.value(forHTTPHeaderField: "If-None-Match") } == [nil, "\"b\""])
    }

    @Test("a reload that is only-if-cached is 504")
    func reload() async throws {
        let web = try await stored()
        #expect(
            try await web.get("Cache-Control: only-if-cached", mode: .reload).1 == "Larder; detail=only-if-cached")
        #expect(web.server.takeRequests().isEmpty)
    }

    @Test("only a stored 200 is compared, and without Last-Modified its date is")
    func policyOfNotModified() {
        func isNotModified(_ response: HTTPResponseHead, _ lines: String...) -> Bool {
            policy.isNotModified(response, for: HTTPRequestHead(url, fields: fields(lines)))
        }
        #expect(!isNotModified(response(404, "ETag: \"a\""), "If-None-Match: \"a\""))
        #expect(!isNotModified(response(200), "If-None-Match: \"a\""))
        #expect(!isNotModified(response(200, "ETag: \"a\"")))
        #expect(isNotModified(response(200, "Date: \(date(-5))"), "If-Modified-Since: \(date(-5))"))
        #expect(!isNotModified(response(200, "Date: \(date(-5))"), "If-Modified-Since: \(date(-6))"))
    }
}
