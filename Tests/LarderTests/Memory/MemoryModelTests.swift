import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Random operations against a plain list of values in the order of their use.
@Suite("The memory tier behaves like a list in the order of use")
struct MemoryModelTests {
    struct Model {
        struct Item {
            var key: Int
            /// Nil: known to be absent.
            var value: Int?
            var cost: Int
            var expires: Int64
            var used: Int64
            /// How long it is kept beyond its expiry.
            var keptStale: Int64 = 0
        }

        /// The least recently used first.
        var items: [Item] = []
        var countLimit: Int?
        var costLimit: Int?
        var ageLimit: Int64?
        var evictions = 0
        var expirations = 0

        var cost: Int { items.reduce(0) { $0 + $1.cost } }

        func position(_ key: Int) -> Int? { items.firstIndex { $0.key == key } }

        func isAged(_ item: Item, _ now: Int64) -> Bool { ageLimit.map { now - item.used > $0 } ?? false }

        func isUsable(_ item: Item, _ now: Int64) -> Bool { now < item.expires && !isAged(item, now) }

        /// The value that a read finds. It removes what is over or aged; a use moves to the end.
        mutating func read(_ key: Int, _ now: Int64, isUse: Bool) -> Int? {
            guard let position = position(key) else { return nil }
            var item = items[position]
            if isUsable(item, now) {
                if isUse {
                    items.remove(at: position)
                    item.used = now
                    items.append(item)
                }
                return item.value
            }
            if now >= item.expires + item.keptStale {
                items.remove(at: position)
                expirations += 1
            } else if isAged(item, now) {
                items.remove(at: position)
                evictions += 1
            }
            return nil
        }

        /// Removes for a caller, and returns a fresh value.
        mutating func remove(_ key: Int, _ now: Int64) -> Int? {
            guard let position = position(key) else { return nil }
            let item = items.remove(at: position)
            if now >= item.expires {
                expirations += 1
            } else if isAged(item, now) {
                evictions += 1
            } else {
                return item.value
            }
            return nil
        }

        mutating func set(_ item: Item, isKept: (Int) -> Bool) {
            if item.cost > costLimit ?? .max {
                if position(item.key) != nil, item.value != nil { evictions += 1 }
                if item.value == nil { _ = remove(item.key, item.used) }
                items.removeAll { $0.key == item.key }
            } else if item.used >= item.expires {
                _ = remove(item.key, item.used)
            } else {
                if item.value == nil { _ = remove(item.key, item.used) }
                items.removeAll { $0.key == item.key }
                items.append(item)
                evict(count: countLimit ?? .max, cost: costLimit ?? .max, item.used, isKept: isKept)
            }
        }

        /// Expired items go first, in the order of their end. Of several with the same end any may go: those that the
        /// cache has removed, the cheapest first, as every order that needs all of them is then possible.
        mutating func evict(count: Int, cost: Int, _ now: Int64, isKept: (Int) -> Bool) {
            while items.count > count || self.cost > cost {
                if let first = items.map({ $0.expires + $0.keptStale }).min(), first <= now {
                    let due = items.indices.filter { items[$0].expires + items[$0].keptStale == first }
                    let gone = due.filter { !isKept(items[$0].key) }.min { items[$0].cost < items[$1].cost }
                    #expect(gone != nil, "an expired item goes first")
                    items.remove(at: gone ?? due[0])
                    expirations += 1
                } else {
                    let costs = items.count <= count
                    guard let position = items.firstIndex(where: { !costs || $0.cost > 0 }) else { return }
                    items.remove(at: position)
                    evictions += 1
                }
            }
        }
    }

    @Test("with costs, lives, limits, trims and absences", arguments: 1...16 as ClosedRange<UInt64>)
    func random(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let clock = ManualClock()
        var model = Model()
        var configuration = MemoryCache<Int, Int>.Configuration()
        configuration.sweepInterval = nil
        configuration.release = seed.isMultiple(of: 2) ? .inline : .background
        configuration.countLimit = [nil, 5, 30, 100].randomElement(using: &generator) ?? nil
        configuration.costLimit = [nil, 40, 200].randomElement(using: &generator) ?? nil
        let ageLimit = [nil, nil, 600].randomElement(using: &generator) ?? nil
        configuration.ageLimit = ageLimit.map { .milliseconds($0) }
        (model.countLimit, model.costLimit) = (configuration.countLimit, configuration.costLimit)
        model.ageLimit = ageLimit.map(Int64.init)
        let cache = MemoryCache(configuration: configuration, clock: clock)
        let isKept: (Int) -> Bool = { key in
            cache.table.withLock { $0.slot(key, MemoryKey.fingerprint(key)) != nil }
        }
        for step in 0..<6000 {
            let key = Int.random(in: 0..<80, using: &generator)
            let now = clock.milliseconds
            let operation = Int.random(in: 0..<100, using: &generator)
            switch operation {
            case 0..<30:
                let ttl = [0, 1, 50, 1000, 100_000].randomElement(using: &generator) ?? 1
                let cost = generator.chance(30) ? 0 : Int.random(in: -3..<50, using: &generator)
                cache.setValue(step, forKey: key, ttl: .init(.milliseconds(ttl)), cost: cost)
                let item = Model.Item(
                    key: key, value: step, cost: max(0, cost), expires: now + Int64(ttl), used: now)
                model.set(item, isKept: isKept)
            case 30..<35:
                let ttl = Int64.random(in: 1...500, using: &generator)
                let cost = Int.random(in: 0..<9, using: &generator)
                let stale = Int64.random(in: 0...500, using: &generator)
                let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: ttl))
                cache.release(
                    cache.insertKept(step, forKey: key, life: life, cost: cost, MemoryExtra(keptStale: stale)).demand)
                let item = Model.Item(
                    key: key, value: step, cost: cost, expires: now + ttl, used: now, keptStale: stale)
                model.set(item, isKept: isKept)
            case 35..<40:
                let ttl = Int64.random(in: 1...500, using: &generator)
                let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: ttl))
                cache.release(cache.insertAbsence(key, life: life, MemoryExtra()).demand)
                model.set(.init(key: key, cost: 1, expires: now + ttl, used: now), isKept: isKept)
            case 40..<75:
                #expect(cache.value(forKey: key) == model.read(key, now, isUse: true))
            case 75..<82:
                #expect(cache.removeValue(forKey: key) == model.remove(key, now))
            case 82..<86:
                let position = model.position(key)
                let isFresh = position.map { model.isUsable(model.items[$0], now) && model.items[$0].value != nil }
                #expect(cache.setTimeToLive(.init(.milliseconds(70)), forKey: key) == isFresh ?? false)
                if isFresh == true, let position { model.items[position].expires = now + 70 }
            case 86..<92:
                clock.advance(by: .milliseconds([1, 20, 300].randomElement(using: &generator) ?? 1))
            case 92..<94:
                let before = model.items.count
                model.items.removeAll { now >= $0.expires + $0.keptStale }
                model.expirations += before - model.items.count
                #expect(cache.removeExpired() == before - model.items.count)
            case 94:
                let count = Int.random(in: 0..<60, using: &generator)
                cache.trim(toCount: count)
                model.evict(count: count, cost: .max, now, isKept: isKept)
            case 95:
                let cost = Int.random(in: 0..<600, using: &generator)
                cache.trim(toCost: cost)
                model.evict(count: .max, cost: cost, now, isKept: isKept)
            case 96:
                cache.trim(toAge: .milliseconds(400))
                let before = model.items.count
                model.items.removeAll { $0.used < now - 400 }
                model.evictions += before - model.items.count
            case 97 where generator.chance(10):
                cache.removeAll()
                model.items = []
            default:
                #expect(cache.hasValue(forKey: key) == (model.read(key, now, isUse: false) != nil))
            }
            #expect(
                cache.count == model.items.count && cache.cost == model.cost,
                "seed \(seed), step \(step), operation \(operation)")
            if step.isMultiple(of: 50) { check(cache, model, "seed \(seed), step \(step)") }
        }
        #expect(cache.statistics.evictions.total == model.evictions)
        #expect(cache.statistics.expirations == model.expirations)
        print("memory model test: seed \(seed), \(model.evictions) evictions, \(model.items.count) values at the end")
    }

    private func check(_ cache: MemoryCache<Int, Int>, _ model: Model, _ context: Comment) {
        let found = cache.table.withLock { table -> [(key: Int, value: Int?)] in
            var found: [(Int, Int?)] = []
            var next = table.order.oldest
            while let slot = next {
                found.append((table.slots[slot].key, table.slots[slot].value))
                next = table.order.newer(than: slot)
            }
            return found
        }
        #expect(found.map(\.key) == model.items.map(\.key), "the order of use, \(context)")
        #expect(found.map(\.value) == model.items.map(\.value), context)
    }

    @Test("from many threads at once, and stays within its limits")
    func threads() {
        var configuration = MemoryCache<Int, [Int]>.Configuration()
        configuration.countLimit = 100
        let cache = MemoryCache<Int, [Int]>(configuration: configuration)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            var generator = SeededGenerator(seed: UInt64(thread))
            for step in 0..<4000 {
                let key = Int.random(in: 0..<200, using: &generator)
                switch Int.random(in: 0..<10, using: &generator) {
                case 0..<4: cache.setValue([key, thread, step], forKey: key, cost: 1)
                case 4..<8:
                    if let value = cache.value(forKey: key) { #expect(value[0] == key) }
                case 8: _ = cache.removeValue(forKey: key)
                default: if generator.chance(2) { cache.removeAll() } else { _ = cache.removeExpired() }
                }
            }
        }
        #expect(cache.count <= 100 && cache.count == cache.cost)
        #expect(Set(cache.keys()).count == cache.count)
    }
}
