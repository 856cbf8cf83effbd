import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Causes of removals from memory")
struct MemoryCauseTests: RemovalTests {
    typealias Value = Int

    let clock = ManualClock()
    let told = Lock<[String]>([])

    @Test("each cause has its name and its kind of event")
    func kinds() {
        let causes: [(RemovalCause, CacheEvent.Kind, CacheLimit?)] = [
            (.count, .evicted, .count), (.cost, .evicted, .cost), (.age, .evicted, .age), (.expired, .expired, nil),
            (.memoryPressure, .evicted, nil), (.background, .evicted, nil), (.replaced, .replaced, nil),
            (.removed, .removed, nil), (.cleared, .cleared, nil), (.evictedOnDisk, .evicted, nil),
        ]
        for (cause, kind, limit) in causes { #expect(cause.kind == kind && cause.limit == limit, "\(cause)") }
        #expect(Set(causes.map(\.0)).count == 10)
        #expect(
            causes.map { "\($0.0)" } == [
                "count", "cost", "age", "expired", "memoryPressure", "background", "replaced", "removed", "cleared",
                "evictedOnDisk",
            ])
    }

    @Test("memory pressure, the background and removeAll are distinguished, and all count as removals")
    func conditions() {
        let cache = cache()
        cache["a"] = 1
        cache.respond(to: .memoryPressure)
        cache["b"] = 2
        cache.respond(to: .background)
        cache["c"] = 3
        cache.removeAll()
        expectTold(["a 1 memoryPressure", "b 2 background", "c 3 cleared"])
        #expect(cache.statistics.removals == 3 && cache.statistics.evictions.total == 0)
    }

    @Test("causes are reported in the order of the removals")
    func order() {
        let cache = cache {
            $0.countLimit = 3
            $0.costLimit = 100
            $0.ageLimit = .seconds(50)
        }
        cache["a"] = 1
        cache["a"] = 2
        cache.setValue(3, forKey: "short", ttl: .seconds(1))
        cache["b"] = 4
        clock.advance(by: .seconds(1))
        cache["c"] = 5
        cache["d"] = 6
        cache.setValue(7, forKey: "c", cost: 101)
        clock.advance(by: .seconds(30))
        cache["e"] = 8
        clock.advance(by: .seconds(21))
        cache.trim(toAge: .seconds(50))
        cache["e"] = nil
        cache["f"] = 9
        cache.trim(toCount: 0)
        cache["g"] = 10
        cache.respond(to: .memoryPressure)
        expectTold([
            "a 1 replaced", "short 3 expired", "a 2 count", "c 5 cost", "d 6 age", "b 4 age", "e 8 removed",
            "f 9 count",
            "g 10 memoryPressure",
        ])
    }

    @Test("without a disk, the event of memory pressure is an eviction, and that of removeAll a clear")
    func events() async throws {
        let cache = Cache<Int>(memoryOnly: .init(sweepInterval: nil, release: .inline), clock: clock)
        let events = cache.events
        for key in ["a", "b"] { try await cache.setValue(1, forKey: key) }
        cache.memory?.respond(to: .memoryPressure)
        try await cache.setValue(1, forKey: "c")
        try await cache.removeAll()
        var found: [String] = []
        for await event in events {
            found.append("\(event.kind) \(event.count)")
            if event.kind == .cleared { break }
        }
        #expect(found == ["evicted 2", "cleared 1"])
    }

    @Test("the hit ratio is the share of reads that found a value, and nil without reads")
    func hitRatio() {
        let cache = cache()
        #expect(cache.statistics.hitRatio == nil)
        cache["k"] = 1
        _ = cache["none"]
        #expect(cache.statistics.hitRatio == 0)
        for _ in 0..<3 { _ = cache["k"] }
        #expect(cache.statistics.hitRatio == 0.75)
        _ = cache.peekValue(forKey: "none")
        _ = cache.peekValue(forKey: "k")
        #expect(cache.statistics.hitRatio == 0.75)
        var large = MemoryStatistics()
        (large.hits, large.misses) = (.max, .max)
        #expect(large.hitRatio == 0.5)
    }
}
