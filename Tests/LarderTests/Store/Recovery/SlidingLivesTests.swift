import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Extended sliding lives outlive the process and the index")
struct SlidingLivesTests {
    private func world(
        sweepInterval: Duration? = .seconds(60), sharing: DiskCache.Sharing = .platformDefault
    ) -> World {
        World {
            $0.slidingExpiry = true
            $0.sweepInterval = sweepInterval
            $0.sharing = sharing
        }
    }

    @Test("a clean close keeps them in full, however short they are")
    func closed() throws {
        for (ttl, read) in [(50, 40), (5, 1), (86_400, 30), (86_400, 40_000)] {
            var world = world(sweepInterval: nil)
            var cache = try world.open()
            // So many that a close does not rewrite the manifest for one use.
            for number in 0..<1_100 { try cache.setString("v", forKey: "\(number)", ttl: .forever) }
            try cache.setString("v", forKey: "k", ttl: .seconds(Double(ttl)))
            try cache.flush()
            world.clock.advance(by: .seconds(read))
            #expect(cache.string(forKey: "k") == "v")
            try cache.close()
            world.restart()
            world.clock.advance(by: .milliseconds(ttl * 1000 - 1))
            cache = try world.open()
            #expect(cache.hasValue(forKey: "k"), "\(ttl) s, read after \(read) s")
            world.clock.advance(by: .milliseconds(1))
            #expect(!cache.hasValue(forKey: "k"))
        }
    }

    /// Reads for three days, closes or sweeps, and returns the disk.
    private func kept(close: Bool) throws -> World {
        let world = world()
        let cache = try world.open()
        for number in 0..<100 { try cache.setString("v", forKey: "\(number)") }
        for _ in 0..<12 {
            world.clock.advance(by: .seconds(6 * 3600))
            for number in 0..<100 { #expect(cache.string(forKey: "\(number)") == "v") }
        }
        if close {
            try cache.close()
        } else {
            world.clock.advance(by: .seconds(61))
            cache.settle()
        }
        return world
    }

    @Test(
        "the loss of the index costs at most a tenth of the TTL, after a close and after a kill that follows a sweep",
        arguments: [true, false])
    func lostIndex(close: Bool) throws {
        var world = try kept(close: close)
        world.loseIndex()
        world.clock.advance(by: .seconds(86_400 * 9 / 10 - 120))
        let cache = try world.open()
        for number in 0..<100 { #expect(cache.string(forKey: "\(number)") == "v") }
        try cache.flush()
        #expect(cache.count == 100)
        cache.checkInvariants(world, settled: true)
    }

    @Test("a damaged line of the manifest costs no more")
    func damagedLines() throws {
        var world = try kept(close: true)
        try world.damage("manifest.json") { bytes in
            for position in bytes.indices.dropLast(20) where bytes[position] == UInt8(ascii: "\n") {
                bytes[position + 9] ^= 1
            }
        }
        world.clock.advance(by: .seconds(86_400 * 9 / 10 - 120))
        let cache = try world.open()
        for number in 0..<100 { #expect(cache.string(forKey: "\(number)") == "v") }
        try cache.flush()
        #expect(cache.count == 100)
    }

    @Test("the slot is written once a life was extended by a tenth, not at each sweep")
    func seldomWritten() throws {
        // Other processes would be told ten times in the length of the life.
        let world = world(sharing: .exclusive)
        let cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .seconds(60_000))
        cache.settle()
        let writes = Lock(0)
        world.files.inject { _, operation in
            if operation == .write { writes.withLock { $0 += 1 } }
            return nil
        }
        for _ in 0..<200 {
            world.clock.advance(by: .seconds(61))
            _ = cache.string(forKey: "k")
            cache.settle()
        }
        // A journal record or a manifest for each, and two slots.
        let opens = Lock(0)
        world.files.inject { _, operation in
            if operation == .open { opens.withLock { $0 += 1 } }
            return nil
        }
        cache.store.sweeper.saveUses(isClosing: false)
        #expect(opens.withLock { $0 } == 0)
        world.clock.advance(by: .seconds(6_100))
        // The sweep that is due now runs before the read.
        cache.settle()
        _ = cache.string(forKey: "k")
        opens.withLock { $0 = 0 }
        cache.store.sweeper.saveUses(isClosing: false)
        #expect(opens.withLock { $0 } == 1)
    }

    @Test("a value replaced or renewed meanwhile keeps its own life")
    func replaced() throws {
        let world = world(sweepInterval: nil)
        let cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .seconds(1_000))
        world.clock.advance(by: .seconds(900))
        let entry = try #require(cache.store.recovery.entry(Key("k"), at: world.clock.now))
        try cache.setTimeToLive(.seconds(10), forKey: "k")
        try cache.store.disk.run { cache.store.sweeper.writeSlidSlot(of: entry, in: $0) }
        let file = try #require(world.files.image.content(at: "/cache/entries/0000000000000001"))
        guard case .valid(let found) = file.withBytes({ EntryFile.footer(of: 1, tail: $0, fileSize: file.count) })
        else {
            Issue.record("no footer")
            return
        }
        #expect(found.life.ttl == 10_000)
    }

    @Test("uses are noted once per entry, however often it is read and replaced, with or without a sweep")
    func notes() throws {
        for sliding in [true, false] {
            let world = World {
                $0.slidingExpiry = sliding
                $0.sweepInterval = nil
            }
            let cache = try world.open()
            for _ in 0..<500 {
                try cache.setString("v", forKey: "k", ttl: .days(9))
                world.clock.set(milliseconds: world.clock.milliseconds + 61_000)
                _ = cache.string(forKey: "k")
            }
            var notes = 0
            cache.store.index.forEachShard { notes += $0.table.noteCount }
            #expect(notes == 1)
        }
    }
}
