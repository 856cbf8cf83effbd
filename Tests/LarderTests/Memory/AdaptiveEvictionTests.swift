import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Patterns of requests, compared with an exact LRU cache of the same size.
@Suite("A full adaptive cache")
struct AdaptiveEvictionTests {
    /// A miss stores the key. Returns how many requests from `start` on, for keys below `end`, are hits of each policy.
    private func hits(
        _ requests: [Int], room: Int, from start: Int, below end: Int = .max
    ) -> (adaptive: Int, exact: Int) {
        func hits(_ policy: EvictionPolicy) -> Int {
            let cache = MemoryCache<Int, Int>(
                configuration: .init(countLimit: room, eviction: policy, sweepInterval: nil, release: .inline),
                clock: ManualClock())
            var hits = 0
            for (number, key) in requests.enumerated() {
                if cache.value(forKey: key) == nil {
                    cache.setValue(key, forKey: key)
                } else if number >= start, key < end {
                    hits += 1
                }
            }
            return hits
        }
        return (hits(.adaptive), hits(.leastRecentlyUsed))
    }

    @Test("keeps its hot set during one pass over other keys")
    func scan() {
        var generator = RunSeed.generator()
        let hot = (0..<20_000).map { _ in Int.random(in: 0..<900, using: &generator) }
        let again = (0..<900).map { _ in Int.random(in: 0..<900, using: &generator) }
        let found = hits(hot + (900..<5900) + again, room: 1000, from: hot.count + 5000)
        #expect(found.adaptive >= 880 && found.exact < 500)
    }

    @Test("has hits in a loop over a few more keys than there is room for")
    func loop() {
        let found = hits((0..<40).flatMap { _ in 0..<1100 }, room: 1000, from: 22_000)
        #expect(found.adaptive >= 22_000 * 75 / 100 && found.exact == 0)
    }

    @Test("follows a hot set that moves")
    func moving() {
        var generator = RunSeed.generator()
        let requests = (0..<100_000).map { $0 / 20 + Int.random(in: 0..<800, using: &generator) }
        let found = hits(requests, room: 1000, from: 20_000)
        #expect(found.adaptive > found.exact * 95 / 100)
    }

    @Test("takes a new value in that is larger than the window, but not at the price of very many")
    func large() {
        var cost = [Int: Int]()
        for key in 0..<100 { cost[key] = 10 }
        (cost[100], cost[101]) = (30, 900)
        let cache = MemoryCache<Int, Int>(
            configuration: .init(
                costLimit: 1000, cost: { [cost] in cost[$0] ?? 0 }, sweepInterval: nil, release: .inline),
            clock: ManualClock())
        for key in 0..<100 {
            cache[key] = key
            _ = cache[key]
        }
        cache[101] = 101
        #expect(cache[101] == nil && cache.count >= 99, "it would push out 90 values that were used")
        let wide = MemoryCache<Int, Int>(
            configuration: .init(costLimit: 100, cost: { _ in 60 }, sweepInterval: nil, release: .inline),
            clock: ManualClock())
        for key in 0..<10 {
            wide[key] = key
            #expect(wide[key] == key && wide.count == 1, "what was stored last is there")
        }
    }

    @Test("a limit of one keeps the value that was stored last", arguments: 1...3)
    func one(limit: Int) {
        let cache = MemoryCache<Int, Int>(
            configuration: .init(countLimit: limit, sweepInterval: nil, release: .inline), clock: ManualClock())
        for key in 0..<100 {
            cache[key] = key
            #expect(cache[key] == key && cache.count <= limit)
        }
    }

    @Test("whoever drives its bias to one end costs the others at most five points", arguments: [true, false])
    func driven(letsIn: Bool) {
        var generator = RunSeed.generator()
        var requests: [Int] = []
        for step in 0..<200_000 {
            // A few keys are used much, most of them hardly.
            let depth = Double.random(in: 0..<1, using: &generator)
            requests.append(Int(depth * depth * depth * 4000))
            // Keys that come again when they have just been refused; or given up, after a long time.
            requests.append(letsIn ? 10_000 + (step / 600) * 300 + step % 300 : 10_000 + step % 1_300)
        }
        // Of 100,000 requests for the others.
        let found = hits(requests, room: 1000, from: 200_000, below: 10_000)
        #expect(found.exact - found.adaptive <= 5_000)
    }

    @Test("keys forged with the seed of the process, for a few cells of the history, cost others at most five points")
    func forged() {
        // In the first of 500 buckets, and in the first tenth of them.
        for (part, count) in [(500, 300), (10, 1_300)] {
            let hostile = Array(
                (10_000...).lazy.filter { key in
                    EvictionHistory.mixed(MemoryKey.fingerprint(key)) >> 32 < UInt64(1) << 32 / UInt64(part)
                }.prefix(count))
            for distance in [1, 3, 100, count] {
                var (generator, requests) = (SeededGenerator(seed: 3), [Int]())
                for step in 0..<40_000 {
                    let depth = Double.random(in: 0..<1, using: &generator)
                    requests.append(Int(depth * depth * depth * 4000))
                    // Each is asked for twice at this distance.
                    requests.append(hostile[(step / distance / 2 * distance + step % distance) % count])
                }
                // Of 20,000 requests for the others.
                let found = hits(requests, room: 1000, from: 40_000, below: 10_000)
                #expect(found.exact - found.adaptive <= 1_000)
            }
        }
    }

    @Test("removes expired values before any other, also those that nobody would see in the order of the queues")
    func expired() {
        let clock = ManualClock()
        let cache = MemoryCache<Int, Int>(
            configuration: .init(countLimit: 100, sweepInterval: nil, release: .inline), clock: clock)
        for key in 0..<100 { cache.setValue(key, forKey: key, ttl: key.isMultiple(of: 2) ? .seconds(1) : .days(1)) }
        clock.advance(by: .seconds(2))
        for key in 100..<150 { cache[key] = key }
        #expect((0..<100).allSatisfy { cache.hasValue(forKey: $0) == !$0.isMultiple(of: 2) } && cache.count == 100)
        #expect(cache.statistics.expirations == 50 && cache.statistics.evictions.total == 0)
    }

    @Test("removes values beyond the age limit first, and a use puts that off")
    func aged() {
        let clock = ManualClock()
        let cache = MemoryCache<Int, Int>(
            configuration: .init(countLimit: 10, ageLimit: .seconds(10), sweepInterval: nil, release: .inline),
            clock: clock)
        for key in 0..<10 { cache[key] = key }
        clock.advance(by: .seconds(6))
        for key in 0..<5 { #expect(cache[key] == key) }
        clock.advance(by: .seconds(6))
        cache[10] = 10
        #expect(cache.statistics.evictions.age == 1 && cache.count == 10)
        #expect(cache.removeExpired() == 4 && Set(cache.keys()) == [0, 1, 2, 3, 4, 10])
        cache.ageLimit = .seconds(5)
        #expect(cache.keys() == [10])
    }

    private func cache(
        _ clock: ManualClock, count: Int? = nil, cost: Int? = nil, age: Duration? = nil
    ) -> MemoryCache<Int, Int> {
        MemoryCache(
            configuration: .init(
                countLimit: count, costLimit: cost, ageLimit: age, sweepInterval: nil, release: .inline), clock: clock)
    }

    @Test(
        "a hot value does not keep the dead ones of its kind, where some have a cost and others none",
        arguments: [nil, 1_000_000], [0, 1])
    func mixed(costLimit: Int?, hot: Int) {
        let clock = ManualClock()
        let cache = cache(clock, count: 100, cost: costLimit)
        for key in 0..<100 {
            cache.setValue(key, forKey: key, cost: hot)
            clock.advance(by: .milliseconds(1))
        }
        var hits = 0
        for step in 0..<5_000 {
            clock.advance(by: .milliseconds(1))
            #expect(cache[0] == 0 || step < 100)
            let key = 1000 + step % 20
            if cache[key] == key { hits += 1 } else { cache.setValue(key, forKey: key, cost: 1 - hot) }
        }
        #expect(hits > 4_500)
    }

    @Test("what was stored last is there, whatever others cost, and although the clock was set back")
    func newest() {
        let clock = ManualClock()
        for costLimit in [nil, 1_000_000] {
            let cache = cache(clock, count: 100, cost: costLimit)
            for key in 0..<100 { cache.setValue(key, forKey: key, cost: 0) }
            clock.set(milliseconds: clock.milliseconds - 20_000)
            for key in 100..<200 {
                cache.setValue(key, forKey: key, cost: 5)
                #expect(cache.peekValue(forKey: key) == key)
                clock.advance(by: .milliseconds(1))
            }
            #expect(cache.count == 100)
        }
        let one = cache(clock, count: 1)
        one.setValue(1, forKey: 1, cost: 0)
        one.setValue(2, forKey: 2, cost: 5)
        #expect(one.keys() == [2])
    }

    @Test("a value far below the cost limit is not refused for count because others cost even less")
    func bothLimits() {
        let clock = ManualClock()
        let cache = cache(clock, count: 100, cost: 1_000_000)
        for key in 0..<100 {
            cache.setValue(key, forKey: key, cost: 1)
            _ = cache[key]
        }
        for key in 1000..<1100 {
            cache.setValue(key, forKey: key, cost: 1000)
            #expect(cache[key] == key && cache.count == 100)
        }
    }

    @Test("no set looks at many entries, however many were used or have outlived their place")
    func bounded() {
        let clock = ManualClock()
        let cache = cache(clock, count: 20_000, age: .seconds(3_600))
        for key in 0..<20_000 { cache[key] = key }
        clock.advance(by: .seconds(3_599))
        for _ in 0..<3 { for key in 0..<20_000 { _ = cache[key] } }
        func used() -> Int {
            cache.table.withLock { table in table.order.slots.count { table.order.hits(Int($0)) == 3 } }
        }
        #expect(used() == 20_000)
        clock.advance(by: .seconds(3_599))
        cache[20_000] = 0
        #expect(used() > 19_000 && cache.count == 20_000)
        let waiting = cache.table.withLock { table in
            var count = 0
            while case .move(let slot) = table.expiries.next(at: clock.now) {
                table.expiries.place(slot, at: table.end(of: slot))
                count += 1
            }
            return count
        }
        #expect(waiting > 10_000, "most of them have not been moved by the set")
    }

    @Test("a trim teaches nothing, and an emptied cache gives back its history")
    func trims() {
        let cache = cache(ManualClock(), count: 1_000)
        for key in 0..<2_000 { cache[key] = key }
        let bias = cache.table.withLock { $0.order.regrets.bias }
        let bytes = cache.table.withLock { $0.order.regrets.history.bytes }
        #expect(bytes > 0 && bytes <= 12 * 1_000)
        cache.trim(toCount: 600)
        #expect(cache.table.withLock { $0.order.regrets.history.bytes } == bytes)
        for key in cache.keys() { cache.removeValue(forKey: key) }
        #expect(cache.table.withLock { $0.order.regrets.history.bytes } == 0)
        for key in 0..<2_000 { cache[key] = key }
        #expect(abs(cache.table.withLock { $0.order.regrets.bias } - bias) < 0.1)
    }

    @Test("a first cost limit counts the values that are there")
    func firstCostLimit() {
        let cache = cache(ManualClock(), count: 1_000)
        for key in 0..<100 { cache.setValue(key, forKey: key, cost: key % 2) }
        cache.costLimit = 10
        #expect(cache.cost == 10 && cache.count == 60)
        cache.costLimit = nil
        for key in 100..<200 { cache.setValue(key, forKey: key, cost: 7) }
        cache.trim(toCost: 70)
        #expect(cache.cost <= 70 && cache.cost > 0 && (0..<100).count { cache.hasValue(forKey: $0) } >= 50)
    }

    @Test("a value whose life is shortened after a look for expired ones goes first", arguments: [2, 5])
    func shortened(seconds: Int) throws {
        let world = TestWorld()
        let cache = world.memoryCache(of: String.self, Int.self, configuration: .init(countLimit: 3))
        for key in ["a", "b", "c", "d"] { cache.setValue(1, forKey: key) }
        let before = cache.statistics.expirations
        // Nothing was due for a day.
        let key = try #require(["a", "b", "c", "d"].first { cache.hasValue(forKey: $0) })
        #expect(cache.setTimeToLive(.seconds(1), forKey: key))
        world.advance(by: .seconds(Double(seconds)))
        cache.setValue(1, forKey: "e")
        #expect(!cache.hasValue(forKey: key) && cache.count == 3 && cache.statistics.expirations == before + 1)
    }
}
