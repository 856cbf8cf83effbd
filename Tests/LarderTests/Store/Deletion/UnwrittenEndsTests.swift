import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The ends of lives that cannot be written are remembered, at a bounded cost")
struct UnwrittenEndsTests {
    @Test(
        "a renewal that fails does not make the background forget the end of the entry", arguments: Invalidation.scopes)
    func failedRenewal(_ invalidation: Invalidation) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        var part = cache.namespace(invalidation.namespace)
        try part.setKept("k", forKey: "k", ttl: .hours(10), keptStale: 86_400_000, tags: ["t"])
        try cache.flush()
        let path = try part.entryPath(forKey: "k")
        world.files.setUnreadable(true, at: path)
        try invalidation.end(in: cache)
        cache.settle()
        #expect(cache.store.index.hasMarks)
        world.clock.advance(by: .seconds(1))
        // "Not modified", and the slot cannot be written.
        #expect(throws: CacheError.self) { _ = try part.renew("k") }
        #expect(part.data(forKey: "k") == nil)
        world.files.setUnreadable(false, at: path)
        try cache.flush()
        #expect(part.data(forKey: "k") == nil && !cache.store.index.hasMarks && !cache.store.reaper.hasTombstones)
        world.lose()
        world.restart()
        cache = try world.open()
        part = cache.namespace(invalidation.namespace)
        #expect(part.data(forKey: "k") == nil, "the index is lost")
        try cache.flush()
        #expect(part.data(forKey: "k") == nil, "the index is lost, flushed")
    }

    @Test("so many marks that the oldest are merged do not make the background forget an entry")
    func mergedMarks() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setKept("k", forKey: "k", ttl: .hours(10), keptStale: 86_400_000, tags: ["t"])
        try cache.flush()
        let path = try cache.entryPath(forKey: "k")
        world.files.setUnreadable(true, at: path)
        try cache.expireAll(tagged: "t")
        cache.settle()
        for _ in 0..<4_200 {
            world.clock.advance(by: .milliseconds(1))
            try cache.expireAll(tagged: "t")
        }
        cache.settle()
        world.files.setUnreadable(false, at: path)
        try cache.flush()
        #expect(cache.data(forKey: "k") == nil && !cache.store.index.hasMarks && !cache.store.reaper.hasTombstones)
        world.lose()
        world.restart()
        cache = try world.open()
        #expect(cache.data(forKey: "k") == nil, "the index is lost")
        try cache.flush()
        #expect(cache.data(forKey: "k") == nil, "the index is lost, flushed")
    }

    @Test("one slot that cannot be written does not keep a tombstone for every expiry")
    func boundedTombstones() throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        try cache.setKept("k", forKey: "k", ttl: .hours(10), keptStale: 86_400_000, tags: ["t"])
        try cache.flush()
        world.files.setUnreadable(true, at: try cache.entryPath(forKey: "k"))
        for _ in 0..<300 {
            world.clock.advance(by: .milliseconds(1))
            try cache.expireAll(tagged: "t")
            cache.settle()
        }
        #expect(cache.store.reaper.tombstoneCount < 100)
        #expect(world.entryFiles.count < 100)
        var marks = 0
        cache.store.index.forEachShard { marks += $0.table.ending.marks.count }
        #expect(marks < 100)
    }

    @Test("one slot that cannot be written does not make every sweep write all the others again")
    func oneUnwritable() throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<640 { try cache.setKept("v", forKey: "\(number)", keptStale: 86_400_000, tags: ["t"]) }
        try cache.flush()
        world.files.setUnreadable(true, at: try cache.entryPath(forKey: "7"))
        try cache.namespace("").expireAll()
        cache.settle()
        let before = world.files.counts[.write] ?? 0
        for _ in 0..<10 { _ = cache.removeExpired() }
        let writes = (world.files.counts[.write] ?? 0) - before
        #expect(writes < 200, "10 sweeps")
    }

    @Test("one slot that cannot be written does not make every enforcement of a limit write all the others again")
    func oneUnwritableUnderLimit() throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<640 { try cache.setKept("v", forKey: "\(number)", keptStale: 86_400_000, tags: ["t"]) }
        // The marks of all shards but one are done; the unwritable one keeps its own shard.
        let shard = cache.key("7").shard
        var more = 0
        var number = 1_000
        while more < 200 {
            if cache.key("\(number)").shard == shard {
                try cache.setKept("v", forKey: "\(number)", keptStale: 86_400_000, tags: ["t"])
                more += 1
            }
            number += 1
        }
        try cache.flush()
        world.files.setUnreadable(true, at: try cache.entryPath(forKey: "7"))
        try cache.namespace("").expireAll()
        cache.settle()
        // "7" stays, as the one used last.
        let before = world.files.counts[.write] ?? 0
        for _ in 0..<20 {
            cache.setLimits(DiskCache.Limits(countLimit: 1_000_000))
            cache.settle()
        }
        let writes = (world.files.counts[.write] ?? 0) - before
        #expect(writes < 400, "20 times")
    }
}
