import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("What is kept because of the files of other processes is bounded")
struct LastFileBoundsTests {
    private func world(countLimit: Int? = nil) -> World {
        World.shared {
            $0.sweepInterval = nil
            $0.countLimit = countLimit
        }
    }

    /// A process that owes the older file of a key.
    private func debtor(_ world: World) throws -> DiskCache {
        let cache = try world.open()
        try cache.store("owed", "old")
        try cache.store("owed", "new")
        return cache
    }

    /// Runs `body` beside a process that is stopped in a set, after it has taken a number.
    private func besideStoppedSet(_ world: World, _ body: () throws -> Void) throws {
        let gate = GatedFileSystem(world.files.another())
        let cache = try world.open(through: gate)
        try cache.store("first", "1")
        try stopping(gate, at: { operation, _ in operation == .create }, in: { try? cache.store("s", "stopped") }, body)
    }

    private func stopping(
        _ gate: GatedFileSystem, at isReached: @escaping @Sendable (GatedFileSystem.Operation, String) -> Bool,
        in call: @escaping @Sendable () -> Void, _ body: () throws -> Void
    ) rethrows {
        let hold = gate.hold { operation, name, _ in isReached(operation, name) }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            call()
            isDone.signal()
        }
        hold.reached.wait()
        defer {
            hold.free.signal()
            isDone.wait()
        }
        try body()
    }

    private func fill(_ cache: DiskCache, _ count: Int) throws {
        for number in 0..<count { try cache.setData(Data(repeating: 1, count: 10), forKey: "\(number)") }
        cache.settle()
        try cache.flush()
    }

    @Test("beside a process that is stopped in a set, only files of its stripe exceed the limit")
    func stoppedSet() throws {
        let world = world(countLimit: 100)
        let one = try world.open()
        try besideStoppedSet(world) {
            try fill(one, 3000)
            #expect(world.fileCount < 250)
        }
    }

    @Test("beside a process that is stopped while it cleans, another one makes room")
    func stoppedCleaner() throws {
        let world = world(countLimit: 100)
        let one = try world.open()
        let gate = GatedFileSystem(world.files.another())
        let two = try world.open(through: gate)
        let three = try world.anotherProcess().open()
        try three.store("o", "old")
        let old = try #require(world.entryFiles.last)
        try three.store("o", "new")
        #expect(try two.removeStored("o"))
        try stopping(gate, at: { $0 == .remove && $1 == old }, in: { two.trim(toCount: 99) }) {
            let others = one.store.disk.others.object
            #expect(!others.page.tryLock(.clean, by: others.lane))
            try fill(one, 3000)
            #expect(world.fileCount < 1500)
        }
    }

    @Test("files that were set aside are forgotten when they are deleted for room")
    func memory() throws {
        let world = world(countLimit: 100)
        let one = try world.open()
        let two = try debtor(world.anotherProcess())
        try fill(one, 5000)
        one.trim(toCount: 10)
        one.settle()
        var count = 0
        one.store.index.forEachShard { count += $0.debts.aside.count }
        #expect(count <= world.fileCount && !one.store.index.hasFilesAside)
        #expect(two.hasValue(forKey: "owed") == one.hasValue(forKey: "owed"))
    }

    @Test("on a full disk, a store beside a process that owes a file does not list the directory each time")
    func listings() throws {
        let world = world()
        let one = try world.open()
        let two = try debtor(world.anotherProcess())
        for number in 0..<500 { try one.setData(Data(repeating: 1, count: 1000), forKey: "\(number)") }
        #expect(try one.removeValue(forKey: "0"))
        #expect(one.store.index.hasFilesAside)
        try one.flush()
        world.files.limitFreeSpace(to: 0)
        let listings = Lock(0)
        world.files.inject { _, operation in
            if operation == .list { listings.withLock { $0 += 1 } }
            return nil
        }
        for number in 0..<50 {
            #expect(code { try one.setData(Data(repeating: 1, count: 100_000), forKey: "new \(number)") } == .noSpace)
        }
        #expect(listings.withLock(\.self) < 20)
        #expect(two.hasValue(forKey: "1"))
    }

    @Test("removing keys that are not there places a limited number of tombstones while the dead are not cleaned")
    func absentKeys() throws {
        let world = world()
        let dead = world.anotherProcess()
        let (one, two) = (try world.open(), try debtor(dead))
        try besideStoppedSet(world) {
            dead.files.kill()
            one.store.disk.others.object.membership.buryTheDead()
            for number in 0..<2000 { _ = try one.removeValue(forKey: "absent \(number)") }
            one.settle()
            #expect(one.store.disk.hasLeftFiles && world.entryFiles.count < 1100)
        }
        withExtendedLifetime(two) {}
    }

    @Test("the tombstones of clears beside a process that owes a file are limited")
    func clears() throws {
        let world = world()
        let one = try world.open()
        let two = try debtor(world.anotherProcess())
        for number in 0..<2000 { try one.namespace("n\(number)").removeAll() }
        one.settle()
        try one.flush()
        one.settle()
        #expect(world.entryFiles.count { $0.hasPrefix("40") } < 1100)
        #expect(two.hasValue(forKey: "owed"))
    }
}
