import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Files that are set aside, and several processes")
struct LastFileProcessTests {
    /// What is answered when all processes are killed and the index is lost.
    private func afterLoss(_ world: World, _ key: String = "k") throws -> String? {
        var world = world
        world.restart()
        world.loseIndex()
        world.configuration.sharing = .exclusive
        let cache = try world.open()
        try cache.flush()
        return cache.stored(key)
    }

    @Test("a clear on a full disk sets the last file aside while another process owes an older one")
    func clearWithoutRoom() throws {
        let world = World.shared { $0.sweepInterval = nil }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("warm", "w")
        try two.store("n/k", "old")
        try two.store("n/k", "new")
        #expect(one.stored("n/k") == "new 1 h")
        #expect(world.fileCount == 3)
        world.files.limitFreeSpace(to: 0)
        try one.namespace("n").removeAll()
        one.settle()
        #expect(one.stored("n/k") == nil && two.stored("n/k") == nil)
        let found = try afterLoss(world, "n/k")
        #expect(found == nil)
    }

    @Test("a process that reads the index anew leaves what another one sets aside", arguments: [0, 100], [2, 1000])
    func reload(threshold: Int, groups: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = threshold
            $0.entriesPerGroup = groups
        }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let gate = GatedFileSystem(world.files.another())
        let three = try world.open(through: gate)
        for number in 0..<6 { try three.store("o\(number)", "o") }
        try two.store("k", "old")
        try two.store("k", "new")
        #expect(one.stored("k") == "new 1 h")
        for number in 0..<6 {
            try three.store("n/l", "\(number)")
            try three.flush()
        }
        let isDone = DispatchSemaphore(value: 0)
        let hold =
            threshold > 0 ? nil : gate.hold { operation, name, _ in operation == .create && name.hasPrefix("10") }
        DispatchQueue.global().async {
            _ = try? three.removeStored("k")
            isDone.signal()
        }
        if let hold { hold.reached.wait() } else { isDone.wait() }
        #expect(one.stored("n/l") == "5 1 h")
        #expect(one.stored("k") == nil)
        try one.flush()
        one.settle()
        let found = try afterLoss(world)
        #expect(found == nil)
        if let hold {
            hold.free.signal()
            isDone.wait()
        }
    }

    @Test("making room spares what a change that waits for its sync has replaced", arguments: 1...6)
    func roomBesideSync(number: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.durability = .powerSafe
            $0.countLimit = 1000
        }
        let (other, third) = (world.anotherProcess(), world.anotherProcess())
        let gate = SyncGate(world.files)
        let (one, two, three) = (try world.open(through: gate), try other.open(), try third.open())
        try three.store("a", "1")
        try one.store("k", "old")
        try three.store("a", "2")
        // Three owes the first file of "a".
        _ = try two.removeStored("a")
        gate.begin(number)
        let hold = gate.hold
        let isDone = DispatchSemaphore(value: 0)
        let failed = Lock<Bool?>(nil)
        DispatchQueue.global().async {
            let found = code { try one.store("k", "new") }
            failed.withLock { $0 = found != nil }
            hold.reached.signal()
            isDone.signal()
        }
        hold.reached.wait()
        two.trim(toFreeSpace: 1)
        hold.free.signal()
        isDone.wait()
        gate.begin(0)
        let isFailed = failed.withLock { $0 } == true
        #expect(one.stored("k") == (isFailed ? "old 1 h" : "new 1 h"))
    }

    @Test("beside a stopped process that owes one file, the files stay within the limit")
    func limitBesideStopped() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.countLimit = 100
        }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try two.store("k", "old")
        try two.store("k", "new")
        for number in 0..<5000 { try one.setData(Data(repeating: 1, count: 10), forKey: "\(number)") }
        one.settle()
        try one.flush()
        #expect(world.fileCount < 1000)
    }

    @Test("on a full disk, removing makes room for another value beside a stopped process")
    func removalMakesRoom() throws {
        let world = World.shared { $0.sweepInterval = nil }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try two.store("k", "old")
        try two.store("k", "new")
        try one.setData(Data(repeating: 1, count: 100_000), forKey: "large")
        world.files.limitFreeSpace(to: 0)
        #expect(try one.removeValue(forKey: "large"))
        #expect(throws: Never.self) { try one.setData(Data(repeating: 1, count: 1000), forKey: "small") }
    }

    @Test("a process that cleans a segment spares the last file of a key that another one is about to set aside")
    func cleanedSegment() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = 200
            $0.segmentLength = 8 << 10
        }
        let one = try world.open()
        let (gateOfTwo, gate) = (GatedFileSystem(world.files.another()), GatedFileSystem(world.files.another()))
        let (two, three) = (try world.open(through: gateOfTwo), try world.open(through: gate))
        func value(_ number: Int) -> String { String(repeating: "v", count: 150) + "\(number)" }
        let keys = (0..<100).map { "x\($0)" }
        // All in one segment; two owes a file that is older than the short value of "k", and newer than those before.
        for key in keys.prefix(12) { try two.store(key, value(0)) }
        try two.store("k", String(repeating: "old", count: 200))
        let old = try #require(world.entryFiles.last)
        try two.setString("new", forKey: "k", ttl: .seconds(10))
        for key in keys.dropFirst(12) { try two.store(key, value(1)) }
        try three.store("warm", value(2))
        #expect(one.string(forKey: "k") == "new" && three.string(forKey: "k") == "new")
        // Two is stopped before it pays.
        let stop = gateOfTwo.hold { operation, name, _ in operation == .remove && name == old }
        world.clock.advance(by: .seconds(11))
        let hold = gate.hold { operation, _, size in operation == .write && size == 32 }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            _ = three.removeExpired()
            three.settle()
            hold.reached.signal()
            isDone.signal()
        }
        hold.reached.wait()
        for key in keys.prefix(12) { _ = try one.removeStored(key) }
        one.settle()
        one.store.disk.runAnyway { $0?.segments.dead.lookAgain() }
        for _ in 0..<3 {
            one.store.cleaner.cleanInBackground(isShort: true)
            one.settle()
        }
        let found = try afterLoss(world)
        #expect(found?.hasPrefix("old") != true)
        hold.free.signal()
        isDone.wait()
        stop.free.signal()
    }

    @Test(
        "files that are set aside go when the other process has paid, without any further change",
        arguments: [true, false])
    func idle(sweeps: Bool) throws {
        let world = World.shared { if !sweeps { $0.sweepInterval = nil } }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try two.store("k", "old")
        try two.store("k", "new")
        #expect(try one.removeStored("k"))
        #expect(one.store.index.hasFilesAside)
        for _ in 0..<200 {
            world.clock.advance(by: .seconds(1))
            for cache in [two, one] { cache.settle() }
        }
        #expect(world.fileCount == 0)
    }

    @Test("making room beside files set aside costs no more with more entries", arguments: [false, true], [500, 2000])
    func costOfRoom(isOwed: Bool, entries: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.countLimit = 100_000
        }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try two.store("k", "old")
        if isOwed { try two.store("k", "new") }
        for number in 0..<entries { try one.setData(Data(repeating: 1, count: 70_000), forKey: "\(number)") }
        one.settle()
        world.files.limitFreeSpace(to: 0)
        let calls = Lock([String: Int]())
        world.files.inject { _, operation in
            calls.withLock { $0["\(operation)", default: 0] += 1 }
            return nil
        }
        for number in 0..<100 { try one.setData(Data(repeating: 1, count: 60_000), forKey: "new \(number)") }
        #expect(calls.withLock { $0["list"] ?? 0 } < 10)
    }

    @Test("a process that reads the index anew remembers what it has set aside itself", arguments: [100])
    func ownAside(threshold: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = threshold
        }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let three = try world.anotherProcess().open()
        try two.store("k", "old")
        try two.store("k", "new")
        for number in 0..<6 {
            try three.store("n/l", "\(number)")
            try three.flush()
        }
        #expect(try one.removeStored("k"))
        #expect(one.store.index.hasFilesAside)
        for number in 0..<6 {
            try three.store("n/l", "\(number)")
            if number < 5 { try three.flush() }
        }
        #expect(one.stored("n/l") == "5 1 h")
        try one.flush()
        one.settle()
        let found = try afterLoss(world)
        #expect(found == nil)
    }

    @Test("a use that another process writes to a segment revives no value that was set aside there")
    func slideOverAside() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.slidingExpiry = true
            $0.inlineThreshold = 100
        }
        let gate = GatedFileSystem(world.files)
        let one = try world.open(through: gate)
        let (two, three) = (try world.anotherProcess().open(), try world.anotherProcess().open())
        try two.store("z", "1")
        try two.store("k", "new")
        world.clock.advance(by: .seconds(1800))
        try two.flush()
        // From here on it owes a file with a lower number.
        try two.store("z", "2")
        let hold = gate.hold { operation, _, size in operation == .write && size == 32 }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            _ = one.string(forKey: "k")
            try? one.close()
            hold.reached.signal()
            isDone.signal()
        }
        hold.reached.wait()
        #expect(try three.removeStored("k"))
        let before = try afterLoss(world)
        #expect(before == nil, "as long as nobody writes")
        hold.free.signal()
        isDone.wait()
        #expect(two.stored("k") == nil && three.stored("k") == nil)
        let found = try afterLoss(world)
        #expect(found == nil)
    }

    @Test("a process that is the last to have older files closes; the others pay what they have set aside")
    func closing() throws {
        let world = World.shared { $0.sweepInterval = nil }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try two.store("k", "old")
        try two.store("k", "new")
        #expect(try one.removeStored("k"))
        try one.close()
        let three = try world.anotherProcess().open()
        try three.store("a", "1")
        #expect(try three.removeStored("a"))
        try two.flush()
        try three.flush()
        try two.flush()
        #expect(world.fileCount == 0)
    }

    @Test("a process that opens after a kill, and owes what it has not loaded yet", arguments: [2, 1000])
    func unloadedDebts(groups: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.entriesPerGroup = groups
        }
        let dead = world.anotherProcess()
        let first = try dead.open()
        for number in 0..<40 { try first.store("o\(number)", "o") }
        try first.store("k", "old")
        try first.flush()
        try first.store("k", "new")
        try first.store("o1", "p")
        dead.files.kill()
        let one = try world.open()
        one.settle()
        let two = try world.anotherProcess().open()
        print(
            "H10", groups, "unloaded:", one.store.index.hasUnloaded.isSet, "owe:", one.store.index.mayOweFiles,
            "lowest:", two.store.disk.lowestElsewhere, "files", world.fileCount,
            "leftovers", one.store.provisional.hasLeftovers, two.store.provisional.hasLeftovers)
        _ = try two.removeStored("k")
        let found = try afterLoss(world)
        #expect(found == nil)
    }

    @Test("cleaning after a death spares what hides a file in a segment that cannot be read")
    func asideBesideUnreadable() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = 100
        }
        let dead = world.anotherProcess()
        let (one, two) = (try world.open(), try dead.open())
        try two.store("k", "old")
        let segment = "/cache/entries/segments/" + (try #require(world.segments.last))
        try two.store("k", String(repeating: "new", count: 100))
        #expect(one.string(forKey: "k")?.hasPrefix("new") == true)
        world.files.setUnreadable(true, at: segment)
        #expect(try one.removeStored("k"))
        dead.files.kill()
        for _ in 0..<3 {
            _ = try? one.flush()
            one.settle()
        }
        world.files.setUnreadable(false, at: segment)
        let found = try afterLoss(world)
        #expect(found == nil)
    }
}

/// Holds the n-th sync, and fails it.
private final class SyncGate: ForwardingFileSystem {
    let base: MemoryFileSystem
    let hold = MemoryFileSystem.Hold()
    private let state = Lock((number: 0, count: 0))

    init(_ base: MemoryFileSystem) { self.base = base }

    func begin(_ number: Int) { state.withLock { $0 = (number, 0) } }

    func sync(_ file: borrowing FileDescriptor) throws(Errno) {
        let (number, count) = state.withLock { state in
            state.count += 1
            return state
        }
        if number > 0, count == number {
            hold.reached.signal()
            hold.free.wait()
            throw .io
        }
        try base.sync(file)
    }
}
