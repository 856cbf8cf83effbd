import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("A fetch that would wait for itself is refused", .timeLimit(.minutes(10)))
struct FetchCycleTests {
    @Test("a fetch that asks for its own key gets an error, and so do its callers", arguments: Tiers.allCases)
    func direct(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let inner = Lock<CacheError?>(nil)
        let code = await code {
            try await cache.value(forKey: "k") {
                do {
                    return try await cache.value(forKey: "k") { "never" }
                } catch let error as CacheError {
                    inner.withLock { $0 = error }
                    throw error
                }
            }
        }
        #expect(code == .fetchCycle)
        #expect(inner.withLock { $0 }?.message.contains("\"k\"") == true)
        #expect(cache.backend.flights.count == 0)
        #expect(try await cache.value(forKey: "k") { "v" } == "v", "the key is usable")
        // The same in a batch, from a child task, and in a fetch with a fallback.
        let batch = await self.code {
            try await cache.values(forKeys: ["a", "b"]) { _ in
                async let own = cache.value(forKey: "b") { "never" }
                return ["a": try await own]
            }
        }
        #expect(batch == .fetchCycle)
        let value = try await cache.value(forKey: "c") {
            (try? await cache.value(forKey: "c") { "never" }) ?? "without the cache"
        }
        #expect(value == "without the cache")
        await until("no wait is left") { WaitGraph.shared.count == 0 }
    }

    private func code<Result>(_ body: () async throws -> Result) async -> CacheError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? CacheError)?.code
        }
    }

    @Test("a chain through other keys, caches and directories is a cycle too")
    func chain() async throws {
        let one: Cache<String> = try Tiers.both.cache(in: World())
        let two: Cache<Int> = try Tiers.memoryAlone.cache(in: World())
        let code = await code {
            try await one.value(forKey: "a") {
                let number = try await two.value(forKey: "b") {
                    try await one.values(forKeys: ["x", "a"]) { keys in Dictionary(keys.map { ($0, $0) }) { $1 } }.count
                }
                return "\(number)"
            }
        }
        #expect(code == .fetchCycle)
        #expect(one.backend.flights.count == 0 && two.backend.flights.count == 0)
        await until("no wait is left") { WaitGraph.shared.count == 0 }
    }

    @Test("two callers whose fetches ask for each other's key both get an error, in either order")
    func twoCallers() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let gate = HandDrivenSource<Void>()
        @Sendable func value(_ key: String, _ other: String) async throws -> String {
            try await cache.value(forKey: key) {
                try await gate.fetch()
                return try await cache.value(forKey: other) { "never" }
            }
        }
        let first = begin { try await value("a", "b") }
        let second = begin { try await value("b", "a") }
        await until("both fetch") { gate.begun == 2 }
        let third = begin { try await cache.value(forKey: "a") { "never" } }
        await until("the third has joined") { cache.statistics.fetches.coalesced == 1 }
        await gate.answer(())
        await gate.answer(())
        for caller in [first, second, third] {
            #expect((await caller.failure as? CacheError)?.code == .fetchCycle)
        }
        #expect(cache.backend.flights.count == 0)
        await until("no wait is left") { WaitGraph.shared.count == 0 }
    }

    @Test("without a cycle a fetch may wait for any other fetch")
    func noCircle() async throws {
        let cache: Cache<Int> = try Tiers.both.cache(in: World())
        @Sendable func fibonacci(_ number: Int) async throws -> Int {
            if number < 2 { return number }
            return try await cache.value(forKey: "\(number)") {
                async let one = fibonacci(number - 1)
                async let two = fibonacci(number - 2)
                return try await one + two
            }
        }
        #expect(try await fibonacci(60) == 1_548_008_755_920)
        #expect(cache.statistics.fetches.begun == 59)
        await until("no wait is left") { WaitGraph.shared.count == 0 }
        // A refresh without waiting callers may ask for a key whose fetch has asked for the refreshed key.
        let source = HandDrivenSource<Int>()
        let joined = cache.statistics.fetches.coalesced
        let outer = begin {
            try await cache.value(forKey: "outer") {
                let stale = FetchPolicy.cacheFirst.eagerRefresh(atFraction: 0)
                _ = try await cache.value(forKey: "60", policy: stale) {
                    try await cache.value(forKey: "outer") { 0 } + 1
                }
                return try await source.fetch()
            }
        }
        await until("the refresh has joined") { cache.statistics.fetches.coalesced == joined + 1 }
        await source.answer(41)
        #expect(try await outer.value == 41)
        await cache.waitForFetches()
        #expect(await cache.value(forKey: "60") == 42)
    }

    @Test("a task that outlives its fetch is no longer part of it")
    func outliving() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let started = Lock<Task<String, any Error>?>(nil)
        let gate = HandDrivenSource<Void>()
        let value = try await cache.value(forKey: "a") {
            started.withLock {
                $0 = Task {
                    try await gate.fetch()
                    return try await cache.value(forKey: "a", policy: .reload) {
                        try await cache.value(forKey: "b") { "b" }
                    }
                }
            }
            return "a"
        }
        #expect(value == "a")
        await gate.answer(())
        #expect(try await started.withLock { $0 }?.value == "b")
    }

    @Test("a cycle counts as a failure for which a stale value may be returned")
    func stale() async throws {
        let world = World()
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let policy = FetchPolicy.staleIfError(for: .hours(1))
        _ = try await cache.value(forKey: "k", ttl: .seconds(1), policy: policy) { "old" }
        world.clock.advance(by: .seconds(1))
        let value = try await cache.value(forKey: "k", policy: policy) {
            try await cache.value(forKey: "k", policy: policy) { "never" } + "er"
        }
        #expect(value == "older")
    }

    @Test(
        "random fetches that ask for each other's keys all end, and no caller waits forever",
        arguments: [1, 2, 3] as [UInt64])
    func storm(_ seed: UInt64) async throws {
        print("cycle storm: seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        let caches: [Cache<String>] = try [Tiers.both, .memoryAlone, .diskAlone].map { try $0.cache(in: World()) }
        // The keys that a key's fetch asks for.
        let needs = (0..<30).map { _ in
            (0..<Int.random(in: 0..<3, using: &generator)).map { _ in
                Int.random(in: 0..<30, using: &generator)
            }
        }
        @Sendable func value(_ number: Int) async throws -> String {
            try await caches[number % 3].value(forKey: "\(number)", ttl: .seconds(0)) {
                for other in needs[number] {
                    _ = try await value(other)
                    await Task.yield()
                }
                return "\(number)"
            }
        }
        let counts = await withTaskGroup(of: Bool?.self) { group in
            for number in 0..<3000 {
                group.addTask {
                    do {
                        return try await value(number % 30) == "\(number % 30)"
                    } catch {
                        return (error as? CacheError)?.code == .fetchCycle ? nil : false
                    }
                }
            }
            return await group.reduce(into: (answered: 0, refused: 0, wrong: 0)) { counts, isRight in
                switch isRight {
                case true?: counts.answered += 1
                case false?: counts.wrong += 1
                case nil: counts.refused += 1
                }
            }
        }
        #expect(counts.wrong == 0 && counts.answered > 0)
        #expect(caches.allSatisfy { $0.backend.flights.count == 0 })
        await until("no wait is left") { WaitGraph.shared.count == 0 }
    }
}
