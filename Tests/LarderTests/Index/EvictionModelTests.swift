import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Random operations compared with a list in the order of use.
@Suite("Eviction is exact: it evicts the same entries as a list of all uses", .storm)
struct EvictionModelTests {
    private struct Entry {
        let key: String
        var size: Int
        var expires: Int64
    }

    private struct Model {
        /// The least recently used first.
        var entries: [Entry] = []
        let countLimit: Int?
        let sizeLimit: Int?

        private var size: Int { entries.reduce(0) { $0 + $1.size } }
        private var isOver: Bool { entries.count > countLimit ?? .max || size > sizeLimit ?? .max }

        mutating func set(_ entry: Entry, at now: Int64) {
            entries.removeAll { $0.key == entry.key }
            entries.append(entry)
            guard isOver else { return }
            entries.removeAll { $0.expires <= now }
            let isTooLarge = size > sizeLimit ?? .max
            if let countLimit, entries.count > countLimit { entries.removeFirst(entries.count - countLimit) }
            guard isTooLarge, let sizeLimit else { return }
            let mark = sizeLimit - sizeLimit / 20
            while let oldest = entries.first, size > sizeLimit || oldest.size > 0 && size - oldest.size >= mark {
                entries.removeFirst()
            }
        }

        mutating func use(_ key: String, at now: Int64) -> Bool {
            guard let place = entries.firstIndex(where: { $0.key == key && $0.expires > now }) else { return false }
            entries.append(entries.remove(at: place))
            return true
        }
    }

    @Test(
        "under sets, reads, removals, renewals and the passing of time",
        arguments: Sample.few(2, of: 1...8 as ClosedRange<UInt64>))
    func random(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let (countLimit, sizeLimit) = seed.isMultiple(of: 2) ? (Int?.some(12), Int?.none) : (19, 700)
        let world = World {
            $0.sweepInterval = nil
            $0.eviction = .leastRecentlyUsed
            $0.countLimit = countLimit
            $0.sizeLimit = sizeLimit
        }
        let cache = try world.open()
        var model = Model(countLimit: countLimit, sizeLimit: sizeLimit)
        for step in 0..<1500 {
            let key = "k\(Int.random(in: 0..<40, using: &generator))"
            let now = world.clock.milliseconds
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<45:
                let size = Int.random(in: 0...120, using: &generator)
                let life: Int64 = generator.chance(20) ? 50 : 1_000_000_000
                try cache.setData(Data(count: size), forKey: key, ttl: .seconds(Double(life) / 1000))
                cache.settle()
                model.set(Entry(key: key, size: size, expires: now + life), at: now)
            case 45..<85:
                #expect((cache.data(forKey: key) != nil) == model.use(key, at: now))
            case 85..<90:
                try cache.removeValue(forKey: key)
                model.entries.removeAll { $0.key == key }
            case 90..<95:
                _ = cache.hasValue(forKey: key)
                _ = cache.entry(forKey: key)
                if try cache.setTimeToLive(.seconds(1_000_000), forKey: key) {
                    let place = try #require(model.entries.firstIndex { $0.key == key })
                    model.entries[place].expires = now + 1_000_000_000
                }
            default:
                world.clock.set(milliseconds: now + Int64.random(in: 0...40, using: &generator))
            }
            let fresh = Set(model.entries.filter { $0.expires > world.clock.milliseconds }.map(\.key))
            guard Set(cache.keys()) == fresh else {
                Issue.record("seed \(seed), step \(step): \(Set(cache.keys()).symmetricDifference(fresh))")
                return
            }
            #expect(cache.count == model.entries.count)
        }
        #expect(cache.statistics.evictions.total > 100)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
        print("eviction model test: seed \(seed), \(cache.statistics.evictions.total) evictions")
    }

    @Test("a plan takes the oldest entries across shards, and ends where it would have to guess")
    func plan() {
        func offers(_ stamps: [[UInt64]], _ hasMore: [Bool]) -> [EvictionPlan.Offers] {
            zip(stamps, hasMore).map { shard, hasMore in
                let first = shard.map { stamp in
                    var entry = RecordTests.entry
                    entry.file = FileID(stamp)
                    entry.used = Timestamp(milliseconds: Int64(stamp))
                    entry.size = 10
                    return EvictionPlan.Offer(entry, Int(stamp), turn: stamp, lastUse: stamp)
                }
                return EvictionPlan.Offers(first: first, hasMore: hasMore)
            }
        }
        func counts(
            _ stamps: [[UInt64]], _ need: EvictionPlan.Need, hasMore: [Bool]? = nil, limit: Int = 100
        ) -> [Int: Int] {
            let offers = offers(stamps, hasMore ?? stamps.map { _ in false })
            let plan = EvictionPlan(leastRecentlyUsed: offers, need, limit: limit)
            return Dictionary(uniqueKeysWithValues: plan.parts.map { ($0.shard, $0.evicted.count) })
        }
        let stamps: [[UInt64]] = [[1, 4, 9], [2, 3, 10], []]
        #expect(counts(stamps, .entries(3)) == [0: 1, 1: 2])
        #expect(counts(stamps, .entries(0)) == [:])
        #expect(counts(stamps, .entries(50)) == [0: 3, 1: 3])
        #expect(counts(stamps, .entries(50), limit: 2) == [0: 1, 1: 1])
        #expect(counts(stamps, .entries(50), hasMore: [false, true, false]) == [0: 3, 1: 3])
        #expect(counts([[1], [5, 6]], .entries(3), hasMore: [true, false]) == [0: 1], "shard 0 may have a 2")
        #expect(counts(stamps, .bytes(15, upTo: 15)) == [0: 1, 1: 1])
        #expect(counts(stamps, .bytes(5, upTo: 35)) == [0: 1, 1: 2])
        #expect(counts(stamps, .bytes(-5, upTo: 5)) == [:])
        #expect(counts(stamps, .allocated(4097)) == [0: 1, 1: 1])
        let six = Timestamp(milliseconds: 6)
        #expect(counts([[1, 8], [2, 5]], .unusedSince(six, now: Timestamp(milliseconds: 20))) == [0: 1, 1: 2])
        #expect(
            counts(stamps, .unusedSince(Timestamp(milliseconds: 4), now: Timestamp(milliseconds: 20))) == [0: 1, 1: 2])
    }

    @Test("a plan goes on with the next part where the sums know entries that nobody offers")
    func sums() {
        func offer(_ number: UInt64, _ rank: Rank) -> EvictionPlan.Offer {
            var entry = RecordTests.entry
            (entry.file, entry.rank) = (FileID(number), rank)
            return EvictionPlan.Offer(entry, Int(number), turn: number, lastUse: number)
        }
        let window = EvictionPlan.Offers(first: (1...10).map { offer($0, Rank()) })
        let offers = PerPart { $0 == .window ? [window] : [EvictionPlan.Offers()] }
        // Another process has let an entry in between the two readings.
        let totals = PerPart { part in
            EntryTotals(count: part == .window ? 10 : part == .probation ? 1 : 0, size: 0, allocatedSize: 0)
        }
        let plan = EvictionPlan(adaptive: offers, totals, threshold: 0, demotions: 0, .entries(11), limit: 256)
        #expect(plan.parts.map(\.evicted.count) == [10])
    }

    @Test("a list of slots keeps the order of use", arguments: 1...3 as ClosedRange<UInt64>)
    func list(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var list = RecencyList()
        var model: [Int] = []
        for stamp in 0..<3000 as Range<UInt64> {
            let slot = Int.random(in: 0..<50, using: &generator)
            if let place = model.firstIndex(of: slot) {
                model.remove(at: place)
                if generator.chance(30) {
                    list.remove(slot)
                    continue
                }
                list.move(slot, stamp)
            } else {
                list.append(slot, stamp)
            }
            model.append(slot)
            var order: [Int] = []
            var next = list.oldest()
            while let slot = next {
                order.append(slot)
                next = list.newer(than: slot)
            }
            guard order == model else {
                Issue.record("seed \(seed): \(order) is not \(model)")
                return
            }
        }
    }
}
