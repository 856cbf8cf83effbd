import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Random operations compared with a plain list of values in the order of use. Which one an adaptive cache gives up, the
/// model does not know; but that it is one, and not more than necessary.
@Suite("The memory tier behaves like a list in the order of use", .storm)
struct MemoryModelTests {
    struct Model {
        struct Item {
            var key: Int
            /// Nil: a known absence.
            var value: Int?
            var cost: Int
            var expires: Int64
            var used: Int64
            /// How long it is kept beyond its expiry.
            var keptStale: Int64 = 0
            /// The start of its life, if it may slide.
            var begun: Int64?
        }

        /// The least recently used first.
        var items: [Item] = []
        var countLimit: Int?
        var costLimit: Int?
        var entryCostLimit: Int?
        var ageLimit: Int64?
        var slides = false
        var isAdaptive = false
        var evictions = 0
        var expirations = 0

        var cost: Int { items.reduce(0) { $0 + $1.cost } }

        func position(_ key: Int) -> Int? { items.firstIndex { $0.key == key } }

        func isAged(_ item: Item, _ now: Int64) -> Bool { ageLimit.map { now - item.used > $0 } ?? false }

        /// When it ends, if it is not used again.
        func end(_ item: Item) -> Int64 {
            min(item.expires + item.keptStale, ageLimit.map { item.used + $0 + 1 } ?? .max)
        }

        mutating func removeEnded(_ now: Int64) {
            for item in items where end(item) <= now { noteEnd(item, now) }
            items = items.filter { end($0) > now }
        }

        private mutating func noteEnd(_ item: Item, _ now: Int64) {
            if now >= item.expires + item.keptStale { expirations += 1 } else { evictions += 1 }
        }

        func isUsable(_ item: Item, _ now: Int64) -> Bool { now < item.expires && !isAged(item, now) }

        /// The value that a read finds. Removes a dead or aged item; a use moves the item to the end.
        mutating func read(_ key: Int, _ now: Int64, isUse: Bool) -> Int? {
            guard let position = position(key) else { return nil }
            var item = items[position]
            if isUsable(item, now) {
                if isUse {
                    items.remove(at: position)
                    item.used = now
                    if slides, item.value != nil, let begun = item.begun {
                        item.expires += now - begun
                        item.begun = now
                    }
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
            if item.cost > min(costLimit ?? .max, entryCostLimit ?? .max) {
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

        /// Ends the life of an item, or removes it.
        mutating func expire(_ key: Int, _ now: Int64) -> Bool {
            guard let position = position(key), now < items[position].expires else { return false }
            let item = items[position]
            let isAged = isAged(item, now)
            if item.value != nil, !isAged, item.keptStale > 0 {
                items[position].expires = now
            } else {
                items.remove(at: position)
                if isAged { evictions += 1 } else { expirations += 1 }
            }
            return item.value != nil && !isAged
        }

        mutating func evict(_ now: Int64, where isEvicted: (Item) -> Bool) {
            let before = items.count
            items.removeAll(where: isEvicted)
            evictions += before - items.count
        }

        func fresh(_ now: Int64) -> [Item] { items.filter { $0.value != nil && isUsable($0, now) } }

        /// Removes expired items first, in the order of their ends. Of several with the same end, any may be removed
        /// first: the model takes those that the cache has removed, the cheapest first, because an order that needs all
        /// of them is then possible.
        mutating func evict(count: Int, cost: Int, _ now: Int64, isKept: (Int) -> Bool) {
            while items.count > count || self.cost > cost {
                if let first = items.map(end).min(), first <= now {
                    let due = items.indices.filter { end(items[$0]) == first }
                    let gone = due.filter { !isKept(items[$0].key) }.min { items[$0].cost < items[$1].cost }
                    #expect(gone != nil, "an expired item is removed first")
                    noteEnd(items.remove(at: gone ?? due[0]), now)
                } else {
                    let costs = items.count <= count
                    let mayGo = { (item: Item) in !costs || item.cost > 0 }
                    let gone = isAdaptive ? items.indices.filter { mayGo(items[$0]) && !isKept(items[$0].key) } : []
                    let cheapest = gone.min { items[$0].cost < items[$1].cost }
                    guard let position = cheapest ?? items.firstIndex(where: mayGo) else { return }
                    items.remove(at: position)
                    evictions += 1
                }
            }
        }
    }

    @Test(
        "with costs, lives, limits, trims and absences", arguments: 1...16 as ClosedRange<UInt64>,
        [EvictionPolicy.leastRecentlyUsed, .adaptive])
    func random(seed: UInt64, policy: EvictionPolicy) {
        var generator = SeededGenerator(seed: seed)
        let clock = ManualClock()
        var model = Model()
        var configuration = MemoryCache<Int, Int>.Configuration()
        configuration.sweepInterval = nil
        configuration.eviction = policy
        model.isAdaptive = policy == .adaptive
        configuration.release = seed.isMultiple(of: 2) ? .inline : .background
        configuration.countLimit = [nil, 5, 30, 100].randomElement(using: &generator) ?? nil
        configuration.costLimit = [nil, 40, 200].randomElement(using: &generator) ?? nil
        let ageLimit = [nil, nil, 600].randomElement(using: &generator) ?? nil
        configuration.ageLimit = ageLimit.map { .milliseconds($0) }
        configuration.slidingExpiry = seed.isMultiple(of: 3)
        model.slides = configuration.slidingExpiry
        (model.countLimit, model.costLimit) = (configuration.countLimit, configuration.costLimit)
        model.ageLimit = ageLimit.map(Int64.init)
        let cache = MemoryCache(configuration: configuration, clock: clock)
        let isKept: (Int) -> Bool = { key in
            cache.table.withLock { $0.slot(key, MemoryKey.fingerprint(key)) != nil }
        }
        for step in 0..<6000 {
            let key = Int.random(in: 0..<80, using: &generator)
            let now = clock.milliseconds
            let operation = Int.random(in: 0..<110, using: &generator)
            switch operation {
            case 0..<30:
                let ttl = [0, 1, 50, 1000, 100_000].randomElement(using: &generator) ?? 1
                let cost = generator.chance(30) ? 0 : Int.random(in: -3..<50, using: &generator)
                let end = generator.chance(20) ? Timestamp(milliseconds: now + Int64(ttl)).date : nil
                cache.setValue(
                    step, forKey: key, ttl: end.map { .until($0) } ?? .init(.milliseconds(ttl)), cost: cost)
                let item = Model.Item(
                    key: key, value: step, cost: max(0, cost),
                    expires: end.map { Timestamp($0).milliseconds } ?? now + Int64(ttl), used: now,
                    begun: end == nil ? now : nil)
                model.set(item, isKept: isKept)
            case 30..<35:
                let ttl = Int64.random(in: 1...500, using: &generator)
                let cost = Int.random(in: 0..<9, using: &generator)
                let stale = Int64.random(in: 0...500, using: &generator)
                let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: ttl))
                cache.release(
                    cache.insertKept(step, forKey: key, life: life, cost: cost, MemoryExtra(keptStale: stale)).demand)
                let item = Model.Item(
                    key: key, value: step, cost: cost, expires: now + ttl, used: now, keptStale: stale, begun: now)
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
                if isFresh == true, let position {
                    (model.items[position].expires, model.items[position].begun) = (now + 70, now)
                }
            case 86..<92:
                clock.advance(by: .milliseconds([1, 20, 300].randomElement(using: &generator) ?? 1))
            case 92..<94:
                let before = model.items.count
                model.removeEnded(now)
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
                model.evict(now) { $0.used < now - 400 }
            case 97 where generator.chance(10):
                cache.removeAll()
                model.items = []
            case 100:
                model.countLimit = [nil, 5, 30, 100].randomElement(using: &generator) ?? nil
                cache.countLimit = model.countLimit
                model.evict(count: model.countLimit ?? .max, cost: model.costLimit ?? .max, now, isKept: isKept)
            case 101:
                model.costLimit = [nil, 40, 200].randomElement(using: &generator) ?? nil
                cache.costLimit = model.costLimit
                model.evict(count: model.countLimit ?? .max, cost: model.costLimit ?? .max, now, isKept: isKept)
            case 102:
                let limit = [nil, 10, 30].randomElement(using: &generator) ?? nil
                model.entryCostLimit = limit
                cache.entryCostLimit = limit
                model.evict(now) { $0.cost > limit ?? .max }
            case 103:
                let limit = [nil, 300, 600].randomElement(using: &generator) ?? nil
                model.ageLimit = limit.map(Int64.init)
                cache.ageLimit = limit.map { .milliseconds($0) }
                model.removeEnded(now)
            case 104..<106:
                let item = model.position(key).map { model.items[$0] }
                #expect(cache.peekValue(forKey: key) == item.flatMap { model.isUsable($0, now) ? $0.value : nil })
            case 106..<109:
                let gone = cache.expireKept(key)
                cache.release(gone.demand)
                #expect(gone.wasFresh == model.expire(key, now))
            case 109 where generator.chance(10):
                cache.release(cache.expireAllKept())
                for key in model.items.map(\.key) { _ = model.expire(key, now) }
            default:
                #expect(cache.hasValue(forKey: key) == (model.read(key, now, isUse: false) != nil))
            }
            #expect(
                cache.count == model.items.count && cache.cost == model.cost,
                "seed \(seed), step \(step), operation \(operation)")
            if step.isMultiple(of: 50) { check(cache, model, clock.milliseconds, "seed \(seed), step \(step)") }
        }
        #expect(cache.statistics.evictions.total == model.evictions)
        #expect(cache.statistics.expirations == model.expirations)
        print("memory model test: seed \(seed), \(model.evictions) evictions, \(model.items.count) values at the end")
    }

    private func check(_ cache: MemoryCache<Int, Int>, _ model: Model, _ now: Int64, _ context: Comment) {
        let found = cache.table.withLock { table -> [(key: Int, value: Int?)] in
            table.order.slots.map { (table.slots[Int($0)].key, table.slots[Int($0)].value) }
        }
        if model.isAdaptive {
            #expect(Dictionary(uniqueKeysWithValues: found) == model.items.reduce(into: [:]) { $0[$1.key] = $1.value })
            checkSizes(cache, context)
        } else {
            #expect(found.map(\.key) == model.items.map(\.key), "the order of use, \(context)")
            #expect(found.map(\.value) == model.items.map(\.value), context)
            #expect(cache.keysByRecency() == model.fresh(now).map(\.key).reversed(), context)
        }
        #expect(Set(cache.keysByRecency()) == Set(model.fresh(now).map(\.key)), context)
        #expect(Set(cache.values()) == Set(model.fresh(now).compactMap(\.value)), context)
    }

    /// The sizes of the rings are those of their entries.
    private func checkSizes(_ cache: MemoryCache<Int, Int>, _ context: Comment) {
        cache.table.withLock { table in
            var sizes = Array(repeating: (count: 0, cost: 0), count: 6)
            for slot in table.order.slots.map(Int.init) {
                let ring = table.order.ring(of: slot)
                sizes[ring].count += 1
                sizes[ring].cost += table.slots[slot].cost
                let isCostly = table.order.weighs && table.slots[slot].cost > 0
                #expect((ring >= EvictionOrder.costly) == isCostly, context)
            }
            #expect(sizes.map(\.count) == table.order.sizes.map(\.count), context)
            #expect(sizes.map(\.cost) == table.order.sizes.map(\.cost), context)
            let costly = sizes.dropFirst(EvictionOrder.costly).reduce(0) { $0 + $1.count }
            #expect(table.order.costly.count == costly && table.order.free.count == table.count - costly, context)
            #expect(table.order.costly.cost + table.order.free.cost == table.cost, context)
        }
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
