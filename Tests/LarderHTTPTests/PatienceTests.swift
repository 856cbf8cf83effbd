import Foundation
import Larder
import LarderFiles
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting
import Testing

@testable import LarderHTTP

@Suite("How long requests wait for others, and a cache for itself")
struct PatienceTests {
    @Test(
        "a body that arrives for longer than the time-out is not waited for, and fails nobody", .timeLimit(.minutes(10))
    )
    func progress() async throws {
        let web = try Web()
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        let requests = Lock(0)
        web.server.reply { _ in
            let number = requests.withLock { count in
                count += 1
                return count
            }
            let body = number == 1 ? HTTPBody(parts) : HTTPBody(Data("own".utf8))
            return Web.Reply(200, ["Cache-Control: max-age=60"], body)
        }
        let cache = web.cache
        var request = URLRequest(url: Web.url)
        request.timeoutInterval = 2
        let tasks = [request, request].map { request in Task { try await cache.data(for: request).0 } }
        await web.waitForFollowers(1)
        // Before that, the time-out would be that of a server which does not answer.
        await eventually { cache.responder.exchanges.begunResponses == 1 }
        for second in 1...5 {
            stream.yield(Data("part".utf8))
            web.clock.advance(by: .seconds(1))
            if second == 2 { await eventually { requests.withLock { $0 } == 2 } }
        }
        stream.finish()
        var lengths: Set<Int> = []
        for task in tasks { lengths.insert(try await task.value.count) }
        #expect(lengths == [20, 3])
    }

    @Test("a time-out that is over at once ends the wait")
    func early() async throws {
        struct Eager: LarderFiles.Clock {
            struct Done: ScheduledWork { func cancel() {} }
            var now: Timestamp { Timestamp(milliseconds: 0) }
            func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork {
                work()
                return Done()
            }
        }
        let exchanges = Exchanges()
        guard case .leader(let flight) = exchanges.join("k") else { fatalError("the first one leads") }
        let waiting = Task { await flight.wait(atMost: .zero, Eager()) { _ in true } }
        if case .late = await waiting.value {} else { Issue.record("not late") }
    }

    @Test("time-outs that are no times", arguments: [0, -1, .nan, .infinity])
    func oddTimeouts(_ interval: TimeInterval) async throws {
        let web = try Web()
        let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
        web.server.reply { _ in Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts)) }
        var request = URLRequest(url: Web.url)
        request.timeoutInterval = interval
        let requests = (0..<2).map { [request] _ in Task { try await web.cache.data(for: request).0 } }
        await web.waitForFollowers(1)
        stream.yield(Data("part".utf8))
        stream.finish()
        for request in requests { #expect(try await request.value.count == 4) }
    }

    @Test("the time-out of a request that waits goes on when its leader is cancelled", .timeLimit(.minutes(10)))
    func abandoned() async throws {
        let web = try Web()
        let streams = Lock<[AsyncThrowingStream<Data, any Error>.Continuation]>([])
        web.server.reply { _ in
            let (parts, stream) = AsyncThrowingStream.makeStream(of: Data.self)
            streams.withLock { $0.append(stream) }
            return Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts))
        }
        let cache = web.cache
        var request = URLRequest(url: Web.url)
        request.timeoutInterval = 2
        let leader = Task { [request] in try await cache.data(for: request).0 }
        await eventually { streams.withLock { $0.count } == 1 }
        let others = (0..<2).map { _ in Task { [request] in try await cache.data(for: request).0 } }
        await web.waitForFollowers(2)
        web.clock.advance(by: .milliseconds(1_900))
        leader.cancel()
        await eventually {
            cache.waitingRequests == 1 && streams.withLock { $0.count } == 2
                && cache.responder.exchanges.begunResponses == 1
        }
        web.clock.advance(by: .milliseconds(1_900))
        // The one that waited for it asks for itself.
        await eventually { cache.waitingRequests == 0 && streams.withLock { $0.count } == 3 }
        for stream in streams.withLock({ $0 }) { stream.finish() }
        _ = await leader.result
        for other in others { _ = await other.result }
    }

    @Test("a small correction of the clock makes no new response old", arguments: [0.0, 50.0])
    func corrected(step: Double) async throws {
        let time = Lock(Date(timeIntervalSince1970: 1_800_000_000))
        let folder = try TemporaryDirectory()
        var configuration = HTTPCache.Configuration()
        configuration.disk.now = { time.withLock { $0 } }
        let server = ScriptedTransport { _ in
            let date = HTTPDate.text(Int64(time.withLock { $0 }.timeIntervalSince1970))
            return Web.Reply(200, ["Cache-Control: max-age=30", "Date: \(date)"], HTTPBody(Data("v".utf8)))
        }
        let cache = try HTTPCache(directory: folder.appending("web"), transport: server, configuration: configuration)
        _ = try await cache.data(for: URLRequest(url: URL(string: "http://example.com/other")!))
        time.withLock { $0 -= step }
        // An hour later: whatever was stored before the step is long gone.
        for _ in 0..<3600 {
            time.withLock { $0 += 1 }
            _ = cache.responder.clock.now
        }
        _ = try await cache.data(for: URLRequest(url: Web.url))
        let status = try await cache.data(for: URLRequest(url: Web.url)).1.cacheStatus
        #expect(status.isHit, "\(status)")
        try await cache.close()
    }

    @Test("the clock of a cache is that of its disk")
    func clock() throws {
        let folder = try TemporaryDirectory()
        let cache = try HTTPCache(
            directory: folder.appending("web"),
            transport: ScriptedTransport { _ in Web.Reply(200, [], HTTPBody(Data())) })
        #expect(cache.responder.clock is SystemClock)
    }

    @Test("no validation begins once the cache is being closed")
    func closing() async throws {
        let revalidations = Revalidations()
        let hasBegun = Flag()
        revalidations.close()
        revalidations.begin("late") { hasBegun.set() }
        await revalidations.wait()
        #expect(!hasBegun.isSet)
    }
}
