import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Leftovers of a killed session, and damage found late", .storm)
struct LeftoverTests {
    /// The disk after a kill between the file of a value and its line. Call it after another change of the session.
    private static func killed(
        _ world: World, _ gate: GatedFileSystem, while cache: DiskCache, sets key: String
    ) -> MemoryImage {
        let line = gate.hold(2) { operation, _, _ in operation == .write }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? cache.setString("never acknowledged", forKey: key)
            isDone.signal()
        }
        line.reached.wait()
        defer {
            line.free.signal()
            isDone.wait()
        }
        return world.files.image
    }

    /// Ways to use up numbers that no line records.
    enum Waste: CaseIterable {
        case skipped, failedSets, tooLong
    }

    @Test(
        "a file whose number no line leads to is found after a kill",
        arguments: Sample.few(1, of: Waste.allCases), [false, true])
    func outOfReach(waste: Waste, isAfterSave: Bool) throws {
        var world = try GroupsTests.filled()
        let gate = GatedFileSystem(world.files)
        let first = try world.open(through: gate)
        try first.setString("before", forKey: "k3")
        switch waste {
        case .skipped:
            first.store.info.skipNumbers(Reconciliation.concurrency)
        case .failedSets:
            world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
            for _ in 0..<300 { #expect(code { try first.setString("x", forKey: "k4") } == .noSpace) }
            world.files.inject(nil)
        case .tooLong:
            let long = ["m": String(repeating: "m", count: 1 << 20)]
            for _ in 0..<300 {
                #expect(code { try first.setString("x", forKey: "k4", metadata: long) } == .tooLarge)
            }
        }
        if isAfterSave { try first.flush() }
        world.restart(with: Self.killed(world, gate, while: first, sets: "k3"))
        let second = try world.open()
        try second.setString("newer", forKey: "k3")
        try second.removeValue(forKey: "k5")
        var image = world.files.image
        image.boot += 1
        world.restart(with: image)
        let third = try world.open()
        #expect(third.string(forKey: "k3") == "newer")
        try third.flush()
        #expect(third.string(forKey: "k3") == "newer" && third.string(forKey: "k5") == nil)
        third.checkInvariants(world, settled: true)
    }

    @Test("a copy of a file that was killed as the last change leaves nothing", arguments: [0, 300])
    func killedCopy(failures: Int) throws {
        var world = try GroupsTests.filled { $0.sharing = .exclusive }
        _ = try world.files.openDirectory(path: "/out", creation: .plain)
        var image = world.files.image
        image.add([UInt8](repeating: 7, count: Store.smallFile + 1), at: "/out/large")
        world.restart(with: image)
        let first = try world.open()
        try first.setString("before", forKey: "k3")
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        for _ in 0..<failures { #expect(code { try first.setString("x", forKey: "k4") } == .noSpace) }
        world.files.inject { _, operation in operation == .rename ? .kill : nil }
        try? first.copyFile(at: URL(fileURLWithPath: "/out/large"), forKey: "copy")
        world.restart()
        #expect(world.entryFiles.contains { $0.hasPrefix("80") })
        let second = try world.open()
        #expect(second.string(forKey: "k3") == "before")
        try second.flush()
        #expect(!world.entryFiles.contains { $0.hasPrefix("80") })
        second.checkInvariants(world, settled: true)
    }

    @Test("a group is damaged, and the last session was killed between a file and its line", arguments: 0..<8)
    func suspectAndDamage(group: Int) throws {
        var world = try GroupsTests.filled()
        let gate = GatedFileSystem(world.files)
        let first = try world.open(through: gate)
        try first.setString("w8", forKey: "k8")
        world.restart(with: Self.killed(world, gate, while: first, sets: "k7"))
        try GroupsTests.damage(group, of: &world)
        func expected(_ number: Int) -> [String?] {
            switch number {
            case 1: ["w1"]
            case 2, 5: [nil]
            case 6: ["new"]
            case 7: ["v7", "never acknowledged"]
            case 8: ["w8"]
            default: ["v\(number)"]
            }
        }
        let cache = try world.open()
        try cache.removeValue(forKey: "k5")
        try cache.setString("new", forKey: "k6")
        for number in 0..<40 {
            // A miss is allowed until the files are listed.
            let found = cache.string(forKey: "k\(number)")
            #expect(found == nil || expected(number).contains(found), "k\(number)")
        }
        try cache.flush()
        let values = (0..<40).map { cache.string(forKey: "k\($0)") }
        for number in 0..<40 { #expect(expected(number).contains(values[number]), "k\(number)") }
        cache.checkInvariants(world, settled: true)
        world.loseIndex()
        let rebuilt = try world.open()
        try rebuilt.flush()
        #expect((0..<40).map { rebuilt.string(forKey: "k\($0)") } == values)
    }

    @Test("a comparison whose listing failed is made again")
    func failedListing() throws {
        var world = try GroupsTests.filled { $0.sharing = .exclusive }
        let first = try world.open()
        try first.setString("w10", forKey: "k10")
        world.restart()
        let lists = Lock(0)
        world.files.inject { _, operation in
            guard operation == .list else { return nil }
            // The first is that of the cache's own directory.
            return lists.withLock { lists in
                lists += 1
                return lists == 2 ? .fail(.tooManyOpenFiles) : nil
            }
        }
        let cache = try world.open()
        cache.settle()
        let count = lists.withLock { $0 }
        #expect(cache.store.provisional.hasLeftovers && count == 2)
        try cache.removeValue(forKey: "k11")
        try cache.flush()
        #expect(cache.store.provisional.isSettled && !cache.store.reaper.hasTombstones)
        cache.checkInvariants(world, settled: true)
    }

    @Test("a comparison continues in no directory that was opened meanwhile")
    func otherDirectory() throws {
        let (large, small) = try (GroupsTests.filled(400).open(), GroupsTests.filled(20).open())
        let directory = try #require(large.store.disk.runAnyway { $0 })
        var search = LeftoverSearch(.init(names: [], segments: .init()), of: directory, through: 0)
        let isUnfinished = search.takeSome(40, of: large.store.index)
        #expect(isUnfinished && small.store.index.freeze() != nil)
        let hasMore = search.takeSome(40, of: small.store.index)
        #expect(!hasMore)
    }

    @Test("a save that cannot copy a group, because it was damaged and has been recovered, is made again")
    func savedAfterRecovery() throws {
        var world = try GroupsTests.filled(400)
        let gate = GatedFileSystem(world.files)
        let cache = try world.open(through: gate)
        try cache.setString("new", forKey: "k3")
        let index = cache.store.index
        let groups = try #require(index.unloaded)
        let unloaded = (4..<400).map { "k\($0)" }.filter { !groups.isLoaded(groups.hash.group(of: Key($0))) }
        let key = try #require(unloaded.max { groups.hash.group(of: Key($0)) < groups.hash.group(of: Key($1)) })
        let isBegun = Flag()
        // The header, and then the first group.
        let copying = gate.hold(2) { operation, name, _ in
            if operation == .create, name.hasSuffix(".tmp") { isBegun.set() }
            return operation == .write && isBegun.isSet
        }
        let outcome = Lock<Result<Void, any Error>?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            let result = Result { try cache.flush() }
            outcome.withLock { $0 = result }
            isDone.signal()
        }
        copying.reached.wait()
        /// Fails the next read.
        func failRead() {
            let isFailed = Flag()
            world.files.inject { _, operation in
                guard operation == .read, !isFailed.isSet else { return nil }
                isFailed.set()
                return .fail(.io)
            }
        }
        world.files.holdingOtherReaders {
            failRead()
            index.load(Key(key))
            #expect(cache.store.provisional.isReconciling)
        }
        cache.store.recovery.awaitScan()
        failRead()
        copying.free.signal()
        isDone.wait()
        try outcome.withLock { $0 }?.get()
        #expect(cache.string(forKey: key) == "v\(key.dropFirst())")
        try cache.close()
        world.restart()
        let again = try world.open()
        #expect(again.string(forKey: "k3") == "new" && again.count == 399)
        again.checkInvariants(world, settled: true)
    }

    @Test("a sweep that is under way removes no entry of a group that turns out to be damaged")
    func sweptAmidDamage() throws {
        var world = World {
            $0.sweepInterval = nil
            $0.saveDelay = .seconds(3600)
            $0.entriesPerGroup = 3
        }
        let first = try world.open()
        for number in 0..<300 { try first.setString("v", forKey: "k\(number)", ttl: .seconds(10)) }
        try first.flush()
        let renewed = (0..<300).filter { $0 % 5 == 0 }.map { "k\($0)" }
        for key in renewed { #expect(try first.setTimeToLive(.days(1), forKey: key)) }
        try first.close()
        world.restart()
        world.clock.advance(by: .seconds(11))
        let gate = GatedFileSystem(world.files)
        let removal = gate.hold { operation, _, _ in operation == .write }
        let cache = try world.open(through: gate)
        // The sweep at the opening has removed the entries of one shard, and is about to record that.
        removal.reached.wait()
        let index = cache.store.index
        let groups = try #require(index.unloaded)
        let doubtful = renewed.filter { key in !groups.isLoaded(groups.hash.group(of: Key(key))) }
        #expect(doubtful.count > 10)
        for key in doubtful {
            let reads = Lock(0)
            world.files.inject { _, operation in
                guard operation == .read else { return nil }
                // The group, and then the line that waits for it.
                return reads.withLock { reads in
                    reads += 1
                    return reads == 2 ? .fail(.io) : nil
                }
            }
            index.load(Key(key))
        }
        world.files.inject(nil)
        #expect(cache.store.provisional.isReconciling)
        removal.free.signal()
        for key in renewed {
            let found = cache.string(forKey: key)
            #expect(found == nil || found == "v", "at once: \(key)")
        }
        try cache.flush()
        for key in renewed { #expect(cache.string(forKey: key) == "v", "\(key)") }
        #expect(cache.count == renewed.count)
    }
}
