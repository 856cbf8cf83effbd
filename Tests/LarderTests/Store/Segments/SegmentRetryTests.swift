import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// A flush before a read stands for the next sweep, which looks again.
@Suite("Segments that can be read, or synced, only later", .storm)
struct SegmentRetryTests {
    static func world(
        _ sharing: DiskCache.Sharing = .exclusive, _ configure: (inout DiskCache.Configuration) -> Void = { _ in }
    ) -> World {
        World {
            $0.sharing = sharing
            $0.inlineThreshold = 100
            $0.segmentLength = 4096
            $0.sweepInterval = nil
            configure(&$0)
        }
    }

    static func path(_ segment: UInt64) -> String {
        "/cache/entries/segments/" + FileName.number(segment).description
    }

    static func segment(of key: String, in cache: DiskCache) throws -> UInt64 {
        try #require(cache.store.index.entry(Key(key))?.file.place.segment)
    }

    /// Fills segments. Returns the segment of the key "0".
    private static func fill(_ cache: DiskCache) throws -> UInt64 {
        for key in 0..<40 { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        return try segment(of: "0", in: cache)
    }

    private static func keys(in segment: UInt64, of cache: DiskCache) -> [String] {
        (0..<40).map { "\($0)" }.filter { cache.store.index.entry(Key($0))?.file.place.segment == segment }
    }

    @Test("one is not cleaned while its values are still unknown")
    func notCleaned() throws {
        var world = Self.world()
        var cache = try world.open()
        let segment = try Self.fill(cache)
        for key in Self.keys(in: segment, of: cache).dropFirst() {
            try cache.setString("newer", forKey: key, ttl: .forever)
        }
        cache.store.reaper.deleteAllObsolete()
        world.restart()
        world.loseIndex()
        world.files.setUnreadable(true, at: Self.path(segment))
        cache = try world.open()
        cache.settle()
        world.files.setUnreadable(false, at: Self.path(segment))
        // As the header of a longer segment says.
        let segments = try #require(cache.store.disk.runAnyway { $0 }).segments
        try segments.countDead(3000, in: segments.segment(segment))
        // The retry has begun when the cleaner has its turn.
        #expect(cache.store.provisional.update { $0.retry() })
        cache.store.cleaner.cleanInBackground(isShort: true)
        cache.store.maintenance.wait(for: .clean)
        cache.store.reconciler.begin()
        cache.settle()
        #expect(cache.string(forKey: "0") == "value 0")
    }

    @Test("a value that was replaced and waits for its mark does not come back with it")
    func replaced() throws {
        var world = Self.world()
        var cache = try world.open()
        let segment = try Self.fill(cache)
        world.files.setUnreadable(true, at: Self.path(segment))
        try cache.setString("newer", forKey: "0", ttl: .seconds(1))
        world.clock.advance(by: .seconds(2))
        cache.removeExpired()
        #expect(cache.count == 39)
        try? cache.flush()
        world.files = world.files.restarted(with: world.files.image)
        try world.damage(world.journal) { $0.append(contentsOf: Array("{damaged\n".utf8)) }
        world.files.setUnreadable(true, at: Self.path(segment))
        cache = try world.open()
        cache.settle()
        world.files.setUnreadable(false, at: Self.path(segment))
        #expect(cache.store.reconciler.retry())
        cache.settle()
        #expect(cache.string(forKey: "0") == nil)
        try cache.flush()
        #expect(cache.string(forKey: "0") == nil && cache.string(forKey: "1") == "value 1")
        cache.checkInvariants(world, settled: true)
    }

    @Test("one that could not be read when a process had died is looked at again")
    func leftByTheDead() throws {
        var world = Self.world(.processes)
        let one = try world.open()
        let dying = world.anotherProcess()
        let other = try dying.open()
        let segment = try Self.fill(other)
        try other.setString("newer", forKey: "0", ttl: .forever)
        #expect(try Self.segment(of: "0", in: other) != segment)
        dying.files.kill()
        world.files.setUnreadable(true, at: Self.path(segment))
        try? one.flush()
        #expect(one.string(forKey: "0") == "newer")
        world.files.setUnreadable(false, at: Self.path(segment))
        try one.flush()
        #expect(try one.removeValue(forKey: "0"))
        try one.close()
        world.restart()
        world.loseIndex()
        let again = try world.open()
        #expect(again.string(forKey: "0") == nil && again.string(forKey: "1") == "value 1")
    }

    @Test("a sync that fails concerns the values that were written meanwhile, too")
    func failedSync() throws {
        let world = Self.world { $0.durability = .powerSafe }
        let files = ScriptedFileSystem(world.files)
        let cache = try world.open(through: files)
        try cache.setString("v", forKey: "x", ttl: .forever)
        cache.settle()
        let directory = try #require(cache.store.disk.runAnyway { $0 })
        let open = try directory.segments.segment(Self.segment(of: "x", in: cache))
        let target = try world.files.status(of: open.file.file).identity
        let (write, sync) = (MemoryFileSystem.Hold(), MemoryFileSystem.Hold())
        let calls = Lock((writes: 0, syncs: 0))
        files.run { operation, file in
            calls.withLock { calls in
                guard file == target else { return .pass }
                if operation == .sync {
                    calls.syncs += 1
                    return calls.syncs == 1 ? .hold(sync, then: .io) : .pass
                }
                if operation == .write {
                    calls.writes += 1
                    return calls.writes == 2 ? .hold(write) : .pass
                }
                return .pass
            }
        }
        let done = DispatchSemaphore(value: 0)
        let results = Lock<[String: Bool]>([:])
        func set(_ key: String) {
            Thread.detachNewThread {
                let isStored = (try? cache.setString("v", forKey: key, ttl: .forever)) != nil
                results.withLock { $0[key] = isStored }
                done.signal()
            }
        }
        let z = World.key(besides: "y")
        set("y")
        sync.reached.wait()
        set(z)
        write.reached.wait()
        write.free.signal()
        sync.free.signal()
        for _ in 0..<2 { done.wait() }
        files.run(nil)
        #expect(results.withLock { $0 } == ["y": false, z: false])
        #expect(cache.string(forKey: z) == nil && cache.string(forKey: "x") == "v")
        try cache.setString("v", forKey: z, ttl: .forever)
        #expect(cache.string(forKey: z) == "v")
    }

    @Test("a damaged value does not keep a segment of several processes from being cleaned")
    func damagedValue() throws {
        var world = Self.world(.processes)
        var cache = try world.open()
        let segment = try Self.fill(cache)
        for key in Self.keys(in: segment, of: cache).dropFirst() {
            try cache.setString("newer", forKey: key, ttl: .forever)
        }
        try world.damage("entries/segments/" + FileName.number(segment).description) { content in
            let place = Data(content).range(of: Data("value 0".utf8))
            if let place { content[place.lowerBound] ^= 4 }
        }
        cache = try world.open()
        cache.settle()
        cache.store.reaper.deleteAllObsolete()
        cache.store.cleaner.cleanInBackground(isShort: true)
        cache.settle()
        #expect(!world.segments.contains(FileName.number(segment).description))
        #expect(cache.string(forKey: "0") == nil && cache.string(forKey: "1") == "newer")
    }

    @Test("one that another process has kept from being deleted is deleted by the next sweep")
    func lateDeletion() throws {
        let world = Self.world(.processes)
        let cache = try world.open()
        let segment = try Self.fill(cache)
        let files = ScriptedFileSystem(world.files.another())
        let other = try world.open(through: files)
        try other.setString("first", forKey: "slow", ttl: .forever)
        let (hold, isArmed) = (MemoryFileSystem.Hold(), Lock(true))
        files.run { operation, _ in
            isArmed.withLock { isArmed in
                guard operation == .write, isArmed else { return .pass }
                isArmed = false
                return .hold(hold)
            }
        }
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            try? other.setString("slow", forKey: "slow", ttl: .forever)
            done.signal()
        }
        hold.reached.wait()
        for key in Self.keys(in: segment, of: cache) { try cache.setString("newer", forKey: key, ttl: .forever) }
        cache.store.reaper.deleteAllObsolete()
        cache.store.cleaner.cleanInBackground(isShort: true)
        cache.settle()
        let name = FileName.number(segment).description
        #expect(world.segments.contains(name))
        hold.free.signal()
        done.wait()
        cache.store.cleaner.cleanInBackground()
        cache.settle()
        #expect(!world.segments.contains(name))
    }
}
