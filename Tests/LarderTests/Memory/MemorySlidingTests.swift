import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Sliding lives in memory")
struct MemorySlidingTests {
    let clock = ManualClock()

    private func cache(
        _ configure: (inout MemoryCache<String, String>.Configuration) -> Void = { _ in }
    ) -> MemoryCache<String, String> {
        var configuration = MemoryCache<String, String>.Configuration(
            slidingExpiry: true, sweepInterval: nil, release: .inline)
        configure(&configuration)
        return MemoryCache(configuration: configuration, clock: clock)
    }

    /// Inserts a value that is kept for some time beyond its expiry.
    private func insert(
        _ value: String, _ key: String, ttl: TimeToLive, keptStale: Int64, _ cache: MemoryCache<String, String>
    ) throws {
        let life = try #require(MemoryLife(ttl, from: clock.now, default: .forever))
        cache.release(
            cache.insertKept(value, forKey: key, life: life, cost: 0, MemoryExtra(keptStale: keptStale)).demand)
    }

    @Test("every read of a fresh value restarts its life", arguments: 0..<5)
    func reads(way: Int) {
        let cache = cache()
        cache.setValue("v", forKey: "k", ttl: .seconds(10))
        for _ in 0..<5 {
            clock.advance(by: .milliseconds(9_999))
            let found =
                switch way {
                case 0: cache.value(forKey: "k")
                case 1: cache["k"]
                case 2: cache.find("k")
                case 3: cache.findEntry("k", at: clock.now)?.value
                default: cache.findKept("k", at: clock.now)?.value
                }
            #expect(found == "v")
        }
        clock.advance(by: .seconds(10))
        #expect(cache.value(forKey: "k") == nil && cache.count == 0)
        #expect(cache.statistics.expirations == 1 && cache.statistics.hits == 5)
    }

    @Test("peeking, checking and listing renew no life")
    func looks() {
        let cache = cache()
        cache.setValue("v", forKey: "k", ttl: .seconds(10))
        clock.advance(by: .seconds(9))
        #expect(cache.peekValue(forKey: "k") == "v" && cache.hasValue(forKey: "k"))
        #expect(cache.keys() == ["k"] && cache.keysByRecency() == ["k"] && cache.values() == ["v"])
        clock.advance(by: .seconds(1))
        #expect(cache.peekValue(forKey: "k") == nil && cache["k"] == nil)
    }

    @Test("without the setting, reads renew no life")
    func off() {
        let cache = cache { $0.slidingExpiry = false }
        cache.setValue("v", forKey: "k", ttl: .seconds(10))
        clock.advance(by: .seconds(9))
        #expect(cache["k"] == "v")
        clock.advance(by: .seconds(1))
        #expect(cache["k"] == nil)
    }

    @Test("lives until a date and forever do not slide; a new life with a duration does")
    func fixed() {
        let cache = cache()
        cache.setValue("v", forKey: "until", ttl: .until(clock.date.addingTimeInterval(10)))
        cache.setValue("v", forKey: "forever", ttl: .forever)
        cache.setValue("v", forKey: "renewed", ttl: .until(clock.date.addingTimeInterval(10)))
        cache.setValue("v", forKey: "fixed", ttl: .seconds(10))
        #expect(cache.setTimeToLive(.seconds(10), forKey: "renewed"))
        #expect(cache.setTimeToLive(.until(clock.date.addingTimeInterval(10)), forKey: "fixed"))
        clock.advance(by: .seconds(9))
        for key in ["until", "forever", "renewed", "fixed"] { #expect(cache[key] == "v") }
        clock.advance(by: .seconds(1))
        #expect(Set(cache.keys()) == ["forever", "renewed"])
        #expect(cache["until"] == nil && cache["fixed"] == nil)
        clock.advance(by: .seconds(100_000_000))
        #expect(cache["forever"] == "v" && cache.entryLife("forever")?.expires.milliseconds == Life.unlimited)
    }

    @Test("the sweep and the limits respect the new ends of extended lives")
    func buckets() {
        let cache = cache { $0.countLimit = 3 }
        for key in ["a", "b", "c"] { cache.setValue(key, forKey: key, ttl: .seconds(10)) }
        clock.advance(by: .seconds(6))
        #expect(cache["a"] == "a")
        clock.advance(by: .seconds(4))
        #expect(cache.removeExpired() == 2 && cache.keys() == ["a"])
        for key in ["d", "e"] { cache.setValue(key, forKey: key, ttl: .seconds(100)) }
        clock.advance(by: .seconds(5))
        #expect(cache["d"] == "d" && cache["e"] == "e")
        clock.advance(by: .seconds(1))
        cache["f"] = "f"
        #expect(cache.statistics.expirations == 3 && cache.statistics.evictions.total == 0, "a is removed as expired")
        #expect(Set(cache.keys()) == ["d", "e", "f"])
    }

    @Test("the age limit ends a sliding life, and a use extends both")
    func age() {
        let cache = cache { $0.ageLimit = .seconds(5) }
        cache.setValue("v", forKey: "k", ttl: .seconds(3))
        for _ in 0..<4 {
            clock.advance(by: .seconds(2))
            #expect(cache["k"] == "v")
        }
        clock.advance(by: .seconds(3))
        #expect(cache["k"] == nil && cache.statistics.expirations == 1)
        cache.setValue("v", forKey: "long", ttl: .seconds(100))
        clock.advance(by: .seconds(5))
        #expect(cache["long"] == "v")
        clock.advance(by: .milliseconds(5_001))
        #expect(cache["long"] == nil && cache.statistics.evictions.age == 1)
    }

    @Test("a stale answer renews no life; a fresh one also extends the stale window")
    func stale() throws {
        let cache = cache()
        try insert("v", "k", ttl: .seconds(10), keptStale: 20_000, cache)
        clock.advance(by: .seconds(5))
        #expect(cache.find("k") == "v")
        clock.advance(by: .seconds(10))
        let found = try #require(cache.findKept("k", at: clock.now))
        #expect(found.value == "v" && found.expired == clock.now)
        #expect(cache.find("k") == nil, "it is stale")
        clock.advance(by: .milliseconds(19_999))
        #expect(cache.removeExpired() == 0 && cache.findKept("k", at: clock.now)?.value == "v")
        clock.advance(by: .milliseconds(1))
        #expect(cache.removeExpired() == 1)
    }

    @Test("setting the clock back shortens no life")
    func clockSetBack() {
        let cache = cache()
        let start = clock.milliseconds
        cache.setValue("v", forKey: "k", ttl: .seconds(100))
        clock.set(milliseconds: start - 50_000)
        #expect(cache["k"] == "v")
        clock.set(milliseconds: start + 99_999)
        #expect(cache["k"] == "v")
    }

    @Test("lives slide in a cache without a disk, which keeps the times of stores")
    func memoryBackend() async throws {
        let configuration = MemoryCache<String, String>.Configuration(slidingExpiry: true, sweepInterval: nil)
        let cache = Cache<String>(memoryOnly: configuration, clock: clock)
        let stored = clock.date
        try await cache.setValue("v", forKey: "set", ttl: .seconds(10))
        try await cache.setValue("v", forKey: "until", ttl: .until(clock.date.addingTimeInterval(25)))
        _ = try await cache.value(forKey: "fetched", ttl: .seconds(10)) { "v" }
        _ = try await cache.value(forKey: "fetched until", ttl: .until(clock.date.addingTimeInterval(25))) { "v" }
        for _ in 0..<3 {
            clock.advance(by: .seconds(8))
            for key in ["set", "until", "fetched", "fetched until"] {
                #expect(await cache.value(forKey: key) == "v")
                #expect(try await cache.value(forKey: key) { "new" } == "v")
                #expect(await cache.lookup(forKey: key)?.value == "v")
            }
        }
        #expect(await cache.lookup(forKey: "set")?.expiresAt == clock.date.addingTimeInterval(10))
        let entry = try #require(await cache.entry(forKey: "set"))
        #expect(entry.storedAt == stored && entry.expiresAt == clock.date.addingTimeInterval(10))
        clock.advance(by: .seconds(1))
        #expect(Set(await cache.keys()) == ["set", "fetched"])
    }

    @Test("with a disk tier, only the disk decides whether lives slide")
    func attached() async throws {
        let world = World { $0.sweepInterval = nil }
        var configuration = Cache<String>.Configuration()
        configuration.memory = .init(slidingExpiry: true)
        let cache = Cache<String>(disk: try world.open(), namespace: "n", configuration: configuration)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        world.clock.advance(by: .seconds(9))
        #expect(await cache.value(forKey: "k") == "v")
        #expect(await cache.lookup(forKey: "k")?.source == .memory)
        world.clock.advance(by: .seconds(1))
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("the times of the stores survive compaction")
    func compaction() async throws {
        let configuration = MemoryCache<String, Int>.Configuration(slidingExpiry: true, sweepInterval: nil)
        let cache = Cache<Int>(memoryOnly: configuration, clock: clock)
        let stored = clock.date
        for number in 0..<1000 { try await cache.setValue(number, forKey: "\(number)", ttl: .seconds(10)) }
        clock.advance(by: .seconds(9))
        for number in stride(from: 0, to: 1000, by: 100) { #expect(await cache.value(forKey: "\(number)") == number) }
        clock.advance(by: .seconds(1))
        #expect(cache.memory?.removeExpired() == 990)
        try await cache.setValue(1, forKey: "new")
        for number in stride(from: 0, to: 1000, by: 100) {
            #expect(await cache.entry(forKey: "\(number)")?.storedAt == stored)
        }
        #expect(await cache.entry(forKey: "new")?.storedAt == clock.date)
    }
}

extension MemoryCache {
    /// The life of an entry.
    func entryLife(_ key: Key) -> MemoryLife? {
        table.withLock { table in table.slot(key, MemoryKey.fingerprint(key)).map { table.slots[$0].life } }
    }
}
