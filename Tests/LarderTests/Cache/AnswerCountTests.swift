import Dispatch
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// What calls that fetch leave behind: counts, and notes of failures.
@Suite("What fetches leave behind")
struct AnswerCountTests {
    enum Way: CaseIterable {
        case failed, throttled, revalidating, reload, allowingStale
    }

    @Test("a stale answer is a hit of the tier that had it, in every call", arguments: Tiers.allCases, Way.allCases)
    func staleHits(_ tiers: Tiers, _ way: Way) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let policy = FetchPolicy.staleIfError(for: .hours(1)).retryThrottle(.hours(1))
        func fail(_ policy: FetchPolicy) async throws -> Lookup<String>? {
            try await cache.lookup(forKey: "k", policy: policy) { () -> String in throw SourceFailure() }
        }
        _ = try await cache.value(forKey: "k", ttl: .seconds(1), policy: policy) { "v" }
        world.clock.advance(by: .seconds(1))
        if way == .throttled { _ = try await fail(policy) }
        let before = cache.statistics
        let answer: Lookup<String>? =
            switch way {
            case .failed, .throttled: try await fail(policy)
            case .revalidating: try await fail(.staleWhileRevalidate(for: .hours(1)))
            case .reload: try await fail(.reload.staleIfError(for: .hours(1)))
            case .allowingStale: await cache.lookup(forKey: "k", allowingStale: true)
            }
        #expect(answer?.value == "v" && answer?.isStale == true)
        await cache.waitForFetches()
        let after = cache.statistics
        let hits = (after.memoryHits - before.memoryHits, after.diskHits - before.diskHits)
        #expect(hits == (answer?.source == .memory ? (1, 0) : (0, 1)))
        #expect(after.misses == before.misses)
        #expect(after.fetches.staleAnswers == before.fetches.staleAnswers + 1)
        #expect(after.disk?.misses == before.disk?.misses)
    }

    @Test(
        "a stale answer that was read from disk says so, though the fetch was given it first", arguments: [false, true])
    func source(isLate: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(1), keepStale: .hours(1))
        world.clock.advance(by: .seconds(1))
        cache.memoryTier?.removeAll()
        let policy = FetchPolicy.staleIfError(for: .hours(1)).softTimeout(.seconds(1))
        let (given, mayEnd) = (Flag(), Flag())
        let lookup = begin {
            try await cache.lookup(forKey: "k", policy: policy) { cached -> FetchResult<String> in
                #expect(cached?.source == .disk)
                given.set()
                while isLate, !mayEnd.isSet { await Task.yield() }
                throw SourceFailure()
            }
        }
        await eventually { given.isSet }
        if isLate { world.clock.advance(by: .seconds(1)) }
        let answer = try await lookup.value
        #expect(answer.isStale && answer.source == .disk)
        mayEnd.set()
        await cache.waitForFetches()
    }

    @Test(
        "a value in use whose life slides is refreshed by what it had lived before the call", arguments: Tiers.allCases)
    func slidingRefresh(_ tiers: Tiers) async throws {
        let world = World {
            $0.sweepInterval = nil
            $0.slidingExpiry = true
        }
        var configuration = Cache<String>.Configuration()
        configuration.memory?.slidingExpiry = true
        let cache: Cache<String> = try tiers.cache(in: world, configuration)
        let number = Lock(0)
        let policy = FetchPolicy.cacheFirst.eagerRefresh(atFraction: 0.8)
        func value() async throws -> String {
            let value = try await cache.value(forKey: "k", ttl: .seconds(100), policy: policy) {
                number.withLock { number in
                    number += 1
                    return "\(number)"
                }
            }
            await cache.waitForFetches()
            return value
        }
        #expect(try await value() == "1")
        world.clock.advance(by: .seconds(79))
        #expect(try await value() == "1" && number.withLock { $0 } == 1)
        world.clock.advance(by: .seconds(80))
        #expect(try await value() == "1" && number.withLock { $0 } == 2, "in the background")
        #expect(try await value() == "2" && number.withLock { $0 } == 2)
    }

    /// A value whose encoding waits.
    private struct Heavy: Codable, Sendable {
        static let hasArrived = Flag()
        static let mayGo = DispatchSemaphore(value: 0)
        var name: String

        init(_ name: String) {
            self.name = name
        }

        init(from decoder: any Decoder) throws {
            name = try decoder.singleValueContainer().decode(String.self)
        }

        func encode(to encoder: any Encoder) throws {
            if name == "heavy" {
                Self.hasArrived.set()
                Self.mayGo.wait()
            }
            var container = encoder.singleValueContainer()
            try container.encode(name)
        }
    }

    @Test("a late end of a fetch does not hide the failure of a newer one")
    func lateEnd() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<Heavy> = try Tiers.both.cache(in: world)
        let policy = FetchPolicy.staleIfError(for: .hours(1)).retryThrottle(.hours(1))
        let batch = begin {
            try await cache.values(forKeys: ["a", "b"], ttl: .seconds(1), policy: policy) { _ in
                ["a": Heavy("light"), "b": Heavy("heavy")]
            }
        }
        await eventually { Heavy.hasArrived.isSet }
        world.clock.advance(by: .seconds(1))
        func fail() async throws {
            let answer = try await cache.value(forKey: "a", policy: policy) { () -> Heavy in throw SourceFailure() }
            #expect(answer.name == "light")
        }
        try await fail()
        #expect(cache.statistics.fetches.begun == 2)
        Heavy.mayGo.signal()
        _ = try await batch.value
        try await fail()
        #expect(cache.statistics.fetches.begun == 2, "the failure is a reason not to try again")
    }

    @Test("nobody begins a fetch for a key that has failed since the caller looked")
    func failedMeanwhile() throws {
        let flights = Flights()
        let type = ObjectIdentifier(String.self)
        func flight(_ keys: [Key]) -> Flight { Flight(of: type, to: keys, at: .now, tags: [], outlivesCallers: true) }
        let seen = flights.lastFailure
        let first = try #require(flights.start(["k"], of: type, at: .now, flight))
        let failure = FailureLog.Failure(error: SourceFailure(), begin: .now, end: Timestamp(milliseconds: .max))
        flights.end(first, for: "k", .failed(failure))
        #expect(flights.join(["k"], of: type, ifNoneFailedAfter: seen, flight) == nil)
        #expect(flights.join(["l"], of: type, ifNoneFailedAfter: seen, flight) != nil)
        #expect(flights.start(["k"], of: type, sparingFailed: true, at: .now, flight) == nil)
        let joining = flights.join(["k"], of: type, ifNoneFailedAfter: flights.lastFailure, flight)
        let second = try #require(joining?.new)
        // Its end came late: it is registered no more.
        flights.end(first, for: "k", .answered)
        #expect(flights.failure(of: "k", type, at: .now) != nil)
        flights.end(second, for: "k", .answered)
        #expect(flights.failure(of: "k", type, at: .now) == nil)
    }

    @Test("stale answers to many callers at once are so many hits", arguments: [false, true])
    func sharedCounts(fetches: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        var configuration = Cache<String>.Configuration()
        configuration.memory = nil
        let cache = Cache<String>(disk: try world.open(), namespace: "n", configuration: configuration)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(1), keepStale: .hours(1))
        world.clock.advance(by: .seconds(1))
        let before = cache.statistics
        let policy = FetchPolicy.staleIfError(for: .hours(1))
        for _ in 0..<30 {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<16 {
                    group.addTask {
                        let found =
                            fetches
                            ? try? await cache.lookup(forKey: "k", policy: policy) { () -> String in
                                throw SourceFailure()
                            }
                            : await cache.lookup(forKey: "k", allowingStale: true)
                        #expect(found?.isStale == true)
                    }
                }
            }
        }
        let after = cache.statistics
        #expect(after.misses == before.misses, "\(after.misses - before.misses)")
        #expect(after.diskHits - before.diskHits == 480, "\(after.diskHits - before.diskHits)")
        #expect(after.disk?.misses == before.disk?.misses)
    }
}
