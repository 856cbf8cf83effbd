import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A fetch sets the terms on which its value is stored", .timeLimit(.minutes(10)))
struct FetchResultTests {
    @Test("closures without a result type choose the plain overload")
    func overloads() async throws {
        let cache = Cache<Int>(memoryOnly: .init())
        // These only have to compile: a fetch that throws, one that never returns, and an empty batch.
        await #expect(throws: SourceFailure.self) { try await cache.value(forKey: "k") { throw SourceFailure() } }
        await #expect(throws: SourceFailure.self) { try await cache.lookup(forKey: "k") { throw SourceFailure() } }
        #expect(try await cache.values(forKeys: ["k"]) { _ in [:] }.isEmpty)
        #expect(try await cache.optionalValue(forKey: "k") { nil } == nil)
        let never: Task<Int, any Error> = begin {
            try await cache.value(forKey: "never", policy: .cacheOnly) { fatalError("not called") }
        }
        #expect((await never.failure as? CacheError)?.code == .notFound)
    }

    @Test(
        "a value that is not to be stored reaches all waiting callers, and does not change the cache",
        arguments: Tiers.allCases)
    func doNotStore(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = HandDrivenSource<FetchResult<String>>()
        let calls = (0..<3).map { _ in
            begin { try await cache.lookup(forKey: "k") { try await source.fetch() } }
        }
        await until("all wait") { cache.statistics.fetches.coalesced == 2 && source.begun == 1 }
        await source.answer(.doNotStore("busy"))
        for call in calls {
            let found = try await call.value
            #expect(found.value == "busy" && found.source == .fetched && !found.isStale)
        }
        #expect(await cache.value(forKey: "k") == nil)
        try await cache.setValue("old", forKey: "k", ttl: .seconds(10))
        let reloaded = try await cache.value(forKey: "k", policy: .reload) { FetchResult.doNotStore("busy") }
        #expect(reloaded == "busy")
        #expect(await cache.value(forKey: "k") == "old")
    }

    @Test("the value gets the life, stale window, tags and metadata of the result", arguments: Tiers.allCases)
    func terms(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        _ = try await cache.value(forKey: "k", ttl: .hours(1), tags: ["call"]) {
            FetchResult.value(
                "v", ttl: .seconds(10), keepStale: .seconds(30), tags: ["result"], metadata: ["etag": "1"])
        }
        let entry = try #require(await cache.entry(forKey: "k"))
        #expect(entry.tags.sorted() == ["call", "result"] && entry.metadata == ["etag": "1"])
        #expect(entry.expiresAt == world.clock.date.addingTimeInterval(10))
        #expect(entry.keptUntil == world.clock.date.addingTimeInterval(40))
        #expect(await cache.lookup(forKey: "k")?.metadata == ["etag": "1"])
        try await cache.removeAll(tagged: "result")
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("a value is not stored if its tag is cleared during the fetch", arguments: Tiers.allCases)
    func clearedTag(_ tiers: Tiers) async throws {
        let world = World()
        let cache: Cache<String> = try tiers.cache(in: world)
        for (cleared, isStored) in [("open", false), ("other", true)] {
            let source = HandDrivenSource<FetchResult<String>>()
            let call = begin { try await cache.value(forKey: cleared) { try await source.fetch() } }
            await until("it is under way") { source.begun == 1 }
            try await cache.removeAll(tagged: cleared)
            await source.answer(.value("v", tags: ["open"]))
            #expect(try await call.value == "v", "the caller gets it")
            #expect(await cache.hasValue(forKey: cleared) == isStored)
        }
        // The same tag again, cleared before the fetch began.
        _ = try await cache.value(forKey: "later") { FetchResult.value("v", tags: ["open"]) }
        #expect(await cache.value(forKey: "later") == "v")
    }

    @Test("each value of a batch has its own terms, and absent ones are omitted", arguments: Tiers.allCases)
    func batch(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<Int> = try tiers.cache(in: world)
        let calls = Lock(0)
        func values() async throws -> [String: Int] {
            try await cache.values(forKeys: ["a", "b", "c", "d"]) { keys in
                calls.withLock { $0 += 1 }
                let all: [String: FetchResult<Int>] = [
                    "a": .value(1, ttl: .seconds(1)), "b": .value(2), "c": .absent(ttl: .hours(1)), "d": .doNotStore(4),
                ]
                return all.filter { keys.contains($0.key) }
            }
        }
        #expect(try await values() == ["a": 1, "b": 2, "d": 4])
        world.clock.advance(by: .seconds(1))
        #expect(await cache.values(forKeys: ["a", "b", "c", "d"]) == ["b": 2])
        #expect(try await values() == ["a": 1, "b": 2, "d": 4])
        #expect(calls.withLock { $0 } == 2)
        #expect(cache.statistics.fetches.begun == 2)
    }

    @Test("a fetch of an optional value can get the old one", arguments: Tiers.allCases)
    func optional(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        func value(_ result: FetchResult<String>, sees old: String?) async throws -> String? {
            try await cache.optionalValue(forKey: "k", ttl: .seconds(10)) { cached in
                #expect(cached?.value == old)
                return result
            }
        }
        #expect(try await value(.value("v"), sees: nil) == "v")
        world.clock.advance(by: .seconds(10))
        #expect(try await value(.notModified, sees: "v") == "v")
        world.clock.advance(by: .seconds(10))
        #expect(try await value(.absent(ttl: .seconds(5)), sees: "v") == nil)
        #expect(try await value(.value("not asked"), sees: nil) == nil)
        world.clock.advance(by: .seconds(5))
        #expect(try await value(.value("again"), sees: nil) == "again")
        let absent = await code { try await cache.value(forKey: "none") { FetchResult.absent } }
        #expect(absent == .notFound)
    }
}
