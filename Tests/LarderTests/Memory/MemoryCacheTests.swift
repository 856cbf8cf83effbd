import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The memory tier")
struct MemoryCacheTests {
    let clock = ManualClock()

    private func cache(
        _ configure: (inout MemoryCache<String, String>.Configuration) -> Void = { _ in }
    ) -> MemoryCache<String, String> {
        cache(of: String.self, configure)
    }

    private func cache<Value: Sendable>(
        of _: Value.Type, _ configure: (inout MemoryCache<String, Value>.Configuration) -> Void = { _ in }
    ) -> MemoryCache<String, Value> {
        var configuration = MemoryCache<String, Value>.Configuration()
        configuration.release = .inline
        configure(&configuration)
        return MemoryCache(configuration: configuration, clock: clock)
    }

    @Test("an entry tells dates, age and cost of a fresh value, and is no use of it")
    func entry() throws {
        let cache = cache { $0.countLimit = 2 }
        cache.setValue("1", forKey: "a", ttl: .seconds(10), cost: 7)
        let stored = clock.now.date
        clock.advance(by: .seconds(2))
        cache.setValue("2", forKey: "b", ttl: .forever)
        #expect(cache.value(forKey: "a") == "1")
        clock.advance(by: .seconds(1))
        let hits = cache.statistics.hits
        let entry = try #require(cache.entry(forKey: "a"))
        #expect(entry.value == "1" && entry.cost == 7 && entry.storedAt == stored && entry.age == .seconds(3))
        #expect(entry.expiresAt == stored.addingTimeInterval(10))
        #expect(entry.lastUsedAt == stored.addingTimeInterval(2))
        #expect(try #require(cache.entry(forKey: "b")).expiresAt == nil)
        #expect(cache.statistics.hits == hits && cache.entry(forKey: "c") == nil)
        #expect(cache.keysByRecency() == ["a", "b"])
        clock.advance(by: .seconds(7))
        #expect(cache.entry(forKey: "a") == nil)
    }

    @Test("a stored value is there until it is replaced or removed")
    func basics() {
        let cache = cache()
        #expect(cache.value(forKey: "a") == nil)
        cache.setValue("1", forKey: "a")
        cache["b"] = "2"
        #expect(cache["a"] == "1" && cache.value(forKey: "b") == "2")
        cache["a"] = "3"
        #expect(cache["a"] == "3" && cache.count == 2)
        #expect(cache.removeValue(forKey: "a") == "3" && cache.removeValue(forKey: "a") == nil)
        cache["b"] = nil
        #expect(cache.count == 0 && !cache.hasValue(forKey: "b"))
        cache["c"] = "4"
        #expect(cache.keys() == ["c"])
        cache.removeAll()
        #expect(cache.count == 0 && cache["c"] == nil)
        let statistics = cache.statistics
        #expect(statistics.hits == 3 && statistics.misses == 2 && statistics.stores == 4)
        #expect(statistics.removals == 3, "a, b, and c with all")
    }

    @Test("strings as keys are compared by their UTF-8 bytes, other keys by their own equality")
    func keys() {
        let cache = cache()
        for key in ["e\u{301}", "\u{e9}", "", "a/b", "a_b"] { cache[key] = key }
        #expect(cache.count == 5)
        for key in ["e\u{301}", "\u{e9}"] { #expect(cache[key].map { Array($0.utf8) } == Array(key.utf8)) }
        let numbers = MemoryCache<Int, Int>()
        for number in -50..<50 { numbers[number] = number * 2 }
        #expect((-50..<50).allSatisfy { numbers[$0] == $0 * 2 } && numbers.count == 100)
        let lists = MemoryCache<[String], URL>()
        lists[["a", "b"]] = URL(fileURLWithPath: "/")
        #expect(lists[["a", "b"]] != nil && lists[["ab"]] == nil)
    }

    @Test("a value is expired from its expiry on; lives follow the rules of the disk")
    func expiry() {
        let cache = cache { $0.sweepInterval = nil }
        cache.setValue("1", forKey: "second", ttl: .seconds(1))
        cache.setValue("1", forKey: "default")
        cache.setValue("1", forKey: "forever", ttl: .forever)
        cache.setValue("1", forKey: "until", ttl: .until(clock.date.addingTimeInterval(5)))
        cache.setValue("old", forKey: "none")
        cache.setValue("1", forKey: "none", ttl: .seconds(0))
        #expect(cache["none"] == nil && cache.count == 4)
        clock.advance(by: .milliseconds(999))
        #expect(cache["second"] == "1")
        clock.advance(by: .milliseconds(1))
        #expect(cache["second"] == nil && !cache.hasValue(forKey: "second") && cache.keys().count == 3)
        #expect(cache.removeValue(forKey: "second") == nil)
        clock.advance(by: .seconds(4))
        #expect(cache["until"] == nil)
        clock.advance(by: .seconds(86_394))
        #expect(cache["default"] == "1")
        clock.advance(by: .seconds(1))
        #expect(cache["default"] == nil)
        clock.set(milliseconds: .max / 4)
        #expect(cache["forever"] == "1")
    }

    @Test("a new life begins now; a zero life removes the value")
    func renewal() {
        let cache = cache { $0.sweepInterval = nil }
        cache.setValue("1", forKey: "k", ttl: .seconds(10))
        clock.advance(by: .seconds(9))
        #expect(cache.setTimeToLive(.seconds(10), forKey: "k"))
        clock.advance(by: .seconds(9))
        #expect(cache["k"] == "1")
        #expect(cache.setTimeToLive(.seconds(0), forKey: "k") && cache["k"] == nil)
        #expect(!cache.setTimeToLive(.seconds(10), forKey: "k"))
        cache.setValue("1", forKey: "k", ttl: .seconds(1))
        clock.advance(by: .seconds(1))
        #expect(!cache.setTimeToLive(.seconds(10), forKey: "k"))
    }

    @Test("setting the clock back prolongs no life by more than a minute, and correcting it restores all values")
    func clockSetBack() {
        let cache = cache { $0.sweepInterval = nil }
        let start = clock.milliseconds
        cache.setValue("1", forKey: "k", ttl: .seconds(30))
        clock.set(milliseconds: start - 60_000)
        #expect(cache["k"] == "1")
        clock.set(milliseconds: start - 60_001)
        #expect(cache["k"] == nil)
        clock.set(milliseconds: start + 1)
        #expect(cache["k"] == "1")
    }

    @Test("the count limit evicts the least recently used values")
    func countLimit() {
        let cache = cache { ($0.countLimit, $0.eviction) = (3, .leastRecentlyUsed) }
        for key in ["a", "b", "c"] { cache[key] = key }
        _ = cache["a"]
        _ = cache.hasValue(forKey: "b")
        cache["d"] = "d"
        #expect(cache["b"] == nil && cache.count == 3)
        cache["c"] = "again"
        cache["e"] = "e"
        #expect(Set(cache.keys()) == ["c", "d", "e"])
        #expect(cache.statistics.evictions.count == 2)
        let none = self.cache { $0.countLimit = 0 }
        none["a"] = "a"
        #expect(none.count == 0)
    }

    @Test("the cost limit evicts until there is room; a value above the limit is not stored and evicts nothing")
    func costLimit() {
        let cache = cache { ($0.costLimit, $0.eviction) = (10, .leastRecentlyUsed) }
        cache.setValue("a", forKey: "a", cost: 4)
        cache.setValue("b", forKey: "b", cost: 4)
        cache.setValue("c", forKey: "c", cost: 2)
        #expect(cache.cost == 10 && cache.count == 3)
        cache.setValue("d", forKey: "d", cost: 5)
        #expect(Set(cache.keys()) == ["c", "d"] && cache.cost == 7)
        cache.setValue("larger", forKey: "c", cost: 11)
        #expect(cache.keys() == ["d"] && cache.cost == 5)
        cache.setValue("d", forKey: "d", cost: 1)
        #expect(cache.cost == 1)
        cache.setValue("free", forKey: "f", cost: -3)
        #expect(cache.cost == 1 && cache.statistics.evictions.cost == 3)
        let unlimited = self.cache()
        for key in ["a", "b"] { unlimited.setValue(key, forKey: key, cost: .max) }
        #expect(unlimited.cost > 0)
        unlimited.trim(toCost: 10)
        #expect(unlimited.count == 0 && unlimited.cost == 0)
        let weighing = self.cache {
            $0.costLimit = 10
            $0.cost = \.count
        }
        weighing["a"] = "123456"
        weighing["b"] = "12345"
        #expect(weighing.keys() == ["b"] && weighing.cost == 5)
    }

    @Test("trims evict on request, and the sweep removes expired values and those unused for too long")
    func trimAndSweep() {
        let cache = cache {
            $0.eviction = .leastRecentlyUsed
            $0.ageLimit = .seconds(100)
            $0.sweepInterval = .seconds(10)
        }
        for number in 0..<10 {
            cache.setValue("\(number)", forKey: "\(number)", ttl: .forever, cost: 10)
            clock.advance(by: .seconds(1))
        }
        cache.trim(toCount: 8)
        #expect(cache.count == 8 && cache["0"] == nil && cache["1"] == nil)
        cache.trim(toCost: 55)
        #expect(cache.count == 5 && cache.cost == 50)
        cache.trim(toAge: .seconds(3))
        #expect(Set(cache.keys()) == ["7", "8", "9"])
        #expect(cache.statistics.evictions.age == 2)
        cache.setValue("short", forKey: "short", ttl: .seconds(5))
        clock.advance(by: .seconds(11))
        #expect(cache.count == 3 && cache.statistics.expirations == 1)
        clock.advance(by: .seconds(60))
        _ = cache["7"]
        clock.advance(by: .seconds(50))
        #expect(cache.keys() == ["7"])
        cache.trim(toCount: -1)
        #expect(cache.count == 0)
    }

    @Test("the sweep of many values goes in slices and removes only expired ones")
    func longSweep() {
        let cache = MemoryCache<Int, Int>(configuration: .init(), clock: clock)
        for number in 0..<5000 { cache.setValue(number, forKey: number, ttl: .seconds(number % 3 == 0 ? 1 : 100)) }
        clock.advance(by: .seconds(2))
        #expect(cache.removeExpired() == 1667 && cache.count == 3333)
        #expect((0..<5000).allSatisfy { (cache[$0] == nil) == ($0 % 3 == 0) })
        for number in 0..<5000 { cache.setValue(-number, forKey: number) }
        #expect((0..<5000).allSatisfy { cache[$0] == -$0 } && cache.count == 5000)
    }

    @Test("memory pressure and the background remove everything, if so configured, and are reported")
    func conditions() {
        let told = Lock<[SystemCondition]>([])
        for (pressure, background) in [(true, true), (true, false), (false, true), (false, false)] {
            let cache = cache {
                $0.removesAllOnMemoryPressure = pressure
                $0.removesAllInBackground = background
                $0.onSystemCondition = { condition in told.withLock { $0.append(condition) } }
            }
            cache["k"] = "v"
            cache.respond(to: .background)
            #expect((cache["k"] == nil) == background)
            cache["k"] = "v"
            cache.respond(to: .memoryPressure)
            #expect((cache["k"] == nil) == pressure)
        }
        #expect(told.withLock { $0 } == Array(repeating: [.background, .memoryPressure], count: 4).flatMap { $0 })
    }

    /// A value that records when and where it is released, and then calls the cache.
    final class Released: Sendable {
        let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) {
            self.work = work
        }

        deinit {
            work()
        }
    }

    @Test(
        "values are released outside of the lock, so that their deinit may call the cache",
        arguments: [ValueRelease.inline, .background])
    func reentrancy(release: ValueRelease) {
        let cache = cache(of: Released.self) {
            $0.release = release
            $0.countLimit = 4
            $0.sweepInterval = nil
        }
        let released = DispatchSemaphore(value: 0)
        let value = {
            Released { [weak cache] in
                cache?.setValue(Released {}, forKey: "from deinit", ttl: .seconds(0))
                _ = cache?.value(forKey: "a")
                _ = cache?.count
                released.signal()
            }
        }
        func expectReleased(_ number: Int, _ work: () -> Void) {
            work()
            for _ in 0..<number { #expect(released.wait(timeout: .hang) == .success) }
        }
        cache["a"] = value()
        expectReleased(1) { cache["a"] = value() }
        expectReleased(1) { cache["a"] = nil }
        for number in 0..<4 { cache["\(number)"] = value() }
        expectReleased(1) { cache["4"] = value() }
        expectReleased(1) { cache.trim(toCount: 3) }
        expectReleased(3) { cache.removeAll() }
        cache.setValue(value(), forKey: "a", ttl: .seconds(1))
        clock.advance(by: .seconds(2))
        expectReleased(1) { _ = cache.removeExpired() }
        cache["a"] = value()
        expectReleased(1) { cache.respond(to: .memoryPressure) }
        cache["a"] = value()
        expectReleased(1) { cache.invalidate("a", .replaced) }
        #expect(cache.count == 0)
    }

    /// A key whose deinit calls the cache.
    final class Restless: Hashable, Sendable {
        let number: Int
        let work: @Sendable () -> Void

        init(_ number: Int, _ work: @escaping @Sendable () -> Void) {
            self.number = number
            self.work = work
        }

        static func == (left: Restless, right: Restless) -> Bool { left.number == right.number }
        func hash(into hasher: inout Hasher) { hasher.combine(number) }

        deinit {
            work()
        }
    }

    @Test("keys are released outside of the lock too", arguments: [ValueRelease.inline, .background])
    func keyReentrancy(release: ValueRelease) {
        var configuration = MemoryCache<Restless, Int>.Configuration()
        configuration.release = release
        configuration.countLimit = 4
        configuration.sweepInterval = nil
        let cache = MemoryCache(configuration: configuration, clock: clock)
        let released = DispatchSemaphore(value: 0)
        let key = { (number: Int) in
            Restless(number) { [weak cache] in
                _ = cache?.count
                released.signal()
            }
        }
        for number in 0..<8 { cache.setValue(number, forKey: key(number), ttl: .seconds(1)) }
        for number in 0..<8 { cache.setValue(number, forKey: key(number / 2), ttl: .seconds(1)) }
        clock.advance(by: .seconds(1))
        _ = cache.removeExpired()
        for _ in 0..<16 { #expect(released.wait(timeout: .hang) == .success) }
    }

    @Test("a deallocated cache releases its values in the configured place, and reports pending removals")
    func end() async {
        for release in [ValueRelease.main, .background, .inline] {
            let told = Lock(0)
            let isHere = DispatchSpecificKey<Bool>()
            DispatchQueue.main.setSpecific(key: isHere, value: true)
            let isReleasedOnMain = await withCheckedContinuation { continuation in
                let cache = cache(of: Released.self) {
                    $0.release = release
                    $0.countLimit = 1
                    $0.onRemove = { _, _, _ in told.withLock { $0 += 1 } }
                }
                cache["evicted"] = Released {}
                cache["k"] = Released {
                    continuation.resume(returning: DispatchQueue.getSpecific(key: isHere) == true)
                }
            }
            #expect(isReleasedOnMain == (release == .main))
            #expect(told.withLock { $0 } == 1)
        }
    }

    @Test("inline values are released on the caller's thread")
    func inlineThread() {
        let cache = cache(of: Released.self)
        let thread = Lock<pthread_t?>(nil)
        cache["a"] = Released { thread.withLock { $0 = pthread_self() } }
        cache["a"] = Released {}
        #expect(thread.withLock { $0 } == pthread_self())
    }

    @Test("values are released on the main queue if so configured")
    func mainQueue() async {
        let cache = cache(of: Released.self) { $0.release = .main }
        // Not a check for the main thread: on Linux the main queue may use other threads.
        let isHere = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: isHere, value: true)
        let isReleasedThere = await withCheckedContinuation { continuation in
            cache["a"] = Released { continuation.resume(returning: DispatchQueue.getSpecific(key: isHere) == true) }
            cache["a"] = Released {}
        }
        #expect(isReleasedThere)
    }

    @Test("removed values are reported with their cause", arguments: [ValueRelease.inline, .background])
    func onRemove(release: ValueRelease) {
        let told = Lock<[String]>([])
        let isTold = DispatchSemaphore(value: 0)
        let cache = cache {
            $0.release = release
            $0.countLimit = 3
            $0.eviction = .leastRecentlyUsed
            $0.costLimit = 10
            $0.sweepInterval = nil
            $0.onRemove = { key, value, cause in
                told.withLock { $0.append("\(key) \(value) \(cause)") }
                isTold.signal()
            }
        }
        func expect(_ lines: Set<String>, _ work: () -> Void) {
            work()
            for _ in lines { #expect(isTold.wait(timeout: .hang) == .success) }
            #expect(Set(told.withLock { $0 }) == lines)
            told.withLock { $0 = [] }
        }
        cache["a"] = "1"
        expect(["a 1 replaced"]) { cache.setValue("2", forKey: "a", ttl: .seconds(1)) }
        clock.advance(by: .seconds(1))
        expect(["a 2 expired"]) { _ = cache.removeExpired() }
        for key in ["b", "c", "d"] { cache[key] = key }
        expect(["b b count"]) { cache["e"] = "e" }
        #expect(cache.removeValue(forKey: "c") == "c")
        cache["costly"] = "1"
        expect(["costly 1 cost"]) { cache.setValue("2", forKey: "costly", cost: 11) }
        cache["none"] = "1"
        expect(["none 1 removed"]) { cache.setValue("2", forKey: "none", ttl: .seconds(0)) }
        cache["nil"] = "1"
        expect(["nil 1 removed"]) { cache["nil"] = nil }
        cache["zero"] = "1"
        expect(["zero 1 removed"]) { #expect(cache.setTimeToLive(.seconds(0), forKey: "zero")) }
        expect(["d d cleared", "e e cleared"]) { cache.removeAll() }
    }

    @Test("of very many values all are found, the oldest are evicted, and each stays within its memory budget")
    func million() {
        let count = Sample.size(1_000_000, usually: 125_000)
        let kept = (count + 6) / 7
        let cache = MemoryCache<Int, Int>(configuration: .init(eviction: .leastRecentlyUsed))
        for number in 0..<count { cache[number] = number }
        #expect(cache.count == count)
        #expect(stride(from: 0, to: count, by: 7).allSatisfy { cache[$0] == $0 })
        let (slots, buckets) = cache.table.withLock {
            (
                [$0.slots.capacity, $0.order.rings.links.capacity, $0.expiries.rings.links.capacity],
                $0.table.buckets.capacity
            )
        }
        // An array doubles when it is full, and takes what the allocator gives it beyond that: it may be a page.
        #expect(slots.allSatisfy { $0 <= 2 * count + 512 }, "the spare capacity of arrays")
        #expect(buckets <= 3 * count, "buckets of the hash table")
        let size =
            MemoryLayout<MemoryEntry<String, String>>.stride - 2 * MemoryLayout<String>.stride
            + 2 * MemoryLayout<SlotRings.Link>.stride + MemoryLayout<UInt8>.stride
        #expect(size == 49, "bytes of bookkeeping for each, without spare capacity")
        cache.trim(toCount: kept)
        #expect(cache.count == kept)
        #expect(stride(from: 0, to: count, by: 7).allSatisfy { cache[$0] == $0 })
    }

    @Test("neither a released cache nor a closed directory leaves a timer")
    func timers() throws {
        let clock = ManualClock()
        for _ in 0..<100 { _ = MemoryCache<String, Int>(configuration: .init(), clock: clock) }
        #expect(clock.scheduledCount == 0)
        let world = World()
        for number in 0..<100 {
            let disk = try world.open()
            try disk.setString("v", forKey: "\(number)")
            try disk.close()
        }
        #expect(world.clock.scheduledCount == 0)
    }
}
