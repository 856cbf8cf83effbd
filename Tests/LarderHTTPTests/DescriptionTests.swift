import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import Testing

@Suite("Public values of LarderHTTP describe themselves")
struct DescriptionTests {
    private static let url = URL(string: "http://example.com/a")!

    private static let status: HTTPCacheStatus = {
        var status = HTTPCacheStatus()
        (status.forwarding, status.isCollapsed, status.ttl, status.detail) = (.stale, true, -5, "disconnected")
        return status
    }()

    private static let statistics: HTTPCacheStatistics = {
        var statistics = HTTPCacheStatistics()
        (statistics.hits, statistics.misses, statistics.bytesSaved) = (3, 1, 12)
        return statistics
    }()

    private static let head = HTTPResponseHead(
        status: 200, fields: [HTTPField("Vary", "Foo")], requestedAt: Date(), receivedAt: Date())

    private static let texts: [(value: any CustomStringConvertible & Sendable, text: String)] = [
        (HTTPField("A", " b\t"), "A: b"),
        (HTTPTransportResponse(status: 200, fields: [HTTPField("A", "b")], body: HTTPBody()), "200\nA: b"),
        (HTTPCacheMode.onlyIfCached, "only-if-cached"),
        (HTTPCacheStatus.Forwarding.uriMiss, "uri-miss"),
        (status, "Larder; fwd=stale; collapsed; ttl=-5; detail=disconnected"),
        (HTTPCacheError.Code.tooManyRedirects, "tooManyRedirects"),
        (
            HTTPCache.Configuration(),
            "requestFields: Accept Accept-Encoding Accept-Language User-Agent, followsRedirects: true, "
                + "staleIfUnreachable: 604800.0 seconds, keepStale: 604800.0 seconds, maximumFieldCount: 256, "
                + "maximumFieldSize: 65536, spoolLimit: 1048576"
        ),
        (
            statistics,
            "hits: 3, misses: 1, revalidations: 0, collapsed: 0, stale answers: 0, failures: 0, stores: 0, invalidations: 0, "
                + "bytes saved: 12, bytes received: 0"
        ),
        (
            HTTPCachePolicy(),
            "maximumFieldCount: 256, maximumFieldSize: 65536, staleIfUnreachable: 604800.0 seconds, "
                + "keepStale: 604800.0 seconds"
        ),
        (HTTPCachePolicy.Reuse.validate(.stale), "validate: stale"),
        (HTTPCachePolicy.Reuse.answerWhileRevalidating, "answer while revalidating"),
        (HTTPRequestHead(url, fields: [HTTPField("A", "b")]), "GET http://example.com/a\nA: b"),
        (head, "200\nVary: Foo"),
        (HTTPVariant(of: head, for: HTTPRequestHead(url, fields: [HTTPField("foo", "1")])), "foo: 1\n"),
    ]

    @Test("each prints the text pinned here")
    func pinned() {
        for (value, text) in Self.texts { #expect("\(value)" == text) }
    }

    @Test("answers, events and errors print what they are about")
    func answers() async throws {
        let events = Lock<[String]>([])
        let web = try Web { $0.onEvent = { event in events.withLock { $0.append(event.description) } } }
        let (_, response) = try await web.cache.data(from: Web.url)
        #expect(response.description == "200 http://example.com/page (Larder; fwd=uri-miss)")
        #expect(events.withLock { $0 } == ["GET http://example.com/page 200: Larder; fwd=uri-miss"])
        let error = await #expect(throws: HTTPCacheError.self) {
            try await web.cache.data(from: URL(string: "ftp://example.com/")!)
        }
        #expect(
            error?.description == "ftp://example.com/ is not an http or https URL with a host. [unsupportedURL]")
        #expect(error?.localizedDescription == error?.message)
    }

    /// Every public structure of the library is described above, or is nothing to print.
    @Test("no public value is missing here")
    func complete() throws {
        let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let sources = package.appendingPathComponent("Sources/LarderHTTP")
        let files = FileManager.default.enumerator(atPath: sources.path)?.compactMap { $0 as? String } ?? []
        let described = Set(
            Self.texts.map { "\(type(of: $0.value))" } + ["HTTPCacheResponse", "HTTPCacheEvent", "HTTPCacheError"]
                // A stream, its iterator, and things that send; the error of a trait.
                + ["HTTPBody", "AsyncIterator", "URLSessionTransport", "CurlTransport", "CurlError"])
        var count = 0
        for file in files where file.hasSuffix(".swift") {
            let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            for match in text.matches(of: /(?m)^ *public (?:struct|enum) (\w+)/) {
                count += 1
                #expect(described.contains("\(match.1)"), "\(match.1) in \(file)")
            }
        }
        #expect(count >= 21)
    }
}
