import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Fetches wait for slots, and prefetches load values ahead of time", .timeLimit(.minutes(10)))
struct PrefetchTests {
    /// A source that counts how many fetches run at a time.
    private final class Meter: Sendable {
        private let state = Lock((running: 0, most: 0, keys: [String]()))

        func fetch(_ key: String) async throws -> String {
            state.withLock { state in
                state.running += 1
                state.most = max(state.most, state.running)
                state.keys.append(key)
            }
            defer { state.withLock { $0.running -= 1 } }
            for _ in 0..<5 { await Task.yield() }
            try Task.checkCancellation()
            return key
        }

        var most: Int { state.withLock { $0.most } }
        var keys: [String] { state.withLock { $0.keys } }
    }

    @Test("no more fetches run than allowed, and each gets its turn", arguments: Tiers.allCases)
    func limit(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World(), .init(maximumConcurrentFetches: 3))
        let meter = Meter()
        try await withThrowingTaskGroup(of: String.self) { group in
            for number in 0..<100 {
                group.addTask { try await cache.value(forKey: "\(number)") { try await meter.fetch("\(number)") } }
            }
            for try await _ in group {}
        }
        #expect(meter.most <= 3 && meter.keys.count == 100)
        #expect(cache.fetcher.limiter?.waitingCount == 0)
    }

    @Test("a fetch begun within a fetch takes no slot", arguments: Tiers.allCases)
    func nested(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World(), .init(maximumConcurrentFetches: 1))
        let value = try await cache.value(forKey: "a") {
            try await cache.value(forKey: "b") { try await cache.value(forKey: "c") { "c" } + "b" } + "a"
        }
        #expect(value == "cba")
    }

    @Test("a fetch waiting for a slot continues without one when another fetch joins it", arguments: Tiers.allCases)
    func joined(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World(), .init(maximumConcurrentFetches: 1))
        let source = HandDrivenSource<String>()
        let outer = begin {
            try await cache.value(forKey: "outer") {
                let first = try await source.fetch()
                return try await first + cache.value(forKey: "inner") { "not asked" }
            }
        }
        await until("it has the slot") { source.begun == 1 }
        let inner = begin { try await cache.value(forKey: "inner") { "inner" } }
        await until("the other one waits") { cache.fetcher.limiter?.waitingCount == 1 }
        await source.answer("outer ")
        #expect(try await outer.value == "outer inner")
        #expect(try await inner.value == "inner")
    }

    @Test("a cancelled caller gives up its place in the line", arguments: Tiers.allCases)
    func cancelled(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World(), .init(maximumConcurrentFetches: 1))
        let source = HandDrivenSource<String>()
        let first = begin { try await cache.value(forKey: "first") { try await source.fetch() } }
        await until("it has the slot") { source.begun == 1 }
        for _ in 0..<3 {
            let second = begin { try await cache.value(forKey: "second") { "never" } }
            await until("it waits") { cache.fetcher.limiter?.waitingCount == 1 }
            second.cancel()
            #expect(await second.failure is CancellationError)
            await until("it has left") { cache.fetcher.limiter?.waitingCount == 0 }
        }
        let third = begin { try await cache.value(forKey: "third") { "third" } }
        await source.answer("first")
        #expect(try await first.value == "first")
        #expect(try await third.value == "third")
    }

    @Test("a hard timeout also ends the wait for a slot", arguments: Tiers.allCases)
    func timeout(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world, .init(maximumConcurrentFetches: 1))
        let source = HandDrivenSource<String>()
        let first = begin { try await cache.value(forKey: "first") { try await source.fetch() } }
        await until("it has the slot") { source.begun == 1 }
        let second = begin {
            try await cache.value(forKey: "second", policy: .default.hardTimeout(.seconds(1))) { "never" }
        }
        await until("it waits") { cache.fetcher.limiter?.waitingCount == 1 }
        world.clock.advance(by: .seconds(1))
        #expect((await second.failure as? CacheError)?.code == .timedOut)
        await source.answer("first")
        #expect(try await first.value == "first")
    }

    @Test("of waiting fetches, the one with the highest priority runs first")
    func priority() async {
        let limiter = FetchLimiter(limit: 1)
        let flights = ["low", "high", "raised"].map { name in
            Flight(of: ObjectIdentifier(Int.self), to: [Key(name)], at: .now, tags: [], outlivesCallers: true)
        }
        #expect(
            await limiter.acquire(
                for: Flight(of: ObjectIdentifier(Int.self), to: [], at: .now, tags: [], outlivesCallers: true)))
        let order = Lock<[Int]>([])
        var tasks: [Task<Void, Never>] = []
        for (number, priority) in [(0, TaskPriority.low), (1, .medium), (2, .background)] {
            tasks.append(
                Task(priority: priority) {
                    #expect(await limiter.acquire(for: flights[number]))
                    order.withLock { $0.append(number) }
                    limiter.release()
                })
            await until("it waits") { limiter.waitingCount == number + 1 }
        }
        limiter.raise(flights[2], to: .high)
        limiter.release()
        for task in tasks { await task.value }
        #expect(order.withLock { $0 } == [2, 1, 0])
    }

    @Test("prefetching fetches missing values, a few at a time", arguments: Tiers.allCases)
    func prefetch(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World(), .init(maximumConcurrentFetches: 2))
        try await cache.setValues(["1": "here", "2": "here"])
        let meter = Meter()
        let keys = (0..<20).map { "\($0)" }
        await cache.prefetch(keys, tags: ["ahead"]) { try await meter.fetch($0) }.value
        #expect(meter.most <= 2 && Set(meter.keys) == Set(keys).subtracting(["1", "2"]))
        #expect(await cache.values(forKeys: keys).count == 20)
        try await cache.removeAll(tagged: "ahead")
        #expect(await cache.values(forKeys: keys).count == 2)
        await cache.prefetch(["x"]) { _ in throw SourceFailure() }.value
        #expect(cache.statistics.fetches.failed == 1)
    }

    @Test("a call joins the prefetch of its key, and continues when that is cancelled", arguments: Tiers.allCases)
    func needed(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let source = HandDrivenSource<String>()
        let prefetching = cache.prefetch(["a", "b"]) { key in key == "a" ? try await source.fetch() : key }
        await until("it is under way") { source.begun == 1 }
        let call = begin { try await cache.value(forKey: "a") { "not asked" } }
        await until("it has joined") { cache.statistics.fetches.coalesced == 1 }
        prefetching.cancel()
        await prefetching.value
        await source.answer("prefetched")
        #expect(try await call.value == "prefetched")
        #expect(source.cancelled == 0)
    }

    @Test("a cancelled prefetch begins no more fetches")
    func cancelledPrefetch() async throws {
        let cache = Cache<String>(memoryOnly: .init(), configuration: .init(maximumConcurrentFetches: 1))
        let source = HandDrivenSource<String>()
        let keys = (0..<100).map { "\($0)" }
        let prefetching = cache.prefetch(keys) { _ in try await source.fetch() }
        await until("it is under way") { source.begun == 1 }
        prefetching.cancel()
        await prefetching.value
        #expect(source.begun == 1 && source.cancelled == 1)
    }
}
