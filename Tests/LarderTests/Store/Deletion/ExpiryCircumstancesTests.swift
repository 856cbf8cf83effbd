import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A caller expires entries on a full disk, or with a wrong clock")
struct ExpiryCircumstancesTests {
    @Test(
        "on a full disk an expiry makes room, or writes the ends in place", arguments: Invalidation.scopes,
        [false, true])
    func fullDisk(_ invalidation: Invalidation, hasPlain: Bool) throws {
        for loss in [[], ["manifest.json", "journal"]] {
            var world = World { $0.sweepInterval = nil }
            var (cache, part) = try invalidation.open(world)
            try part.setKept("k", forKey: "k", tags: ["t"])
            if hasPlain { try part.setString("plain", forKey: "plain", tags: ["t"]) }
            try cache.namespace("other").setString("other", forKey: "other", tags: ["t"])
            try cache.flush()
            world.files.limitFreeSpace(to: 0)
            try invalidation.end(in: cache)
            #expect(part.data(forKey: "k") == nil && part.data(forKey: "plain") == nil && part.usable("k") == "k")
            world.lose(loss)
            world.restart()
            (cache, part) = try invalidation.open(world)
            #expect(part.data(forKey: "k") == nil && part.data(forKey: "plain") == nil && part.usable("k") == "k")
            world.files.limitFreeSpace(to: nil)
            try cache.flush()
            #expect(part.data(forKey: "k") == nil && part.data(forKey: "plain") == nil && part.usable("k") == "k")
            #expect(cache.namespace("other").string(forKey: "other") == "other")
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("on a full disk, right after the index was lost, an expiry works too", arguments: Invalidation.scopes)
    func fullDiskAfterLoss(_ invalidation: Invalidation) throws {
        // In a shared directory the index is saved once it is repaired, and may take the last bytes at that moment.
        var world = World.exclusive { $0.sweepInterval = nil }
        var (cache, part) = try invalidation.open(world)
        for number in 0..<OpeningScan.mostAtOnce + 200 { try part.setKept("v", forKey: "\(number)", tags: ["t"]) }
        world.lose()
        world.restart()
        world.files.limitFreeSpace(to: 0)
        (cache, part) = try invalidation.open(world)
        try invalidation.end(in: cache)
        #expect(part.data(forKey: "0") == nil && part.keys() == [] && part.usable("0") == "v")
    }

    @Test("on a full disk, expiring a tag that no entry has changes nothing and does not fail")
    func fullDiskWithoutTag() throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.flush()
        world.files.limitFreeSpace(to: 0)
        try cache.expireAll(tagged: "nobody's")
        #expect(cache.string(forKey: "k") == "v")
    }

    @Test(
        "what had expired by itself, and was then expired by a caller, is not fresh when the clock is set back",
        arguments: Invalidation.allCases, [false, true])
    func expiredTwice(_ invalidation: Invalidation, isKept: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        var (cache, part) = try invalidation.open(world)
        try part.set("k", forKey: "k", isKept: isKept, ttl: .seconds(600), tags: ["t"])
        // The clock jumps forward, and is corrected later.
        world.clock.advance(by: .seconds(630))
        #expect(part.data(forKey: "k") == nil)
        try invalidation.end(in: cache)
        world.clock.set(milliseconds: world.clock.milliseconds - 300_000)
        #expect(part.data(forKey: "k") == nil, "at once")
        try cache.flush()
        #expect(part.data(forKey: "k") == nil, "flushed")
        world.restart()
        (cache, part) = try invalidation.open(world)
        #expect(part.data(forKey: "k") == nil, "restarted")
    }

    @Test(
        "a clock that is corrected by a millisecond does not take the stale value away",
        arguments: Invalidation.allCases)
    func staleWhenCorrected(_ invalidation: Invalidation) throws {
        let world = World { $0.sweepInterval = nil }
        let (cache, part) = try invalidation.open(world)
        try part.setKept("k", forKey: "k", tags: ["t"])
        world.clock.advance(by: .seconds(10))
        try invalidation.apply(to: cache)
        world.clock.set(milliseconds: world.clock.milliseconds - 1)
        #expect(part.data(forKey: "k") == nil && part.usable("k") == "k")
    }

    @Test("a caller expires entries at times before 1970, and at it", arguments: [-3_600_000, -1, 0, 1] as [Int64])
    func early(_ time: Int64) throws {
        var world = World { $0.sweepInterval = nil }
        world.clock.set(milliseconds: time)
        var cache = try world.open()
        try cache.setKept("k", forKey: "k", tags: ["t"])
        try cache.setString("plain", forKey: "plain", tags: ["t"])
        let path = try cache.entryPath(forKey: "k")
        world.files.setUnreadable(true, at: path)
        try cache.expireAll(tagged: "t")
        cache.settle()
        try cache.setString("later", forKey: "later", tags: ["t"])
        for round in 0..<3 {
            if round == 1 { world.lose() }
            world.restart()
            cache = try world.open()
            #expect(cache.data(forKey: "k") == nil && cache.data(forKey: "plain") == nil)
            #expect(cache.string(forKey: "later") == "later")
            try cache.flush()
            #expect(cache.data(forKey: "k") == nil && cache.usable("k") == "k")
            #expect(!cache.store.reaper.hasTombstones && cache.statistics.damagedLines == 0)
        }
    }
}
