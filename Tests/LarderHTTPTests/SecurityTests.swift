import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("Redirects, credentials and partitions")
struct SecurityTests {
    private static func url(_ text: String) -> URL { URL(string: text)! }

    @Test("each hop of a redirect is stored on its own")
    func redirect() async throws {
        let web = try Web { _ in
        } _: { request in
            request.url?.path == "/page"
                ? Web.Reply(301, "Location: /other", "Cache-Control: max-age=60", body: "")
                : Web.Reply(200, "Cache-Control: max-age=30", body: "there")
        }
        let (data, response) = try await web.cache.data(from: Web.url)
        #expect(data == Data("there".utf8) && response.url.absoluteString == "http://example.com/other")
        _ = web.server.takeRequests()
        web.clock.advance(by: .seconds(30))
        #expect(try await web.get().1 == "Larder; fwd=stale; stored; ttl=30")
        #expect(web.server.takeRequests().map { $0.url?.path } == ["/other"])
    }

    @Test("twenty redirects are followed, one more is an error")
    func tooMany() async throws {
        let web = try Web { _ in
        } _: { request in
            let number = Int(request.url?.lastPathComponent ?? "") ?? 0
            return number == 0 ? Web.Reply(200) : Web.Reply(302, "Location: /\(number - 1)")
        }
        #expect(try await web.cache.data(from: Self.url("http://example.com/20")).1.status == 200)
        let error = await #expect(throws: HTTPCacheError.self) {
            try await web.cache.data(from: Self.url("http://example.com/21"))
        }
        #expect(error?.code == .tooManyRedirects)
    }

    @Test(
        "a redirect keeps the method or becomes a GET, as its status says",
        arguments: [
            (301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "PUT", "GET"),
            (307, "POST", "POST"),
            (308, "PUT", "PUT"), (301, "PUT", "PUT"), (303, "HEAD", "HEAD"),
        ])
    func methods(status: Int, method: String, next: String) async throws {
        let web = try Web { _ in
        } _: { request in
            request.url?.path == "/page" ? Web.Reply(status, "Location: /other") : Web.Reply(200)
        }
        var request = Web.request("Content-Type: text/plain", method: method)
        request.httpBody = Data("body".utf8)
        _ = try await web.cache.data(for: request)
        let second = try #require(web.server.takeRequests().last)
        #expect(second.httpMethod == next)
        #expect((second.httpBody == nil) == (next != method))
        #expect((second.value(forHTTPHeaderField: "Content-Type") == nil) == (next != method))
    }

    @Test("no field about a body is left when a redirect makes a GET")
    func contentFields() async throws {
        let web = try Web { _ in
        } _: { request in
            request.url?.path == "/page" ? Web.Reply(303, "Location: /other") : Web.Reply(200)
        }
        let names = [
            "Content-Type", "Content-MD5", "Content-Digest", "Content-Range", "content-disposition", "Repr-Digest",
            "Digest", "Transfer-Encoding", "Expect", "Last-Modified",
        ]
        var request = Web.request("X: 1", method: "POST")
        for name in names { request.setValue("x", forHTTPHeaderField: name) }
        request.httpBody = Data("body".utf8)
        _ = try await web.cache.data(for: request)
        let fields = try #require(web.server.takeRequests().last?.allHTTPHeaderFields)
        #expect(fields["X"] == "1" && !fields.keys.contains { names.contains($0) })
    }

    @Test("userinfo follows a redirect without a host, and never comes from a server")
    func userinfo() async throws {
        let locations = ["/b", "?b", "http://example.com/b", "//bob:pw@example.com/b", "http://bob:pw@other.com/"]
        var targets: [String] = []
        for location in locations {
            let web = try Web { _ in
            } _: { request in
                request.url?.path == "/page" && request.url?.query == nil
                    ? Web.Reply(302, "Location: \(location)") : Web.Reply(200)
            }
            _ = try await web.cache.data(from: Self.url("http://ann:pw@example.com/page"))
            targets.append(web.server.takeRequests().last?.url?.absoluteString ?? "")
        }
        #expect(
            targets == [
                "http://ann:pw@example.com/b", "http://ann:pw@example.com/page?b", "http://example.com/b",
                "http://example.com/b", "http://other.com/",
            ])
    }

    @Test(
        "another port, scheme or host is another origin, which gets no credentials",
        arguments: ["http://example.com:8080/b", "https://example.com/b", "http://www.example.com/b"])
    func otherOrigins(location: String) async throws {
        let web = try Web { _ in
        } _: { request in
            request.url?.path == "/page" ? Web.Reply(307, "Location: \(location)") : Web.Reply(200)
        }
        let names = ["Authorization", "Proxy-Authorization", "Cookie"]
        let request = Web.request("Authorization: a", "proxy-authorization: b", "Cookie: c", "X: d")
        _ = try await web.cache.data(for: request)
        let sent = web.server.takeRequests().map { request in
            names.compactMap { request.value(forHTTPHeaderField: $0) }
        }
        #expect(sent == [["a", "b", "c"], []])
    }

    @Test("credentials do not follow a redirect to another origin")
    func credentials() async throws {
        let web = try Web { _ in
        } _: { request in
            switch request.url?.path {
            case "/page": Web.Reply(302, "Location: /same")
            case "/same": Web.Reply(302, "Location: http://ann:pw@other.com/")
            default: Web.Reply(200)
            }
        }
        _ = try await web.cache.data(for: Web.request("Authorization: secret", "Cookie: a=b", "X: 1"))
        let requests = web.server.takeRequests()
        #expect(requests.map { $0.value(forHTTPHeaderField: "Authorization") } == ["secret", "secret", nil])
        #expect(requests.map { $0.value(forHTTPHeaderField: "Cookie") } == ["a=b", "a=b", nil])
        #expect(requests.map { $0.value(forHTTPHeaderField: "X") } == ["1", "1", "1"])
        #expect(requests.last?.url?.absoluteString == "http://other.com/")
    }

    @Test("without following, the redirecting response is the answer; so is one to another scheme")
    func notFollowed() async throws {
        let web = try Web {
            $0.followsRedirects = false
        } _: { _ in
            Web.Reply(302, "Location: /other")
        }
        #expect(try await web.cache.data(from: Web.url).1.status == 302)
        let other = try Web { _ in
        } _: { _ in
            Web.Reply(302, "Location: ftp://example.com/")
        }
        #expect(try await other.cache.data(from: Web.url).1.status == 302)
    }

    @Test("partitions do not see each other's responses")
    func partitions() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", body: "Ann's")
        _ = try await web.cache.data(from: Web.url, partition: "ann")
        web.server.reply(200, "Cache-Control: max-age=60", body: "Bob's")
        #expect(try await web.cache.data(from: Web.url, partition: "bob").0 == Data("Bob's".utf8))
        #expect(try await web.cache.data(from: Web.url, partition: "ann").0 == Data("Ann's".utf8))
        #expect(try await web.get().1 == "Larder; fwd=uri-miss; stored; ttl=60")
    }

    @Test("neither userinfo nor credentials of a request are on the disk")
    func secrets() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "Vary: Foo")
        let url = Self.url("http://ann:hunter2@example.com/page")
        _ = try await web.cache.data(for: Web.request("Authorization: hunter3", "Cookie: hunter4", "Foo: 1", url: url))
        #expect(try await web.get("Foo: 1").1 == "Larder; hit; ttl=60")
        let entries = web.files.image.nodes.values.map { String(decoding: $0.content, as: UTF8.self) }
        #expect(entries.contains { $0.contains("example.com") })
        #expect(!entries.contains { $0.contains("hunter") })
    }

    @Test("a request with a Host of its own bypasses the cache")
    func host() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60")
        #expect(try await web.get("Host: other.com").1 == "Larder; fwd=bypass")
        #expect(try await web.get().1 == "Larder; fwd=uri-miss; stored; ttl=60")
        #expect(try await web.get("host: other.com").1 == "Larder; fwd=bypass")
    }

    @Test("the cache sets its request fields before it selects a variant")
    func requestFields() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "Vary: Accept-Language")
        _ = try await web.get()
        #expect(web.server.takeRequests().first?.value(forHTTPHeaderField: "Accept-Language") == "*")
        #expect(try await web.get("Accept-Language: *").1 == "Larder; hit; ttl=60")
        #expect(try await web.get("Accept-Language: de").1 == "Larder; fwd=vary-miss; stored; ttl=60")
    }

    @Test("a name that the request fields repeat is sent with all its values, unless the request has it")
    func repeatedRequestFields() async throws {
        let web = try Web { $0.requestFields = [HTTPField("X", "1"), HTTPField("x", "2"), HTTPField("Y", "3")] }
        _ = try await web.get()
        _ = try await web.get("Y: 4", "X: 5")
        let requests = web.server.takeRequests()
        #expect(requests.map { $0.value(forHTTPHeaderField: "X") } == ["1,2", "5"])
        #expect(requests.map { $0.value(forHTTPHeaderField: "Y") } == ["3", "4"])
    }

    @Test(
        "a URL that HTTP does not have is an error", arguments: ["ftp://example.com/", "file:///etc/passwd", "http:"])
    func unsupported(url: String) async throws {
        let web = try Web()
        let error = await #expect(throws: HTTPCacheError.self) { try await web.cache.data(from: Self.url(url)) }
        #expect(error?.code == .unsupportedURL && web.server.takeRequests().isEmpty)
    }

    @Test(
        "a request that would be two is refused, and not sent",
        arguments: [
            ("GET", "X-Name", "a\r\nEvil: b"), ("GET", "X-Name", "a\nb"), ("GET", "X\r\nEvil", "a"),
            ("GET", "X Name", "a"), ("GET / HTTP/1.1\r\nHost: evil\r\n\r\n", "X", "a"),
        ])
    func injection(method: String, name: String, value: String) async throws {
        let web = try Web()
        var request = URLRequest(url: Web.url)
        request.httpMethod = method
        request.setValue(value, forHTTPHeaderField: name)
        // Foundation may have refused already.
        guard request.httpMethod == method, request.value(forHTTPHeaderField: name) == value else { return }
        let error = await #expect(throws: HTTPCacheError.self) { try await web.cache.data(for: request) }
        #expect(error?.code == .invalidRequest && web.server.takeRequests().isEmpty)
    }

    @Test("a GET with a body bypasses the cache, because its answer may depend on the body")
    func bodyOfGet() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", body: "for a")
        var request = URLRequest(url: Web.url)
        request.httpBody = Data("a".utf8)
        #expect(try await web.cache.data(for: request).1.cacheStatus.description == "Larder; fwd=bypass")
        web.server.reply(200, "Cache-Control: max-age=60", body: "plain")
        #expect(try await web.get() == ("plain", "Larder; fwd=uri-miss; stored; ttl=60"))
        request.httpBody = Data("b".utf8)
        #expect(try await web.cache.data(for: request).1.cacheStatus.forwarding == .bypass)
    }

    @Test("an answer to one request's range or precondition is no answer to the next request")
    func individualAnswers() async throws {
        let web = try Web()
        web.server.reply(416, "Cache-Control: max-age=60")
        _ = try await web.get("Range: bytes=100-")
        web.server.reply(412, "Cache-Control: max-age=60")
        _ = try await web.get("If-Match: \"x\"")
        web.server.reply(200, "Cache-Control: max-age=60")
        #expect(try await web.get() == ("body", "Larder; fwd=uri-miss; stored; ttl=60"))
    }

    @Test("a range is one of the body as it is, not of its coding")
    func codings() async throws {
        let web = try Web()
        _ = try await web.get("Range: bytes=0-1")
        _ = try await web.get("Range: bytes=0-1", "Accept-Encoding: br")
        _ = try await web.get()
        let codings = web.server.takeRequests().map { $0.value(forHTTPHeaderField: "Accept-Encoding") }
        #expect(codings == ["identity", "br", "gzip"])
    }

    @Test("events have no user and password")
    func events() async throws {
        let events = Lock<[String]>([])
        let web = try Web { $0.onEvent = { event in events.withLock { $0.append(event.description) } } }
        _ = try await web.get(url: Self.url("http://ann:hunter2@example.com/page"))
        #expect(events.withLock { $0 } == ["GET http://example.com/page 200: Larder; fwd=uri-miss"])
    }
}
