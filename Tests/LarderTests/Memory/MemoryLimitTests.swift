import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Limits and memory of a memory cache", .storm)
struct MemoryLimitTests {
    let clock = ManualClock()

    private func cache(
        _ configure: (inout MemoryCache<Int, Int>.Configuration) -> Void = { _ in }
    ) -> MemoryCache<Int, Int> {
        var configuration = MemoryCache<Int, Int>.Configuration()
        configuration.release = .inline
        configuration.sweepInterval = nil
        // What goes first is known.
        configuration.eviction = .leastRecentlyUsed
        configure(&configuration)
        return MemoryCache(configuration: configuration, clock: clock)
    }

    @Test("eviction for cost spares values that cost nothing; eviction for count does not")
    func free() {
        let cache = cache {
            $0.costLimit = 10
            $0.countLimit = 8
        }
        for key in 0..<4 { cache.setValue(key, forKey: key, cost: 0) }
        cache.setValue(4, forKey: 4, cost: 5)
        cache.setValue(5, forKey: 5, cost: 5)
        _ = cache[4]
        cache.setValue(6, forKey: 6, cost: 3)
        #expect(Set(cache.keys()) == [0, 1, 2, 3, 4, 6], "5 was used least recently of those with a cost")
        cache.setValue(4, forKey: 4, cost: 0)
        cache.setValue(0, forKey: 0, cost: 7)
        cache.setValue(7, forKey: 7, cost: 7)
        #expect(Set(cache.keys()) == [1, 2, 3, 4, 7], "6 and 0 had a cost when 7 was stored, and 4 no longer had one")
        for key in 10..<14 { cache.setValue(key, forKey: key, cost: 0) }
        #expect(cache.count == 8 && !cache.hasValue(forKey: 1), "the least recently used value is evicted for count")
        cache.trim(toCost: 0)
        #expect(cache.cost == 0 && cache.hasValue(forKey: 2) && !cache.hasValue(forKey: 7))
    }

    @Test("costs are exact up to half of the largest integer, and their sum does not overflow")
    func costs() {
        let large = 1 << 41 + 1
        let cache = cache { $0.costLimit = 3 * large - 1 }
        cache.setValue(0, forKey: 0, cost: large)
        cache.setValue(1, forKey: 1, cost: large)
        #expect(cache.cost == 2 * large && cache.count == 2)
        cache.setValue(2, forKey: 2, cost: large)
        #expect(cache.cost == 2 * large && Set(cache.keys()) == [1, 2])
        cache.setValue(3, forKey: 3, cost: 3 * large)
        #expect(!cache.hasValue(forKey: 3) && cache.count == 2)
        cache.setValue(1, forKey: 1, cost: -large)
        #expect(cache.cost == large)
        for limit in [nil, Int.max, Int.max - 1] {
            let unlimited = self.cache { $0.costLimit = limit }
            for key in 0..<5 { unlimited.setValue(key, forKey: key, cost: .max - key) }
            #expect(unlimited.keys() == [4] && unlimited.cost == .max / 2)
            unlimited.setValue(5, forKey: 4, cost: 1)
            #expect(unlimited.cost == 1)
        }
    }

    @Test(
        "storage shrinks when most entries were removed in any way, and the others keep their order",
        arguments: Sample.few(2, of: 0..<6))
    func shrinking(way: Int) {
        let cache = cache {
            $0.costLimit = 1_000_000
            $0.ageLimit = .seconds(1000)
        }
        let kept = stride(from: 5, to: 50_000, by: 5_000)
        for key in 0..<50_000 {
            let ttl = TimeToLive.seconds(kept.contains(key) ? 100 : 1)
            let inserted = cache.insertKept(
                key, forKey: key, life: MemoryLife(ttl, from: clock.now, default: .forever)!,
                cost: kept.contains(key) ? 0 : 20, MemoryExtra(metadata: key.isMultiple(of: 5) ? ["k": "v"] : [:]))
            cache.release(inserted.demand)
        }
        #expect(capacity(cache) >= 50_000)
        for key in kept { #expect(cache[key] == key) }
        switch way {
        case 0: cache.trim(toCount: 10)
        case 1:
            clock.advance(by: .seconds(2))
            cache.removeExpired()
        case 2: cache.setValue(0, forKey: 1, cost: 1_000_000)
        case 3: for key in 0..<50_000 where !kept.contains(key) { cache.removeValue(forKey: key) }
        case 4: for key in 0..<50_000 where !kept.contains(key) { cache[key] = nil }
        default:
            clock.advance(by: .seconds(2))
            for key in 0..<50_000 where !kept.contains(key) { #expect(cache[key] == nil) }
        }
        #expect(cache.count == (way == 2 ? 11 : 10))
        #expect(capacity(cache) <= 128)
        #expect(kept.allSatisfy { cache.hasValue(forKey: $0) })
        #expect(kept.allSatisfy { cache.kept($0, at: clock.now)?.extra.metadata == ["k": "v"] })
        cache.trim(toCount: 4)
        #expect(Set(cache.keys()) == (way == 2 ? [35_005, 40_005, 45_005, 1] : [30_005, 35_005, 40_005, 45_005]))
        for key in 0..<2000 { cache[key] = -key }
        #expect((0..<2000).allSatisfy { cache[$0] == -$0 })
    }

    /// The largest number of elements for which any part of the table has memory.
    private func capacity(_ cache: MemoryCache<Int, Int>) -> Int {
        cache.table.withLock { table in
            [
                table.slots.capacity, table.slots.free.capacity, table.order.rings.links.capacity,
                table.table.buckets.capacity, table.table.fingerprints.capacity, table.extras.capacity,
                table.removed.capacity,
            ].max() ?? 0
        }
    }
}
