import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Lives and stale windows are the same in every tier", .timeLimit(.minutes(10)))
struct StaleLifeTests {
    @Test(
        "a value that would live for ever has the stale window it was given, once its life ends",
        arguments: Tiers.allCases)
    func foreverKeepStale(_ tiers: Tiers) async throws {
        for isExpired in [true, false] {
            let world = World { $0.sweepInterval = nil }
            let cache: Cache<String> = try tiers.cache(in: world)
            try await cache.setValue("v", forKey: "k", ttl: .forever, keepStale: .seconds(50))
            if isExpired {
                try await cache.expireValue(forKey: "k")
            } else {
                try await cache.setTimeToLive(.seconds(1), forKey: "k")
            }
            world.clock.advance(by: .seconds(45))
            #expect(await cache.value(forKey: "k", allowingStale: true) == "v")
            world.clock.advance(by: .seconds(86_400))
            #expect(await cache.value(forKey: "k", allowingStale: true) == nil, "50 s")
        }
    }

    @Test("a value that has left memory for memoryTTL is fresh all the same")
    func memoryTTLIsNoExpiry() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world, .init(memoryTTL: .seconds(10)))
        try await cache.setValue("v", forKey: "k", ttl: .seconds(1000), keepStale: .seconds(1000))
        let end = world.clock.date.addingTimeInterval(1000)
        world.clock.advance(by: .seconds(20))
        let policy = FetchPolicy.reload.staleIfError(for: .seconds(1000))
        let found = try await cache.lookup(forKey: "k", policy: policy) { throw SourceFailure() }
        #expect(!found.isStale)
        #expect(found.expiresAt == end)
        #expect(cache.statistics.fetches.staleAnswers == 0)
    }

    @Test("a value whose life another handle has prolonged is fresh")
    func prolongedElsewhere() async throws {
        let world = World {
            $0.sweepInterval = nil
            $0.slidingExpiry = true
        }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        try await cache.setValue("v", forKey: "k", ttl: .seconds(100), keepStale: .seconds(1000))
        world.clock.advance(by: .seconds(90))
        #expect(disk.namespace("n").string(forKey: "k") == "v")
        world.clock.advance(by: .seconds(50))
        let policy = FetchPolicy.reload.staleIfError(for: .seconds(1000))
        let found = try await cache.lookup(forKey: "k", policy: policy) { throw SourceFailure() }
        #expect(!found.isStale && found.staleReason == nil)
    }

    @Test("expiring a value does not make it younger", arguments: Tiers.allCases)
    func ageAfterExpiry(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(1000), keepStale: .seconds(1000))
        world.clock.advance(by: .seconds(30))
        try await cache.expireValue(forKey: "k")
        world.clock.advance(by: .seconds(10))
        #expect(await cache.lookup(forKey: "k", allowingStale: true)?.age == .seconds(40))
    }

    @Test("the age of a modified value is the same whatever the tiers")
    func ageAfterModification() async throws {
        var ages: [Duration?] = []
        var dates: [Date?] = []
        for tiers in Tiers.allCases {
            let world = World { $0.sweepInterval = nil }
            let cache: Cache<String> = try tiers.cache(in: world)
            try await cache.setValue("v", forKey: "k", ttl: .seconds(1000))
            world.clock.advance(by: .seconds(30))
            try await cache.modifyValue(forKey: "k") { $0 = "w" }
            ages.append(await cache.lookup(forKey: "k")?.age)
            dates.append(await cache.entry(forKey: "k")?.storedAt)
        }
        #expect(Set(ages).count == 1, "\(ages)")
        #expect(Set(dates).count == 1, "\(dates)")
    }

    @Test("setting nothing if there is nothing removes nothing", arguments: Tiers.allCases)
    func ifAbsentWithoutLife(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10), keepStale: .hours(1))
        world.clock.advance(by: .seconds(20))
        try await cache.setValueIfAbsent("w", forKey: "k", ttl: .seconds(0))
        #expect(await cache.value(forKey: "k", allowingStale: true) == "v", "zero or less stores nothing")
    }

    @Test("'not modified' without a value is an error, and removes nothing", arguments: Tiers.allCases)
    func notModifiedRemoves(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World { $0.sweepInterval = nil })
        try await cache.setValue("v", forKey: "k")
        let failure = await code {
            try await cache.value(forKey: "k", policy: .reload) { () -> FetchResult<String> in
                .notModified(ttl: .seconds(0))
            }
        }
        #expect(failure == .notFound)
        #expect(await cache.value(forKey: "k") == "v")
    }
}
