import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// What a power cut, a kill or a failed call may leave of segments and marks. Files of their own agree: threshold 0.
@Suite("Segments, marks and their names reach the disk in order", .storm)
struct SegmentOrderTests {
    private static func world(
        _ threshold: Int, _ configure: (inout DiskCache.Configuration) -> Void = { _ in }
    ) -> World {
        World.exclusive {
            $0.inlineThreshold = threshold
            $0.segmentLength = 4096
            configure(&$0)
        }
    }

    private static let long = Data(repeating: 1, count: 500)

    @Test("a power-safe value survives in a segment that a kill-safe session has begun", arguments: [0, 100])
    func continued(threshold: Int) throws {
        for seed in Sample.few(10, of: 0..<40 as Range<UInt64>) {
            var world = Self.world(threshold)
            var cache = try world.open()
            try cache.setData(Self.long, forKey: "long", ttl: .forever)
            try cache.close()
            world.files.syncAll()
            world.files = world.files.restarted()
            cache = try world.open()
            try cache.setString("a", forKey: "a", ttl: .forever)
            try cache.close()
            world.files = world.files.restarted()
            world.configuration.durability = .powerSafe
            cache = try world.open()
            try cache.setString("v", forKey: "k", ttl: .forever)
            var generator = SeededGenerator(seed: seed)
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            #expect(try world.open().string(forKey: "k") == "v", "seed \(seed)")
        }
    }

    @Test("values removed before a clean close stay removed after a power cut", arguments: [0, 100])
    func removedAndClosed(threshold: Int) throws {
        for seed in Sample.few(12, of: 0..<60 as Range<UInt64>) {
            var world = Self.world(threshold)
            var cache = try world.open()
            for key in 0..<24 { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
            world.files.syncAll()
            for key in 0..<20 { try cache.removeValue(forKey: "\(key)") }
            for key in 0..<24 { try cache.setString("kept", forKey: "kept \(key)", ttl: .forever) }
            try cache.flush()
            cache.store.cleaner.cleanInBackground(isShort: true)
            try cache.flush()
            try cache.close()
            var generator = SeededGenerator(seed: seed)
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            cache = try world.open()
            func expectNone(_ context: Comment) {
                for key in 0..<20 { #expect(cache.string(forKey: "\(key)") == nil, context) }
            }
            expectNone("power cut, seed \(seed)")
            try? cache.setString("later", forKey: "later", ttl: .forever)
            world.restart()
            cache = try world.open()
            try? cache.flush()
            expectNone("power cut and kill, seed \(seed)")
        }
    }

    @Test("a power-safe removal returns when its mark is on disk, though another call is syncing", arguments: [0, 100])
    func concurrentSyncs(threshold: Int) throws {
        let world = Self.world(threshold) { $0.durability = .powerSafe }
        let files = ScriptedFileSystem(world.files)
        let cache = try world.open(through: files)
        let other = World.key(besides: "y")
        for key in ["x", "y", "z"] { try cache.setString("value \(key)", forKey: key, ttl: .forever) }
        try cache.removeValue(forKey: "x")
        try cache.setData(Self.long, forKey: other, ttl: .forever)
        cache.settle()
        world.files.syncAll()
        let directory = try #require(cache.store.disk.runAnyway { $0 })
        let target: FileIdentity
        if threshold > 0 {
            let place = try #require(cache.store.index.entry("y")?.file.place)
            target = try world.files.status(of: directory.segments.segment(place.segment).file.file).identity
        } else {
            target = try world.files.status(of: directory.entries.file).identity
        }
        let (record, sync) = (MemoryFileSystem.Hold(), MemoryFileSystem.Hold())
        let isArmed = Lock((record: true, sync: true))
        files.run { operation, file in
            isArmed.withLock { isArmed in
                if operation == .sync, file != target, isArmed.record {
                    isArmed.record = false
                    return .hold(record)
                }
                if operation == .sync, file == target, isArmed.sync {
                    isArmed.sync = false
                    return .hold(sync)
                }
                return .pass
            }
        }
        let (isRemoved, isSet) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            #expect(throws: Never.self) { try cache.removeValue(forKey: "y") }
            isRemoved.signal()
        }
        // It has marked its entry, and syncs its record.
        record.reached.wait()
        Thread.detachNewThread {
            try? cache.setData(Data(repeating: 2, count: 500), forKey: other, ttl: .forever)
            isSet.signal()
        }
        // Another call syncs all marks.
        sync.reached.wait()
        record.free.signal()
        let hasReturned = isRemoved.wait(timeout: .now() + .milliseconds(200)) == .success
        for seed in 0..<30 as Range<UInt64> where hasReturned {
            var generator = SeededGenerator(seed: seed)
            var after = Self.world(threshold)
            after.restart(with: world.files.imageAfterPowerCut(using: &generator))
            after.loseIndex()
            #expect((try? after.open())?.string(forKey: "y") == nil, "seed \(seed)")
        }
        sync.free.signal()
        if !hasReturned { isRemoved.wait() }
        isSet.wait()
    }

    @Test("a mark that the last session has owed does not meet another entry")
    func owedMark() throws {
        var world = Self.world(100) { $0.entriesPerGroup = 3 }
        let files = ScriptedFileSystem(world.files)
        var cache: DiskCache? = try world.open(through: files)
        for key in 0..<30 { try cache?.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        try cache?.flush()
        let place = try #require(cache?.store.index.entry("29")?.file.place)
        let directory = try #require(cache?.store.disk.runAnyway { $0 })
        let target = try world.files.status(of: directory.segments.segment(place.segment).file.file).identity
        // The disk fails: nothing is written, and the mark is owed.
        files.run { operation, file in
            file == target && (operation == .write || operation == .read) ? .fail(.io) : .pass
        }
        #expect(throws: CacheError.self) { try cache?.setString("failed", forKey: "failed", ttl: .forever) }
        #expect(cache?.store.index.obsoleteCount == 1)
        try cache?.setData(Self.long, forKey: "long", ttl: .forever)
        try? cache?.flush()
        #expect(cache?.store.index.obsoleteCount == 1)
        world.files = world.files.restarted(with: world.files.image)
        cache = nil
        // The background comes to nothing before the place is used again.
        let thread = ObjectIdentifier(Thread.current)
        world.files.inject { _, operation in
            operation == .read && ObjectIdentifier(Thread.current) != thread ? .fail(.io) : nil
        }
        var again = try world.open()
        try again.setString("new", forKey: "new", ttl: .forever)
        again.settle()
        world.files.inject(nil)
        try? again.flush()
        again.store.reaper.deleteAllObsolete()
        let entry = try #require(again.store.index.entry("new"))
        #expect(again.store.disk.runAnyway { $0?.mayExist(entry.file) } == true)
        world.restart()
        world.loseIndex()
        again = try world.open()
        #expect(again.string(forKey: "new") == "new")
    }

    @Test("after a kill in the middle of a removal, all calls agree on the value", arguments: [0, 100])
    func halfRemoved(threshold: Int) throws {
        var world = Self.world(threshold) { $0.entriesPerGroup = 3 }
        let files = ScriptedFileSystem(world.files)
        var cache = try world.open(through: files)
        for key in 0..<30 { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        try cache.flush()
        try cache.setString("later", forKey: "later", ttl: .forever)
        let (writes, image) = (Lock(0), Lock<MemoryImage?>(nil))
        files.run { [base = world.files] operation, _ in
            guard operation == .write else { return .pass }
            // The write of the record, after that of the mark.
            let count = writes.withLock { writes in
                writes += 1
                return writes
            }
            if count == (threshold > 0 ? 2 : 1) { image.withLock { $0 = base.image } }
            return .pass
        }
        try cache.removeValue(forKey: "3")
        world.restart(with: try #require(image.withLock { $0 }))
        // The background cannot list the files for a moment.
        let thread = ObjectIdentifier(Thread.current)
        world.files.inject { _, operation in
            operation == .list && ObjectIdentifier(Thread.current) != thread ? .fail(.tooManyOpenFiles) : nil
        }
        cache = try world.open()
        cache.settle()
        #expect(cache.store.provisional.hasLeftovers)
        #expect((cache.entry(forKey: "3") == nil) == (cache.string(forKey: "3") == nil))
    }

    @Test("a copy that a power cut has torn does not replace the value", arguments: [false, true])
    func tornCopy(losesIndex: Bool) throws {
        var world = World {
            $0.inlineThreshold = 16 << 10
            $0.segmentLength = 64 << 10
        }
        func value(_ key: Int) -> Data { Data((0..<12_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ key) | 1 }) }
        let cache = try world.open()
        let kept: Set = [0, 4, 8, 12]
        for key in 0..<20 { try cache.setData(value(key), forKey: "\(key)", ttl: .forever) }
        world.files.syncAll()
        let store = cache.store
        var image = MemoryImage()
        // The steps of a move up to the sync of the copies. The cleaner waits.
        try store.maintenance.alone {
            for key in 0..<20 where !kept.contains(key) { try cache.removeValue(forKey: "\(key)") }
            try store.housekeeper.save(always: true)
            world.files.syncAll()
            let directory = try #require(store.disk.runAnyway { $0 })
            for key in kept.sorted() {
                let old = try #require(store.index.entry(Key("\(key)")))
                let made = try Array(value(key)).withUnsafeBytes { try store.writer.copy(old, $0, in: directory) }
                let copy = try #require(made).entry
                directory.segments.hold([copy.file.place.segment])
                store.index.withShard(of: Key("\(key)")) { $0.markObsolete(copy.file, of: Key("\(key)")) }
            }
            image = world.files.image
        }
        let disk = MemoryFileSystem(image)
        let entries = OwnedDescriptor(try disk.openDirectory(path: "/cache/entries", creation: .never))
        let found = try SegmentTable(of: entries, in: disk).list().entries
        let values = Dictionary(grouping: found, by: \.number).values
        let copies = values.filter { $0.count > 1 }.compactMap { $0.max()?.place }
        #expect(copies.count == kept.count)
        // Of the copies, header and record are on the disk, and a page of the payload is not.
        for copy in copies {
            let path = "/cache/entries/segments/" + FileName.number(copy.segment).description
            var bytes = try #require(image.content(at: path))
            let page = (copy.offset + SegmentFormat.entryHeaderLength + 4095) / 4096 * 4096
            bytes.replaceSubrange(page..<page + 4096, with: [UInt8](repeating: 0, count: 4096))
            image.setContent(bytes, at: path)
        }
        image.boot += 1
        world.restart(with: image)
        if losesIndex { world.loseIndex() }
        let again = try world.open()
        for key in kept { #expect(again.data(forKey: "\(key)") == value(key), "at once") }
        again.settle()
        try? again.flush()
        for key in kept { #expect(again.data(forKey: "\(key)") == value(key), "afterwards") }
    }

    @Test("a value that another process restores after a failed sync is not deleted with its segment")
    func restoredElsewhere() throws {
        let world = World {
            $0.sharing = .processes
            $0.inlineThreshold = 100
            $0.segmentLength = 4096
            $0.durability = .powerSafe
        }
        let files = ScriptedFileSystem(world.files.another())
        let (one, two) = (try world.open(), try world.open(through: files))
        try one.setString("kept", forKey: "k", ttl: .forever)
        for key in 0..<30 { try one.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        let place = try #require(one.store.index.entry("k")?.file.place)
        // So that it has its segment and its journal.
        try two.setString("of two", forKey: "two", ttl: .forever)
        for key in 0..<30 { try one.removeValue(forKey: "\(key)") }
        one.settle()
        #expect(two.string(forKey: "k") == "kept" && one.store.index.entry("k")?.file.place == place)
        let (hold, syncs) = (MemoryFileSystem.Hold(), Lock(0))
        files.run { operation, _ in
            guard operation == .sync else { return .pass }
            let count = syncs.withLock { syncs in
                syncs += 1
                return syncs
            }
            return count == 2 ? .hold(hold, then: .io) : .pass
        }
        let isDone = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            #expect(throws: CacheError.self) { try two.setString("new", forKey: "k", ttl: .forever) }
            isDone.signal()
        }
        // The record is published, and its journal is being synced.
        hold.reached.wait()
        _ = one.string(forKey: "k")
        one.store.cleaner.cleanInBackground(isShort: true)
        one.settle()
        hold.free.signal()
        isDone.wait()
        files.run(nil)
        one.settle()
        two.settle()
        #expect(one.string(forKey: "k") == "kept" && two.string(forKey: "k") == "kept")
    }
}
