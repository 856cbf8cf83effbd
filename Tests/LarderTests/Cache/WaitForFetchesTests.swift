import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Waiting for fetches before the end", .timeLimit(.minutes(1)))
struct WaitForFetchesTests {
    typealias Source = HandDrivenSource<String>

    static let policy = FetchPolicy.staleWhileRevalidate(for: .hours(1))

    @Test("a value returned stale is refreshed before the directory is closed")
    func refreshed() async throws {
        let world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        var cache = Cache<String>(disk: disk, namespace: "n")
        _ = try await cache.value(forKey: "k", ttl: .seconds(1), policy: Self.policy) { "old" }
        world.clock.advance(by: .seconds(1))
        let source = Source()
        #expect(try await cache.value(forKey: "k", policy: Self.policy) { try await source.fetch() } == "old")
        let ending = begin { [cache] in
            try await cache.close()
            return cache.disk?.isClosed
        }
        await source.answer("new")
        #expect(try await ending.value == false, "whoever opened the directory closes it")
        #expect(disk.namespace("n").string(forKey: "k") == "new")
        try disk.close()
        disk = try world.open()
        cache = Cache(disk: disk, namespace: "n")
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test("closing waits for so long and no longer; a fetch that comes later stores nothing on disk")
    func limit() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("larder-test-\(UUID())")
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = ManualClock()
        for limit in [Duration.zero, .seconds(5)] {
            var configuration = Cache<String>.Configuration()
            configuration.disk.sweepInterval = nil
            configuration.disk.now = { clock.date }
            let cache = try Cache<String>(directory: directory, configuration: configuration)
            let source = Source(isDeaf: true)
            let caller = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
            await until("it is asked") { source.begun == 1 }
            // The cache's own clock cannot be moved by hand here: cancelling stands for the passing of time.
            let ending = begin { try await cache.close(waitingForFetches: limit) }
            if limit > .zero { ending.cancel() }
            try await ending.value
            #expect(cache.disk?.isClosed == true)
            await source.answer("late")
            #expect(try await caller.value == "late")
            let again = try Cache<String>(directory: directory)
            #expect(await again.value(forKey: "k") == nil)
            try await again.close()
        }
    }

    @Test("the limit is counted by the clock")
    func limitPasses() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let source = Source()
        let caller = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("it is asked") { source.begun == 1 }
        let timers = world.clock.scheduledCount
        let ending = begin { try await cache.close(waitingForFetches: .seconds(3)) }
        await until("it waits") { world.clock.scheduledCount == timers + 1 }
        world.clock.advance(by: .seconds(3))
        try await ending.value
        await source.answer("v")
        #expect(try await caller.value == "v")
    }

    @Test("waiting ends with the fetches: finished, failed, given up by all, timed out", arguments: Tiers.allCases)
    func ends(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        await cache.waitForFetches()
        for ending in ["finished", "failed", "given up", "timed out", "not waited for"] {
            let begun = source.begun
            let policy =
                ending == "timed out"
                ? FetchPolicy.cacheFirst.hardTimeout(.seconds(1)) : .cacheFirst
            let caller = begin { try await cache.value(forKey: ending, policy: policy) { try await source.fetch() } }
            await until("it is asked") { source.begun == begun + 1 }
            let flight = try #require(cache.backend.flights.all.first)
            let waiting = begin { await cache.waitForFetches() }
            await until("it waits") { flight.isObserved }
            switch ending {
            case "finished": await source.answer("v")
            case "failed": await source.answer(.failure(SourceFailure()))
            case "given up": caller.cancel()
            case "timed out": world.clock.advance(by: .seconds(1))
            default: waiting.cancel()
            }
            try await waiting.value
            if ending == "not waited for" { await source.answer("v") }
            _ = await caller.result
            #expect(cache.backend.flights.count == 0)
        }
    }

    @Test("within a fetch nothing is waited for: others may wait for that one")
    func inFetch() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source()
        let other = begin { try await cache.value(forKey: "other") { try await source.fetch() } }
        await until("the other is asked") { source.begun == 1 }
        let value = try await cache.value(forKey: "outer") {
            try await cache.value(forKey: "inner") {
                await cache.waitForFetches()
                try await cache.close()
                return "done"
            }
        }
        #expect(value == "done")
        await source.answer("v")
        #expect(try await other.value == "v")
    }
}
