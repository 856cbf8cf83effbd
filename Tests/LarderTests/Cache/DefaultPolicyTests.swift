import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A cache has a default policy for calls without one", .timeLimit(.minutes(10)))
struct DefaultPolicyTests {
    struct NotFound: Error {}

    private func cache(_ tiers: Tiers, _ world: World, _ policy: FetchPolicy) throws -> Cache<String> {
        try tiers.cache(in: world, .init(fetchPolicy: policy))
    }

    @Test("calls without a policy use the configured one, and settings on the default replace its settings")
    func configured() async throws {
        for tiers in Tiers.allCases {
            let world = World { $0.sweepInterval = nil }
            let cache = try cache(tiers, world, .staleIfError(for: .seconds(30)))
            try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
            world.clock.advance(by: .seconds(20))
            let stale = try await cache.lookup(forKey: "k") { throw SourceFailure(number: 7) }
            #expect(stale.value == "v" && stale.isStale && stale.staleReason == .failed)
            #expect(stale.fetchError as? SourceFailure == SourceFailure(number: 7))
            await #expect(throws: SourceFailure.self) {
                try await cache.value(forKey: "k", policy: .cacheFirst) { throw SourceFailure() }
            }
            let narrow = begin {
                try await cache.value(forKey: "k", policy: .default.staleIfError(for: .seconds(5))) {
                    throw SourceFailure()
                }
            }
            #expect(await narrow.failure is SourceFailure)
            let timed = try await cache.value(forKey: "k", policy: .default.hardTimeout(.zero)) { "never" }
            #expect(timed == "v", "the configured window applies to a changed default")
        }
    }

    @Test("the default merges each of its settings into the configured policy")
    func merging() {
        let configured = FetchPolicy.reload.staleIfError(for: .seconds(1)).jitter(0.5).outlivesCallers()
        #expect("\(FetchPolicy.default.resolved(configured))" == "\(configured)")
        let changed = FetchPolicy.default.softTimeout(.seconds(2)).hardTimeout(.seconds(3)).retryThrottle(.seconds(4))
            .staleWhileRevalidate(for: .seconds(5)).keepStale(for: .seconds(6)).eagerRefresh(atFraction: 0.7).jitter(0)
            .resolved(configured)
        #expect(
            "\(changed)" == """
                reload, staleWhileRevalidate: 5 s, staleIfError: 1 s, keepStale: 6 s, softTimeout: 2 s, \
                hardTimeout: 3 s, retryThrottle: 4 s, eagerRefresh: 0.7, outlivesCallers
                """)
        #expect("\(FetchPolicy.cacheOnly.resolved(configured))" == "cacheOnly", "other policies ignore it")
    }

    @Test("an error that is an answer is thrown, and an outage gives a stale answer", arguments: Tiers.allCases)
    func outages(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let policy = FetchPolicy.staleIfError(for: .hours(1)) { !($0 is NotFound) }
        let cache = try cache(tiers, world, policy)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        world.clock.advance(by: .seconds(10))
        #expect(try await cache.value(forKey: "k") { throw SourceFailure() } == "v")
        await #expect(throws: NotFound.self) { try await cache.value(forKey: "k") { throw NotFound() } }
        let timedOut = try await cache.lookup(forKey: "k", policy: policy.hardTimeout(.zero)) { "never" }
        #expect(timedOut.staleReason == .failed && (timedOut.fetchError as? CacheError)?.code == .timedOut)
    }

    @Test("a throttle spares the source after an outage, not after an answer", arguments: Tiers.allCases)
    func throttled(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let policy = FetchPolicy.staleIfError(for: .hours(1)) { !($0 is NotFound) }.retryThrottle(.seconds(60))
        let cache = try cache(tiers, world, policy)
        let calls = Lock(0)
        func value(_ error: any Error) async throws -> Lookup<String> {
            try await cache.lookup(forKey: "k") {
                calls.withLock { $0 += 1 }
                throw error
            }
        }
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        world.clock.advance(by: .seconds(10))
        for _ in 0..<3 {
            let stale = try await value(SourceFailure(number: 3))
            #expect(stale.staleReason == .failed && stale.fetchError as? SourceFailure == SourceFailure(number: 3))
            #expect(try await cache.value(forKey: "k") { "not asked" } == "v")
        }
        #expect(calls.withLock { $0 } == 1)
        world.clock.advance(by: .seconds(60))
        for _ in 0..<2 { await #expect(throws: NotFound.self) { try await value(NotFound()) } }
        #expect(calls.withLock { $0 } == 3, "each call asks")
    }

    @Test("a stale answer has the reason why it is stale", arguments: Tiers.allCases)
    func reasons(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try cache(tiers, world, .staleWhileRevalidate(for: .hours(1)))
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        #expect(try await cache.lookup(forKey: "k") { "w" }.staleReason == nil)
        world.clock.advance(by: .seconds(10))
        let source = HandDrivenSource<String>()
        let first = try await cache.lookup(forKey: "k") { try await source.fetch() }
        #expect(first.value == "v" && first.staleReason == .revalidating && first.fetchError == nil)
        let policy = FetchPolicy.staleIfError(for: .hours(1)).softTimeout(.seconds(1))
        await until("it is under way") { source.begun == 1 }
        world.clock.advance(by: .seconds(1))
        let late = try await cache.lookup(forKey: "k", policy: policy) { "w" }
        #expect(late.value == "v" && late.staleReason == .late && late.isStale)
        await source.answer("new")
        await cache.waitForFetches()
        let fresh = try await cache.lookup(forKey: "k") { "w" }
        #expect(fresh.value == "new" && fresh.staleReason == nil && !fresh.isStale)
    }

    @Test(
        "a set value is kept stale as long as its call or the configuration says",
        arguments: Tiers.allCases)
    func keptStale(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(
            in: world, .init(fetchPolicy: .staleIfError(for: .seconds(20)), keepStale: .seconds(40)))
        try await cache.setValue("v", forKey: "configured", ttl: .seconds(10))
        try await cache.setValue("v", forKey: "asked", ttl: .seconds(10), keepStale: .seconds(5))
        try await cache.setValues(["many": "v"], ttl: .seconds(10), keepStale: .forever)
        _ = try await cache.value(forKey: "fetched", ttl: .seconds(10)) { "v" }
        func kept() async -> [String] {
            var kept: [String] = []
            for key in ["configured", "asked", "many", "fetched"]
            where await cache.value(forKey: key, allowingStale: true) == "v" {
                kept.append(key)
            }
            return kept
        }
        #expect(await kept().count == 4)
        world.clock.advance(by: .seconds(10))
        #expect(await cache.values(forKeys: ["configured", "asked", "many", "fetched"]).isEmpty)
        let stale = try #require(await cache.lookup(forKey: "configured", allowingStale: true))
        #expect(stale.isStale && stale.staleReason == nil && stale.age == .seconds(10))
        #expect(cache.statistics.fetches.staleAnswers == 1)
        #expect(await cache.lookup(forKey: "configured", allowingStale: false)?.value == nil)
        #expect(await kept() == ["configured", "asked", "many", "fetched"])
        world.clock.advance(by: .seconds(5))
        #expect(await kept() == ["configured", "many", "fetched"])
        world.clock.advance(by: .seconds(35))
        #expect(await kept() == ["many"])
        await cache.removeExpired()
        #expect(await kept() == ["many"])
        _ = try await cache.value(forKey: "strict", ttl: .seconds(1)) {
            FetchResult.value("v", keepStale: .hours(1), mustRevalidate: true)
        }
        world.clock.advance(by: .seconds(1))
        #expect(await cache.value(forKey: "strict", allowingStale: true) == nil)
    }
}
