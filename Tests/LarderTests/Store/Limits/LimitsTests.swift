import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Limits: the least recently used entries go, and no more than have to")
struct LimitsTests {
    private func fill(_ cache: DiskCache, _ range: Range<Int>, bytes: Int = 10) throws {
        for number in range { try cache.setData(Data(count: bytes), forKey: "\(number)") }
        cache.settle()
    }

    @Test("there are none by default")
    func none() {
        let configuration = DiskCache.Configuration()
        #expect(configuration.countLimit == nil && configuration.sizeLimit == nil)
        #expect(configuration.ageLimit == nil && configuration.minimumFreeSpace == nil)
        #expect(configuration.settings.limits.areNone)
    }

    @Test("the write that crosses the limit on the count has the entry evicted that was not used for longest")
    func count() throws {
        let log = EventLog()
        let world = World {
            $0.countLimit = 3
            $0.onEvent = log.note
        }
        let cache = try world.open()
        try fill(cache, 0..<3)
        #expect(cache.data(forKey: "0") != nil)
        #expect(cache.entry(forKey: "1") != nil && cache.hasValue(forKey: "1"), "no uses")
        try fill(cache, 3..<4)
        #expect(Set(cache.keys()) == ["0", "2", "3"])
        #expect(cache.statistics.evictions.count == 1 && cache.statistics.evictions.total == 1)
        let event = try #require(log.events(of: cache).first)
        #expect(event.kind == .evicted && event.keys == ["1"] && event.limit == .count && event.count == 1)
        #expect(world.entryFiles.count == 3, "its file is gone too")
    }

    @Test("overwriting is a use, and does not evict")
    func overwriting() throws {
        let world = World { $0.countLimit = 2 }
        let cache = try world.open()
        try fill(cache, 0..<2)
        try fill(cache, 0..<1)
        try fill(cache, 0..<1)
        #expect(cache.count == 2)
        try fill(cache, 2..<3)
        #expect(Set(cache.keys()) == ["0", "2"])
    }

    @Test("the limit on the size counts payload bytes")
    func size() throws {
        let world = World { $0.sizeLimit = 100 }
        let cache = try world.open()
        try fill(cache, 0..<10)
        #expect(cache.size == 100 && cache.count == 10)
        try fill(cache, 10..<11)
        #expect(cache.size == 100 && !cache.hasValue(forKey: "0"), "to the limit, and not below 95")
        #expect(cache.statistics.evictions.size == 1)
        try fill(cache, 11..<111, bytes: 1)
        #expect(cache.size > 90 && cache.size <= 100)
        try fill(cache, 200..<201, bytes: 2)
        #expect(cache.size >= 95 && cache.size <= 100)
    }

    @Test("a value larger than the whole cache may be is refused, and the old one stays")
    func tooLarge() throws {
        let log = EventLog()
        let world = World {
            $0.sizeLimit = 100
            $0.onEvent = log.note
        }
        let cache = try world.open()
        try fill(cache, 0..<10)
        #expect(code { try cache.setData(Data(count: 101), forKey: "0") } == .tooLarge)
        cache.settle()
        #expect(cache.data(forKey: "0") == Data(count: 10) && cache.count == 10)
        #expect(log.events(of: cache).map(\.kind) == [.failed])
        try cache.setData(Data(count: 100), forKey: "big")
        cache.settle()
        #expect(cache.keys() == ["big"])
    }

    @Test("a cache at its limit shrinks to 5 % below, so that not every write evicts")
    func lowWaterMark() throws {
        let world = World { $0.countLimit = 1000 }
        let cache = try world.open()
        try fill(cache, 0..<1000)
        #expect(cache.count == 1000)
        try fill(cache, 1000..<1001)
        #expect(cache.count == 950)
        #expect((0..<51).allSatisfy { !cache.hasValue(forKey: "\($0)") })
        #expect((51...1000).allSatisfy { cache.hasValue(forKey: "\($0)") })
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("what has expired goes before anything is evicted")
    func expiredFirst() throws {
        let world = World {
            $0.countLimit = 3
            $0.sweepInterval = nil
        }
        let cache = try world.open()
        try fill(cache, 0..<1)
        try cache.setString("short", forKey: "short", ttl: .seconds(1))
        try fill(cache, 1..<2)
        world.clock.set(milliseconds: world.clock.milliseconds + 2000)
        try fill(cache, 2..<3)
        #expect(cache.count == 3 && cache.statistics.evictions.total == 0)
        try fill(cache, 3..<4)
        #expect(cache.statistics.expirations == 1)
        #expect(cache.statistics.evictions.total == 1 && Set(cache.keys()) == ["1", "2", "3"])
    }

    @Test("the limit on the age is on the time since the last use, and the sweep enforces it")
    func age() throws {
        let world = World { $0.ageLimit = .seconds(600) }
        let cache = try world.open()
        try fill(cache, 0..<3)
        world.clock.advance(by: .seconds(300))
        cache.settle()  // the sweep that is due asks for the next one when it is done
        #expect(cache.data(forKey: "1") != nil)
        world.clock.advance(by: .seconds(301))
        cache.settle()
        #expect(cache.keys() == ["1"])
        #expect(cache.statistics.evictions.age == 2)
        world.clock.advance(by: .seconds(360))
        cache.settle()
        #expect(cache.count == 0)
    }

    @Test("the order of use survives a restart, as far as it was saved")
    func persistence() throws {
        var world = World { $0.countLimit = 4 }
        var cache = try world.open()
        try fill(cache, 0..<4)
        world.clock.advance(by: .seconds(100))
        _ = cache.data(forKey: "0")
        world.clock.advance(by: .seconds(100))
        _ = cache.data(forKey: "2")
        cache.settle()
        try cache.close()
        world.restart()
        cache = try world.open()
        cache.settle()
        cache.checkInvariants()
        try fill(cache, 4..<6)
        #expect(Set(cache.keys()) == ["0", "2", "4", "5"])
    }

    @Test("a limit that is lower than what is stored is enforced when the directory is opened")
    func lowered() throws {
        var world = World()
        var cache = try world.open()
        try fill(cache, 0..<40)
        try cache.close()
        world.restart()
        world.configuration.countLimit = 10
        cache = try world.open()
        cache.settle()
        #expect(cache.count == 10 && (30..<40).allSatisfy { cache.hasValue(forKey: "\($0)") })
    }

    @Test("after an unclean close the files are looked at before anything is evicted")
    func unclean() throws {
        var world = World { $0.countLimit = 5 }
        var cache = try world.open()
        try fill(cache, 0..<5)
        world.restart()
        world.configuration.countLimit = 2
        cache = try world.open()
        cache.settle()
        #expect(Set(cache.keys()) == ["3", "4"])
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("when the index is lost, the newest values are still those that stay")
    func rebuilt() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<100 {
            try cache.setData(Data(count: 10), forKey: "\(number)")
            world.clock.advance(by: .seconds(1))
        }
        cache.settle()
        var image = world.files.image
        for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        world.configuration.countLimit = 50
        world.configuration.ageLimit = .seconds(20)
        cache = try world.open()
        cache.settle()
        #expect(Set(cache.keys()) == Set((80..<100).map { "\($0)" }))
    }

    @Test("a use while the clock was ahead does not keep what is older")
    func futureUse() throws {
        let world = World { $0.ageLimit = .seconds(100) }
        let cache = try world.open()
        let now = world.clock.milliseconds
        world.clock.set(milliseconds: now + 30 * 86_400_000)
        try cache.setString("v", forKey: "future", ttl: .forever)
        world.clock.set(milliseconds: now)
        try fill(cache, 0..<20)
        world.clock.advance(by: .seconds(200))
        cache.settle()
        #expect(cache.count == 0)
    }

    @Test("a use while the clock was behind does not take with it what is newer")
    func pastUse() throws {
        let world = World { $0.ageLimit = .seconds(100) }
        let cache = try world.open()
        let now = world.clock.milliseconds
        try fill(cache, 0..<20)
        world.clock.set(milliseconds: 0)
        try cache.setString("v", forKey: "past", ttl: .forever)
        world.clock.set(milliseconds: now + 1000)
        world.clock.advance(by: .seconds(60))
        cache.settle()
        #expect((0..<20).allSatisfy { cache.hasValue(forKey: "\($0)") })
        world.clock.advance(by: .seconds(120))
        cache.settle()
        #expect(cache.count == 0)
    }

    @Test("what was evicted does not come back after a kill")
    func evictedStaysAway() throws {
        var world = World { $0.countLimit = 3 }
        var cache = try world.open()
        try fill(cache, 0..<20)
        #expect(Set(cache.keys()) == ["17", "18", "19"])
        world.restart()
        world.configuration.countLimit = nil
        cache = try world.open()
        try cache.flush()
        #expect(Set(cache.keys()) == ["17", "18", "19"])
        #expect(world.entryFiles.count == 3)
    }

    @Test("a writer that is faster than the chore helps, so a limit is overrun by little")
    func helping() throws {
        let world = World { $0.countLimit = 1000 }
        let cache = try world.open()
        var most = 0
        try cache.store.maintenance.alone {
            for number in 0..<3000 {
                try cache.setData(Data(), forKey: "\(number)")
                most = max(most, cache.count)
            }
        }
        #expect(most <= 1000 + 1000 / 20 + 257)
        cache.settle()
        #expect(cache.count <= 1000)
    }

    @Test("a full disk does not keep entries from being evicted")
    func fullDisk() throws {
        let world = World()
        let cache = try world.open()
        try fill(cache, 0..<10)
        world.files.inject { _, operation in operation == .write || operation == .create ? .fail(.noSpace) : nil }
        cache.trim(toCount: 2)
        #expect(Set(cache.keys()) == ["8", "9"] && world.entryFiles.count == 2)
        world.files.inject(nil)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("a store-wide setting: a second handle with other limits is refused")
    func handles() throws {
        var world = World { $0.countLimit = 3 }
        let cache = try world.open()
        world.configuration.countLimit = 4
        #expect(code { try world.open() } == .differentConfiguration)
        try cache.close()
    }

    @Test(
        "writers overrun a limit by 5 % and 256 entries at most, also while a tag is being cleared", arguments: [1, 4])
    func overrun(threads: Int) throws {
        let world = World { $0.countLimit = 2_000 }
        let cache = try world.open()
        let most = Lock(0)
        DispatchQueue.concurrentPerform(iterations: threads) { thread in
            for number in 0..<6_000 {
                try? cache.setString("v", forKey: "\(thread) \(number)", tags: number.isMultiple(of: 2) ? ["t"] : [])
                if thread == 0, number % 2_000 == 1_999 { try? cache.removeAll(tagged: "t") }
                let count = cache.count
                most.withLock { $0 = max($0, count) }
            }
        }
        #expect(most.withLock { $0 } <= 2_000 + 100 + 256 + threads)
        cache.settle()
        #expect(cache.count <= 2_000)
    }

    @Test("entries that come from the future go first, in the session that stored them and in later ones")
    func fromTheFuture() throws {
        for isReopened in [false, true] {
            var world = World { $0.countLimit = 120 }
            var cache = try world.open()
            let now = world.clock.milliseconds
            try fill(cache, 0..<10)
            world.clock.set(milliseconds: now + 86_400_000)
            for number in 0..<100 { try cache.setString("v", forKey: "wrong \(number)", ttl: .days(3)) }
            world.clock.set(milliseconds: now + 1_000)
            if isReopened {
                try cache.close()
                world.restart()
                cache = try world.open()
            }
            #expect(!cache.hasValue(forKey: "wrong 1") && cache.count == 110, "a miss, and not deleted for that")
            try fill(cache, 1_000..<1_100)
            #expect((0..<10).allSatisfy { cache.hasValue(forKey: "\($0)") })
            #expect((1_000..<1_100).allSatisfy { cache.hasValue(forKey: "\($0)") })
        }
    }
}
