import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Limits can change while a cache is open")
struct ChangedLimitsTests {
    private func filled(_ world: World, _ count: Int = 10) throws -> DiskCache {
        let cache = try world.open()
        for number in 0..<count {
            try cache.setData(Data(count: 10), forKey: "\(number)")
            world.clock.advance(by: .seconds(1))
        }
        cache.settle()
        return cache
    }

    @Test("a first limit evicts the least recently used entries, counting uses before it")
    func first() throws {
        let world = World.inOrderOfUse { $0.sweepInterval = nil }
        let cache = try filled(world)
        #expect(cache.limits == DiskCache.Limits() && cache.data(forKey: "0") != nil)
        let inside = cache.namespace("inside")
        inside.setLimits(.init(countLimit: 4))
        #expect(cache.limits == .init(countLimit: 4) && inside.limits == cache.limits)
        #expect(cache.store.index.withShard(at: 0) { $0.table.uses != nil }, "the order is kept at once")
        cache.settle()
        #expect(Set(cache.keys()) == ["0", "7", "8", "9"])
        #expect(cache.statistics.evictions.count == 6)
        try cache.setData(Data(count: 10), forKey: "10")
        cache.settle()
        #expect(Set(cache.keys()) == ["0", "8", "9", "10"])
        cache.checkInvariants(world)
    }

    @Test("they apply to every handle, and the next opening must configure them")
    func everyHandle() throws {
        let world = World.inOrderOfUse { $0.countLimit = 5 }
        let (cache, other) = (try filled(world, 3), try world.open())
        let limits = DiskCache.Limits(countLimit: 8, sizeLimit: 1_000, ageLimit: .seconds(90), minimumFreeSpace: 7)
        cache.setLimits(limits)
        #expect(other.limits == limits)
        #expect(code { try world.open() } == .differentConfiguration)
        var asked = world
        asked.configuration.countLimit = 8
        asked.configuration.sizeLimit = 1_000
        asked.configuration.ageLimit = .seconds(90)
        asked.configuration.minimumFreeSpace = 7
        #expect(try asked.open().limits == limits)
        other.setLimits(.init(countLimit: 5))
        #expect(throws: Never.self) { try world.open() }
        try cache.close()
        cache.setLimits(limits)
        #expect(other.limits == .init(countLimit: 5), "a closed handle changes nothing")
    }

    @Test("a size limit below an entry's size evicts the entry, and refuses it from then on")
    func lowered() throws {
        let world = World.inOrderOfUse { $0.sizeLimit = 1_000 }
        let cache = try filled(world)
        try cache.setData(Data(count: 500), forKey: "large")
        cache.setLimits(.init(sizeLimit: 100))
        cache.settle()
        #expect(!cache.hasValue(forKey: "large") && cache.payloadSize <= 100)
        #expect(code { try cache.setData(Data(count: 500), forKey: "large") } == .tooLarge)
        cache.setLimits(.init())
        #expect(cache.limits == .init() && "\(cache.limits)" == "none")
        try cache.setData(Data(count: 5_000), forKey: "large")
        for number in 0..<50 { try cache.setData(Data(count: 10), forKey: "more \(number)") }
        cache.settle()
        #expect(cache.payloadSize >= 5_500, "nothing more is evicted")
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("limits of age and free space apply without waiting for a sweep")
    func ageAndSpace() throws {
        let world = World.inOrderOfUse { $0.sweepInterval = nil }
        let cache = try filled(world)
        cache.setLimits(.init(ageLimit: .milliseconds(4_500)))
        cache.settle()
        #expect(Set(cache.keys()) == ["6", "7", "8", "9"])
        #expect(cache.statistics.evictions.age == 6)
        cache.setLimits(.init(minimumFreeSpace: -1))
        #expect(cache.limits == .init(minimumFreeSpace: 0), "negative limits count as zero")
        #expect("\(DiskCache.Limits(countLimit: 3, ageLimit: .seconds(60)))" == "countLimit: 3, ageLimit: 1 min")
    }

    @Test("limits that are raised while entries are evicted spare the entries that they allow")
    func raisedMeanwhile() throws {
        let world = World.inOrderOfUse { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<2_000 { try cache.setString("v", forKey: "\(number)") }
        try cache.flush()
        let isDone = Lock(false)
        let limited = cache.limits
        #expect(limited == DiskCache.Limits())
        world.files.inject { _, operation in
            guard operation == .remove else { return nil }
            let isFirst = isDone.withLock { done in
                defer { done = true }
                return !done
            }
            if isFirst { cache.setLimits(DiskCache.Limits(countLimit: 1_760)) }
            return nil
        }
        cache.setLimits(DiskCache.Limits(countLimit: 100))
        cache.settle()
        world.files.inject(nil)
        // A slice is 256 entries, which leaves 1,744.
        #expect(cache.count >= 1_744)
        cache.checkInvariants()
    }

    @Test("limits set through a closed handle change nothing, and the next session has its own")
    func limitsAndReopening() throws {
        let world = World.inOrderOfUse { $0.sweepInterval = nil }
        let (first, second) = (try world.open(), try world.open())
        first.setLimits(DiskCache.Limits(countLimit: 5))
        #expect(code { _ = try world.open() } == .differentConfiguration)
        try first.close()
        first.setLimits(DiskCache.Limits(countLimit: 1))
        #expect(second.limits == DiskCache.Limits(countLimit: 5))
        for number in 0..<50 { try second.setKept("v", forKey: "\(number)", tags: ["t"]) }
        try second.expireAll(tagged: "t")
        second.setLimits(DiskCache.Limits(countLimit: 2))
        try second.flush()
        #expect(second.count <= 2 && second.keys() == [])
        second.checkInvariants(world, settled: true)
        try second.close()
        second.setLimits(DiskCache.Limits(countLimit: 1))
        let third = try world.open()
        #expect(third.limits == DiskCache.Limits() && third.count <= 2)
        third.checkInvariants()
    }
}
