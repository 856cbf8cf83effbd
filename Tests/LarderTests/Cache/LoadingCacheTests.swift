import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A cache with its loader built in")
struct LoadingCacheTests {
    private typealias Source = HandDrivenSource<String>

    /// Loads "key/number", and notes the keys.
    private final class Loader: Sendable {
        private let state = Lock((calls: [[String]](), fails: false))

        var calls: [[String]] { state.withLock { $0.calls } }

        func fail(_ fails: Bool) {
            state.withLock { $0.fails = fails }
        }

        func load(_ key: String) throws -> String { try loadAll([key])[key]! }

        func loadAll(_ keys: [String]) throws -> [String: String] {
            let (number, fails) = state.withLock { state in
                state.calls.append(keys.sorted())
                return (state.calls.count, state.fails)
            }
            if fails { throw Failure() }
            return Dictionary(uniqueKeysWithValues: keys.filter { $0 != "none" }.map { ($0, "\($0)/\(number)") })
        }
    }

    private struct Failure: Error {}

    @Test("loads a value once, whoever asks, until it expires", arguments: Tiers.allCases)
    func value(_ tiers: Tiers) async throws {
        let (world, loader) = (World { $0.sweepInterval = nil }, Loader())
        let cache = LoadingCache<String>(try tiers.cache(in: world), ttl: .seconds(10)) { try loader.load($0) }
        for _ in 0..<3 { #expect(try await cache.value(forKey: "a") == "a/1") }
        #expect(try await cache.value(forKey: "b") == "b/2")
        world.clock.advance(by: .seconds(10))
        #expect(try await cache.value(forKey: "a") == "a/3")
        try await cache.cache.setValue("stored", forKey: "a")
        #expect(try await cache.value(forKey: "a") == "stored")
        loader.fail(true)
        let failed = begin { try await cache.value(forKey: "c") }
        #expect(await failed.failure is Failure)
        #expect(loader.calls == [["a"], ["b"], ["a"], ["c"]])
    }

    @Test("loads many values in one call, but none that it has", arguments: Tiers.allCases)
    func batch(_ tiers: Tiers) async throws {
        let (world, loader) = (World { $0.sweepInterval = nil }, Loader())
        let cache = LoadingCache<String>(try tiers.cache(in: world), tags: ["t"], loadAll: { try loader.loadAll($0) })
        #expect(try await cache.value(forKey: "b") == "b/1")
        let values = try await cache.values(forKeys: ["a", "b", "c", "none", "a"])
        #expect(values == ["a": "a/2", "b": "b/1", "c": "c/2"])
        #expect(loader.calls == [["b"], ["a", "c", "none"]])
        let missing = begin { try await cache.value(forKey: "none") }
        #expect((await missing.failure as? CacheError)?.code == .notFound)
        try await cache.cache.removeAll(tagged: "t")
        #expect(await cache.cache.value(forKey: "a") == nil)
        #expect(try await cache.values(forKeys: [] as [String]) == [:])
    }

    @Test("loads several values with a loader for one, and leaves out those that there are not")
    func several() async throws {
        let cache = LoadingCache<String>(try Tiers.both.cache(in: World())) { key, _ in
            key == "none" ? .absent : .value(key + "!")
        }
        for _ in 0..<2 {
            #expect(try await cache.values(forKeys: ["a", "none", "b", "a"]) == ["a": "a!", "b": "b!"])
        }
        let failing = LoadingCache<String>(cache.cache) { key in
            if key == "bad" { throw Failure() }
            return key
        }
        let failed = begin { try await failing.values(forKeys: ["c", "bad"]) }
        #expect(await failed.failure is Failure)
    }

    @Test("a refresh loads a fresh value again; others get the old one meanwhile, and when it fails")
    func refresh() async throws {
        let (world, source) = (World { $0.sweepInterval = nil }, Source())
        let policy = FetchPolicy.cacheFirst.hardTimeout(.seconds(5))
        let cache = LoadingCache<String>(try Tiers.both.cache(in: world), policy: policy) { _ in
            try await source.fetch()
        }
        let first = begin { try await cache.value(forKey: "k") }
        await until("it is asked") { source.begun == 1 }
        await source.answer("1")
        #expect(try await first.value == "1")
        let refresh = begin { try await cache.refresh(forKey: "k") }
        await until("it is asked again") { source.begun == 2 }
        #expect(try await cache.value(forKey: "k") == "1")
        await source.answer("2")
        #expect(try await refresh.value == "2")
        #expect(try await cache.value(forKey: "k") == "2")
        // The other settings of the policy hold.
        let late = begin { try await cache.refresh(forKey: "k") }
        await until("it hangs") { source.begun == 3 }
        world.clock.advance(by: .seconds(5))
        #expect((await late.failure as? CacheError)?.code == .timedOut)
        #expect(try await cache.value(forKey: "k") == "2")
    }

    @Test("a value of some age is loaded again in the background while it is in use", arguments: Tiers.allCases)
    func refreshAfter(_ tiers: Tiers) async throws {
        let (world, loader) = (World { $0.sweepInterval = nil }, Loader())
        for ttl in [TimeToLive.hours(1), .forever] {
            let policy = FetchPolicy.cacheFirst.eagerRefresh(after: .seconds(60))
            let cache = LoadingCache<String>(try tiers.cache(in: world), ttl: ttl, policy: policy) {
                try loader.load($0)
            }
            let first = try await cache.refresh(forKey: "k")
            let begun = loader.calls.count
            world.clock.advance(by: .milliseconds(59_999))
            #expect(try await cache.value(forKey: "k") == first)
            await cache.cache.waitForFetches()
            #expect(loader.calls.count == begun)
            world.clock.advance(by: .milliseconds(1))
            #expect(try await cache.value(forKey: "k") == first)
            await cache.cache.waitForFetches()
            #expect(try await cache.value(forKey: "k") == "k/\(begun + 1)")
            // The new one is young.
            await cache.cache.waitForFetches()
            #expect(loader.calls.count == begun + 1)
        }
    }

    @Test("one that is confirmed is young again, also without end and with lives that slide", arguments: Tiers.allCases)
    func confirmed(_ tiers: Tiers) async throws {
        for (ttl, slides) in [(TimeToLive.hours(1), false), (.forever, false), (.hours(1), true)] {
            let world = World {
                $0.sweepInterval = nil
                $0.slidingExpiry = slides
            }
            let calls = Lock(0)
            let policy = FetchPolicy.cacheFirst.eagerRefresh(after: .seconds(60))
            var configuration = Cache<String>.Configuration()
            configuration.memory?.slidingExpiry = slides && tiers == .memoryAlone
            let cache = LoadingCache(try tiers.cache(in: world, configuration), ttl: ttl, policy: policy) {
                key, cached in
                calls.withLock { $0 += 1 }
                return cached == nil ? .value(key) : .notModified
            }
            for round in 1...3 {
                // Reads do not make it younger.
                for _ in 0..<6 {
                    #expect(try await cache.value(forKey: "k") == "k")
                    await cache.cache.waitForFetches()
                    world.clock.advance(by: .seconds(9))
                }
                #expect(calls.withLock(\.self) == round, "\(ttl), \(slides)")
                world.clock.advance(by: .seconds(6))
                #expect(try await cache.value(forKey: "k") == "k")
                await cache.cache.waitForFetches()
                #expect(calls.withLock(\.self) == round + 1, "\(ttl), \(slides)")
            }
        }
    }

    @Test("a loader that revalidates is given what the cache has")
    func revalidate() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = LoadingCache<String>(try Tiers.both.cache(in: world), ttl: .seconds(10)) { key, cached in
            cached == nil ? .value(key, metadata: ["etag": "x"]) : .notModified
        }
        #expect(try await cache.value(forKey: "k") == "k")
        world.clock.advance(by: .seconds(11))
        #expect(try await cache.value(forKey: "k") == "k")
        #expect(try await cache.refresh(forKey: "k") == "k")
        #expect(await cache.cache.lookup(forKey: "k")?.metadata == ["etag": "x"])
    }
}
