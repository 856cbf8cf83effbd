import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The order in which a memory cache reports")
struct MemoryOrderTests {
    @Test(
        "removals of a key by several threads are reported in their order, and none is lost",
        arguments: [ValueRelease.inline, .background], Sample.few(1, of: 1...4 as ClosedRange<UInt64>))
    func threads(release: ValueRelease, seed: UInt64) {
        let (threads, keys, last) = (6, 4, -1)
        let removed = Lock<[Int: [Int]]>([:])
        let isDone = DispatchSemaphore(value: 0)
        var configuration = MemoryCache<Int, Int>.Configuration()
        configuration.release = release
        configuration.sweepInterval = nil
        configuration.countLimit = threads * keys / 2
        configuration.onRemove = { key, value, _ in
            // The reporting thread is likely to be interrupted here, while others remove more.
            if value.isMultiple(of: 3) { sched_yield() }
            removed.withLock { $0[key, default: []].append(value) }
            if key == last { isDone.signal() }
        }
        let cache = MemoryCache(configuration: configuration, clock: ManualClock())
        let stores = Lock(0)
        DispatchQueue.concurrentPerform(iterations: threads) { thread in
            var generator = SeededGenerator(seed: seed * 100 + UInt64(thread))
            var stored = 0
            // Each thread has its own keys and stores their values in ascending order.
            for step in 0..<3000 {
                let key = thread * keys + Int.random(in: 0..<keys, using: &generator)
                if generator.chance(80) {
                    cache[key] = step
                    stored += 1
                } else if generator.chance(95) {
                    cache[key] = nil
                } else {
                    cache.removeAll()
                }
            }
            stores.withLock { $0 += stored }
        }
        cache.removeAll()
        cache[last] = 0
        cache.removeAll()
        #expect(isDone.wait(timeout: .hang) == .success)
        let all = removed.withLock { $0 }
        for (key, values) in all {
            #expect(values == values.sorted(), "key \(key), seed \(seed)")
        }
        #expect(all.values.reduce(0) { $0 + $1.count } == stores.withLock { $0 } + 1)
    }

    @Test("a removal within a handler is reported after the handler, before the outer call returns")
    func nested() {
        let told = Lock<[String]>([])
        let holder = Lock<MemoryCache<String, Int>?>(nil)
        var configuration = MemoryCache<String, Int>.Configuration()
        configuration.release = .inline
        configuration.sweepInterval = nil
        configuration.onRemove = { key, _, _ in
            told.withLock { $0.append("\(key) begins") }
            if key == "a" { holder.withLock { $0 }?["b"] = nil }
            told.withLock { $0.append("\(key) ends") }
        }
        let cache = MemoryCache(configuration: configuration, clock: ManualClock())
        holder.withLock { $0 = cache }
        cache["a"] = 1
        cache["b"] = 2
        cache["a"] = nil
        #expect(told.withLock { $0 } == ["a begins", "a ends", "b begins", "b ends"])
        holder.withLock { $0 = nil }
    }

    @Test("events of a cache in memory arrive in the order of the changes")
    func events() async throws {
        var configuration = MemoryCache<String, Int>.Configuration()
        configuration.sweepInterval = nil
        configuration.countLimit = 600
        configuration.eviction = .leastRecentlyUsed
        let cache = Cache<Int>(memoryOnly: configuration, clock: ManualClock())
        var expected: [String] = []
        let events = cache.events
        // Enough for a batch that is released at once, and some values that wait.
        for number in 0..<900 {
            try await cache.setValue(number, forKey: "\(number)")
            if number >= 600 { expected.append("\(number - 600)") }
            if number.isMultiple(of: 100) { await Task.yield() }
        }
        var found: [String] = []
        for await event in events {
            found += event.keys
            if found.count == expected.count { break }
        }
        #expect(found == expected)
    }
}
