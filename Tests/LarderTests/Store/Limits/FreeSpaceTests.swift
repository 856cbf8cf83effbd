import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Minimum free space: each shortage evicts once")
struct FreeSpaceTests {
    /// Ten entries of two blocks each on a disk with this much space left.
    private func filled(free: Int, minimum: Int) throws -> (World, DiskCache) {
        let world = World.inOrderOfUse { $0.minimumFreeSpace = minimum }
        let cache = try world.open()
        for number in 0..<10 { try cache.setData(Data(count: 7000), forKey: "\(number)") }
        try leave(free, world, cache)
        return (world, cache)
    }

    /// Saves first: the temporary files of a save beside the next sweep would count as used space.
    private func leave(_ free: Int, _ world: World, _ cache: DiskCache) throws {
        try cache.flush()
        // Openings and writes look at the free space in the background: before there is a shortage.
        cache.settle()
        world.files.setCapacity(world.files.image.usedSpace + free)
    }

    private func sweep(_ world: World, _ cache: DiskCache) {
        // The timer of a save that a flush has overtaken would begin one beside the sweep.
        world.clock.advance(by: .seconds(60)) { cache.settle() }
        cache.settle()
    }

    @Test("the sweep notices a shortage")
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
        try leave(0, world, cache)
        for _ in 0..<5 { sweep(world, cache) }
        #expect(cache.count == 7, "nothing is free now, but not because of the cache")
        try cache.setData(Data(count: 7000), forKey: "new")
        cache.settle()
        #expect(cache.count == 7 && cache.hasValue(forKey: "new"), "a new entry replaces an old one")
        for _ in 0..<5 { try cache.setData(Data(count: 7000), forKey: "new") }
        cache.settle()
        #expect(cache.count == 7, "overwriting is not growth")
        try leave(80_000, world, cache)
        sweep(world, cache)
        try leave(45_000, world, cache)
        sweep(world, cache)
        #expect(cache.count == 6, "the given-up amount had been freed, so this is a new shortage")
    }

    @Test("a program that fills the disk again and again does not empty the cache either")
    func steadily() throws {
        let (world, cache) = try filled(free: 45_000, minimum: 50_000)
        for _ in 0..<20 {
            sweep(world, cache)
            try leave(45_000, world, cache)
        }
        #expect(cache.count == 9)
    }

    @Test("the cache gives up nothing if all its entries would not be enough")
    func hopeless() throws {
        let (world, cache) = try filled(free: 30_000, minimum: 5_000_000)
        for _ in 0..<3 { sweep(world, cache) }
        #expect(cache.count == 10)
        for number in 10..<15 { try cache.setData(Data(count: 7000), forKey: "\(number)") }
        cache.settle()
        #expect(cache.count == 10 && cache.hasValue(forKey: "14") && !cache.hasValue(forKey: "4"))
    }

    @Test("after an unclean close a shortage is noticed once the files have been checked")
    func unclean() throws {
        let (before, cache) = try filled(free: 2_000_000, minimum: 50_000)
        for number in 10..<100 { try cache.setData(Data(count: 7000), forKey: "\(number)") }
        var world = before
        var image = world.files.image
        for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        world.files.setCapacity(world.files.image.usedSpace + 30_000)
        let again = try world.open()
        again.settle()
        #expect(again.count < 98 && again.count > 90 && again.hasValue(forKey: "99"))
    }

    @Test("expired entries are deleted before the free space is measured")
    func expiredFirst() throws {
        let (world, cache) = try filled(free: 200_000, minimum: 50_000)
        for number in 10..<13 { try cache.setData(Data(count: 7000), forKey: "\(number)", ttl: .seconds(1)) }
        try leave(30_000, world, cache)
        sweep(world, cache)
        #expect(cache.count == 10 && cache.statistics.evictions.total == 0)
    }

    @Test("a write that causes a shortage triggers its compensation")
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

    @Test("the budget answers a shortage once, and then only the cache's own growth")
    func decision() {
        let budget = FreeSpaceBudget()
        func mayLack(_ size: Int) -> Bool { budget.mayLack(size: size) }
        #expect(mayLack(0), "nothing has been measured yet")
        budget.note(free: 1000, minimum: 400, size: 500)
        #expect(budget.owed == 0)
        #expect(!mayLack(800) && mayLack(801), "half of the remaining space may be used without a measurement")
        budget.note(free: 300, minimum: 400, size: 800)
        #expect(budget.owed == 100)
        budget.beginGivingUp()
        #expect(mayLack(770), "the size lacks thirty bytes that are not noted yet")
        budget.noteGivenUp(30)
        #expect(budget.owed == 70)
        budget.note(free: 300, minimum: 400, size: 775)
        #expect(budget.owed == 75, "five bytes were stored before everything was given up")
        budget.noteGivenUp(200)
        #expect(budget.owed == 0)
        budget.note(free: 0, minimum: 400, size: 575)
        #expect(budget.owed == 0, "another program has filled the disk further")
        #expect(mayLack(625) && !mayLack(575))
        budget.note(free: 0, minimum: 400, size: 625)
        #expect(budget.owed == 50)
        budget.noteGivenUp(50)
        budget.note(free: 400, minimum: 400, size: 575)
        budget.note(free: 390, minimum: 400, size: 575)
        #expect(budget.owed == 0, "the given-up amount has not been freed")
        budget.note(free: 500, minimum: 400, size: 575)
        budget.note(free: 390, minimum: 400, size: 575)
        #expect(budget.owed == 10)
        #expect(!mayLack(100) && mayLack(101), "growth counts from the size after a removal")
        budget.note(free: 0, minimum: 400, size: 300)
        #expect(budget.owed == 210)
        let hopeless = FreeSpaceBudget()
        hopeless.note(free: 0, minimum: 1000, size: 1000)
        #expect(hopeless.owed == 0)
    }
}
