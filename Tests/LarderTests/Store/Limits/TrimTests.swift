import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Trims: eviction on request")
struct TrimTests {
    private func filled(
        _ count: Int = 10, bytes: Int = 10, countLimit: Int? = nil
    ) throws -> (World, DiskCache) {
        let world = World.inOrderOfUse {
            $0.sweepInterval = nil
            $0.countLimit = countLimit
        }
        let cache = try world.open()
        for number in 0..<count {
            try cache.setData(Data(count: bytes), forKey: "\(number)")
            world.clock.advance(by: .seconds(1))
        }
        cache.settle()
        return (world, cache)
    }

    @Test("evict down to a count, by last use, deleting the files at once")
    func count() throws {
        let (world, cache) = try filled()
        _ = cache.data(forKey: "0")
        cache.trim(toCount: 3)
        #expect(Set(cache.keys()) == ["0", "8", "9"] && world.entryFiles.count == 3)
        cache.trim(toCount: 3)
        #expect(cache.count == 3)
        cache.trim(toCount: -1)
        #expect(cache.count == 0 && cache.statistics.evictions.count == 10)
    }

    @Test("evict down to a size")
    func size() throws {
        let (world, cache) = try filled()
        cache.trim(toSize: 35)
        #expect(Set(cache.keys()) == ["7", "8", "9"] && cache.payloadSize == 30)
        cache.trim(toSize: 0)
        #expect(cache.count == 0 && world.entryFiles.isEmpty && cache.statistics.evictions.size == 10)
    }

    @Test("evict entries beyond an age since the last use")
    func age() throws {
        let (_, cache) = try filled()
        cache.trim(toAge: .seconds(3))
        #expect(Set(cache.keys()) == ["7", "8", "9"])
        cache.trim(toAge: .seconds(-1))
        #expect(cache.count == 0 && cache.statistics.evictions.age == 10)
    }

    @Test("evict until an amount of space is free, and no further")
    func freeSpace() throws {
        let (world, cache) = try filled(bytes: 8000)
        let used = world.files.image.usedSpace
        world.files.setCapacity(used + 10_000)
        cache.trim(toFreeSpace: 10_000)
        #expect(cache.count == 10)
        cache.trim(toFreeSpace: 30_000)
        #expect(Set(cache.keys()) == ["3", "4", "5", "6", "7", "8", "9"], "three files of two blocks")
        #expect(world.files.freeSpace >= 30_000, "\(world.files.freeSpace)")
        #expect(cache.statistics.evictions.freeSpace == 3)
        cache.trim(toFreeSpace: .max)
        #expect(cache.count == 0)
    }

    @Test("evict from a thousand entries, in any order of use, exactly as a list would")
    func manyEntries() throws {
        var generator = SeededGenerator(seed: 5)
        let (world, cache) = try filled(0, countLimit: 1000)
        var order: [String] = []
        for number in 0..<1000 {
            try cache.setString("v", forKey: "\(number)")
            order.append("\(number)")
        }
        for _ in 0..<3000 {
            let key = order.remove(at: Int.random(in: 0..<1000, using: &generator))
            #expect(cache.data(forKey: key) != nil)
            order.append(key)
        }
        for count in [999, 700, 40, 1] {
            cache.trim(toCount: count)
            let isExact = Set(cache.keys()) == Set(order.suffix(count))
            #expect(isExact, "\(count)")
            cache.checkInvariants()
        }
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("remove expired entries first")
    func expired() throws {
        let (world, cache) = try filled(5)
        for number in 5..<10 { try cache.setString("v", forKey: "\(number)", ttl: .seconds(1)) }
        world.clock.set(milliseconds: world.clock.milliseconds + 5000)
        cache.trim(toCount: 5)
        #expect(Set(cache.keys()) == ["0", "1", "2", "3", "4"] && cache.count == 5 && world.entryFiles.count == 5)
        #expect(cache.statistics.evictions.total == 0 && cache.statistics.expirations == 5)
    }

    @Test("do not wait for readers of the evicted entries")
    func busyReaders() throws {
        let home = try TemporaryDirectory()
        let cache = try DiskCache(directory: home.appending("cache"))
        let isDone = Lock(false)
        let reader = Thread { while !isDone.withLock({ $0 }) { _ = cache.data(forKey: "k") } }
        reader.start()
        for _ in 0..<300 {
            try cache.setString("v", forKey: "k")
            cache.trim(toCount: 0)
            #expect(cache.count == 0)
        }
        isDone.withLock { $0 = true }
    }

    @Test("accept extreme numbers")
    func extremes() throws {
        let (_, cache) = try filled()
        cache.trim(toCount: .max)
        cache.trim(toSize: .max)
        cache.trim(toAge: .seconds(Int64.max))
        cache.trim(toFreeSpace: .min)
        #expect(cache.count == 10)
        cache.trim(toSize: .min)
        #expect(cache.count == 0)
        let world = World.inOrderOfUse {
            $0.countLimit = .max
            $0.sizeLimit = .max
            $0.ageLimit = .seconds(Int64.max)
            $0.minimumFreeSpace = .min
        }
        let large = try world.open()
        try large.setString("v", forKey: "k")
        large.settle()
        #expect(large.count == 1)
        let small = try World.inOrderOfUse {
            $0.countLimit = .min
            $0.sizeLimit = -5
        }.open()
        try small.setString("", forKey: "k")
        small.settle()
        #expect(small.count == 0 && code { try small.setString("v", forKey: "k") } == .tooLarge)
    }

    @Test("leave a closed cache alone")
    func closed() throws {
        var (world, cache) = try filled()
        try cache.close()
        cache.trim(toCount: 0)
        cache.trim(toSize: 0)
        cache.trim(toAge: .zero)
        cache.trim(toFreeSpace: .max)
        world.restart()
        #expect(try world.open().count == 10)
    }
}
