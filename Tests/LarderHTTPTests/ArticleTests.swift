import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import Testing

@Suite("The article about caching HTTP is true")
struct ArticleTests {
    @Test("a page is fetched, answered from the cache, offline too, and downloaded")
    func overview() async throws {
        let server = try SocketServer { _ in
            Array("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\nbody".utf8)
        }
        let url = server.url("/page")
        let folder = try TemporaryDirectory()
        let web = try HTTPCache(directory: folder.appending("web"))
        let (data, response) = try await web.data(for: URLRequest(url: url))
        #expect(response.status == 200 && data.count == 4 && response.cacheStatus.isStored)
        let (_, offline) = try await web.data(for: URLRequest(url: url), mode: .onlyIfCached)
        #expect(offline.status == 200 && offline.cacheStatus.isHit)
        let (file, _) = try await web.download(for: URLRequest(url: url))
        #expect(try Data(contentsOf: file) == Data("body".utf8))
        try FileManager.default.removeItem(at: file)
        try await web.close()
    }

    @Test("values print themselves as the documentation says")
    func descriptions() throws {
        let reply = HTTPTransportResponse(status: 200, fields: [HTTPField("A", " b\t")], body: HTTPBody())
        #expect(reply.description == "200\nA: b")
        #expect(HTTPCacheMode.onlyIfCached.description == "only-if-cached")
        let configuration = HTTPCache.Configuration().description
        #expect(configuration.hasPrefix("requestFields: Accept Accept-Encoding Accept-Language User-Agent, followsRe"))
        var status = HTTPCacheStatus()
        (status.forwarding, status.isCollapsed, status.ttl, status.detail) = (.stale, true, -5, "disconnected")
        #expect(status.description == "Larder; fwd=stale; collapsed; ttl=-5; detail=disconnected")
    }
}
