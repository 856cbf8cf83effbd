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
}
