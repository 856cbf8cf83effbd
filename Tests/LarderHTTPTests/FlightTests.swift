import Foundation
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting
import Testing

@Suite("Requests under way", .timeLimit(.minutes(60)))
struct FlightTests {
    @Test("requests for different variants of a URL do not wait for each other once Vary is known")
    func variants() async throws {
        let door = Door()
        let web = try Web { _ in
        } _: { request in
            let value = request.value(forHTTPHeaderField: "Accept-Language") ?? ""
            if value != "en" { await door.pass() }
            return Web.Reply(200, "Cache-Control: max-age=60", "Vary: Accept-Language", body: value)
        }
        _ = try await web.get("Accept-Language: en")
        let cache = web.cache
        let languages = ["de", "fr", "de", "fr"]
        let requests = languages.map { language in
            Task { try await cache.data(for: Web.request("Accept-Language: \(language)")) }
        }
        // Both come to the server before it answers one of them.
        await door.waitForArrivals(2)
        door.open()
        for (language, request) in zip(languages, requests) {
            #expect(try await request.value.0 == Data(language.utf8))
        }
        #expect(web.server.takeRequests().count == 3)
    }

    @Test("a body that ends because its reader was cancelled is not taken for a whole one")
    func cancelledBody() async throws {
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        let begun = Door()
        let web = try Web { _ in
        } _: { _ in
            stream.yield(Data("half".utf8))
            begun.open()
            await begun.pass()
            return Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts))
        }
        let cache = web.cache
        let request = Task { try await cache.data(from: Web.url) }
        await begun.waitForArrivals()
        request.cancel()
        await #expect(throws: CancellationError.self) { try await request.value }
        #expect(try await web.get(mode: .onlyIfCached).1 == "Larder; detail=only-if-cached")
    }
}
