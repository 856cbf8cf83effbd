import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Promise 5: the cost per change does not grow")
struct ConstantCostTests {
    @Test("tombstones are kept in memory only while files and entries may disagree", arguments: [false, true])
    func tombstones(isReopened: Bool) throws {
        let world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        if isReopened {
            try cache.close()
            cache = try world.open()
        }
        for number in 0..<500 {
            try cache.setString("v", forKey: "\(number)")
            try cache.removeValue(forKey: "\(number)")
        }
        try cache.flush()
        #expect(cache.store.index.tombstoneCount == 0)
        #expect(try #require(world.files.image.content(at: "/cache/manifest.json")).count < 1_000)
    }

    private func calls(_ world: World, _ body: () throws -> Void) rethrows -> [MemoryFileSystem.Operation: Int] {
        let counter = CallCounter()
        world.files.inject(counter.count)
        try body()
        world.files.inject(nil)
        return counter.all
    }

    @Test(
        "a set creates one file, writes to it once and appends once, at ten entries as at three thousand",
        arguments: [10, 3000])
    func set(entries: Int) throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<entries { try cache.setString("v", forKey: "\(number)") }
        try cache.flush()
        try cache.setString("the first change opens the journal", forKey: "warm")
        let new = try calls(world) { try cache.setString("v", forKey: "new") }
        #expect(new == [.create: 1, .write: 2])
        let overwrite = try calls(world) { try cache.setString("w", forKey: "new") }
        #expect(overwrite == [.create: 1, .write: 2])
        let get = calls(world) { _ = cache.string(forKey: "new") }
        #expect(get == [.open: 1, .read: 1])
        #expect(calls(world) { _ = cache.string(forKey: "none") } == [:])
        #expect(calls(world) { _ = cache.hasValue(forKey: "new") } == [:])
        let clear = try calls(world) { try cache.removeAll() }
        #expect(clear[.rename] == 2 && clear[.makeDirectory] == 2)
    }

    /// Adds up the bytes that are allocated ahead of writing.
    private struct Allocations: ForwardingFileSystem {
        let base: MemoryFileSystem
        let bytes = Lock(0)

        func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno) {
            bytes.withLock { $0 += range.count }
            try base.allocate(range, for: file)
        }
    }

    @Test("each byte of a journal that processes share is allocated once, or twice")
    func allocations() throws {
        let world = World.shared { $0.saveDelay = .days(1) }
        let files = Allocations(base: world.files)
        let cache = try world.open(through: files)
        for number in 0..<1_000 { try cache.setString("v", forKey: "\(number)") }
        let length = try #require(world.files.image.content(at: "/cache/" + world.journal)).count
        #expect(files.bytes.withLock { $0 } <= 2 * length && length > 100_000)
    }

    @Test("a large cache's manifest is rewritten only when the journal has a quarter as many records")
    func savePolicy() {
        #expect(SaveDebouncer.isWorthSaving(records: 1, entries: 1024))
        #expect(!SaveDebouncer.isWorthSaving(records: 0, entries: 0))
        #expect(!SaveDebouncer.isWorthSaving(records: 250, entries: 1025 * 4))
        #expect(SaveDebouncer.isWorthSaving(records: 1025, entries: 1025 * 4))
    }

    @Test("renewals and overwrites do not accumulate expiry reminders")
    func boundedReminders() throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for round in 0..<300 {
            let key = "k\(round % 5)"
            try cache.setString("v", forKey: key, ttl: .seconds(Double(1000 - round)))
        }
        cache.checkInvariants()
        let reminders = (0..<Index.shardCount).reduce(0) { sum, shard in
            sum + cache.store.index.withShard(at: shard) { $0.table.reminderCount }
        }
        #expect(reminders <= 5 * 66)
    }
}
