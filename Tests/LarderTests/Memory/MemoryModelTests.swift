import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

/// Random operations against a plain list of values in the order of their use.
@Suite("The memory tier behaves like a list in the order of use")
struct MemoryModelTests {
    struct Model {
        struct Item {
            var key: Int
            var value: Int
            var cost: Int
            var expires: Int64
            var used: Int64
        }

        /// The least recently used first.
        var items: [Item] = []
        var countLimit: Int?
        var costLimit: Int?
        var evictions = 0

        var cost: Int { items.reduce(0) { $0 + $1.cost } }

        func position(_ key: Int) -> Int? { items.firstIndex { $0.key == key } }

        mutating func get(_ key: Int, _ now: Int64) -> Int? {
            guard let position = position(key), now < items[position].expires else { return nil }
            var item = items.remove(at: position)
            item.used = now
            items.append(item)
            return item.value
        }

        mutating func set(_ item: Item) {
            if item.cost > costLimit ?? .max, position(item.key) != nil { evictions += 1 }
            items.removeAll { $0.key == item.key }
            guard item.cost <= costLimit ?? .max, item.used < item.expires else { return }
            items.append(item)
            evict(count: countLimit ?? .max, cost: costLimit ?? .max)
        }

        mutating func evict(count: Int, cost: Int) {
            while items.count > count || self.cost > cost {
                items.removeFirst()
                evictions += 1
            }
        }
    }

    @Test("with costs, lives, limits and trims", arguments: 1...12 as ClosedRange<UInt64>)
    func random(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let clock = ManualClock()
        var model = Model()
        var configuration = MemoryCache<Int, Int>.Configuration()
        configuration.sweepInterval = nil
        configuration.release = seed.isMultiple(of: 2) ? .inline : .background
        configuration.countLimit = [nil, 5, 30, 100].randomElement(using: &generator) ?? nil
        configuration.costLimit = [nil, 40, 200].randomElement(using: &generator) ?? nil
        (model.countLimit, model.costLimit) = (configuration.countLimit, configuration.costLimit)
        let cache = MemoryCache(configuration: configuration, clock: clock)
        for step in 0..<6000 {
            let key = Int.random(in: 0..<80, using: &generator)
            let now = clock.milliseconds
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<40:
                let ttl = [0, 1, 50, 1000, 100_000].randomElement(using: &generator) ?? 1
                let cost = Int.random(in: 0..<50, using: &generator)
                cache.setValue(step, forKey: key, ttl: .init(.milliseconds(ttl)), cost: cost)
                model.set(.init(key: key, value: step, cost: cost, expires: now + Int64(ttl), used: now))
            case 40..<75:
                #expect(cache.value(forKey: key) == model.get(key, now))
            case 75..<82:
                let position = model.position(key)
                let expected = position.flatMap { now < model.items[$0].expires ? model.items[$0].value : nil }
                #expect(cache.removeValue(forKey: key) == expected)
                if let position { model.items.remove(at: position) }
            case 82..<86:
                let position = model.position(key)
                let isFresh = position.map { now < model.items[$0].expires } ?? false
                #expect(cache.setTimeToLive(.init(.milliseconds(70)), forKey: key) == isFresh)
                if isFresh, let position { model.items[position].expires = now + 70 }
            case 86..<92:
                clock.advance(by: .milliseconds([1, 20, 300].randomElement(using: &generator) ?? 1))
            case 92..<94:
                let count = model.items.count { now >= $0.expires }
                #expect(cache.removeExpired() == count)
                model.items.removeAll { now >= $0.expires }
            case 94:
                let count = Int.random(in: 0..<60, using: &generator)
                cache.trim(toCount: count)
                model.evict(count: count, cost: .max)
            case 95:
                let cost = Int.random(in: 0..<600, using: &generator)
                cache.trim(toCost: cost)
                model.evict(count: .max, cost: cost)
            case 96:
                cache.trim(toAge: .milliseconds(400))
                let before = model.items.count
                model.items.removeAll { $0.used < now - 400 }
                model.evictions += before - model.items.count
            case 97 where generator.chance(10):
                cache.removeAll()
                model.items = []
            default:
                let position = model.position(key)
                #expect(cache.hasValue(forKey: key) == position.map { now < model.items[$0].expires } ?? false)
            }
            #expect(cache.count == model.items.count && cache.cost == model.cost, "seed \(seed), step \(step)")
            if step.isMultiple(of: 50) { check(cache, model, "seed \(seed), step \(step)") }
        }
        #expect(cache.statistics.evictions.total == model.evictions)
        print("memory model test: seed \(seed), \(model.evictions) evictions, \(model.items.count) values at the end")
    }

    private func check(_ cache: MemoryCache<Int, Int>, _ model: Model, _ context: Comment) {
        let found = cache.table.withLock { table -> [(key: Int, value: Int)] in
            var found: [(Int, Int)] = []
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
