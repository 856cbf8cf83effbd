import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Waiting for fetches before the end", .timeLimit(.minutes(10)))
struct WaitForFetchesTests {
    typealias Source = TestSource<String>

    static let policy = FetchPolicy.staleWhileRevalidate(for: .hours(1))

    @Test("a value returned stale is refreshed before the directory is closed")
    func refreshed() async throws {
        let world = TestWorld()
        var disk = try world.diskCache()
        var cache = Cache<String>(disk: disk, namespace: "n")
        _ = try await cache.value(forKey: "k", ttl: .seconds(1), policy: Self.policy) { "old" }
        world.advance(by: .seconds(1))
        let source = Source()
        #expect(try await cache.value(forKey: "k", policy: Self.policy) { try await source.fetch() } == "old")
        let ending = begin { [cache] in
            try await cache.close()
            return cache.disk?.isClosed
        }
        source.succeed(with: "new")
        #expect(try await ending.value == false, "the opener of the directory closes it")
        #expect(disk.namespace("n").string(forKey: "k") == "new")
        try disk.close()
        disk = try world.diskCache()
        cache = Cache(disk: disk, namespace: "n")
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test("closing waits no longer than its timeout, and a later fetch stores nothing on disk")
    func limit() async throws {
        for limit in [Duration.zero, .seconds(5)] {
            let world = TestWorld()
            let cache: Cache<String> = try world.cache()
            let source = Source()
            let caller = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
            await source.waitForRequests()
            let timers = world.clock.scheduledCount
            let ending = begin { try await cache.close(waitingForFetches: limit) }
            if limit > .zero { await until("it waits") { world.clock.scheduledCount == timers + 1 } }
            world.advance(by: limit)
            try await ending.value
            #expect(cache.disk?.isClosed == true)
            source.succeed(with: "late")
            #expect(try await caller.value == "late")
            let again: Cache<String> = try world.cache()
            #expect(await again.value(forKey: "k") == nil)
        }
    }

    @Test("waiting ends with the fetches: finished, failed, abandoned or timed out", arguments: Tiers.allCases)
    func ends(_ tiers: Tiers) async throws {
        let world = TestWorld()
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        await cache.waitForFetches()
        for ending in ["finished", "failed", "given up", "timed out", "not waited for"] {
            let begun = source.requestCount
            let policy =
                ending == "timed out"
                ? FetchPolicy.cacheFirst.hardTimeout(.seconds(1)) : .cacheFirst
            let caller = begin { try await cache.value(forKey: ending, policy: policy) { try await source.fetch() } }
            await source.waitForRequests(begun + 1)
            let flight = try #require(cache.backend.flights.all.first)
            let waiting = begin { await cache.waitForFetches() }
            await until("it waits") { flight.isObserved }
            switch ending {
            case "finished": source.succeed(with: "v")
            case "failed": source.fail(with: SourceFailure())
            case "given up": caller.cancel()
            case "timed out": world.advance(by: .seconds(1))
            default: waiting.cancel()
            }
            try await waiting.value
            if ending == "not waited for" { source.succeed(with: "v") }
            _ = await caller.result
            #expect(cache.backend.flights.count == 0)
        }
    }

    @Test("within a fetch, the call waits for nothing, because others may wait for that fetch")
    func inFetch() async throws {
        let cache: Cache<String> = try TestWorld().cache()
        let source = Source()
        let other = begin { try await cache.value(forKey: "other") { try await source.fetch() } }
        await source.waitForRequests()
        let value = try await cache.value(forKey: "outer") {
            try await cache.value(forKey: "inner") {
                await cache.waitForFetches()
                try await cache.close()
                return "done"
            }
        }
        #expect(value == "done")
        source.succeed(with: "v")
        #expect(try await other.value == "v")
    }
}
