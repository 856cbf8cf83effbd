import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Handles on one directory share one store")
struct HandlesTests {
    @Test("whatever the path, until the last one is closed")
    func shared() throws {
        let world = World()
        let one = try world.open()
        let other = try world.open()
        #expect(one.store === other.store)
        try one.setString("v", forKey: "k")
        try one.close()
        #expect(other.string(forKey: "k") == "v")
        try other.setString("w", forKey: "k")
        try other.close()
        #expect(try world.open().string(forKey: "k") == "w")
    }

    @Test("a closed handle misses and throws, and closing it again does nothing")
    func closed() throws {
        let world = World()
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        let kept = try world.open()
        try cache.close()
        try cache.close()
        #expect(cache.data(forKey: "k") == nil && !cache.hasValue(forKey: "k") && cache.entry(forKey: "k") == nil)
        #expect(cache.keys() == [] && cache.entries().isEmpty && cache.count == 0 && cache.payloadSize == 0)
        #expect(cache.removeExpired() == 0)
        #expect(code { try cache.setString("w", forKey: "k") } == .closed)
        #expect(code { try cache.removeValue(forKey: "k") } == .closed)
        #expect(code { try cache.setTimeToLive(.days(1), forKey: "k") } == .closed)
        #expect(code { try cache.removeAll() } == .closed && code { try cache.flush() } == .closed)
        #expect(kept.string(forKey: "k") == "v")
    }

    @Test("a dropped handle frees the directory, and the next opening finds everything")
    func dropped() throws {
        let world = World()
        for round in 0..<20 {
            let cache = try world.open()
            #expect(cache.count == round)
            try cache.setString("v", forKey: "\(round)")
        }
        #expect(try world.open().count == 20)
    }

    @Test("different settings are an error, but each handle has its own default life")
    func configuration() throws {
        var world = World()
        let cache = try world.open()
        world.configuration.slidingExpiry = true
        #expect(code { try world.open() } == .differentConfiguration)
        world.configuration.slidingExpiry = false
        world.configuration.eviction = .leastRecentlyUsed
        #expect(code { try world.open() } == .differentConfiguration)
        world.configuration.eviction = .adaptive
        world.configuration.defaultTTL = .seconds(5)
        let brief = try world.open()
        try brief.setString("v", forKey: "brief")
        try cache.setString("v", forKey: "long")
        #expect(cache.entry(forKey: "brief")?.expiresAt == world.clock.date.addingTimeInterval(5))
        #expect(cache.entry(forKey: "long")?.expiresAt == world.clock.date.addingTimeInterval(86_400))
    }

    @Test("threads that open at once get one store, or a new one while the old is deallocated")
    func openingRace() throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let failures = Lock<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 200) { number in
            do {
                let cache = try DiskCache(directory: directory)
                try cache.setString("\(number)", forKey: "k\(number % 10)")
                if cache.string(forKey: "k\(number % 10)") == nil { failures.withLock { $0.append("miss \(number)") } }
                if number % 3 == 0 { try cache.close() }
            } catch {
                failures.withLock { $0.append("\(error)") }
            }
        }
        #expect(failures.withLock { $0 } == [])
        #expect(try DiskCache(directory: directory).count == 10)
    }

    @Test("handles opened and released on several threads survive the deallocation of their store")
    func comingAndGoing() throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let failures = Lock<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for _ in 0..<150 {
                do { _ = try DiskCache(directory: directory) } catch { failures.withLock { $0.append("\(error)") } }
            }
        }
        #expect(failures.withLock { $0 } == [])
    }

    @Test("every listening handle gets an event for every removal, with its cause, and every failure")
    func events() throws {
        let log = EventLog()
        let world = World { $0.onEvent = log.note }
        let cache = try world.open()
        try cache.setString("1", forKey: "a")
        try cache.setString("2", forKey: "a")
        try cache.removeValue(forKey: "a")
        try cache.setString("v", forKey: "b", ttl: .seconds(1))
        world.clock.advance(by: .seconds(1))
        cache.removeExpired()
        try cache.setString("v", forKey: "c")
        try cache.removeAll()
        cache.settle()
        world.files.inject { _, operation in if case .create = operation { .fail(.noSpace) } else { nil } }
        try? cache.setString("v", forKey: "d")
        let events = log.events(of: cache)
        #expect(events.map(\.kind) == [.replaced, .removed, .expired, .cleared, .failed])
        #expect(events.map(\.keys) == [["a"], ["a"], ["b"], [], ["d"]])
        #expect(events.map(\.count) == [1, 1, 1, 1, 1] && events.last?.error?.code == .noSpace)
        #expect(cache.statistics.failures == 1)
    }

    @Test("a slow handler loses events, and their number is counted")
    func slowHandler() throws {
        let gate = DispatchSemaphore(value: 0)
        let world = World { $0.onEvent = { _ in gate.wait() } }
        let cache = try world.open()
        for _ in 0..<EventCenter.bound + 50 { try cache.setString("v", forKey: "k") }
        #expect(cache.statistics.eventsDropped == 50)
        for _ in 0..<EventCenter.bound + 50 { gate.signal() }
        cache.store.events.drain()
    }

    @Test("a handler may call the cache, and even close it")
    func reentrantHandler() throws {
        let box = Lock<DiskCache?>(nil)
        let done = DispatchSemaphore(value: 0)
        let world = World {
            $0.onEvent = { event in
                guard event.kind == .removed, let cache = box.withLock({ $0 }) else { return }
                try? cache.setString("from the handler", forKey: "h")
                try? cache.flush()
                done.signal()
            }
        }
        let cache = try world.open()
        box.withLock { $0 = cache }
        try cache.setString("v", forKey: "k")
        try cache.removeValue(forKey: "k")
        #expect(done.wait(timeout: .hang) == .success)
        #expect(cache.string(forKey: "h") == "from the handler")
        box.withLock { $0 = nil }
    }

    @Test("removeAll reports its progress to the end")
    func progress() throws {
        let world = World()
        let cache = try world.open()
        for number in 0..<600 { try cache.setString("v", forKey: "\(number)") }
        let told = Lock<[(Int, Int)]>([])
        try cache.removeAll { removed, total in told.withLock { $0.append((removed, total)) } }
        try cache.flush()
        cache.store.events.drain()
        let last = told.withLock { $0.last }
        #expect(last?.0 == 600 && last?.1 == 600)
        #expect(told.withLock { $0.map(\.0) == $0.map(\.0).sorted() && $0.count >= 3 })
    }
}
