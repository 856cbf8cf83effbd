import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Soak tests that are bounded by counts, not by time.
@Suite("All deferred work is bounded by the number of unresolved files", .storm)
struct BoundsTests {
    /// A cache of `count` entries with a lost index and an unreadable newest file.
    private func withResidue(_ count: Int, limit: Int) throws -> (World, DiskCache, unreadable: String) {
        // In a shared directory a file that no journal mentions is dead: no tombstone has to say so.
        var world = World.exclusive {
            $0.countLimit = limit
            $0.eviction = .leastRecentlyUsed
            $0.sweepInterval = nil
            $0.mostTombstones = 1_000
        }
        let cache = try world.open()
        for number in 0..<count { try cache.setString("before", forKey: "before \(number)") }
        world.remove(try world.journal)
        let name = "entries/" + (try #require(world.entryFiles.last))
        world.files.setUnreadable(true, at: "/cache/" + name)
        return (world, try world.open(), name)
    }

    private func manifestSize(_ world: World) -> Int {
        world.files.image.content(at: "/cache/manifest.json")?.count ?? 0
    }

    @Test("while a file is unreadable, tombstones accumulate up to the documented number; then it is set aside")
    func tombstones() throws {
        let (original, first, name) = try withResidue(50, limit: 100)
        var (world, cache) = (original, first)
        try cache.flush()
        #expect(cache.store.provisional.update { $0.unreadable.count } == 1)
        var most = 0
        for number in 0..<1_300 {
            try cache.setString("v", forKey: "\(number)")
            if number % 50 == 0 {
                cache.settle()
                most = max(most, cache.store.index.tombstoneCount)
            }
            if number == 800 {
                try cache.flush()
                #expect(cache.store.index.tombstoneCount > 600, "kept because of the unread file")
                // Tombstones outlive the session.
                world.restart()
                world.files.setUnreadable(true, at: "/cache/" + name)
                cache = try world.open()
                #expect(cache.store.index.tombstoneCount > 600)
            }
        }
        cache.settle()
        #expect(most <= 1_000 + 150 && cache.store.index.tombstoneCount == 0)
        let aside = "entries/10" + name.dropFirst(10)
        #expect(world.entryFiles.contains(String(aside.dropFirst(8))))
        world.files.setUnreadable(false, at: "/cache/" + aside)
        try cache.flush()
        #expect(manifestSize(world) < 200 * 110)
        #expect(!world.entryFiles.contains(String(name.dropFirst(8))))
        #expect(cache.keys().allSatisfy { !$0.hasPrefix("before") })
        cache.checkInvariants(world, settled: true)
        try cache.close()
        world.restart()
        #expect(try world.open().store.provisional.isSet == false)
    }

    @Test("a file that becomes readable before that is examined, and leaves no tombstones")
    func readableAgain() throws {
        let (world, cache, name) = try withResidue(50, limit: 100)
        for number in 0..<300 { try cache.setString("v", forKey: "\(number)") }
        world.files.setUnreadable(false, at: "/cache/" + name)
        cache.settle()
        for number in 300..<1_200 {
            try cache.setString("v", forKey: "\(number)")
            if number % 50 == 0 { cache.settle() }
        }
        try cache.flush()
        #expect(cache.store.index.tombstoneCount == 0 && !cache.store.provisional.isSet)
        cache.checkInvariants(world, settled: true)
    }

    @Test("an undeletable file is recorded as obsolete in one line")
    func undeletable() throws {
        var world = World { $0.countLimit = 20 }
        var cache = try world.open()
        try cache.setString("old", forKey: "k")
        let fails = Flag(true)
        world.files.inject { _, operation in operation == .remove && fails.isSet ? .fail(.notPermitted) : nil }
        try cache.setString("new", forKey: "k")
        try? cache.flush()
        #expect(cache.store.index.obsoleteCount == 1)
        world.restart()
        world.remove(try world.journal)
        cache = try world.open()
        #expect(cache.string(forKey: "k") == "new" && cache.statistics.adoptions == 0)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("the trash keeps one directory open at a time, and empties under a low descriptor limit")
    func trash() throws {
        var world = World()
        do {
            let cache = try world.open()
            try cache.setString("v", forKey: "k")
            try cache.removeAll()
            try cache.close()
        }
        var image = world.files.image
        for number in 1_000_001...1_000_400 as ClosedRange<UInt64> {
            let path = "/cache/trash/\(FileName.number(number))"
            image.addDirectory(at: path)
            for file in 1...3 as ClosedRange<UInt64> { image.add([1], at: "\(path)/\(FileName.number(file))") }
        }
        world.restart(with: image)
        let cache = try world.open()
        world.files.limitDescriptors(to: 12)
        let told = Lock((0, 0))
        try cache.removeAll { removed, total in told.withLock { $0 = (removed, total) } }
        cache.settle()
        cache.store.events.drain()
        #expect(world.files.image.names(at: "/cache/trash") == [])
        #expect(world.files.peakOpenCount <= 12 && cache.statistics.failures == 0)
        #expect(told.withLock { $0.0 } == told.withLock { $0.1 })
    }

    @Test("a cache works under a low descriptor limit, and closes every descriptor that it opens")
    func descriptors() throws {
        let world = World { $0.saveDelay = .zero }
        let cache = try world.open()
        world.files.limitDescriptors(to: 8)
        for number in 0..<3_000 {
            let key = "\(number % 50)"
            try cache.setString("\(number)", forKey: key)
            #expect(cache.string(forKey: key) == "\(number)")
            if number % 10 == 0 { try cache.removeValue(forKey: key) }
            if number % 500 == 0 { try cache.removeAll() }
            if number % 300 == 0 { try cache.flush() }
        }
        cache.settle()
        #expect(cache.statistics.failures == 0 && world.files.peakOpenCount <= 8)
        cache.checkInvariants()
    }

    @Test("clearing a namespace does not make each insert rebuild the expiry reminders")
    func reminders() {
        var manifest = EntryTable()
        let space = Namespace("n")
        func publish(_ number: UInt64, in space: Namespace) {
            var entry = RecordTests.entry
            entry.keyText = "\(number)"
            entry.file = FileID(number)
            entry.life = Life(expires: Timestamp(milliseconds: Int64(number)), ttl: 1000)
            entry.attachments = Attachments(.init(namespace: space))
            manifest.publish(entry, for: entry.key)
        }
        for number in 1...5_000 as ClosedRange<UInt64> { publish(number, in: space) }
        _ = manifest.clear(.namespace(space), below: 5_001)
        let before = manifest.rebuildCount
        for number in 5_001...6_000 as ClosedRange<UInt64> { publish(number, in: .none) }
        #expect(manifest.rebuildCount == before)
        #expect(manifest.violations() == [])
    }

    @Test("entries of one namespace share their attachments, however many handles there are")
    func namespaceHandles() throws {
        let cache = try World().open()
        for number in 0..<50 { try cache.namespace("n").setString("v", forKey: "\(number)") }
        var shared: Set<ObjectIdentifier> = []
        cache.store.index.forEachShard { shard in
            for entry in shard.table.entries {
                if let attachments = entry.attachments { shared.insert(.init(attachments)) }
            }
        }
        #expect(shared.count == 1)
    }
}
