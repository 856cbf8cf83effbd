import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Several keys at once: missing values are fetched in one call")
struct BatchTests {
    typealias Source = HandDrivenSource<[String: String]>

    @Test("only missing values are fetched, in one call, and the results are stored", arguments: Tiers.allCases)
    func missing(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let asked = Lock<[[String]]>([])
        @Sendable func fetch(_ keys: [String]) -> [String: String] {
            asked.withLock { $0.append(keys) }
            var found = Dictionary(uniqueKeysWithValues: keys.map { ($0, "fetched \($0)") })
            found["none"] = nil
            found["unasked"] = "x"
            return found
        }
        try await cache.setValue("own", forKey: "b")
        let first = try await cache.values(forKeys: ["a", "b", "none", "a", "c"], ttl: .seconds(10)) { fetch($0) }
        #expect(first == ["a": "fetched a", "b": "own", "c": "fetched c"])
        #expect(asked.withLock { $0 } == [["a", "none", "c"]])
        #expect(await cache.value(forKey: "unasked") == nil)
        let second = try await cache.values(forKeys: ["c", "b", "a"]) { fetch($0) }
        #expect(second == first)
        #expect(try await cache.values(forKeys: []) { fetch($0) } == [:])
        #expect(asked.withLock { $0.count } == 1)
        world.clock.advance(by: .seconds(10))
        #expect(try await cache.values(forKeys: ["a", "b"], policy: .cacheOnly) { fetch($0) } == ["b": "own"])
        #expect(try await cache.values(forKeys: ["a", "b"]) { fetch($0) } == ["a": "fetched a", "b": "own"])
        #expect(asked.withLock { $0.last } == ["a"])
        #expect(cache.backend.flights.count == 0)
    }

    @Test("a value for another spelling of a key is not an answer", arguments: Tiers.allCases)
    func spellings(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World { $0.sweepInterval = nil })
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        #expect(composed == decomposed, "Swift considers them equal")
        let found = try await cache.values(forKeys: [decomposed]) { _ in [composed: "another's"] }
        #expect(found == [:])
        #expect(await cache.value(forKey: decomposed) == nil)
        #expect(await cache.value(forKey: composed) == nil)
        let own = try await cache.values(forKeys: [decomposed]) { _ in [decomposed: "own"] }
        #expect(own.values.first == "own")
        #expect(await cache.value(forKey: composed) == nil)
    }

    @Test("a call waits for running fetches of its keys, single or batch, instead of fetching again")
    func inTheAir() async throws {
        let cache: Cache<String> = try TestWorld().cache()
        let (single, batches) = (TestSource<String>(), TestSource<[String: String]>())
        let alone = begin { try await cache.value(forKey: "a") { try await single.fetch() } }
        await single.waitForRequests()
        let first = begin {
            try await cache.values(forKeys: ["a", "b", "c"]) { try await batches.fetch($0.joined(separator: " ")) }
        }
        await batches.waitForRequests(1)
        let second = begin {
            try await cache.values(forKeys: ["c", "d", "a"]) { try await batches.fetch($0.joined(separator: " ")) }
        }
        await batches.waitForRequests(2)
        let joining = begin { try await cache.value(forKey: "b") { "not fetched" } }
        let missing = begin { try await cache.value(forKey: "c") { "my own" } }
        await until("they have joined") { cache.statistics.fetches.coalesced == 4 }
        #expect(batches.requestedKeys == ["b c", "d"])
        batches.succeed(with: ["d": "D"], forKey: "d")
        single.succeed(with: "A")
        batches.succeed(with: ["b": "B"])
        #expect(try await first.value == ["a": "A", "b": "B"])
        #expect(try await second.value == ["d": "D", "a": "A"])
        #expect(try await (alone.value, joining.value) == ("A", "B"))
        #expect(
            try await missing.value == "my own",
            "a batch without a value for a key does not answer a call for that key alone")
        #expect(cache.backend.flights.count == 0)
    }

    @Test("an error reaches all callers, but stale values may be returned")
    func errors() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let policy = FetchPolicy.staleIfError(for: .days(1))
        _ = try await cache.values(forKeys: ["a", "b"], ttl: .seconds(10), policy: policy) { _ in ["a": "A", "b": "B"] }
        world.clock.advance(by: .seconds(20))
        let stale = try await cache.values(forKeys: ["a", "b"], policy: policy) { _ in throw SourceFailure() }
        #expect(stale == ["a": "A", "b": "B"])
        await #expect(throws: SourceFailure.self) {
            try await cache.values(forKeys: ["a", "b", "c"], policy: policy) { _ in throw SourceFailure() }
        }
        #expect(cache.statistics.fetches.failed == 2 && cache.statistics.fetches.begun == 3)
    }

    @Test("stale while revalidating, soft and hard timeouts hold for batches too")
    func policies() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let source = Source()
        let windows = FetchPolicy.staleWhileRevalidate(for: .seconds(100)).staleIfError(for: .seconds(100))
        let values = ["a": "A", "b": "B"]
        _ = try await cache.values(forKeys: ["a", "b"], ttl: .seconds(10), policy: windows) { _ in values }
        world.clock.advance(by: .seconds(20))
        let stale = try await cache.values(forKeys: ["a", "b"], ttl: .seconds(10), policy: windows) { _ in
            try await source.fetch()
        }
        #expect(stale == values)
        await source.answer(["a": "A2", "b": "B2"])
        await until("they are stored") { await cache.value(forKey: "b") == "B2" }
        #expect(source.begun == 1, "one background fetch for both")
        world.clock.advance(by: .seconds(20))
        let soft = FetchPolicy.staleIfError(for: .seconds(100)).softTimeout(.seconds(1))
        let timers = world.clock.scheduledCount
        let hurried = begin {
            try await cache.values(forKeys: ["a", "b"], ttl: .seconds(10), policy: soft) { _ in try await source.fetch()
            }
        }
        await until("it is asked, and has its timeouts") {
            source.begun == 2 && world.clock.scheduledCount == timers + 2
        }
        world.clock.advance(by: .seconds(1))
        #expect(try await hurried.value == ["a": "A2", "b": "B2"])
        await source.answer(["a": "A3", "b": "B3"])
        await until("they are stored") { await cache.value(forKey: "b") == "B3" }
        let hung = Source(isDeaf: true)
        let hard = begin {
            try await cache.values(forKeys: ["x", "y"], policy: .cacheFirst.hardTimeout(.seconds(1))) { _ in
                try await hung.fetch()
            }
        }
        await until("it hangs") { hung.begun == 1 }
        world.clock.advance(by: .seconds(1))
        let failure = await hard.failure as? CacheError
        #expect(failure?.code == .timedOut)
        // The background fetch ends after its values can be seen.
        await until("no fetch is left") { cache.backend.flights.count == 0 }
        await hung.answer([:])
    }

    @Test("a cancelled caller leaves all its flights, and those without other callers are cancelled")
    func cancelled() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let (one, two) = (Source(), Source())
        let first = begin { try await cache.values(forKeys: ["a", "b"]) { _ in try await one.fetch() } }
        await until("it is asked") { one.begun == 1 }
        let second = begin { try await cache.values(forKeys: ["b", "c"]) { _ in try await two.fetch() } }
        await until("it is asked") { two.begun == 1 }
        second.cancel()
        #expect(await second.failure is CancellationError)
        await until("the fetch of c was cancelled") { two.cancelled == 1 }
        #expect(one.cancelled == 0)
        // A value removed meanwhile is not stored; the other is.
        try await cache.removeValue(forKey: "a")
        await one.answer(["a": "A", "b": "B"])
        #expect(try await first.value == ["a": "A", "b": "B"])
        #expect(await cache.value(forKey: "a") == nil)
        #expect(await cache.value(forKey: "b") == "B")
    }

    @Test("of spellings that Swift considers equal, the first counts, and they are never mixed up")
    func spellings() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        try await cache.setValue("other", forKey: decomposed)
        let found = try await cache.values(forKeys: [composed, decomposed]) { keys in
            Dictionary(uniqueKeysWithValues: keys.map { ($0, "\($0.utf8.count) bytes") })
        }
        #expect(found == [composed: "2 bytes"])
        #expect(await cache.value(forKey: decomposed) == "other")
        #expect(await cache.value(forKey: composed) == "2 bytes")
    }

    @Test("many keys are looked up outside of the caller's actor, few on it")
    @MainActor
    func mainActor() async throws {
        let looks = Lock((onMain: 0, elsewhere: 0))
        let isMain = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: isMain, value: true)
        defer { DispatchQueue.main.setSpecific(key: isMain, value: nil) }
        var configuration = MemoryCache<String, Int>.Configuration()
        configuration.now = {
            looks.withLock {
                if DispatchQueue.getSpecific(key: isMain) == true { $0.onMain += 1 } else { $0.elsewhere += 1 }
            }
            return Date(timeIntervalSince1970: 1_000_000)
        }
        let cache = Cache<Int>(memoryOnly: configuration)
        for number in 0..<1000 { try await cache.setValue(number, forKey: "\(number)") }
        let keys = (0..<1000).map(String.init)
        looks.withLock { $0 = (0, 0) }
        let values = try await cache.values(forKeys: keys) { _ in [:] }
        #expect(values.count == 1000)
        let many = looks.withLock { $0 }
        #expect(many.onMain == 0 && many.elsewhere >= 1000)
        looks.withLock { $0 = (0, 0) }
        #expect(try await cache.values(forKeys: ["1", "2"]) { _ in [:] } == ["1": 1, "2": 2])
        let few = looks.withLock { $0 }
        #expect(few.onMain >= 2 && few.elsewhere == 0)
    }
}
