import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Expired and unused values in memory")
struct MemoryExpiryTests: RemovalTests {
    typealias Value = String

    let clock = ManualClock()
    let told = Lock<[String]>([])

    @Test("removing an expired value returns nil, and reports the value as expired")
    func removal() {
        let cache = cache()
        cache.setValue("v", forKey: "k", ttl: .seconds(1), cost: 3)
        clock.advance(by: .seconds(1))
        #expect(cache.removeValue(forKey: "k") == nil)
        expectTold(["k v expired"])
        #expect(cache.count == 0 && cache.cost == 0 && cache.statistics.expirations == 1)
    }

    @Test("a read that finds an expired value removes it", arguments: 0..<4)
    func read(way: Int) {
        let cache = cache()
        cache.setValue("v", forKey: "k", ttl: .seconds(1), cost: 3)
        cache.setValue("w", forKey: "other", ttl: .seconds(2), cost: 4)
        clock.advance(by: .seconds(1))
        switch way {
        case 0: #expect(cache.value(forKey: "k") == nil)
        case 1: #expect(cache.find("k") == nil)
        case 2: #expect(cache.findEntry("k", at: clock.now) == nil)
        default: #expect(!cache.hasValue(forKey: "k"))
        }
        #expect(cache.count == 1 && cache.cost == 4 && cache.statistics.expirations == 1)
        if way != 2 { expectTold(["k v expired"]) }
        #expect(cache.value(forKey: "other") == "w")
    }

    @Test("a read keeps an expired value that may still be revalidated")
    func stale() {
        let cache = cache { $0.countLimit = 2 }
        let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: 1000))
        let inserted = cache.insertKept("v", forKey: "k", life: life, cost: 0, MemoryExtra(keptStale: 2000))
        cache.release(inserted.demand)
        cache.setValue("w", forKey: "short", ttl: .init(.milliseconds(2500)))
        clock.advance(by: .milliseconds(2600))
        #expect(cache.value(forKey: "k") == nil && cache.count == 2)
        #expect(cache.kept("k", at: clock.now)?.value == "v")
        cache["new"] = "x"
        expectTold(["short w expired"])
        clock.advance(by: .milliseconds(400))
        #expect(cache.value(forKey: "k") == nil && cache.count == 1)
        expectTold(["k v expired"])
    }

    @Test("expired values are removed before fresh ones when a limit is exceeded")
    func limits() {
        let counting = cache { $0.countLimit = 3 }
        counting.setValue("1", forKey: "a", ttl: .seconds(100))
        counting.setValue("2", forKey: "b", ttl: .seconds(2))
        counting.setValue("3", forKey: "c", ttl: .seconds(1))
        clock.advance(by: .seconds(3))
        counting["d"] = "4"
        expectTold(["c 3 expired"])
        counting["e"] = "5"
        expectTold(["b 2 expired"])
        counting["f"] = "6"
        expectTold(["a 1 count"])
        let weighing = cache { $0.costLimit = 10 }
        weighing.setValue("1", forKey: "a", ttl: .seconds(100), cost: 5)
        weighing.setValue("2", forKey: "b", ttl: .seconds(1), cost: 5)
        clock.advance(by: .seconds(1))
        weighing.setValue("3", forKey: "c", cost: 5)
        expectTold(["b 2 expired"])
        weighing.setValue("4", forKey: "d", ttl: .seconds(1), cost: 0)
        clock.advance(by: .seconds(1))
        weighing.trim(toCost: 5)
        expectTold(["d 4 expired", "a 1 cost"])
    }

    @Test("a renewed value is not mistaken for an expired one")
    func renewed() {
        let cache = cache { $0.countLimit = 3 }
        for key in ["a", "b", "c"] { cache.setValue(key, forKey: key, ttl: .seconds(1)) }
        #expect(cache.setTimeToLive(.seconds(50), forKey: "a"))
        cache.setValue("again", forKey: "b", ttl: .seconds(50))
        told.withLock { $0 = [] }
        clock.advance(by: .seconds(2))
        cache["d"] = "d"
        expectTold(["c c expired"])
        #expect(cache.setTimeToLive(.init(.milliseconds(1)), forKey: "d"))
        clock.advance(by: .milliseconds(1))
        cache["e"] = "e"
        expectTold(["d d expired"])
    }

    @Test("expired values are found after the clock was set back")
    func clockSetBack() {
        let cache = cache { $0.countLimit = 2 }
        cache.setValue("1", forKey: "a", ttl: .seconds(1))
        cache["b"] = "2"
        clock.advance(by: .seconds(2))
        cache["c"] = "3"
        expectTold(["a 1 expired"])
        clock.set(milliseconds: clock.milliseconds - 3_600_000)
        cache.setValue("4", forKey: "d", ttl: .seconds(100))
        cache.setValue("5", forKey: "e", ttl: .seconds(10))
        expectTold(["b 2 count", "c 3 count"])
        clock.advance(by: .seconds(20))
        cache["f"] = "6"
        expectTold(["e 5 expired"])
    }

    @Test("a read removes a value unused for longer than the age limit")
    func age() {
        let cache = cache { $0.ageLimit = .seconds(10) }
        for key in ["a", "b", "c"] { cache.setValue(key, forKey: key, ttl: .forever, cost: 1) }
        clock.advance(by: .seconds(10))
        #expect(cache["a"] == "a")
        clock.advance(by: .milliseconds(1))
        #expect(cache["b"] == nil && cache.count == 2 && cache.statistics.evictions.age == 1)
        expectTold(["b b age"])
        #expect(cache.keys() == ["a"])
        #expect(!cache.setTimeToLive(.seconds(5), forKey: "c"))
        #expect(cache.removeValue(forKey: "c") == nil)
        expectTold(["c c age"])
        #expect(cache["a"] == "a" && cache.cost == 1)
        clock.advance(by: .seconds(11))
        #expect(!cache.hasValue(forKey: "a") && cache.count == 0)
    }

    @Test("setting the clock back by seconds hides no expired value")
    func smallSetBackHidesExpired() {
        let clock = ManualClock()
        var configuration = MemoryCache<String, Int>.Configuration()
        configuration.sweepInterval = nil
        configuration.countLimit = 2
        let start = clock.milliseconds
        let cache = MemoryCache(configuration: configuration, clock: clock)
        cache.setValue(1, forKey: "x", ttl: .init(.milliseconds(100_000)))
        cache.setValue(0, forKey: "long", ttl: .days(300))
        clock.set(milliseconds: start + 100_000)
        cache.removeExpired()
        clock.set(milliseconds: start + 70_000)
        cache.removeValue(forKey: "absent")
        cache.setValue(2, forKey: "late", ttl: .init(.milliseconds(25_000)))
        cache.trim(toCount: 1)
        cache.setValue(3, forKey: "early", ttl: .init(.milliseconds(1_000)))
        clock.advance(by: .seconds(10))
        cache.removeExpired()
        #expect(cache.count == 1, "an expired entry is not removed")
        cache.setValue(4, forKey: "new", ttl: .days(1))
        #expect(cache.value(forKey: "late") == 2, "a fresh value was evicted while an expired one stays")
    }
}
