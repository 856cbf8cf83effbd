import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

@Suite("Minimum free space: what is lacking goes, once")
struct FreeSpaceTests {
    /// Ten entries of two blocks each on a disk with that much left.
    private func filled(free: Int, minimum: Int) throws -> (World, DiskCache) {
        let world = World { $0.minimumFreeSpace = minimum }
        let cache = try world.open()
        for number in 0..<10 { try cache.setData(Data(count: 7000), forKey: "\(number)") }
        cache.settle()
        world.files.setCapacity(world.files.image.usedSpace + free)
        return (world, cache)
    }

    private func sweep(_ world: World, _ cache: DiskCache) {
        world.clock.advance(by: .seconds(60))
        cache.settle()
    }

    @Test("the sweep finds that space is lacking")
    func sweep() throws {
        let (world, cache) = try filled(free: 30_000, minimum: 50_000)
        sweep(world, cache)
        #expect(Set(cache.keys()) == ["3", "4", "5", "6", "7", "8", "9"])
        #expect(world.files.freeSpace >= 50_000 && cache.statistics.evictions.freeSpace == 3)
    }

    @Test("another program that fills the disk does not empty the cache")
    func once() throws {
        let (world, cache) = try filled(free: 30_000, minimum: 50_000)
        sweep(world, cache)
        #expect(cache.count == 7)
        world.files.setCapacity(world.files.image.usedSpace)
        for _ in 0..<5 { sweep(world, cache) }
        #expect(cache.count == 7, "nothing is free now, and that is not the cache's doing")
        try cache.setData(Data(count: 7000), forKey: "new")
        cache.settle()
        #expect(cache.count == 7 && cache.hasValue(forKey: "new"), "what is stored since takes another's place")
        world.files.setCapacity(world.files.image.usedSpace + 60_000)
        sweep(world, cache)
        world.files.setCapacity(world.files.image.usedSpace + 45_000)
        sweep(world, cache)
        #expect(cache.count == 6, "there was enough in between: it is a new lack")
    }

    @Test("the write that crosses it has the space made up for")
    func write() throws {
        let (world, cache) = try filled(free: 60_000, minimum: 50_000)
        sweep(world, cache)
        #expect(cache.count == 10)
        for number in 10..<13 {
            try cache.setData(Data(count: 7000), forKey: "\(number)")
            cache.settle()
            #expect(world.files.freeSpace >= 50_000 - 8192)
        }
        #expect(world.files.freeSpace >= 50_000 && cache.count < 13 && cache.hasValue(forKey: "12"))
    }

    @Test("the decision: what is lacking, once; then only what was stored since")
    func decision() {
        var watch = FreeSpaceWatch()
        func stored(_ bytes: Int) -> Bool { watch.stored(bytes) }
        #expect(stored(1), "nothing is known at first")
        watch.looked(free: 1000, minimum: 400)
        #expect(watch.owed == 0)
        #expect(!stored(300), "half of what is left is stored before the next look")
        #expect(stored(1))
        watch.looked(free: 300, minimum: 400)
        #expect(watch.owed == 100)
        watch.gaveUp(30)
        #expect(watch.owed == 70)
        watch.gaveUp(200)
        #expect(watch.owed == 0)
        watch.looked(free: 0, minimum: 400)
        #expect(watch.owed == 0, "somebody else has filled the disk further")
        #expect(stored(50))
        watch.looked(free: 0, minimum: 400)
        #expect(watch.owed == 50)
        watch.looked(free: 400, minimum: 400)
        watch.looked(free: 390, minimum: 400)
        #expect(watch.owed == 10, "there was enough in between")
    }
}
