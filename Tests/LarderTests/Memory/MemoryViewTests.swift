import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Inspecting the values in memory")
struct MemoryViewTests {
    let clock = ManualClock()

    private func cache(
        _ configuration: MemoryCache<String, Int>.Configuration = .init(sweepInterval: nil, release: .inline)
    ) -> MemoryCache<String, Int> {
        MemoryCache(configuration: configuration, clock: clock)
    }

    @Test("peeking counts nothing, moves nothing and removes nothing")
    func peek() {
        let cache = cache(.init(countLimit: 2, eviction: .leastRecentlyUsed, sweepInterval: nil, release: .inline))
        cache.setValue(1, forKey: "a", ttl: .seconds(10))
        cache["b"] = 2
        #expect(cache.peekValue(forKey: "a") == 1 && cache.peekValue(forKey: "c") == nil)
        #expect(cache.statistics.hits == 0 && cache.statistics.misses == 0)
        cache["c"] = 3
        #expect(cache.peekValue(forKey: "a") == nil && cache.peekValue(forKey: "b") == 2, "a was used least recently")
        cache.setValue(4, forKey: "d", ttl: .seconds(1))
        clock.advance(by: .seconds(1))
        #expect(cache.peekValue(forKey: "d") == nil && cache.count == 2)
        let aging = self.cache(.init(ageLimit: .seconds(5), sweepInterval: nil))
        aging["a"] = 1
        clock.advance(by: .seconds(5))
        #expect(aging.peekValue(forKey: "a") == 1)
        clock.advance(by: .milliseconds(1))
        #expect(aging.peekValue(forKey: "a") == nil)
    }

    @Test("keys come in the order of use, and stale or absent entries are omitted from keys and values")
    func lists() {
        let cache = cache()
        #expect(cache.keysByRecency() == [] && cache.values() == [])
        for number in 0..<5 { cache["\(number)"] = number }
        cache.setValue(5, forKey: "short", ttl: .seconds(1))
        let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: 100_000))
        cache.release(cache.insertAbsence("absent", life: life, MemoryExtra()).demand)
        clock.advance(by: .seconds(1))
        _ = cache["2"]
        _ = cache.hasValue(forKey: "0")
        _ = cache.peekValue(forKey: "1")
        #expect(cache.keysByRecency() == ["2", "4", "3", "1", "0"])
        #expect(cache.values().sorted() == [0, 1, 2, 3, 4] && Set(cache.keys()) == Set(cache.keysByRecency()))
        #expect(cache.count == 7 && cache.statistics.hits == 1)
    }

    @Test("the view reads, trims and limits the memory that it shows")
    func view() {
        let cache = cache(.init(eviction: .leastRecentlyUsed, sweepInterval: nil, release: .inline))
        let view = MemoryView(cache)
        for number in 0..<10 { cache.setValue(number, forKey: "\(number)", cost: number) }
        #expect(view.value(forKey: "0") == 0 && view.peekValue(forKey: "1") == 1 && view.hasValue(forKey: "2"))
        #expect(view.count == 10 && view.cost == 45 && view.statistics.hits == 1)
        #expect(view.keysByRecency().prefix(2) == ["0", "9"] && view.keys().count == 10 && view.values().count == 10)
        view.trim(toCount: 8)
        #expect(view.count == 8)
        view.trim(toCost: 30)
        #expect(view.cost <= 30)
        clock.advance(by: .seconds(1))
        view.trim(toAge: .zero)
        #expect(view.count == 0)
        view.countLimit = 3
        view.costLimit = 10
        view.entryCostLimit = 5
        view.ageLimit = .seconds(7)
        #expect(cache.countLimit == 3 && cache.costLimit == 10 && cache.entryCostLimit == 5)
        #expect(cache.ageLimit == .seconds(7))
        #expect(view.countLimit == 3 && view.costLimit == 10 && view.entryCostLimit == 5)
        #expect(view.ageLimit == .seconds(7))
        for number in 0..<9 { cache.setValue(number, forKey: "\(number)", ttl: .seconds(1), cost: number) }
        #expect(view.count == 2 && view.cost == 9)
        clock.advance(by: .seconds(1))
        #expect(view.removeExpired() == 2)
        cache["k"] = 1
        view.respond(to: .memoryPressure)
        #expect(view.count == 0 && "\(view)" == "0 entries, cost 0")
    }

    @Test("a configuration takes each setting by its label, and has defaults for the others")
    func configuration() {
        let told = Lock(0)
        let all = MemoryCache<String, Int>.Configuration(
            defaultTTL: .seconds(1), slidingExpiry: true, countLimit: 2, costLimit: 3, entryCostLimit: 4, cost: { $0 },
            ageLimit: .seconds(5), sweepInterval: .seconds(6), release: .inline, removesAllOnMemoryPressure: false,
            removesAllInBackground: false, onSystemCondition: { _ in told.withLock { $0 += 1 } },
            onRemove: { _, _, _ in told.withLock { $0 += 10 } })
        #expect(all.defaultTTL == .seconds(1) && all.slidingExpiry && all.countLimit == 2 && all.costLimit == 3)
        #expect(all.entryCostLimit == 4 && all.cost?(7) == 7 && all.ageLimit == .seconds(5))
        #expect(all.sweepInterval == .seconds(6) && all.release == .inline)
        #expect(!all.removesAllOnMemoryPressure && !all.removesAllInBackground)
        all.onSystemCondition?(.background)
        all.onRemove?("k", 1, .count)
        #expect(told.withLock { $0 } == 11)
        for none in [MemoryCache<String, Int>.Configuration(), .init(countLimit: nil)] {
            #expect(none.defaultTTL == .days(1) && !none.slidingExpiry && none.countLimit == nil)
            #expect(none.costLimit == nil && none.entryCostLimit == nil && none.cost == nil && none.ageLimit == nil)
            #expect(none.sweepInterval == .seconds(60) && none.release == .background && none.onRemove == nil)
            #expect(none.removesAllOnMemoryPressure && none.removesAllInBackground && none.onSystemCondition == nil)
        }
        var own = MemoryCache<String, Int>.Configuration(countLimit: 3)
        own.now = { Date(timeIntervalSince1970: 1000) }
        #expect(own.clock.now.milliseconds == 1_000_000)
    }
}
