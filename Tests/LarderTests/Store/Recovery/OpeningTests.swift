import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// An opening does not even insert expired entries, unless the journal has later records about them.
@Suite("Opening with expired entries, and journal records about them")
struct OpeningTests {
    private func filled(_ world: World) throws {
        let cache = try world.open()
        for number in 0..<200 {
            try cache.setString(
                "\(number)", forKey: "\(number)", ttl: number.isMultiple(of: 2) ? .seconds(600) : .days(1))
        }
        try cache.close()
    }

    @Test("entries that expired while the cache was closed are removed and counted, and their files deleted")
    func halfExpired() throws {
        let world = World.grouped { $0.sweepInterval = nil }
        try filled(world)
        world.clock.advance(by: .seconds(601))
        let cache = try world.open()
        #expect(Set(cache.keys()) == Set((0..<100).map { "\(2 * $0 + 1)" }))
        cache.settle()
        #expect(cache.count == 100)
        #expect(cache.statistics.expirations == 100)
        try cache.flush()
        #expect(world.entryFiles.count == 100)
        cache.checkInvariants(world, settled: true)
    }

    /// A hand-written directory: a session killed right after a renewal, with an earlier manifest.
    @Test("a life renewed in the journal applies though the manifest says that it has ended", arguments: [false, true])
    func renewedInJournal(isSliding: Bool) throws {
        var world = World.grouped {
            $0.sweepInterval = nil
            $0.slidingExpiry = isSliding
        }
        try filled(world)
        world.clock.advance(by: .seconds(300))
        let cache = try world.open()
        if isSliding {
            #expect(cache.string(forKey: "4") == "4")
            cache.store.sweeper.saveUses(isClosing: false)
        } else {
            try cache.setTimeToLive(.days(1), forKey: "4")
        }
        try cache.setString("new", forKey: "6")
        try cache.removeValue(forKey: "8")
        world.restart()
        world.clock.advance(by: .seconds(400))
        let again = try world.open()
        #expect(again.string(forKey: "4") == "4")
        #expect(again.string(forKey: "6") == "new")
        #expect(!again.hasValue(forKey: "8") && !again.hasValue(forKey: "2") && again.string(forKey: "3") == "3")
        try again.flush()
        again.checkInvariants(world, settled: true)
        #expect(again.statistics.corruptions == 0 && again.statistics.losses == 0)
    }

    @Test("a name that is not a regular file's is a miss, whether or not it can be opened, and is left alone")
    func foreignFiles() throws {
        let home = try TemporaryDirectory()
        let log = EventLog()
        var configuration = DiskCache.Configuration()
        configuration.onEvent = log.note
        let cache = try DiskCache(directory: home.appending("cache"), configuration: configuration)
        for (number, kind) in ["directory", "fifo", "link", "directory of nothing"].enumerated() {
            try cache.setString(kind.hasSuffix("nothing") ? "" : "v", forKey: kind)
            let file = home.appending("cache/entries").appendingPathComponent(
                FileName.number(UInt64(number + 1)).description)
            try FileManager.default.removeItem(at: file)
            switch kind {
            case "directory", "directory of nothing":
                try FileManager.default.createDirectory(at: file, withIntermediateDirectories: false)
            case "fifo": #expect(mkfifo(file.path, 0o600) == 0)
            default: try FileManager.default.createSymbolicLink(atPath: file.path, withDestinationPath: "/etc/hostname")
            }
            #expect(cache.string(forKey: kind) == nil)
            #expect(cache.statistics.failures == number + 1)
            #expect(log.events(of: cache).last?.error?.message.contains("not a regular file") == true, "\(kind)")
            #expect(
                try FileManager.default.attributesOfItem(atPath: file.path)[.type] as? FileAttributeType != .typeRegular
            )
        }
    }

    @Test("an entry that claims a tebibyte is damaged, and takes no memory")
    func hugeRow() throws {
        let world = World.grouped()
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        let key = Key("k")
        cache.store.index.withShard(of: key) { shard in
            guard var entry = shard.table.entry(key) else { return }
            entry.size = Fields.largestSize
            shard.table.publish(entry, for: key)
        }
        #expect(cache.data(forKey: "k") == nil)
        #expect(cache.statistics.corruptions == 1 && cache.statistics.failures == 0 && cache.count == 0)
    }

    /// A concurrent save must have the entry or its tombstone, or the journal its removal.
    @Test("an entry that expires during a save does not revive its predecessor, even with an unreadable file")
    func expiredAmidSave() throws {
        var world = World.grouped {
            $0.sweepInterval = nil
            $0.saveDelay = .seconds(3600)
        }
        // Long keys: the entries before the last slice fill the buffer, and are written before that slice is copied.
        let padding = String(repeating: "x", count: 200)
        let keys = Array((0...).lazy.map { "key \($0)" + padding }.filter { Key($0).shard == 0 }.prefix(601))
        let last = keys[600]
        let cache = try world.open()
        for key in keys.dropLast() { try cache.setString("v", forKey: key) }
        try cache.setString("old", forKey: last)
        try cache.setString("new", forKey: last, ttl: .seconds(100))
        world.remove(try world.journal)

        // The older file is unreadable: it stays, so its tombstone matters.
        world.failRead(2)
        let second = try world.open()
        second.settle()
        world.files.inject(nil)
        #expect(second.string(forKey: last) == "new")
        #expect(second.store.provisional.update { $0.unreadable == [FileID(601)] })
        world.clock.advance(by: .seconds(101))
        let (writes, expired) = (Lock(0), Lock(0))
        let (begin, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let (store, now) = (second.store, world.clock.now)
        world.files.inject { _, operation in
            guard operation == .write else { return nil }
            let isAmid = writes.withLock { writes in
                writes += 1
                return writes == 2
            }
            if isAmid { begin.signal() }
            return nil
        }
        DispatchQueue.global().async {
            begin.wait()
            let count = store.removeExpired(at: now)
            expired.withLock { $0 = count }
            end.signal()
        }
        // Not `flush`, which would try to read the file again.
        try store.housekeeper.save(always: true)
        end.wait()
        world.files.inject(nil)
        second.settle()
        #expect(expired.withLock { $0 } == 1)
        world.restart()
        let third = try world.open()
        third.settle()
        #expect(third.string(forKey: last) == nil)
        #expect(third.string(forKey: keys[0]) == "v")
    }

    /// Keys of one shard, more than are copied at a time, so that a save copies them in several slices.
    @Test("a save in slices during writes loses nothing and revives nothing", arguments: Sample.few(1, of: 1...3))
    func savedInSlices(seed: UInt64) throws {
        var world = World.grouped {
            $0.sweepInterval = nil
            $0.saveDelay = .seconds(3600)
        }
        let keys = Array((0...).lazy.map { "key \($0)" }.filter { Key($0).shard == 5 }.prefix(900))
        let cache = try world.open()
        for key in keys { try cache.setString("old", forKey: key) }
        let isDone = Flag()
        let model = Lock<[String: String]>(Dictionary(uniqueKeysWithValues: keys.map { ($0, "old") }))
        let problems = Lock<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 3) { thread in
            do {
                if thread == 0 {
                    for _ in 0..<40 { try cache.flush() }
                    return isDone.set()
                }
                var generator = SeededGenerator(seed: seed * 10 + UInt64(thread))
                var step = 0
                while !isDone.isSet {
                    step += 1
                    // Each thread has its own keys, so the model is known.
                    let key = keys[Int.random(in: 0..<450, using: &generator) * 2 + thread - 1]
                    if generator.chance(50) {
                        try cache.removeValue(forKey: key)
                        model.withLock { $0[key] = nil }
                    } else {
                        try cache.setString("\(step)", forKey: key)
                        model.withLock { $0[key] = "\(step)" }
                    }
                }
            } catch {
                problems.withLock { $0.append("\(error)") }
            }
        }
        #expect(problems.withLock { $0 } == [], "seed \(seed)")
        world.restart()
        let again = try world.open()
        let expected = model.withLock { $0 }
        #expect(Set(again.keys()) == Set(expected.keys), "seed \(seed)")
        #expect(expected.allSatisfy { again.string(forKey: $0.key) == $0.value }, "seed \(seed)")
        try again.flush()
        again.checkInvariants(world, settled: true)
    }
}
