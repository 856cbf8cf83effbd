import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Limits evict the least recently used entries, and no more than necessary", .storm)
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

    @Test("a write that exceeds the count limit evicts the least recently used entry")
    func count() throws {
        let log = EventLog()
        let world = World.inOrderOfUse {
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
        #expect(world.entryFiles.count == 3, "its file is deleted too")
    }

    @Test("overwriting counts as a use, and does not evict")
    func overwriting() throws {
        let world = World.inOrderOfUse { $0.countLimit = 2 }
        let cache = try world.open()
        try fill(cache, 0..<2)
        try fill(cache, 0..<1)
        try fill(cache, 0..<1)
        #expect(cache.count == 2)
        try fill(cache, 2..<3)
        #expect(Set(cache.keys()) == ["0", "2"])
    }

    @Test("the size limit counts payload bytes")
    func size() throws {
        let world = World.inOrderOfUse { $0.sizeLimit = 100 }
        let cache = try world.open()
        try fill(cache, 0..<10)
        #expect(cache.payloadSize == 100 && cache.count == 10)
        try fill(cache, 10..<11)
        #expect(cache.payloadSize == 100 && !cache.hasValue(forKey: "0"), "down to the limit, and not below 95")
        #expect(cache.statistics.evictions.size == 1)
        try fill(cache, 11..<111, bytes: 1)
        #expect(cache.payloadSize > 90 && cache.payloadSize <= 100)
        try fill(cache, 200..<201, bytes: 2)
        #expect(cache.payloadSize >= 95 && cache.payloadSize <= 100)
    }

    @Test("a value larger than the size limit is refused, and the old one stays")
    func tooLarge() throws {
        let log = EventLog()
        let world = World.inOrderOfUse {
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
        let world = World.inOrderOfUse { $0.countLimit = 1000 }
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

    @Test("expired entries are removed before any entry is evicted")
    func expiredFirst() throws {
        let world = World.inOrderOfUse {
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

    @Test("the age limit applies to the time since the last use, and the sweep enforces it")
    func age() throws {
        let world = World.inOrderOfUse { $0.ageLimit = .seconds(600) }
        let cache = try world.open()
        try fill(cache, 0..<3)
        world.clock.advance(by: .seconds(300))
        cache.settle()  // the due sweep schedules the next one when it is done
        #expect(cache.data(forKey: "1") != nil)
        // Not 301: a sweep that runs at once does so after exactly 600 seconds.
        world.clock.advance(by: .seconds(360))
        cache.settle()
        #expect(cache.keys() == ["1"])
        #expect(cache.statistics.evictions.age == 2)
        world.clock.advance(by: .seconds(360))
        cache.settle()
        #expect(cache.count == 0)
    }

    @Test("the order of use survives a restart, as far as it was saved")
    func persistence() throws {
        var world = World.inOrderOfUse { $0.countLimit = 4 }
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

    @Test("an opening enforces a limit that the stored entries exceed")
    func lowered() throws {
        var world = World.inOrderOfUse()
        var cache = try world.open()
        try fill(cache, 0..<40)
        try cache.close()
        world.restart()
        world.configuration.countLimit = 10
        cache = try world.open()
        cache.settle()
        #expect(cache.count == 10 && (30..<40).allSatisfy { cache.hasValue(forKey: "\($0)") })
    }

    @Test("after an unclean close the files are checked before anything is evicted")
    func unclean() throws {
        var world = World.inOrderOfUse { $0.countLimit = 5 }
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

    @Test("even when the index is lost, the newest values stay")
    func rebuilt() throws {
        var world = World.inOrderOfUse { $0.sweepInterval = nil }
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

    @Test("a use while the clock was ahead does not keep older entries")
    func futureUse() throws {
        let world = World.inOrderOfUse { $0.ageLimit = .seconds(100) }
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

    @Test("a use while the clock was behind does not evict newer entries")
    func pastUse() throws {
        let world = World.inOrderOfUse { $0.ageLimit = .seconds(100) }
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

    @Test("evicted entries do not come back after a kill")
    func evictedStaysAway() throws {
        var world = World.inOrderOfUse { $0.countLimit = 3 }
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

    @Test("a writer that outruns the background work helps, so a limit is exceeded only by little")
    func helping() throws {
        let world = World.inOrderOfUse { $0.countLimit = 1000 }
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

    @Test("entries are evicted on a full disk too")
    func fullDisk() throws {
        let world = World.inOrderOfUse()
        let cache = try world.open()
        try fill(cache, 0..<10)
        world.files.inject { _, operation in operation == .write || operation == .create ? .fail(.noSpace) : nil }
        cache.trim(toCount: 2)
        #expect(Set(cache.keys()) == ["8", "9"] && world.entryFiles.count == 2)
        world.files.inject(nil)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "a cache with limits evicts for a save; one without any says that there is no room", arguments: [false, true])
    func roomForSave(isShared: Bool) throws {
        func filled(_ configure: (inout DiskCache.Configuration) -> Void) throws -> (World, DiskCache) {
            let world = World.inOrderOfUse {
                $0.sharing = isShared ? .processes : .exclusive
                configure(&$0)
            }
            let cache = try world.open()
            for number in 0..<20 { try cache.setData(Data(count: 20_000), forKey: "\(number)") }
            cache.settle()
            world.files.limitFreeSpace(to: 0)
            return (world, cache)
        }
        let (world, cache) = try filled { $0.countLimit = 1000 }
        try cache.flush()
        #expect(cache.count < 20 && cache.count >= 10 && cache.hasValue(forKey: "19"))
        #expect(cache.statistics.evictions.freeSpace == 20 - cache.count)
        cache.checkInvariants(world, settled: true)
        let keys = Set(cache.keys())
        world.files.limitFreeSpace(to: 0)
        try cache.close()
        #expect(try Set(world.open().keys()) == keys)

        let (_, unlimited) = try filled { _ in }
        #expect(code { try unlimited.flush() } == .noSpace)
        #expect(unlimited.count == 20)
    }

    @Test("limits belong to the store: a second handle with other limits is refused")
    func handles() throws {
        var world = World.inOrderOfUse { $0.countLimit = 3 }
        let cache = try world.open()
        world.configuration.countLimit = 4
        #expect(code { try world.open() } == .differentConfiguration)
        try cache.close()
    }

    @Test(
        "writers exceed a limit by at most 5 % and 256 entries, even while a tag is cleared", arguments: [1, 4])
    func overrun(threads: Int) throws {
        let world = World.inOrderOfUse { $0.countLimit = 1_000 }
        let cache = try world.open()
        let most = Lock(0)
        let changes = Sample.size(3_000, usually: 2_000)
        DispatchQueue.concurrentPerform(iterations: threads) { thread in
            for number in 0..<changes {
                try? cache.setString("v", forKey: "\(thread) \(number)", tags: number.isMultiple(of: 2) ? ["t"] : [])
                if thread == 0, number % 1_000 == 999 { try? cache.removeAll(tagged: "t") }
                // `cache.count` adds up the shards while entries come and go: it may be larger than they ever were.
                let count = cache.store.index.totals.count
                most.withLock { $0 = max($0, count) }
            }
        }
        #expect(most.withLock { $0 } <= 1_000 + 50 + 256 + threads)
        cache.settle()
        #expect(cache.statistics.evictions.total > 0 && cache.count <= 1_000)
    }

    @Test("entries from the future are evicted first, in the session that stored them and in later ones")
    func fromTheFuture() throws {
        for isReopened in [false, true] {
            var world = World.inOrderOfUse { $0.countLimit = 120 }
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
            #expect(!cache.hasValue(forKey: "wrong 1") && cache.count == 110, "a miss, but not deleted")
            try fill(cache, 1_000..<1_100)
            #expect((0..<10).allSatisfy { cache.hasValue(forKey: "\($0)") })
            #expect((1_000..<1_100).allSatisfy { cache.hasValue(forKey: "\($0)") })
        }
    }
}
