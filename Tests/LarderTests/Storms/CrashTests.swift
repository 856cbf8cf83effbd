import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A process that is killed inside its n-th system call, for every n; and a disk that loses power there.
@Suite("Every crash point")
struct CrashTests {
    /// A day in the life of a cache. Each step notes what it is about to do, and that it returned.
    struct Story {
        /// What a key may hold: the last acknowledged value, and the one of a call that has not returned.
        var acknowledged: [String: String] = [:]
        var pending: [String: String?] = [:]
        var isClearing = false
        var isClearingRoot = false
        /// Every value ever given to a key.
        var given: [String: Set<String>] = [:]

        mutating func set(_ cache: DiskCache, _ key: String, _ value: String, ttl: TimeToLive = .default) throws {
            given[key, default: []].insert(value)
            pending = [key: value]
            try cache.setString(value, forKey: key, ttl: ttl)
            acknowledged[key] = value
            pending = [:]
        }

        mutating func remove(_ cache: DiskCache, _ key: String) throws {
            pending = [key: nil]
            try cache.removeValue(forKey: key)
            acknowledged[key] = nil
            pending = [:]
        }

        /// The keys of a namespace are noted with its name and a slash before them.
        mutating func setInSpace(_ cache: DiskCache, _ key: String, _ value: String) throws {
            given["space/" + key, default: []].insert(value)
            pending = ["space/" + key: value]
            try cache.namespace("space").setString(value, forKey: key)
            acknowledged["space/" + key] = value
            pending = [:]
        }

        mutating func removeSpace(_ cache: DiskCache) throws {
            for key in acknowledged.keys where key.hasPrefix("space/") { pending[key] = .some(nil) }
            try cache.namespace("space").removeAll()
            for key in pending.keys { acknowledged[key] = nil }
            pending = [:]
        }

        /// Everything that is in no namespace.
        mutating func removeRoot(_ cache: DiskCache) throws {
            for key in acknowledged.keys where !key.hasPrefix("space/") { pending[key] = .some(nil) }
            isClearingRoot = true
            try cache.removeAll()
            for key in pending.keys { acknowledged[key] = nil }
            pending = [:]
            isClearingRoot = false
        }

        mutating func removeAll(_ cache: DiskCache) throws {
            isClearing = true
            try cache.removeAllNamespaces()
            acknowledged = [:]
            isClearing = false
        }

        /// A first session that is closed in order: the next begins with an index that can be believed.
        mutating func begin(_ world: inout World) throws {
            let cache = try world.open()
            for number in 0..<8 { try set(cache, "k\(number)", "before \(number)") }
            try set(cache, "k7", "before all")
            for number in 0..<4 { try setInSpace(cache, "k\(number)", "before in space") }
            try remove(cache, "k6")
            try cache.close()
            world.restart()
        }

        mutating func tell(_ cache: DiskCache, _ world: World) throws {
            for number in 0..<6 { try set(cache, "k\(number)", "first \(number)") }
            try set(cache, "k1", "second")
            for number in 0..<3 { try setInSpace(cache, "k\(number)", "first in space") }
            try removeSpace(cache)
            try setInSpace(cache, "k0", "second in space")
            try remove(cache, "k7")
            try remove(cache, "k2")
            try cache.setTimeToLive(.hours(1), forKey: "k3")
            try cache.setTimeToLive(.days(9), forKey: "k4")
            cache.settle()
            try cache.flush()
            try set(cache, "k1", "third")
            try remove(cache, "k5")
            try set(cache, "k2", "again")
            world.clock.advance(by: .seconds(1))
            cache.settle()
            try removeRoot(cache)
            try set(cache, "k1", "after the root")
            try setInSpace(cache, "k1", "after the root")
            cache.settle()
            try removeAll(cache)
            cache.settle()
            try set(cache, "k0", "after")
            try remove(cache, "k0")
            try set(cache, "k0", "after all")
            try set(cache, "k6", "last")
            for number in 0..<3 { try setInSpace(cache, "k\(number)", "last in space") }
            try removeRoot(cache)
            try set(cache, "k3", "last of all")
            try removeSpace(cache)
            // Nothing is in a namespace any more.
            try removeRoot(cache)
            try setInSpace(cache, "k2", "last of all")
            try set(cache, "k4", "last of all")
            try cache.close()
        }

        func check(_ cache: DiskCache, _ context: Comment) {
            var left: Set<Bool> = []
            for key in (0..<8).map({ "k\($0)" }) {
                var allowed: Set<String?> = [acknowledged[key]]
                if let pending = pending[key] { allowed.insert(pending) }
                if isClearing { allowed.insert(nil) }
                let value = cache.string(forKey: key)
                #expect(allowed.contains(value), "\(key), \(context)")
                if isClearingRoot, allowed.count == 2 { left.insert(value != nil) }
            }
            #expect(left.count <= 1, "the part without a namespace goes as a whole, \(context)")
            left = []
            for key in (0..<4).map({ "k\($0)" }) {
                var allowed: Set<String?> = [acknowledged["space/" + key]]
                if let pending = pending["space/" + key] { allowed.insert(pending) }
                if isClearing { allowed.insert(nil) }
                let value = cache.namespace("space").string(forKey: key)
                #expect(allowed.contains(value), "space, \(key), \(context)")
                if allowed.count == 2, allowed.contains(nil) { left.insert(value != nil) }
            }
            #expect(left.count <= 1, "a namespace goes as a whole, \(context)")
        }

        /// After a power cut without syncs, what changed may be lost, but what is there was stored once for that key.
        func checkPlausible(_ cache: DiskCache, _ context: Comment) {
            for key in cache.keys() {
                guard let value = cache.string(forKey: key) else { continue }
                #expect(given[key]?.contains(value) == true, "\(key), \(context)")
            }
        }
    }

    /// How a session begins: in an empty directory, or after a clean close with any of these.
    enum Beginning: CaseIterable {
        case empty, set, remove, renewal, clear, clearSpace, clearRoot

        func change(_ story: inout Story, _ cache: DiskCache) throws {
            switch self {
            case .empty: break
            case .set: try story.set(cache, "k7", "changed")
            case .remove: try story.remove(cache, "k7")
            case .renewal: try cache.setTimeToLive(.hours(2), forKey: "k7")
            case .clear: try story.removeAll(cache)
            case .clearSpace: try story.removeSpace(cache)
            case .clearRoot: try story.removeRoot(cache)
            }
        }
    }

    @Test(
        "of sets, removes, renewals, saves, a clear and a close: every promise holds",
        arguments: [Durability.killSafe, .powerSafe], Beginning.allCases)
    func killed(durability: Durability, beginning: Beginning) throws {
        var points = 0
        for number in 1... {
            var world = World { $0.durability = durability }
            var story = Story()
            if beginning != .empty { try story.begin(&world) }
            let isReached = world.killing(in: number)
            do {
                let cache = try world.open()
                try beginning.change(&story, cache)
                try story.tell(cache, world)
                cache.settle()
            } catch {}
            guard isReached.withLock({ $0 }) else { break }
            points += 1
            // Killed again in the middle of the recovery, a few times: it has to be repeatable.
            for second in [3, 9, 17, 31] {
                world.restart()
                world.files.inject { call, _ in call == second ? .kill : nil }
                if let cache = try? world.open() { cache.settle() }
            }
            world.restart()
            let cache = try world.open()
            story.check(cache, "before reconciling, killed in call \(number)")
            try cache.flush()
            story.check(cache, "killed in call \(number)")
            cache.checkInvariants(world, settled: true)
            try cache.setString("works", forKey: "works")
            #expect(cache.string(forKey: "works") == "works")
        }
        print(
            "crash test, \(durability == .killSafe ? "kill-safe" : "power-safe"), \(beginning): \(points) points survived"
        )
        #expect(points > 90)
    }

    @Test("with the power: power-safe loses nothing that returned", arguments: 1...3 as ClosedRange<UInt64>)
    func powerSafe(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for number in 1... {
            var world = World { $0.durability = .powerSafe }
            var story = Story()
            if !seed.isMultiple(of: 2) { try story.begin(&world) }
            let isReached = world.killing(in: number)
            do {
                let cache = try world.open()
                try story.tell(cache, world)
                cache.settle()
            } catch {}
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            let cache = try world.open()
            try cache.flush()
            story.check(cache, "power cut in call \(number), seed \(seed)")
            cache.checkInvariants(world, settled: true)
            if !isReached.withLock({ $0 }) { break }
        }
    }

    @Test(
        "with the power: kill-safe keeps what did not change since the last sync, and is consistent",
        arguments: 1...40 as ClosedRange<UInt64>)
    func killSafePowerCut(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World()
        var story = Story()
        var cache = try world.open()
        for number in 10..<20 { try story.set(cache, "k\(number)", "kept", ttl: .forever) }
        if generator.chance(50) { try cache.flush() }
        cache.settle()
        world.files.syncAll()
        for number in 0..<30 {
            let key = "k\(number % 7)"
            if generator.chance(70) {
                try story.set(cache, key, "value \(number)")
            } else {
                try story.remove(cache, key)
            }
            if generator.chance(5) { try cache.flush() }
        }
        world.restart(with: world.files.imageAfterPowerCut(using: &generator))
        cache = try world.open()
        story.checkPlausible(cache, "seed \(seed)")
        try cache.flush()
        for number in 10..<20 { #expect(cache.string(forKey: "k\(number)") == "kept", "seed \(seed)") }
        story.checkPlausible(cache, "seed \(seed)")
        try cache.flush()
        cache.checkInvariants(world, settled: true)
        for number in 0..<7 { try cache.setString("new", forKey: "k\(number)") }
        world.restart()
        cache = try world.open()
        try cache.flush()
        for number in 0..<7 { #expect(cache.string(forKey: "k\(number)") == "new", "seed \(seed)") }
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "with the power, in a session after a clean close: no file stays unknown, and no removed value comes back",
        arguments: 1...60 as ClosedRange<UInt64>)
    func powerCutAfterClose(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World()
        var story = Story()
        var cache = try world.open()
        for number in 0..<12 { try story.set(cache, "k\(number)", "kept", ttl: .forever) }
        try story.remove(cache, "k11")
        if generator.chance(50) { world.files.syncAll() }
        try cache.close()
        // What the system wrote back since, if it did, are the names and contents of then.
        if generator.chance(70) { world.files.syncAll() }
        world.restart(with: world.files.imageAfterPowerCut(using: &generator))
        world.files.syncAll()
        cache = try world.open()
        for number in 0..<Int.random(in: 1...12, using: &generator) {
            let key = "k\(number % 5)"
            if generator.chance(60) {
                try story.set(cache, key, "value \(number)")
            } else {
                try story.remove(cache, key)
            }
            if generator.chance(10) { try cache.flush() }
        }
        if generator.chance(30) { try cache.close() }
        world.restart(with: world.files.imageAfterPowerCut(using: &generator))
        cache = try world.open()
        story.checkPlausible(cache, "seed \(seed)")
        // Removed now, it is removed for good: whatever the cut has left of it goes too.
        for number in 0..<5 { try cache.removeValue(forKey: "k\(number)") }
        try cache.flush()
        let report = try cache.verify()
        #expect(report.orphans == 0, "seed \(seed)")
        cache.checkInvariants(world, settled: true)
        world.restart()
        for name in world.names where name != "entries" { world.remove(name) }
        cache = try world.open()
        for number in 0..<5 { #expect(cache.string(forKey: "k\(number)") == nil, "seed \(seed)") }
        try cache.flush()
        #expect(cache.keys().allSatisfy { ["k5", "k6", "k7", "k8", "k9", "k10"].contains($0) }, "seed \(seed)")
    }

    @Test("with the power, after the removal of the clean-shutdown marker could not be synced")
    func powerCutAfterFailedSync() throws {
        for seed in 1...60 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var world = World { $0.sweepInterval = nil }
            var cache = try world.open()
            for number in 0..<5 { try cache.setString("kept", forKey: "k\(number)", ttl: .forever) }
            try cache.close()
            world.restart()
            world.files.syncAll()
            cache = try world.open()
            let hasFailed = Lock(false)
            world.files.inject { _, operation in
                guard operation == .sync else { return nil }
                return hasFailed.withLock { hasFailed in
                    defer { hasFailed = true }
                    return hasFailed ? nil : .fail(.io)
                }
            }
            #expect(code { try cache.setString("refused", forKey: "k0", ttl: .forever) } == .io)
            #expect(hasFailed.withLock { $0 })
            try cache.setString("new", forKey: "k0", ttl: .forever)
            try cache.removeValue(forKey: "k1")
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            cache = try world.open()
            let value = cache.string(forKey: "k0")
            #expect(value == nil || value == "kept" || value == "new", "seed \(seed)")
            try cache.flush()
            let report = try cache.verify()
            #expect(report.orphans == 0, "seed \(seed): a file that nobody knows stays for ever")
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("with the power, in the first seconds of a cache: the directory is still ours, and nothing is left for ever")
    func powerCutAtBirth() throws {
        for seed in 1...150 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var world = World { $0.sweepInterval = nil }
            var cache = try world.open()
            for number in 0..<Int.random(in: 1...4, using: &generator) {
                try cache.setString("value \(number)", forKey: "\(number)")
            }
            if generator.chance(30) { try cache.removeAll() }
            if generator.chance(30) { try cache.flush() }
            cache.settle()
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            do {
                cache = try world.open()
            } catch {
                Issue.record("seed \(seed): \(error)")
                continue
            }
            try cache.setString("x", forKey: "x")
            try cache.flush()
            #expect(cache.string(forKey: "x") == "x")
            cache.checkInvariants(world, settled: true)
        }
    }
}
