import Dispatch
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Changing limits of a memory cache, and the limit of one entry")
struct MemoryLivingLimitTests: RemovalTests {
    typealias Value = Int

    let clock = ManualClock()
    let told = Lock<[String]>([])

    @Test("limits are read as they were configured or set; negative ones are 0")
    func values() {
        let cache = cache {
            ($0.countLimit, $0.costLimit, $0.entryCostLimit, $0.ageLimit) = (3, 40, 20, .seconds(5))
        }
        #expect(cache.countLimit == 3 && cache.costLimit == 40 && cache.entryCostLimit == 20)
        #expect(cache.ageLimit == .seconds(5))
        (cache.countLimit, cache.costLimit, cache.entryCostLimit, cache.ageLimit) = (-1, -2, -3, .seconds(-4))
        #expect(cache.countLimit == 0 && cache.costLimit == 0 && cache.entryCostLimit == 0)
        #expect(cache.ageLimit == .zero)
        (cache.countLimit, cache.costLimit, cache.entryCostLimit, cache.ageLimit) = (nil, nil, nil, nil)
        #expect(cache.countLimit == nil && cache.costLimit == nil && cache.entryCostLimit == nil)
        #expect(cache.ageLimit == nil)
        (cache.costLimit, cache.entryCostLimit, cache.ageLimit) = (.max, .max, .microseconds(1_500))
        #expect(cache.costLimit == nil && cache.entryCostLimit == nil && cache.ageLimit == .milliseconds(2))
    }

    @Test("a lowered count limit evicts at once, expired values first; nil ends the limit")
    func count() {
        let cache = cache()
        for (number, key) in ["a", "b", "c", "d"].enumerated() { cache[key] = number }
        cache.setValue(4, forKey: "short", ttl: .seconds(1))
        _ = cache["a"]
        clock.advance(by: .seconds(1))
        cache.countLimit = 2
        expectTold(["short 4 expired", "b 1 count", "c 2 count"])
        cache["e"] = 5
        expectTold(["d 3 count"])
        #expect(cache.keysByRecency() == ["e", "a"])
        cache.countLimit = 1_000
        expectTold([])
        cache.countLimit = nil
        for number in 0..<2000 { cache["\(number)"] = number }
        #expect(cache.count == 2002)
        cache.countLimit = 0
        #expect(cache.count == 0)
        cache["f"] = 6
        #expect(cache.count == 0)
    }

    @Test("a lowered cost limit evicts only values with a cost; nil ends the limit")
    func cost() {
        let cache = cache()
        for key in ["free", "a", "b", "free too", "c"] {
            cache.setValue(1, forKey: key, cost: key.hasPrefix("free") ? 0 : 10)
        }
        _ = cache["a"]
        cache.costLimit = 19
        expectTold(["b 1 cost", "c 1 cost"])
        cache.costLimit = 5
        expectTold(["a 1 cost"])
        #expect(Set(cache.keys()) == ["free", "free too"] && cache.cost == 0)
        cache.setValue(1, forKey: "free", cost: 6)
        expectTold(["free 1 cost"])
        cache.costLimit = nil
        cache.setValue(1, forKey: "large", cost: .max)
        #expect(cache.cost == .max / 2)
        cache.costLimit = 0
        #expect(cache.keys() == ["free too"])
    }

    @Test("a lowered age limit evicts at once, and the sweep uses the current limit")
    func age() {
        let cache = cache { $0.sweepInterval = .seconds(10) }
        for key in ["a", "b"] { cache.setValue(1, forKey: key, ttl: .forever) }
        clock.advance(by: .seconds(5))
        _ = cache["b"]
        clock.advance(by: .seconds(1))
        cache.ageLimit = .seconds(5)
        expectTold(["a 1 age"])
        clock.advance(by: .seconds(4))
        #expect(cache.count == 1)
        clock.advance(by: .seconds(10))
        expectTold(["b 1 age"])
        cache.ageLimit = nil
        cache.setValue(1, forKey: "c", ttl: .forever)
        clock.advance(by: .seconds(1000))
        #expect(cache["c"] == 1)
        clock.advance(by: .seconds(1000))
        cache.ageLimit = .seconds(1000)
        #expect(cache["c"] == 1, "unused for exactly as long")
    }

    @Test("a value above the cost limit of one entry is not stored, and its key is removed")
    func entryCost() {
        let cache = cache { $0.entryCostLimit = 10 }
        cache.setValue(1, forKey: "k", cost: 10)
        cache.setValue(2, forKey: "k", cost: 10)
        expectTold(["k 1 replaced"])
        cache.setValue(3, forKey: "k", cost: 11)
        expectTold(["k 2 cost"])
        #expect(cache.count == 0 && cache["k"] == nil && cache.statistics.evictions.cost == 1)
        cache.setValue(4, forKey: "k", cost: 11)
        #expect(cache.statistics.evictions.cost == 1 && cache.statistics.stores == 2)
        cache.setValue(5, forKey: "k", cost: 1)
        cache.setValue(6, forKey: "k", ttl: .seconds(0), cost: 11)
        expectTold(["k 5 cost"])
        cache.setValue(5, forKey: "k", cost: 1)
        cache.setValue(6, forKey: "k", ttl: .seconds(0), cost: 10)
        expectTold(["k 5 removed"])
        let weighing = self.cache { ($0.entryCostLimit, $0.cost) = (10, { $0 }) }
        for value in [3, 30, 10] { weighing["\(value)"] = value }
        #expect(weighing.cost == 13 && weighing.count == 2)
    }

    @Test("a lowered limit of one entry removes only the entries that cost more")
    func entryCostLowered() {
        let cache = cache()
        for cost in 0..<100 { cache.setValue(cost, forKey: "\(cost)", cost: cost) }
        cache.entryCostLimit = 9
        #expect(cache.count == 10 && cache.cost == 45 && Set(cache.values()) == Set(0..<10))
        #expect(Set(told.withLock { $0 }) == Set((10..<100).map { "\($0) \($0) cost" }))
        cache.entryCostLimit = nil
        cache.setValue(1, forKey: "large", cost: 1000)
        #expect(cache.count == 11)
        cache.entryCostLimit = 1000
        #expect(cache.count == 11)
    }

    @Test("a cache without a disk obeys the limit of one entry, even for fetched values and absences")
    func entryCostOfFetches() async throws {
        let configuration = MemoryCache<String, Int>.Configuration(entryCostLimit: 10, cost: { $0 }, sweepInterval: nil)
        let cache = Cache<Int>(memoryOnly: configuration, clock: clock)
        #expect(try await cache.value(forKey: "k") { 11 } == 11)
        #expect(await cache.value(forKey: "k") == nil)
        try await cache.setValue(10, forKey: "k")
        #expect(await cache.value(forKey: "k") == 10)
        try await cache.setValue(11, forKey: "k")
        #expect(await cache.value(forKey: "k") == nil)
        #expect(try await cache.optionalValue(forKey: "a key of eighteen b") { nil } == nil)
        #expect(cache.memory?.count == 0)
    }

    @Test("limits may change during sets, and apply once the setter has returned")
    func threads() {
        let cache = MemoryCache<Int, [Int]>(configuration: .init(countLimit: 100))
        let isDone = Flag()
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            var generator = SeededGenerator(seed: UInt64(thread))
            if thread == 0 {
                for step in 0..<300 {
                    let limit = Int.random(in: 1..<3000, using: &generator)
                    cache.countLimit = step.isMultiple(of: 7) ? nil : limit
                    if !step.isMultiple(of: 7) { #expect(cache.count <= limit) }
                    cache.costLimit = step.isMultiple(of: 5) ? nil : 2 * limit
                    if !step.isMultiple(of: 5) { #expect(cache.cost <= 2 * limit) }
                    cache.entryCostLimit = step.isMultiple(of: 3) ? nil : 3
                    cache.ageLimit = step.isMultiple(of: 2) ? nil : .seconds(60)
                }
                isDone.set()
            } else {
                while !isDone.isSet {
                    let key = Int.random(in: 0..<5000, using: &generator)
                    cache.setValue([key], forKey: key, cost: key % 5)
                    if let value = cache.value(forKey: key) { #expect(value == [key]) }
                }
            }
        }
        (cache.entryCostLimit, cache.countLimit, cache.costLimit) = (2, 50, 60)
        #expect(cache.count <= 50 && cache.cost <= 60 && cache.values().count == cache.count)
        #expect(cache.values().allSatisfy { $0[0] % 5 <= 2 })
    }
}
