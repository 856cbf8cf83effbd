import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Known absences, in memory alone")
struct MemoryAbsenceTests {
    let clock = ManualClock()
    let fetches = Lock(0)

    private func cache(
        _ configure: (inout MemoryCache<String, String>.Configuration) -> Void = { _ in }
    ) -> Cache<String> {
        var configuration = MemoryCache<String, String>.Configuration()
        configuration.sweepInterval = nil
        // What goes first is known.
        configuration.eviction = .leastRecentlyUsed
        configuration.release = .inline
        configure(&configuration)
        return Cache(memoryOnly: configuration, clock: clock)
    }

    /// Whether the absence of a key has to be fetched.
    private func isFetched(_ key: String, _ cache: Cache<String>) async throws -> Bool {
        let before = fetches.withLock { $0 }
        let value = try await cache.optionalValue(forKey: key, absentTTL: .seconds(10)) {
            fetches.withLock { $0 += 1 }
            return nil
        }
        #expect(value == nil)
        return fetches.withLock { $0 } > before
    }

    @Test("they count as entries, and are evicted like values")
    func count() async throws {
        let cache = cache { $0.countLimit = 3 }
        let memory = try #require(cache.memoryTier)
        try await cache.setValue("v", forKey: "value")
        for key in ["a", "b", "c"] { #expect(try await isFetched(key, cache)) }
        #expect(memory.count == 3 && memory.keys() == [] && memory.statistics.evictions.count == 1)
        #expect(try await !isFetched("a", cache), "a use")
        try await cache.setValue("v", forKey: "value")
        #expect(try await !isFetched("a", cache))
        #expect(try await isFetched("b", cache))
        #expect(memory.count == 3)
    }

    @Test("they cost the bytes of their keys, at least one")
    func cost() async throws {
        let cache = cache { $0.costLimit = 10 }
        let memory = try #require(cache.memoryTier)
        #expect(try await isFetched("", cache))
        #expect(memory.cost == 1)
        for key in ["caf\u{e9}", "four"] { #expect(try await isFetched(key, cache)) }
        #expect(memory.cost == 10 && memory.count == 3)
        #expect(try await isFetched("x", cache))
        #expect(memory.cost == 10 && memory.count == 3)
        #expect(try await isFetched("longer than ten", cache))
        #expect(try await isFetched("longer than ten", cache))
        memory.setValue("v", forKey: "four", cost: 0)
        #expect(memory.cost == 6 && memory.count == 3)
        memory.trim(toCost: 1)
        #expect(memory.cost == 1 && memory.count == 2)
    }

    @Test("memory pressure removes them, and so do sweeps, trims and time")
    func removal() async throws {
        let cache = cache { $0.ageLimit = .seconds(5) }
        let memory = try #require(cache.memoryTier)
        #expect(try await isFetched("k", cache))
        #expect(try await !isFetched("k", cache))
        memory.respond(to: .memoryPressure)
        #expect(memory.count == 0)
        #expect(try await isFetched("k", cache))
        clock.advance(by: .seconds(5))
        #expect(try await !isFetched("k", cache))
        clock.advance(by: .seconds(5))
        #expect(memory.removeExpired() == 1)
        #expect(try await isFetched("k", cache))
        clock.advance(by: .milliseconds(5001))
        #expect(try await isFetched("k", cache), "unused for longer than the age limit")
        memory.trim(toCount: 0)
        #expect(try await isFetched("k", cache))
        memory.removeAll()
        #expect(try await isFetched("k", cache))
        #expect(memory.count == 1)
    }

    @Test("they are not values: reads, keys, handlers and events ignore them")
    func invisible() async throws {
        let told = Lock<[String]>([])
        let cache = cache {
            $0.countLimit = 2
            $0.onRemove = { key, value, cause in told.withLock { $0.append("\(key) \(value) \(cause)") } }
        }
        let memory = try #require(cache.memoryTier)
        let events = cache.events
        #expect(try await isFetched("k", cache))
        #expect(memory.value(forKey: "k") == nil && memory["k"] == nil && !memory.hasValue(forKey: "k"))
        #expect(memory.keys() == [] && memory.count == 1)
        #expect(!memory.setTimeToLive(.days(1), forKey: "k"))
        #expect(memory.statistics.hits == 0 && memory.statistics.stores == 0)
        #expect(memory.removeValue(forKey: "k") == nil && memory.count == 0)
        #expect(try await isFetched("k", cache))
        memory["k"] = "value"
        #expect(memory["k"] == "value" && told.withLock { $0 } == [])
        // A value whose key turns out to be absent is removed.
        _ = try await cache.optionalValue(forKey: "k", absentTTL: .seconds(10), policy: .reload) { nil }
        #expect(memory["k"] == nil && told.withLock { $0 } == ["k value removed"])
        for key in ["a", "b"] { #expect(try await isFetched(key, cache)) }
        memory["c"] = "c"
        memory.removeAll()
        #expect(told.withLock { $0 } == ["k value removed", "c c cleared"])
        var found: [String] = []
        for await event in events {
            found.append("\(event.kind) \(event.keys) \(event.count)")
            if event.kind == .cleared { break }
        }
        #expect(found == ["removed [\"k\"] 1", "cleared [] 1"])
    }
}
