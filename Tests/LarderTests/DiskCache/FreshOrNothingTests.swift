import Foundation
import LarderTesting
import Testing

@testable import Larder

@Suite("Promise 1: fresh or nothing")
struct FreshOrNothingTests {
    @Test("a value is readable until its expiry, but not at it", arguments: [1, 999, 1000, 86_400_000] as [Int64])
    func exactExpiry(milliseconds: Int64) throws {
        let world = World()
        let cache = try world.open()
        try cache.setData(data("v"), forKey: "k", ttl: .seconds(Double(milliseconds) / 1000))
        world.clock.advance(by: .milliseconds(milliseconds - 1))
        #expect(cache.data(forKey: "k") == data("v"))
        #expect(cache.hasValue(forKey: "k") && cache.entry(forKey: "k") != nil && cache.keys() == ["k"])
        world.clock.advance(by: .milliseconds(1))
        #expect(cache.data(forKey: "k") == nil)
        #expect(!cache.hasValue(forKey: "k") && cache.entry(forKey: "k") == nil && cache.keys() == [])
    }

    @Test("the default life is one day")
    func oneDay() throws {
        let world = World()
        let cache = try world.open()
        try cache.setData(data("v"), forKey: "k")
        #expect(cache.entry(forKey: "k")?.expiresAt == world.clock.date.addingTimeInterval(86_400))
        world.clock.advance(by: .seconds(86_399))
        #expect(cache.data(forKey: "k") != nil)
        world.clock.advance(by: .seconds(1))
        #expect(cache.data(forKey: "k") == nil)
    }

    @Test(
        "zero, negative and not-a-number lives mean do not keep, and leave no file",
        arguments: [
            TimeToLive.seconds(0), .seconds(-1), .seconds(-.infinity), .seconds(.nan), .until(.distantPast),
            .until(Date(timeIntervalSince1970: 1_763_632_800)), .init(.zero), .init(.seconds(-5)),
            .until(Date(timeIntervalSince1970: .nan)), .until(Date(timeIntervalSince1970: -.infinity)),
            .seconds(-.greatestFiniteMagnitude), .init(.seconds(Int64.min / 2)),
        ])
    func doNotKeep(ttl: TimeToLive) throws {
        let world = World()
        let cache = try world.open()
        try cache.setData(data("old"), forKey: "k")
        try cache.setData(data("new"), forKey: "k", ttl: ttl)
        #expect(cache.data(forKey: "k") == nil && cache.count == 0)
        #expect(world.entryFiles == [])
    }

    @Test(
        "infinite and huge lives are forever, and survive a restart",
        arguments: [
            TimeToLive.forever, .seconds(.infinity), .seconds(.greatestFiniteMagnitude), .days(1e300),
            .init(.seconds(Int64.max)), .until(Date(timeIntervalSince1970: .infinity)),
        ])
    func forEver(ttl: TimeToLive) throws {
        var world = World()
        var cache = try world.open()
        try cache.setData(data("v"), forKey: "k", ttl: ttl)
        #expect(cache.entry(forKey: "k")?.expiresAt == nil)
        world.clock.set(milliseconds: world.clock.milliseconds + (1 << 50))
        #expect(cache.data(forKey: "k") == data("v"))
        world.restart()
        cache = try world.open()
        #expect(cache.data(forKey: "k") == data("v"))
    }

    @Test("an entry from the future is a miss, but is not deleted")
    func clockSetBack() throws {
        var world = World()
        let stored = world.clock.milliseconds
        var cache = try world.open()
        try cache.setData(data("v"), forKey: "k", ttl: .hours(1))
        try cache.setData(data("w"), forKey: "f", ttl: .forever)
        // A boot with the clock at 1970 must not empty the cache.
        world.clock.set(milliseconds: 5)
        cache.removeExpired()
        try cache.flush()
        #expect(cache.data(forKey: "k") == nil && cache.data(forKey: "f") == nil && cache.count == 2)
        world.restart()
        cache = try world.open()
        try cache.flush()
        #expect(!cache.hasValue(forKey: "k") && cache.count == 2)
        world.clock.set(milliseconds: stored + 10)
        #expect(cache.data(forKey: "k") == data("v") && cache.data(forKey: "f") == data("w"))
        // Within a minute it is still readable, but its remaining life never exceeds its duration.
        world.clock.set(milliseconds: stored - 30_000)
        #expect(cache.data(forKey: "k") == data("v"))
        #expect(cache.entry(forKey: "k")?.expiresAt == world.clock.date.addingTimeInterval(3600))
    }

    @Test(
        "one key's value is never another's",
        arguments: [
            ("a/b", "a_b"), ("Key", "key"), ("e\u{301}", "\u{e9}"), ("..", "."), ("a\n", "a"),
            ("EGOCache.plist", "manifest.json"),
        ])
    func distinctKeys(one: String, other: String) throws {
        var world = World()
        var cache = try world.open()
        try cache.setString("one", forKey: one)
        #expect(cache.string(forKey: other) == nil)
        try cache.setString("other", forKey: other)
        for _ in 0..<2 {
            #expect(cache.string(forKey: one) == "one" && cache.string(forKey: other) == "other" && cache.count == 2)
            world.restart()
            cache = try world.open()
        }
        try cache.removeValue(forKey: one)
        #expect(cache.string(forKey: one) == nil && cache.string(forKey: other) == "other")
    }

    @Test("a NUL is a character like any other")
    func nul() throws {
        for (one, other) in [("", "\u{0}"), ("a", "a\u{0}"), ("\u{0}a", "\u{0}b")] {
            try distinctKeys(one: one, other: other)
        }
    }

    @Test("any string is a key, up to 64 KiB of UTF-8")
    func keyLengths() throws {
        var world = World()
        var cache = try world.open()
        let keys =
            [10_000, 65_536].map { String(repeating: "x", count: $0) } + [
                String(repeating: "\u{1}", count: 65_536), "🍎\r\n\"\\",
            ]
        for key in keys { try cache.setString(String(key.prefix(5)), forKey: key) }
        let tooLong = String(repeating: "é", count: 32_769)
        #expect(code { try cache.setString("v", forKey: tooLong) } == .tooLarge)
        #expect(cache.string(forKey: tooLong) == nil)
        world.restart()
        world.remove("journal-0000000000000001.jsonl")
        cache = try world.open()
        try cache.flush()
        for key in keys { #expect(cache.string(forKey: key) == String(key.prefix(5))) }
    }

    @Test("a payload with any bit flipped, or truncated anywhere, is a miss, reported and removed")
    func damagedPayload() throws {
        for damage in 0..<40 {
            let log = EventLog()
            var world = World { $0.onEvent = log.note }
            try world.open().setData(data("hello"), forKey: "k")
            try world.damage("entries/0000000000000001") { content in
                if damage < 5 {
                    content = Array(content.prefix(damage))
                } else {
                    content[damage % 5] ^= 1 << (damage / 5)
                }
            }
            let cache = try world.open()
            #expect(cache.data(forKey: "k") == nil)
            #expect(cache.count == 0 && cache.statistics.corruptions == 1 && cache.statistics.misses == 1)
            #expect(log.events(of: cache).map(\.kind) == [.corrupt])
            cache.settle()
            #expect(world.entryFiles == [])
        }
    }

    @Test("an undecodable value is a miss, reported and kept")
    func undecodable() throws {
        let log = EventLog()
        let world = World { $0.onEvent = log.note }
        let cache = try world.open()
        try cache.setData(Data([0xff, 0xfe]), forKey: "k")
        #expect(cache.string(forKey: "k") == nil)
        #expect(cache.value([Int].self, forKey: "k") == nil)
        #expect(cache.data(forKey: "k") == Data([0xff, 0xfe]))
        #expect(log.events(of: cache).map(\.error?.code) == [.undecodable, .undecodable])
    }

    @Test("sliding lives restart with each read; fixed lives and those until a date do not")
    func sliding() throws {
        let world = World { $0.slidingExpiry = true }
        let cache = try world.open()
        try cache.setData(data("v"), forKey: "k", ttl: .seconds(10))
        try cache.setData(data("v"), forKey: "d", ttl: .until(world.clock.date.addingTimeInterval(10)))
        world.clock.advance(by: .seconds(9))
        #expect(cache.data(forKey: "k") != nil && cache.data(forKey: "d") != nil)
        world.clock.advance(by: .seconds(9))
        #expect(cache.data(forKey: "k") != nil && cache.data(forKey: "d") == nil)
        #expect(cache.removeExpired() == 1)
        world.clock.advance(by: .seconds(10))
        #expect(cache.data(forKey: "k") == nil && cache.removeExpired() == 1)
        cache.checkInvariants()
    }

    @Test(
        "a kill may shorten a sliding life, unless other processes were told of it, but never lengthens it",
        arguments: [DiskCache.Sharing.exclusive, .processes])
    func slidingAndKilled(sharing: DiskCache.Sharing) throws {
        var world = World {
            $0.slidingExpiry = true
            $0.sharing = sharing
        }
        let cache = try world.open()
        try cache.setData(data("v"), forKey: "k", ttl: .seconds(100))
        world.clock.advance(by: .seconds(50))
        // The save that was due must not find the new life.
        cache.settle()
        #expect(cache.data(forKey: "k") != nil)
        world.restart()
        let left: TimeInterval = sharing == .processes ? 100 : 50
        #expect(try world.open().entry(forKey: "k")?.expiresAt == world.clock.date.addingTimeInterval(left))
    }
}
