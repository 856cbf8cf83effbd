import Foundation
import Larder
import LarderTesting
import Testing

@Suite("A test's world: its time")
struct TimeTests {
    let world = TestWorld()

    @Test("time stands still until the test moves it")
    func standsStill() {
        #expect(world.now == Date(timeIntervalSince1970: 1_763_632_800))
        world.advance(by: .milliseconds(1_500))
        #expect(world.now == Date(timeIntervalSince1970: 1_763_632_801.5))
        let past = Date(timeIntervalSince1970: 1_000_000)
        #expect(TestWorld(now: past).now == past)
    }

    @Test("values expire to the millisecond, in every kind of cache")
    func expiry() async throws {
        let cache: Cache<String> = try world.cache()
        let disk = try world.diskCache(name: "other")
        let memory = world.memoryCache(of: Int.self, String.self)
        let memoryOnly = world.memoryOnlyCache(of: String.self)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        try disk.setString("v", forKey: "k", ttl: .seconds(10))
        memory.setValue("v", forKey: 1, ttl: .seconds(10))
        try await memoryOnly.setValue("v", forKey: "k", ttl: .seconds(10))
        world.advance(by: .milliseconds(9_999))
        #expect(await cache.value(forKey: "k") == "v")
        #expect(disk.string(forKey: "k") == "v")
        #expect(memory[1] == "v")
        #expect(await memoryOnly.value(forKey: "k") == "v")
        world.advance(by: .milliseconds(1))
        #expect(await cache.value(forKey: "k") == nil)
        #expect(disk.string(forKey: "k") == nil)
        #expect(memory[1] == nil)
        #expect(await memoryOnly.value(forKey: "k") == nil)
    }

    @Test("when advance returns, a due sweep has run and its events have been delivered")
    func sweep() throws {
        let log = Log<CacheEvent>()
        var configuration = DiskCache.Configuration()
        configuration.onEvent = { if $0.kind != .stored { log.append($0) } }
        let disk = try world.diskCache(configuration: configuration)
        for number in 0..<100 { try disk.setString("v", forKey: "\(number)", ttl: .seconds(10)) }
        world.advance(by: .seconds(59))
        #expect(disk.count == 100 && log.all.isEmpty)
        world.advance(by: .seconds(1))
        #expect(disk.count == 0)
        #expect(log.all.flatMap(\.keys).count == 100 && log.all.allSatisfy { $0.kind == .expired })
    }

    @Test("advancing by a day runs every sweep, even after the opening handle was released")
    func day() throws {
        let part = try world.diskCache().namespace("part")
        try part.setString("v", forKey: "k", ttl: .hours(23))
        world.advance(by: .seconds(86_400))
        #expect(part.count == 0)
    }

    @Test("memory caches report removals before advance returns")
    func memoryRemovals() {
        let log = Log<String>()
        var configuration = MemoryCache<String, Int>.Configuration()
        configuration.onRemove = { key, _, _ in log.append(key) }
        let memory = world.memoryCache(configuration: configuration)
        memory.setValue(1, forKey: "k", ttl: .seconds(1))
        world.advance(by: .seconds(60))
        #expect(log.all == ["k"] && memory.count == 0)
    }

    @Test("after a soft timeout the caller gets a stale value and the fetch continues")
    func softTimeout() async throws {
        let cache: Cache<String> = try world.cache()
        let source = TestSource<String>()
        try await cache.setValue("old", forKey: "k", ttl: .seconds(10))
        let policy = FetchPolicy.staleIfError(for: .hours(1)).softTimeout(.seconds(2))
        let first = Task { try await cache.value(forKey: "k", policy: policy) { try await source.fetch() } }
        #expect(try await first.value == "old", "still fresh")
        // A value is kept beyond its expiry only if a call with such a policy stored it.
        world.advance(by: .seconds(10))
        source.succeed(with: "second")
        let second = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { try await source.fetch() }
        #expect(second == "second")
        world.advance(by: .seconds(10))
        async let third = cache.value(forKey: "k", policy: policy) { try await source.fetch() }
        await source.waitForRequests(2)
        world.advance(by: .seconds(2))
        #expect(try await third == "second", "stale, after two seconds")
        source.succeed(with: "fourth")
        await cache.waitForFetches()
        #expect(await cache.value(forKey: "k") == "fourth")
    }

    @Test("a hard timeout ends a fetch")
    func hardTimeout() async throws {
        let cache = world.memoryOnlyCache(of: String.self)
        let source = TestSource<String>()
        let caller = Task {
            try await cache.value(forKey: "k", policy: .cacheFirst.hardTimeout(.seconds(5))) {
                try await source.fetch("k")
            }
        }
        await source.waitForRequests()
        world.advance(by: .seconds(5))
        let error = await #expect(throws: CacheError.self) { try await caller.value }
        #expect(error?.code == .timedOut)
        await source.waitForCancellations()
        #expect(source.cancellationCount == 1 && source.pendingKeys.isEmpty)
    }

    @Test("setting the clock runs nothing")
    func clock() throws {
        let disk = try world.diskCache()
        try disk.setString("v", forKey: "k", ttl: .seconds(10))
        world.setClock(to: world.now.addingTimeInterval(3600))
        #expect(disk.string(forKey: "k") == nil)
        world.setClock(to: world.now.addingTimeInterval(-3600))
        #expect(disk.string(forKey: "k") == "v")
    }
}

/// Collects what happens on any thread.
final class Log<Element: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var elements: [Element] = []

    func append(_ element: Element) { lock.withLock { elements.append(element) } }
    var all: [Element] { lock.withLock { elements } }
}
