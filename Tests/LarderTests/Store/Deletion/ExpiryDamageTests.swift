import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Every test here acts before files and index are reconciled, and flushes afterward.
@Suite("Damage does not make an expired entry fresh", .storm)
struct ExpiryDamageTests {
    @Test(
        "a mark takes a number above those that only life slots know: the journal is lost",
        arguments: Sample.few(2, of: Invalidation.allCases), [false, true])
    func slotsAboveTheMarkJournalLost(_ invalidation: Invalidation, isKept: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        var (cache, part) = try invalidation.open(world)
        try part.set("k", forKey: "k", isKept: isKept, tags: ["t"])
        // Their files are looked at first.
        for number in 0..<1_500 { try cache.setString("v", forKey: "\(number)") }
        try cache.flush()
        for hours in 2...9 { try part.setTimeToLive(.hours(Double(hours)), forKey: "k") }
        world.lose(["journal"])
        world.restart()
        (cache, part) = try invalidation.open(world)
        try invalidation.end(in: cache)
        #expect(part.data(forKey: "k") == nil, "at once")
        try cache.flush()
        #expect(part.data(forKey: "k") == nil, "flushed")
        cache.checkInvariants(world, settled: true)
    }

    @Test("a mark takes a higher number than slots that are read after the first answer: the index is lost")
    func slotsAboveTheMarkIndexLost() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("k", forKey: "k", tags: ["t"])
        for number in 0..<OpeningScan.mostAtOnce + 3_000 { try cache.setString("v", forKey: "\(number)") }
        for hours in 2...40 { try cache.setTimeToLive(.hours(Double(hours)), forKey: "k") }
        world.lose()
        world.restart()
        cache = try world.open()
        try cache.namespace("").expireAll()
        #expect(cache.data(forKey: "k") == nil && cache.keys() == [], "at once")
        try cache.flush()
        #expect(cache.data(forKey: "k") == nil && cache.keys() == [], "flushed")
    }

    @Test(
        "a mark takes a higher number than the slot of a file that cannot be read at the opening",
        arguments: Invalidation.scopes)
    func slotsAboveTheMarkUnreadable(_ invalidation: Invalidation) throws {
        var world = World { $0.sweepInterval = nil }
        var (cache, part) = try invalidation.open(world)
        try part.setKept("k", forKey: "k", tags: ["t"])
        try part.setString("other", forKey: "other", tags: ["t"])
        for hours in 2...9 { try part.setTimeToLive(.hours(Double(hours)), forKey: "k") }
        let path = try part.entryPath(forKey: "k")
        world.lose()
        world.restart()
        world.files.setUnreadable(true, at: path)
        (cache, part) = try invalidation.open(world)
        try invalidation.end(in: cache)
        cache.settle()
        #expect(part.data(forKey: "k") == nil)
        world.files.setUnreadable(false, at: path)
        try cache.flush()
        #expect(part.data(forKey: "k") == nil && part.usable("k") == "k")
    }

    @Test("an entry that ended before a mark does not end later, where an old journal and its file tell")
    func endedBeforeTheMark() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setKept("k", forKey: "k", tags: ["t"])
        // Their files are looked at first.
        for number in 0..<1_500 { try cache.setString("v", forKey: "\(number)") }
        let (name, old) = (try world.journal, try #require(world.files.image.content(at: "/cache/" + world.journal)))
        try cache.flush()
        try cache.expireAll(tagged: "t")
        cache.settle()
        try cache.flush()
        try cache.setString("other", forKey: "other")
        // A power cut has undone the deletion of the journal; the manifest is lost.
        world.lose(["manifest.json"])
        world.restart()
        world.files.tamper { $0.add(old, at: "/cache/" + name) }
        world.clock.advance(by: .seconds(48))
        cache = try world.open()
        try cache.namespace("").expireAll()
        world.clock.advance(by: .seconds(26))
        #expect(cache.data(forKey: "k") == nil)
        try cache.flush()
        #expect(cache.usable("k") == nil && cache.data(forKey: "k") == nil, "its 60 seconds have passed")
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "an evicted entry whose file waits to be unlinked does not come back fresh after it was expired",
        arguments: Invalidation.allCases)
    func evictedAndExpired(_ invalidation: Invalidation) throws {
        for isCleared in [true, false] {
            var world = World { $0.sweepInterval = nil }
            var (cache, part) = try invalidation.open(world)
            try part.setString("k", forKey: "k", tags: ["t"])
            try cache.flush()
            world.files.inject { _, operation in operation == .remove ? .fail(.io) : nil }
            cache.trim(toCount: 0)
            #expect(part.data(forKey: "k") == nil)
            // The control: a removal reaches these files.
            if isCleared {
                if invalidation == .key { _ = try? part.removeValue(forKey: "k") } else { try part.removeAll() }
            } else {
                try invalidation.end(in: cache)
            }
            if isCleared, invalidation == .key { continue }
            world.lose()
            world.restart()
            (cache, part) = try invalidation.open(world)
            #expect(part.data(forKey: "k") == nil, isCleared ? "cleared" : "expired")
            try cache.flush()
            #expect(part.data(forKey: "k") == nil, isCleared ? "cleared, flushed" : "expired, flushed")
        }
    }

    @Test(
        "a mark whose tombstone cannot be read at the opening holds once it can be read", arguments: Invalidation.scopes
    )
    func unreadTombstone(_ invalidation: Invalidation) throws {
        var world = World { $0.sweepInterval = nil }
        var (cache, part) = try invalidation.open(world)
        try part.setKept("k", forKey: "k", tags: ["t"])
        try part.setKept("s", forKey: "s", tags: ["t"])
        let path = try part.entryPath(forKey: "k")
        world.files.setUnreadable(true, at: path)
        try invalidation.end(in: cache)
        cache.settle()
        let tombstone = "/cache/entries/" + (try #require(world.entryFiles.last { $0.hasPrefix("40") }))
        world.lose()
        world.restart()
        world.files.setUnreadable(true, at: tombstone)
        (cache, part) = try invalidation.open(world)
        #expect(part.data(forKey: "k") == nil)
        try part.setString("new", forKey: "s", tags: ["t"])
        try invalidation.end(in: cache)
        try part.setString("newer", forKey: "s", tags: ["t"])
        cache.settle()
        #expect(part.data(forKey: "k") == nil && part.string(forKey: "s") == "newer")
        world.files.setUnreadable(false, at: tombstone)
        try cache.flush()
        try cache.flush()
        #expect(part.data(forKey: "k") == nil && part.usable("k") == "k" && part.string(forKey: "s") == "newer")
        cache.checkInvariants(world, settled: true)
        #expect(!cache.store.index.hasMarks && !cache.store.reaper.hasTombstones)
    }

    @Test("a directory in which only a tombstone is left is still a cache", arguments: [false, true])
    func onlyTombstone(isCleared: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        try cache.setString("k", forKey: "k", tags: ["t"])
        try cache.setString("other", forKey: "k2")
        try cache.flush()
        // The tombstone cannot be deleted, and the index is lost.
        let removed = Lock(0)
        world.files.inject { _, operation in
            guard operation == .remove else { return nil }
            return removed.withLock { removed in
                removed += 1
                return removed > 1 ? .fail(.io) : nil
            }
        }
        if isCleared { try cache.removeAll(tagged: "t") } else { try cache.expireAll(tagged: "t") }
        cache.settle()
        world.files.inject(nil)
        world.remove("entries/" + (try #require(world.entryFiles.first { !$0.hasPrefix("40") })))
        world.lose()
        world.restart()
        #expect(world.entryFiles.allSatisfy { $0.hasPrefix("40") } && world.entryFiles.count == 1)
        #expect(code { _ = try world.open() } == nil)
    }
}
