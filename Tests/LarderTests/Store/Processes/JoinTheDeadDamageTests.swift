import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("The first opening after a kill of all processes, beside full disks and damage")
struct JoinTheDeadDamageTests {
    private static func world(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        World.shared {
            $0.entriesPerGroup = 3
            $0.sweepInterval = nil
            configure(&$0)
        }
    }

    private static func kill(_ world: inout World) {
        world.files.kill()
        world.restart(with: world.files.restarted().image)
    }

    /// Keys that are listed and those that can be read are the same, and so is the count.
    private static func check(_ cache: DiskCache, _ expected: Set<String>, _ comment: String) {
        let keys = Set(cache.keys())
        let count = cache.count
        let readable = keys.filter { cache.string(forKey: $0) != nil }
        #expect(count == expected.count, "count, \(comment)")
        #expect(keys == expected, "keys, \(comment)")
        #expect(readable == expected, "read, \(comment)")
        #expect(cache.count == expected.count, "count after, \(comment)")
    }

    enum Change: CaseIterable { case all, namespace, namespaces, tag, one, expireOne, expireAll, expireTag }

    private static func apply(_ change: Change, _ cache: DiskCache) throws {
        switch change {
        case .all: try cache.namespace("").removeAll()
        case .namespace: try cache.namespace("n").removeAll()
        case .namespaces: try cache.removeAll()
        case .tag: try cache.removeAll(tagged: "t")
        case .one: try cache.removeValue(forKey: "3")
        case .expireOne: try cache.expireValue(forKey: "3")
        case .expireAll: try cache.namespace("").expireAll()
        case .expireTag: try cache.expireAll(tagged: "t")
        }
    }

    private static func fill(_ cache: DiskCache) throws {
        for number in 0..<20 { try cache.setString("v\(number)", forKey: "\(number)", tags: number < 5 ? ["t"] : []) }
        try cache.flush()
        for number in 20..<25 { try cache.setString("v\(number)", forKey: "\(number)") }
        try cache.namespace("n").setString("x", forKey: "x")
    }

    @Test("knows of changes that had no room for a record", arguments: Change.allCases, [0, 1, 2, 3])
    func noRoom(change: Change, how: Int) throws {
        for inline in [0, 1000] {
            var world = Self.world { $0.inlineThreshold = inline }
            let cache = try world.open()
            try Self.fill(cache)
            switch how {
            case 0: world.files.limitFreeSpace(to: 0)
            case 1: world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
            case 2:
                world.files.inject { _, operation in
                    operation == .write || operation == .create || operation == .allocate ? .fail(.noSpace) : nil
                }
            default: world.files.inject { _, operation in operation == .write ? .fail(.io) : nil }
            }
            let failure = code { try Self.apply(change, cache) }
            let expected = Set(cache.keys())
            let x = cache.namespace("n").string(forKey: "x")
            let values = Dictionary(uniqueKeysWithValues: expected.map { ($0, cache.string(forKey: $0)) })
            world.files.inject(nil)
            Self.kill(&world)
            let again = try world.open()
            let comment =
                "\(change) \(how) \(inline), \(String(describing: failure)), loaded later \(again.store.index.hasUnloaded.isSet), expected \(expected.count)"
            if failure == nil {
                Self.check(again, expected, comment)
                for (key, value) in values { #expect(again.string(forKey: key) == value, "\(key) \(comment)") }
                #expect(again.namespace("n").string(forKey: "x") == x, "\(comment)")
                try again.flush()
                again.settle()
                Self.check(again, expected, "flushed " + comment)
                try again.close()
                world.configuration.sharing = .exclusive
                let last = try world.with(world.files.another()).open()
                Self.check(last, expected, "exclusive " + comment)
            }
        }
    }

    @Test("finds a file for each entry, in whatever call a change was killed", arguments: Change.allCases, [0, 1000])
    func killed(change: Change, inline: Int) throws {
        for call in 1...60 {
            var world = Self.world { $0.inlineThreshold = inline }
            let cache = try world.open()
            try Self.fill(cache)
            let isReached = world.killing(in: call)
            let failure = code { try Self.apply(change, cache) }
            cache.settle()
            if !isReached.withLock({ $0 }) { break }
            Self.kill(&world)
            let again = try world.open()
            let later = again.store.index.hasUnloaded.isSet
            let keys = Set(again.keys())
            let readable = keys.filter { again.string(forKey: $0) != nil }
            let comment = "\(change) \(inline) call \(call) later \(later) failure \(String(describing: failure))"
            #expect(readable == keys, "\(comment)")
            try again.flush()
            again.settle()
            #expect(again.count == readable.count, "flushed \(comment)")
            let report = try again.verify()
            #expect(report.isClean && report.orphans == 0, "\(comment) \(report)")
        }
    }

    @Test("knows the lives that reads have kept on a full disk", arguments: [0, 1000])
    func slides(inline: Int) throws {
        var world = Self.world {
            $0.slidingExpiry = true
            $0.inlineThreshold = inline
        }
        let cache = try world.open()
        for number in 0..<20 { try cache.setString("v\(number)", forKey: "\(number)", ttl: .hours(10)) }
        try cache.flush()
        world.files.limitFreeSpace(to: 0)
        for _ in 0..<30 {
            world.clock.advance(by: .seconds(3600))
            for number in 0..<20 { #expect(cache.string(forKey: "\(number)") != nil) }
        }
        cache.settle()
        Self.kill(&world)
        world.files.limitFreeSpace(to: nil)
        world.clock.advance(by: .seconds(5 * 3600))
        let again = try world.open()
        let found = (0..<20).count { again.string(forKey: "\($0)") != nil }
        #expect(found == 20)
    }

    @Test("repairs a damaged manifest, also beside a second process", arguments: [false, true], [false, true])
    func manifest(hasSecond: Bool, flushes: Bool) throws {
        var world = Self.world()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        for number in 0..<20 { try one.setString("v\(number)", forKey: "\(number)") }
        try one.flush()
        try two.setString("two", forKey: "0")
        try one.setString("one", forKey: "1")
        try one.removeValue(forKey: "2")
        other.files.kill()
        world.files.kill()
        let image = world.files.restarted().image
        let content = try #require(image.content(at: "/cache/manifest.json"))
        for offset in stride(from: 3, to: content.count, by: 61) {
            var damaged = image
            var bytes = content
            bytes[offset] ^= 1
            damaged.setContent(bytes, at: "/cache/manifest.json")
            world.restart(with: damaged)
            let cache = try world.open()
            let comment = "offset \(offset) later \(cache.store.index.hasUnloaded.isSet)"
            let second = hasSecond ? try? world.anotherProcess().open() : nil
            func look(_ cache: DiskCache, _ comment: String) {
                for number in 3..<20 {
                    #expect(cache.string(forKey: "\(number)") == "v\(number)", "\(number) \(comment)")
                }
                #expect(cache.string(forKey: "0") == "two", "\(comment)")
                #expect(cache.string(forKey: "1") == "one", "\(comment)")
                #expect(cache.string(forKey: "2") == nil, "\(comment)")
                #expect(cache.count == 19, "\(comment)")
            }
            if flushes { try cache.flush() } else { _ = cache.string(forKey: "5") }
            cache.settle()
            try cache.flush()
            look(cache, "flushed " + comment)
            if let second { look(second, "second " + comment) }
            try second?.close()
            try cache.close()
            world.configuration.sharing = .exclusive
            look(try world.with(world.files.another()).open(), "exclusive " + comment)
            world.configuration.sharing = .processes
        }
    }
}
