import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A process killed inside its n-th system call, and a disk that loses power there. From an empty directory every n is
/// tried; `Beginning.next` says which are from the others.
@Suite("Every crash point", .storm)
struct CrashTests {
    /// A day in the life of a cache. Each step notes the change that it begins, and its return.
    struct Story {
        /// The values that a key may have: the last acknowledged one, and that of a call that has not returned.
        var acknowledged: [String: String] = [:]
        var pending: [String: String?] = [:]
        var isClearing = false
        var isClearingRoot = false
        /// Every value ever given to a key.
        var given: [String: Set<String>] = [:]

        mutating func set(_ cache: DiskCache, _ key: String, _ value: String, ttl: TimeToLive = .default) throws {
            given[key, default: []].insert(value)
            pending = [key: value]
            try cache.setKept(value, forKey: key, ttl: ttl, keptStale: Self.kept(key), tags: ["t"])
            acknowledged[key] = value
            pending = [:]
        }

        /// Every other value is kept beyond its expiry.
        static func kept(_ key: String) -> Int64 { (key.utf8.last ?? 0) % 2 == 0 ? 3_600_000 : 0 }

        mutating func expire(_ cache: DiskCache, _ key: String) throws {
            pending = [key: nil]
            try cache.expireValue(forKey: key)
            acknowledged[key] = nil
            pending = [:]
        }

        mutating func expireSpace(_ cache: DiskCache) throws {
            for key in acknowledged.keys where key.hasPrefix("space/") { pending[key] = .some(nil) }
            try cache.namespace("space").expireAll()
            for key in pending.keys { acknowledged[key] = nil }
            pending = [:]
        }

        /// Expires everything without a namespace, by scope or by tag.
        mutating func expireRoot(_ cache: DiskCache, tagged: Bool = false) throws {
            for key in acknowledged.keys where !key.hasPrefix("space/") { pending[key] = .some(nil) }
            isClearingRoot = true
            if tagged { try cache.expireAll(tagged: "t") } else { try cache.expireAll() }
            for key in pending.keys { acknowledged[key] = nil }
            pending = [:]
            isClearingRoot = false
        }

        mutating func remove(_ cache: DiskCache, _ key: String) throws {
            pending = [key: nil]
            try cache.removeValue(forKey: key)
            acknowledged[key] = nil
            pending = [:]
        }

        /// Keys of a namespace are noted with the prefix of its name and a slash.
        mutating func setInSpace(_ cache: DiskCache, _ key: String, _ value: String) throws {
            given["space/" + key, default: []].insert(value)
            pending = ["space/" + key: value]
            try cache.namespace("space").setKept(
                value, forKey: key, ttl: .default, keptStale: Self.kept(key), tags: ["t"])
            acknowledged["space/" + key] = value
            pending = [:]
        }

        mutating func removeSpace(_ cache: DiskCache) throws {
            for key in acknowledged.keys where key.hasPrefix("space/") { pending[key] = .some(nil) }
            try cache.namespace("space").removeAll()
            for key in pending.keys { acknowledged[key] = nil }
            pending = [:]
        }

        /// Removes everything without a namespace.
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

        /// A first session with a clean close, so that the next one begins with a trusted index.
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
            try expire(cache, "k1")
            for number in 2..<4 { try set(cache, "k\(number)", "to be expired") }
            try expireRoot(cache, tagged: true)
            try set(cache, "k1", "after the end")
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
            // No namespace has entries now.
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
            #expect(left.count <= 1, "the part without a namespace is removed as a whole, \(context)")
            left = []
            for key in (0..<4).map({ "k\($0)" }) {
                var allowed: Set<String?> = [acknowledged["space/" + key]]
                if let pending = pending["space/" + key] { allowed.insert(pending) }
                if isClearing { allowed.insert(nil) }
                let value = cache.namespace("space").string(forKey: key)
                #expect(allowed.contains(value), "space, \(key), \(context)")
                if allowed.count == 2, allowed.contains(nil) { left.insert(value != nil) }
            }
            #expect(left.count <= 1, "a namespace is removed as a whole, \(context)")
        }

        /// After a power cut without syncs, changes may be lost, but every value was once stored for its key.
        func checkPlausible(_ cache: DiskCache, _ context: Comment) {
            for key in cache.keys() {
                guard let value = cache.string(forKey: key) else { continue }
                #expect(given[key]?.contains(value) == true, "\(key), \(context)")
            }
        }
    }

    /// The start of a session: an empty directory, or one of these after a clean close.
    enum Beginning: CaseIterable {
        case empty, set, remove, renewal, clear, clearSpace, clearRoot, expire, expireSpace, expireRoot

        /// The call to be killed after call `number`. Every beginning is followed by the same story, which starts after
        /// the call `start`. Once that is under way, each beginning but the first is killed in one of nine calls, and
        /// the beginnings take turns.
        func next(after number: Int, start: Int) -> Int {
            let place = Self.allCases.firstIndex(of: self)!
            var next = number + 1
            if self != .empty { while next > start + 60, (next - start) % 9 != place % 9 { next += 1 } }
            return next
        }

        func change(_ story: inout Story, _ cache: DiskCache) throws {
            switch self {
            case .empty: break
            case .set: try story.set(cache, "k7", "changed")
            case .remove: try story.remove(cache, "k7")
            case .renewal: try cache.setTimeToLive(.hours(2), forKey: "k7")
            case .clear: try story.removeAll(cache)
            case .clearSpace: try story.removeSpace(cache)
            case .clearRoot: try story.removeRoot(cache)
            case .expire: try story.expire(cache, "k4")
            case .expireSpace: try story.expireSpace(cache)
            case .expireRoot: try story.expireRoot(cache)
            }
        }
    }

    @Test(
        "of sets, removals, renewals, saves, a clear and a close: every promise holds",
        arguments: Mode.allCases, Beginning.allCases)
    func killed(mode: Mode, beginning: Beginning) throws {
        var (points, number) = (0, 0)
        let start = try callsBeforeTheStory(mode, beginning)
        for call in Sample.calls {
            while number < call { number = beginning.next(after: number, start: start) }
            var world = World.grouped(mode.configure)
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
            // Killed again during recovery, which must be repeatable: at one of four calls, in turn.
            let second = [3, 9, 17, 31][number % 4]
            world.restart()
            world.files.inject { call, _ in call == second ? .kill : nil }
            if let cache = try? world.open() { cache.settle() }
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
            "crash test, \(mode), \(beginning): \(points) of \(number) points survived"
        )
        #expect(number > 200 && points > Sample.least(of: 70))
    }

    /// How values are stored.
    enum Mode: CaseIterable {
        case killSafe, powerSafe, killSafeSegments, powerSafeSegments, killSafeMixed

        func configure(_ configuration: inout DiskCache.Configuration) {
            configuration.durability =
                switch self {
                case .powerSafe, .powerSafeSegments: .powerSafe
                case .killSafe, .killSafeSegments, .killSafeMixed: .killSafe
                }
            switch self {
            case .killSafe, .powerSafe: break
            case .killSafeSegments, .powerSafeSegments: configuration.inlineThreshold = 100
            // Some of the values of each key are longer.
            case .killSafeMixed: configuration.inlineThreshold = 6
            }
        }
    }

    private func callsBeforeTheStory(_ mode: Mode, _ beginning: Beginning) throws -> Int {
        var world = World.grouped(mode.configure)
        var story = Story()
        if beginning != .empty { try story.begin(&world) }
        _ = world.killing(in: .max)
        try beginning.change(&story, world.open())
        return world.files.calls
    }

    @Test("a power cut loses no returned power-safe change", arguments: 1...3 as ClosedRange<UInt64>)
    func powerSafe(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for number in Sample.calls {
            var world = World.grouped { $0.durability = .powerSafe }
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
        "after a power cut, kill-safe keeps all values unchanged since the last sync, and is consistent",
        arguments: 1...40 as ClosedRange<UInt64>)
    func killSafePowerCut(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World.grouped()
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
        "after a power cut in a session after a clean close, no file stays unknown, and no removed value comes back",
        arguments: 1...60 as ClosedRange<UInt64>)
    func powerCutAfterClose(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World.grouped()
        var story = Story()
        var cache = try world.open()
        for number in 0..<12 { try story.set(cache, "k\(number)", "kept", ttl: .forever) }
        try story.remove(cache, "k11")
        if generator.chance(50) { world.files.syncAll() }
        try cache.close()
        // If the system has written anything back since, it is the names and contents of this moment.
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
        // A value removed now is removed for good, with everything that the power cut has left of it.
        for number in 0..<5 { try cache.removeValue(forKey: "k\(number)") }
        try cache.flush()
        let report = try cache.verify()
        #expect(report.orphans == 0, "seed \(seed)")
        cache.checkInvariants(world, settled: true)
        world.restart()
        world.loseIndex()
        do {
            cache = try world.open()
        } catch let error as CacheError where error.code == .notACache {
            // One torn file, or a torn segment, and nothing else by which the directory could be recognized.
            #expect(world.fileCount <= 1, "seed \(seed)")
            return
        }
        for number in 0..<5 { #expect(cache.string(forKey: "k\(number)") == nil, "seed \(seed)") }
        try cache.flush()
        #expect(cache.keys().allSatisfy { ["k5", "k6", "k7", "k8", "k9", "k10"].contains($0) }, "seed \(seed)")
    }

    @Test("after a failed sync of the removed clean-shutdown marker and a power cut, files and entries agree")
    func powerCutAfterFailedSync() throws {
        for seed in 1...60 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            let sharing: DiskCache.Sharing = generator.chance(50) ? .processes : .exclusive
            var world = World.grouped {
                $0.sweepInterval = nil
                $0.sharing = sharing
            }
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
            // A shared directory has another journal to sync.
            let refused = code { try cache.setString("refused", forKey: "k0", ttl: .forever) }
            #expect(refused == (sharing == .exclusive ? .io : nil))
            #expect(hasFailed.withLock { $0 })
            try cache.setString("new", forKey: "k0", ttl: .forever)
            try cache.removeValue(forKey: "k1")
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            cache = try world.open()
            let value = cache.string(forKey: "k0")
            let possible = [nil, "kept", "new"] + (refused == nil ? ["refused"] : [])
            #expect(possible.contains(value), "seed \(seed)")
            try cache.flush()
            let report = try cache.verify()
            #expect(report.orphans == 0, "seed \(seed): an unknown file stays forever")
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("after a power cut in a cache's first seconds, the directory is still ours, and nothing is left forever")
    func powerCutAtBirth() throws {
        for seed in 1...150 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var world = World.grouped { $0.sweepInterval = nil }
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
