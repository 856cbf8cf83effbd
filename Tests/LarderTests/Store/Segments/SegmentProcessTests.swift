import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Segments of many threads and processes", .storm)
struct SegmentProcessTests {
    private typealias Cleaning = SegmentCleaningTests

    private static func bytes(_ world: World) -> Int {
        let image = world.files.image
        return world.segments.reduce(0) { sum, name in
            sum + (image.content(at: "/cache/entries/segments/" + name)?.count ?? 0)
        }
    }

    private static func segments(_ count: Int, tag: String? = nil) throws -> (World, DiskCache) {
        let world = Cleaning.world {
            $0.sharing = .exclusive
            $0.sweepInterval = nil
        }
        let cache = try world.open()
        var number = 0
        while !number.isMultiple(of: 50) || world.segments.count < count {
            try cache.setString("value \(number)", forKey: "\(number)", ttl: .forever, tags: tag.map { [$0] } ?? [])
            number += 1
        }
        cache.settle()
        return (world, cache)
    }

    @Test("several processes that overwrite the same keys clean what none of them alone has made dead")
    func shared() throws {
        let world = World {
            $0.sharing = .processes
            $0.inlineThreshold = 20_000
            $0.sweepInterval = nil
        }
        let caches = try (0..<6).map { try ($0 == 0 ? world : world.anotherProcess()).open() }
        var generator = SeededGenerator(seed: 1)
        let value = Data(repeating: 7, count: 16_000)
        for _ in 0..<4 {
            for _ in 0..<400 {
                let cache = caches[Int.random(in: 0..<caches.count, using: &generator)]
                try cache.setData(value, forKey: "\(Int.random(in: 0..<200, using: &generator))")
            }
            for cache in caches { cache.store.reaper.deleteAllObsolete() }
            for cache in caches {
                cache.store.cleaner.cleanInBackground(isShort: true)
                cache.settle()
            }
        }
        // 25.6 MB were written. 3.2 are alive, half as much may be dead, and a segment; processes write to others.
        #expect(Self.bytes(world) < 200 * 16_000 * 3 / 2 + 3 * world.configuration.segmentLength)
        #expect(caches.contains { $0.statistics.segments.cleaned > 0 })
    }

    @Test("writers wait no longer for a cleaner that is stopped, in whichever process")
    func stoppedCleaner() throws {
        let world = Cleaning.world { $0.sharing = .processes }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        // From here on it knows how much may be dead.
        two.store.cleaner.cleanInBackground(isShort: true)
        two.settle()
        try one.setString("first", forKey: "first")
        let (hold, isHeld) = (MemoryFileSystem.Hold(), Flag())
        world.files.inject { _, operation in
            guard operation == .sync, !isHeld.isSet else { return nil }
            isHeld.set()
            return .hold(hold)
        }
        while !isHeld.isSet {
            try Cleaning.fill(one, rounds: 2)
            one.store.reaper.deleteAllObsolete()
            one.store.cleaner.cleanInBackground(isShort: true)
            while !isHeld.isSet, one.store.maintenance.isUnderWay(.clean) { sched_yield() }
        }
        hold.reached.wait()
        let segments = try #require(two.store.disk.runAnyway { $0?.segments })
        var sets = 0
        while two.store.cleaner.pace.isWorthwhile, sets < 10_000 {
            try two.setString(Cleaning.value(sets % 24, sets), forKey: "\(sets % 24)", ttl: .forever)
            sets += 1
        }
        #expect(segments.dead.isBehind.isSet && !two.store.cleaner.pace.isWorthwhile)
        // A run that has found the other one cleaning has ended: the next request is not merged with it.
        two.settle()
        hold.free.signal()
        one.settle()
        two.store.cleaner.cleanInBackground(isShort: true)
        two.settle()
        #expect(two.store.cleaner.pace.isWorthwhile, "the next step counts again")
    }

    @Test("another process can open the directory while one that moves values is stopped")
    func openBesideMove() throws {
        let world = Cleaning.world { $0.sharing = .processes }
        let one = try world.open()
        try one.setString("first", forKey: "first")
        let (hold, isHeld) = (MemoryFileSystem.Hold(), Flag())
        world.files.inject { _, operation in
            guard operation == .sync, !isHeld.isSet else { return nil }
            isHeld.set()
            return .hold(hold)
        }
        try Cleaning.fill(one, rounds: 2)
        one.store.reaper.deleteAllObsolete()
        one.store.cleaner.cleanInBackground(isShort: true)
        hold.reached.wait()
        let two = try world.anotherProcess().open()
        #expect(two.string(forKey: "first") == "first")
        try two.setString("second", forKey: "second")
        hold.free.signal()
        one.settle()
        #expect(one.string(forKey: "second") == "second")
    }

    @Test(
        "the next change moves to a new directory when the old one was deleted", arguments: [0, 100],
        [DiskCache.Sharing.processes, .exclusive])
    func deleted(threshold: Int, sharing: DiskCache.Sharing) throws {
        let world = World {
            $0.inlineThreshold = threshold
            $0.sharing = sharing
            $0.sweepInterval = nil
        }
        let one = try world.open()
        let two = sharing == .processes ? try world.anotherProcess().open() : nil
        try one.setString("1", forKey: "a", ttl: .forever)
        try two?.setString("2", forKey: "b", ttl: .forever)
        try world.files.deleteTree("cache")
        try one.setString("3", forKey: "c", ttl: .forever)
        try two?.setString("4", forKey: "d", ttl: .forever)
        #expect(two.map { $0.string(forKey: "c") == "3" && one.string(forKey: "d") == "4" } ?? true)
        var again = world
        again.files = world.files.restarted()
        let third = try again.open()
        #expect(third.string(forKey: "c") == "3" && third.string(forKey: "d") == (two == nil ? nil : "4"))
        try third.close()
    }

    @Test("a life is not renewed in a directory that was deleted", arguments: [0, 100])
    func renewedInVain(threshold: Int) throws {
        let world = World.exclusive { $0.inlineThreshold = threshold }
        let cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .hours(1))
        try world.files.deleteTree("cache")
        #expect(try !cache.setTimeToLive(.hours(2), forKey: "k"))
    }

    @Test(
        "the descriptors in use are bounded, and too few of them are no obstacle",
        arguments: Sample.few(1, of: [Int.max, 110]))
    func descriptors(limit: Int) throws {
        let (world, cache) = try Self.segments(200, tag: "t")
        try cache.removeAll(tagged: "t")
        cache.store.reaper.deleteAllObsolete()
        cache.settle()
        world.files.limitDescriptors(to: limit)
        cache.store.cleaner.cleanInBackground(isShort: true)
        try cache.flush()
        #expect(world.files.peakOpenCount <= 80)
        #expect(cache.statistics.segments.cleaned > 100)
    }

    @Test("segments that are read again and again stay open")
    func hotSegments() throws {
        let (world, cache) = try Self.segments(300)
        var keys: [UInt64: String] = [:]
        for position in 0..<Index.shardCount {
            for entry in cache.store.index.snapshot(position) { keys[entry.file.place.segment] = entry.keyText }
        }
        for key in keys.values { #expect(cache.string(forKey: key) != nil) }
        let hot = keys.sorted { $0.key < $1.key }.suffix(11).dropLast().map(\.value)
        for key in hot { _ = cache.string(forKey: key) }
        let before = world.files.counts[.open, default: 0]
        for (number, key) in keys.values.prefix(100).enumerated() {
            _ = cache.string(forKey: key)
            for _ in 0..<3 { #expect(cache.string(forKey: hot[number % hot.count]) != nil) }
        }
        // Each of the others is opened, and most of the time none of these.
        #expect(world.files.counts[.open, default: 0] - before < 250)
    }

    @Test("one file that cannot be deleted keeps no segment of other keys from being cleaned")
    func undeletable() throws {
        let world = Cleaning.world {
            $0.sharing = .exclusive
            $0.sweepInterval = nil
        }
        let files = UndeletableFileSystem(world.files)
        let cache = try world.open(through: files)
        try cache.setString(String(repeating: "x", count: 200), forKey: "long")
        files.name.withLock { $0 = world.entryFiles[0] }
        try cache.setString("short", forKey: "long")
        for round in 0..<24 {
            for key in 0..<24 { try cache.setString(Cleaning.value(key, round), forKey: "\(key)", ttl: .forever) }
            cache.store.reaper.deleteAllObsolete()
            cache.store.cleaner.cleanInBackground(isShort: true)
            cache.settle()
        }
        #expect(world.segments.count < 8)
        for key in 0..<24 { #expect(cache.string(forKey: "\(key)") == Cleaning.value(key, 23)) }
    }

    /// Refuses to delete one file.
    private final class UndeletableFileSystem: ForwardingFileSystem {
        let base: MemoryFileSystem
        let name = Lock<String?>(nil)

        init(_ base: MemoryFileSystem) { self.base = base }

        func remove(
            _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
        ) throws(Errno) {
            if self.name.withLock({ $0 }) == name.description { throw .notPermitted }
            try base.remove(name, in: directory, directory: isDirectory)
        }
    }

    @Test(
        "damage to the manifest that is found while values are moved costs no entry",
        arguments: [DiskCache.Sharing.processes, .exclusive])
    func damageFoundByMove(sharing: DiskCache.Sharing) throws {
        let world = Cleaning.world {
            $0.sharing = sharing
            $0.sweepInterval = nil
        }
        func last(_ key: Int) -> String { Cleaning.value(key, key.isMultiple(of: 3) ? 0 : 1) }
        var filled: DiskCache? = try world.open()
        try Cleaning.fill(filled!, rounds: 2)
        try filled?.close()
        filled = nil
        let content = try #require(world.files.image.content(at: "/cache/manifest.json"))
        var start = 0
        for line in content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            defer { start += line.count + 1 }
            guard String(decoding: line, as: UTF8.self).contains("\"h\":") else { continue }
            var damaged = world
            damaged.restart()
            try damaged.damage("manifest.json") { $0[start + line.count / 2] ^= 1 }
            var cache = try damaged.open()
            func lost() -> [Int] { Cleaning.keys.filter { Cleaning.stored($0, in: cache) != last($0) } }
            // Instead of a read.
            cache.store.cleaner.cleanInBackground(isShort: true)
            cache.settle()
            try cache.flush()
            cache.store.cleaner.cleanInBackground(isShort: true)
            cache.settle()
            try cache.close()
            damaged.restart()
            cache = try damaged.open()
            #expect(lost() == [], "byte \(start)")
            try cache.close()
            damaged.restart()
            damaged.loseIndex()
            cache = try damaged.open()
            #expect(lost() == [], "byte \(start), index lost")
        }
    }

    @Test("work begins and ends while sets are faster than the cleaner")
    func busy() throws {
        // On a real disk: the simulated one keeps each change that is not synced, and becomes slower without end.
        let home = try TemporaryDirectory()
        var configuration = Cleaning.world { $0.sharing = .exclusive }.configuration
        configuration.sweepInterval = nil
        // Few segments: the cleaner looks at all of them before each one that it cleans.
        configuration.segmentLength = 64 << 10
        let cache = try DiskCache(directory: home.appending("cache"), configuration: configuration)
        let (isOver, rounds, done) = (Flag(), Lock(0), DispatchSemaphore(value: 0))
        for thread in 0..<2 {
            Thread.detachNewThread {
                var number = 0
                while !isOver.isSet {
                    number += 1
                    try? cache.setString("value \(number)", forKey: "\(thread) \(number % 300)", ttl: .forever)
                    if number % 300 == 0 { rounds.withLock { $0 += 1 } }
                }
                done.signal()
            }
        }
        while rounds.withLock({ $0 }) < 16 { sched_yield() }
        // It would not return if it waited for all that is dirty.
        try cache.flush()
        isOver.set()
        for _ in 0..<2 { done.wait() }
        cache.settle()
        #expect(cache.statistics.segments.cleaned > 0 && !cache.store.maintenance.isUnderWay(.clean))
    }
}
