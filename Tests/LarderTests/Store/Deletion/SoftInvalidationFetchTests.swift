import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Fetches and memory after a caller has expired their values")
struct SoftInvalidationFetchTests {
    /// The handle on the cache's own namespace.
    private func expire(_ invalidation: Invalidation, _ disk: DiskCache) throws {
        switch invalidation {
        case .key: try disk.expireValue(forKey: "k")
        case .tag: try disk.expireAll(tagged: "t")
        case .namespace, .root: try disk.expireAll()
        }
    }

    @Test(
        "memory forgets the value; when the source fails, the disk still has it", arguments: [Invalidation.key, .root])
    func memory(_ invalidation: Invalidation) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let disk = try #require(cache.disk)
        let policy = FetchPolicy.cacheFirst.staleIfError(for: .minutes(1))
        let first = try await cache.value(forKey: "k", ttl: .hours(1), policy: policy) { "v" }
        #expect(first == "v")
        #expect(await cache.value(forKey: "k") == "v")
        try expire(invalidation, disk)
        #expect(await cache.value(forKey: "k") == nil)
        let stale = try await cache.lookup(forKey: "k", ttl: .hours(1), policy: policy) { throw SourceFailure() }
        #expect(stale.value == "v" && stale.isStale)
        #expect(await cache.value(forKey: "k") == nil, "a stale answer does not make it fresh")
        let next = try await cache.value(forKey: "k", ttl: .hours(1), policy: policy) { "w" }
        #expect(next == "w")
        #expect(await cache.value(forKey: "k") == "w")
        try expire(invalidation, disk)
        world.clock.advance(by: .seconds(60))
        await #expect(throws: SourceFailure.self) {
            try await cache.value(forKey: "k", ttl: .hours(1), policy: policy) { throw SourceFailure() }
        }
    }

    @Test("a running fetch answers its caller, and stores nothing", arguments: [Invalidation.key, .root])
    func underWay(_ invalidation: Invalidation) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let disk = try #require(cache.disk)
        let source = HandDrivenSource<String>()
        let task = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 1 }
        try expire(invalidation, disk)
        await source.answer("of before")
        #expect(try await task.value == "of before")
        #expect(await cache.value(forKey: "k") == nil)
        #expect(disk.data(forKey: "k") == nil && disk.count == 0)
    }
}
