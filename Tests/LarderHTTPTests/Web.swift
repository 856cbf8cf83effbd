import Foundation
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting

/// An HTTP cache with a server, a disk and a clock in memory.
struct Web {
    typealias Reply = ScriptedTransport.Reply

    static let url = URL(string: "http://example.com/page")!

    let server: ScriptedTransport
    let clock = ManualClock()
    var files = MemoryFileSystem()
    private(set) var cache: HTTPCache

    init(
        _ configure: (inout HTTPCache.Configuration) -> Void = { _ in },
        _ answer: @escaping @Sendable (URLRequest) async throws -> Reply = { _ in Reply() }
    ) throws {
        server = ScriptedTransport(answer)
        var configuration = HTTPCache.Configuration()
        configure(&configuration)
        cache = try HTTPCache(
            directory: URL(fileURLWithPath: "/web"), transport: server, configuration: configuration,
            fileSystem: files, clock: clock)
    }

    /// Kills the process and opens the cache again, with nothing but the entry files if `index` is false.
    mutating func restart(index: Bool = true) throws {
        var image = files.image
        if !index { for name in image.names(at: "/web") where name != "entries" { image.remove(at: "/web/\(name)") } }
        files.kill()
        files = MemoryFileSystem(image)
        cache = try HTTPCache(
            directory: URL(fileURLWithPath: "/web"), transport: server, fileSystem: files, clock: clock)
    }

    /// The cache of another process on the same disk.
    func another(_ server: ScriptedTransport? = nil) throws -> HTTPCache {
        try HTTPCache(
            directory: URL(fileURLWithPath: "/web"), transport: server ?? self.server, fileSystem: files.another(),
            clock: clock)
    }

    /// Returns when so many requests wait for others.
    func waitForFollowers(_ count: Int) async {
        await eventually { cache.waitingRequests >= count }
    }

    /// The date of the clock, `seconds` ago.
    func date(_ seconds: Int64 = 0) -> String { HTTPDate.text(clock.milliseconds / 1000 - seconds) }

    static func request(_ lines: String..., url: URL = url, method: String = "GET") -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = method
        for field in fields(lines) { request.addValue(field.value, forHTTPHeaderField: field.name) }
        return request
    }

    /// The text and the cache status of an answer.
    func get(_ lines: String..., mode: HTTPCacheMode? = nil, url: URL = url) async throws -> (String, String) {
        var request = URLRequest(url: url)
        for field in fields(lines) { request.addValue(field.value, forHTTPHeaderField: field.name) }
        let (data, response) = try await cache.data(for: request, mode: mode)
        return (String(decoding: data, as: UTF8.self), response.cacheStatus.description)
    }
}
