import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Promise 6 during reconciliation: a disk error removes nothing, and no call returns an old value.
@Suite("Unreadable files while the index is rebuilt")
struct UnreadableTests {
    private func renewed(_ count: Int) throws -> World {
        var world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<count { try cache.setString("v", forKey: "\(number)", ttl: .seconds(30)) }
        try cache.flush()
        for number in 0..<count { try cache.setTimeToLive(.forever, forKey: "\(number)") }
        // Before the save is due, in which the renewals would be.
        world.restart()
        world.clock.advance(by: .seconds(100))
        return world
    }

    @Test("an entry with an unreadable life does not expire because of the index alone", arguments: [false, true])
    func unverifiable(isMomentary: Bool) throws {
        var world = try renewed(20)
        try world.damage(try world.journal) { $0[$0.count - 8] ^= 4 }
        world.remove(try world.journal)
        let names = world.entryFiles
        if !isMomentary {
            for name in names { world.files.setUnreadable(true, at: "/cache/entries/" + name) }
        }
        let original = world
        let cache = try world.files.holdingOtherReaders {
            let cache = try original.open()
            if isMomentary { original.files.inject { _, call in call == .open ? .fail(.tooManyOpenFiles) : nil } }
            return cache
        }
        cache.settle()
        world.clock.advance(by: .seconds(61))
        #expect(cache.removeExpired() == 0 && world.entryFiles == names)
        world.files.inject(nil)
        for name in names { world.files.setUnreadable(false, at: "/cache/entries/" + name) }
        try cache.flush()
        for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v") }
        cache.checkInvariants(world, settled: true)
    }

    @Test("a file that was unreadable when the index was rebuilt hides older values in later sessions, too")
    func laterSessions() throws {
        var world = World.exclusive { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("old", forKey: "k", ttl: .forever)
        try cache.flush()
        try cache.setString("new", forKey: "k", ttl: .forever)
        let newest = "/cache/entries/" + (try #require(world.entryFiles.last))
        world.files.setUnreadable(true, at: newest)
        let image = world.files.image
        world.restart(with: image)
        world.loseIndex()
        for session in 1...3 {
            world.files.setUnreadable(true, at: newest)
            cache = try world.open()
            #expect(cache.string(forKey: "k") == nil, "session \(session)")
            for number in 0..<2_500 { try cache.setString("\(number)", forKey: "other", ttl: .forever) }
            try cache.flush()
            #expect(cache.string(forKey: "k") == nil && cache.string(forKey: "other") == "2499", "session \(session)")
            if session == 2 { try cache.close() }
            world.restart()
        }
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == "new" && cache.string(forKey: "other") == "2499")
        cache.checkInvariants(world, settled: true)
    }

    @Test("a file that is set aside is neither deleted nor adopted, and values that it may have replaced are misses")
    func setAside() throws {
        var world = World {
            $0.sweepInterval = nil
            $0.mostTombstones = 500
        }
        var cache = try world.open()
        for number in 0..<20 { try cache.setString("old", forKey: "\(number)") }
        try cache.flush()
        for number in stride(from: 0, to: 20, by: 2) { try cache.setString("new", forKey: "\(number)") }
        world.remove(try world.journal)
        let newest = try #require(world.entryFiles.last)
        world.files.setUnreadable(true, at: "/cache/entries/" + newest)
        cache = try world.open()
        for number in 0...505 { try cache.removeValue(forKey: "n\(number)") }
        cache.settle()
        try cache.flush()
        let aside = "10" + newest.dropFirst(2)
        #expect(cache.store.index.tombstoneCount == 0)
        for context in ["this session", "the next", "the index lost again"] as [Comment] {
            #expect(world.entryFiles.contains(aside), context)
            #expect(world.entryFiles.allSatisfy { !$0.hasPrefix("40") }, "tombstones are no longer needed, \(context)")
            #expect(cache.string(forKey: "18") == nil, context)
            try cache.setString("fresh", forKey: "fresh")
            #expect(cache.string(forKey: "fresh") == "fresh", context)
            let image = world.files.image
            if context == "the next" {
                world.loseIndex()
            } else {
                world.restart(with: image)
            }
            world.files.setUnreadable(true, at: "/cache/entries/" + aside)
            cache = try world.open()
            try cache.flush()
        }
        // Once readable, it reveals its key: older values of that key are dead, and those of all others count.
        world.files.setUnreadable(false, at: "/cache/entries/" + aside)
        try cache.flush()
        #expect(cache.string(forKey: "18") == nil && cache.string(forKey: "17") == "old")
        #expect(cache.string(forKey: "16") == "new")
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "repeated removals and clears of missing entries leave one tombstone each", arguments: Sample.few(1, of: 0..<3))
    func tombstoneFiles(kind: Int) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.setString("v", forKey: "other")
        world.remove(try world.journal)
        world.files.setUnreadable(true, at: "/cache/entries/" + world.entryFiles[0])
        cache = try world.open()
        for _ in 0..<2_000 {
            switch kind {
            case 0: try cache.removeValue(forKey: "session")
            case 1: try cache.namespace("n").removeAll()
            default:
                try cache.setString("v", forKey: "session")
                try cache.removeValue(forKey: "session")
            }
        }
        try cache.flush()
        #expect(world.entryFiles.count < 10 && cache.store.reaper.tombstoneCount < 3)
    }

    @Test("an unreadable tombstone is retried, and is not needed if the journal records the removal")
    func tombstone() throws {
        for isJournalLost in [false, true] {
            var world = World { $0.sweepInterval = .seconds(60) }
            var cache = try world.open()
            for number in 0..<50 { try cache.setString("v", forKey: "\(number)", tags: number == 7 ? ["t"] : []) }
            world.files.inject { _, call in call == .remove ? .fail(.io) : nil }
            try cache.removeAll(tagged: "t")
            cache.settle()
            world.restart()
            if isJournalLost { world.loseIndex() }
            let stone = "/cache/entries/" + (try #require(world.entryFiles.first { $0.hasPrefix("40") }))
            world.files.setUnreadable(true, at: stone)
            cache = try world.open()
            try cache.flush()
            #expect(cache.string(forKey: "3") == (isJournalLost ? nil : "v") && cache.string(forKey: "7") == nil)
            world.files.setUnreadable(false, at: stone)
            try cache.flush()
            #expect(cache.string(forKey: "3") == "v" && cache.string(forKey: "7") == nil)
            try cache.flush()
            #expect(!cache.store.provisional.isSet)
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("an unreadable journal does not prevent the opening of the directory")
    func journal() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<20 { try cache.setString("v", forKey: "\(number)") }
        world.restart()
        world.files.setUnreadable(true, at: "/cache/" + (try world.journal))
        cache = try world.open()
        for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v") }
    }

    @Test("an unreadable newest file hides older values even if its number is two million higher")
    func hotKey() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<5 { try cache.setString("old", forKey: "\(number)") }
        try cache.flush()
        cache.store.info.raiseNumbers(to: 2_000_000)
        try cache.setString("new", forKey: "3")
        world.loseIndex()
        let newest = "/cache/entries/" + (try #require(world.entryFiles.last))
        world.files.setUnreadable(true, at: newest)
        cache = try world.open()
        #expect(cache.string(forKey: "3") == nil)
        try cache.setString("newest", forKey: "3")
        world.files.setUnreadable(false, at: newest)
        try cache.flush()
        world.loseIndex()
        cache = try world.open()
        #expect(cache.string(forKey: "3") == "newest")
    }

    @Test("a failed removal leaves no tombstone that the next opening would obey")
    func failedRemoval() throws {
        var world = World.exclusive { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<OpeningScan.mostAtOnce + 500 { try cache.setString("v", forKey: "\(number)") }
        world.loseIndex()
        cache = try world.open()
        let last = "\(OpeningScan.mostAtOnce + 499)"
        world.files.holdingOtherReaders {
            let (writes, removes) = (Lock(0), Lock(0))
            world.files.inject { _, call in
                // The tombstone can be written, and the record cannot. A file that cannot be deleted then keeps its value.
                if call == .write {
                    return writes.withLock {
                        $0 += 1; return $0 > 1 ? .fail(.io) : nil
                    }
                }
                guard call == .remove, removes.withLock({ $0 }) == 0 else { return nil }
                removes.withLock { $0 += 1 }
                return .fail(.notPermitted)
            }
            #expect(code { try cache.removeValue(forKey: last) } == .io)
            #expect(cache.string(forKey: last) == "v")
        }
        world.restart()
        world.loseIndex()
        #expect(try world.open().string(forKey: last) == "v")
    }
}
