import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Segments of 4 KiB, so that a few dozen values fill some.
@Suite("Segments are cleaned", .storm)
struct SegmentCleaningTests {
    private static let segmentLength = 4096

    static func world(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        SegmentTests.world {
            $0.segmentLength = segmentLength
            $0.entriesPerGroup = 3
            configure(&$0)
        }
    }

    static func value(_ key: Int, _ round: Int) -> String { "value \(key) of round \(round)" }
    static let keys = 0..<24

    /// Fills segments: every third value is still the first one, the others have been replaced. Tags and namespaces take
    /// turns.
    static func fill(_ cache: DiskCache, rounds: Int = 3) throws {
        for round in 0..<rounds {
            for key in keys where round == 0 || !key.isMultiple(of: 3) {
                let part = key.isMultiple(of: 4) ? cache.namespace("space") : cache
                try part.setString(
                    value(key, round), forKey: "\(key)", ttl: .forever, tags: key.isMultiple(of: 5) ? ["five"] : [])
            }
        }
    }

    static func stored(_ key: Int, in cache: DiskCache) -> String? {
        (key.isMultiple(of: 4) ? cache.namespace("space") : cache).string(forKey: "\(key)")
    }

    static func lastValue(_ key: Int) -> String { value(key, key.isMultiple(of: 3) ? 0 : 2) }

    private static func bytes(_ world: World) -> Int {
        world.segments.reduce(0) { sum, name in
            sum + (world.files.image.content(at: "/cache/entries/segments/" + name)?.count ?? 0)
        }
    }

    @Test(
        "a segment of which more than a third is dead is moved and deleted",
        arguments: [Durability.killSafe, .powerSafe])
    func cleaned(durability: Durability) throws {
        var world = Self.world { $0.durability = durability }
        var cache = try world.open()
        try Self.fill(cache, rounds: 3)
        let before = Self.bytes(world)
        try cache.flush()
        let live = cache.statistics.segments.liveBytes
        #expect(cache.statistics.segments.cleaned > 0 && cache.statistics.segments.movedBytes > 0)
        #expect(Self.bytes(world) < before && live > 0)
        #expect(Self.bytes(world) <= live * 3 / 2 + 2 * Self.segmentLength)
        for key in Self.keys { #expect(Self.stored(key, in: cache) == Self.lastValue(key)) }
        cache.checkInvariants(world, settled: true)
        // Twice: what was moved is moved again.
        for key in Self.keys where !key.isMultiple(of: 7) { try cache.setString("other", forKey: "other \(key % 3)") }
        try Self.fill(cache, rounds: 3)
        try cache.flush()
        for lost in [false, true] {
            world.restart()
            if lost { world.loseIndex() }
            cache = try world.open()
            for key in Self.keys { #expect(Self.stored(key, in: cache) == Self.lastValue(key), "\(key)") }
            try cache.flush()
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("a segment whose entries are all gone is deleted without a move")
    func allGone() throws {
        let world = Self.world()
        let cache = try world.open()
        for key in Self.keys { try cache.setString("v", forKey: "\(key)", ttl: .minutes(1)) }
        for key in Self.keys { try cache.setString("kept", forKey: "kept \(key)", ttl: .forever) }
        let before = world.segments.count
        world.clock.advance(by: .seconds(61))
        cache.removeExpired()
        try cache.flush()
        #expect(world.segments.count < before)
        #expect(cache.statistics.segments.cleaned > 0 && cache.count == Self.keys.count)
        cache.checkInvariants(world, settled: true)
    }

    @Test("a value that is moved stays in the memory tier, and keeps life, metadata, tags and order of use")
    func unchanged() throws {
        let world = Self.world { $0.slidingExpiry = true }
        let cache = try world.open()
        try cache.setString("moved", forKey: "k", ttl: .minutes(10), metadata: ["a": "b"], tags: ["t"])
        #expect(try cache.setTimeToLive(.minutes(20), forKey: "k"))
        world.clock.advance(by: .seconds(60))
        #expect(cache.string(forKey: "k") == "moved")
        let before = try #require(cache.entry(forKey: "k"))
        let place = cache.store.index.entry("k")?.file.place
        for round in 0..<40 { try cache.setString("filler \(round)", forKey: "f") }
        try cache.flush()
        #expect(cache.store.index.entry("k")?.file.place != place)
        #expect(cache.entry(forKey: "k").map { "\($0)" } == "\(before)")
        try cache.removeAll(tagged: "t")
        #expect(cache.string(forKey: "k") == nil)
    }

    // MARK: Failing disks

    /// What is done after a crash, before anything is flushed.
    enum Action: CaseIterable {
        case read, remove, overwrite, renew, clearNamespace, clearTag

        func run(_ cache: DiskCache, _ expected: inout [Int: String]) throws {
            switch self {
            case .read: break
            case .remove:
                for key in [0, 1, 3, 5] {
                    try (key.isMultiple(of: 4) ? cache.namespace("space") : cache).removeValue(forKey: "\(key)")
                    expected[key] = nil
                }
            case .overwrite:
                for key in [1, 3] {
                    try cache.setString("newer", forKey: "\(key)", ttl: .forever)
                    expected[key] = "newer"
                }
            case .renew:
                for key in [3, 6, 9] { #expect(try cache.setTimeToLive(.hours(1), forKey: "\(key)")) }
            case .clearNamespace:
                try cache.namespace("space").removeAll()
                for key in keys where key.isMultiple(of: 4) { expected[key] = nil }
            case .clearTag:
                try cache.removeAll(tagged: "five")
                for key in keys where key.isMultiple(of: 5) && !key.isMultiple(of: 4) { expected[key] = nil }
            }
        }
    }

    static var filled: [Int: String] {
        Dictionary(uniqueKeysWithValues: keys.map { ($0, lastValue($0)) })
    }

    /// `mayLack`: a full disk may have evicted values.
    static func check(
        _ cache: DiskCache, _ expected: [Int: String], _ context: Comment, mayLack: Bool = false
    ) {
        for key in keys {
            let found = stored(key, in: cache)
            #expect(found == expected[key] || mayLack && found == nil, "\(context): key \(key)")
        }
    }

    /// A cache that has something to clean, and nothing else to do.
    static func dirty(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) throws -> World {
        var world = world(configure)
        let cache = try world.open()
        try fill(cache)
        cache.settle()
        world.restart()
        return world
    }

    @Test(
        "a disk that fails in any call while it cleans costs nothing",
        arguments: [Errno.io, .noSpace], [false, true])
    func failing(error: Errno, persistent: Bool) throws {
        let original = try Self.dirty()
        for number in Sample.calls {
            var world = original
            world.restart()
            var cache = try world.open()
            cache.settle()
            let isReached = world.failing(in: number, with: error, persistent: persistent)
            try? cache.flush()
            let isFailed = isReached.withLock { $0 }
            let context: Comment = "\(error) in call \(number), \(persistent ? "and all after it" : "once")"
            let mayLack = error == .noSpace
            if !persistent, isFailed { Self.check(cache, Self.filled, context, mayLack: mayLack) }
            world.files.inject(nil)
            Self.check(cache, Self.filled, "\(context), healed", mayLack: mayLack)
            try cache.removeValue(forKey: "1")
            try cache.setString("newer", forKey: "2", ttl: .forever)
            var expected = Self.filled
            (expected[1], expected[2]) = (nil, "newer")
            world.restart()
            if number.isMultiple(of: 2) { world.loseIndex() }
            cache = try world.open()
            Self.check(cache, expected, "\(context), killed", mayLack: mayLack)
            try cache.flush()
            Self.check(cache, expected, "\(context), flushed", mayLack: mayLack)
            #expect(cache.string(forKey: "2") == "newer", context)
            cache.checkInvariants(world, settled: true)
            if !isFailed { break }
        }
    }

    @Test("without room for copies, a segment goes with what is left of it")
    func evicted() throws {
        var world = Self.world()
        let log = EventLog()
        world.configuration.onEvent = log.note
        var cache = try world.open()
        try Self.fill(cache)
        cache.settle()
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        let before = world.segments.count
        // It cannot begin a journal, either.
        try? cache.flush()
        // What the flush has begun may still evict.
        cache.settle()
        world.files.inject(nil)
        #expect(world.segments.count < before)
        let kept = Self.keys.filter { Self.stored($0, in: cache) != nil }
        #expect(kept.count < Self.keys.count && cache.statistics.evictions.freeSpace == Self.keys.count - kept.count)
        for key in kept { #expect(Self.stored(key, in: cache) == Self.lastValue(key)) }
        let named = log.events(of: cache).filter { $0.kind == .evicted }.reduce(0) { $0 + $1.count }
        #expect(named == Self.keys.count - kept.count)
        world.restart()
        world.loseIndex()
        cache = try world.open()
        #expect(Self.keys.filter { Self.stored($0, in: cache) != nil } == kept)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("without room for copies, the segment goes first whose values are worth least")
    func worth() throws {
        let world = Self.world()
        let files = GatedFileSystem(world.files)
        let cache = try world.open(through: files)
        try Self.fill(cache)
        cache.settle()
        // The segment with the most dead bytes would go first, if its values were not read again and again.
        let segments = Dictionary(grouping: Self.keys) { key -> UInt64 in
            let space = key.isMultiple(of: 4) ? Namespace("space") : .none
            return cache.store.index.entry(Key("\(key)", in: space))?.file.place.segment ?? 0
        }
        let hot = try #require(segments.values.min { $0.count < $1.count })
        try #require(segments.count > 2)
        for key in hot + hot + hot { #expect(Self.stored(key, in: cache) != nil) }
        // There is room again once a segment is gone.
        let (names, isFull) = (Set(world.segments), Lock(true))
        _ = files.hold { operation, name, _ in
            if operation == .remove, names.contains(name) { isFull.withLock { $0 = false } }
            return false
        }
        world.files.inject { _, operation in operation == .create && isFull.withLock { $0 } ? .fail(.noSpace) : nil }
        try? cache.flush()
        world.files.inject(nil)
        #expect(cache.statistics.evictions.freeSpace > 0)
        for key in hot { #expect(Self.stored(key, in: cache) == Self.lastValue(key)) }
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("sets go on while the cleaner is held, although it is behind")
    func paced() throws {
        let world = Self.world()
        let files = GatedFileSystem(world.files)
        let cache = try world.open(through: files)
        try Self.fill(cache, rounds: 2)
        let hold = files.hold { operation, name, _ in operation == .remove && !name.hasPrefix("journal") }
        DispatchQueue.global().async { try? cache.flush() }
        hold.reached.wait()
        let segments = try #require(cache.store.disk.runAnyway { $0?.segments })
        segments.dead.setAllowance(-1)
        try cache.setString("new", forKey: "new")
        #expect(segments.dead.isBehind.isSet && cache.string(forKey: "new") == "new")
        hold.free.signal()
        try cache.flush()
        #expect(!segments.dead.isBehind.isSet, "what cannot be cleaned for now slows nobody down")
        cache.checkInvariants(world, settled: true)
    }

    // MARK: Several processes

    @Test("one look at all segments finds many to clean")
    func looks() throws {
        let world = Self.world { $0.sharing = .processes }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        let segments = try #require(two.store.disk.runAnyway { $0?.segments })
        let membership = one.store.disk.others.object.membership
        let calls = Lock(0)
        let counts: [Int]? = try membership.perform(.clean) {
            try Self.fill(two, rounds: 40)
            two.store.reaper.deleteAllObsolete()
            two.settle()
            other.files.inject { _, _ in
                calls.withLock { $0 += 1 }
                return nil
            }
            defer { other.files.inject(nil) }
            return try (0..<8).map { _ in
                calls.withLock { $0 = 0 }
                let segment = try segments.claimDirty(slack: 0, \.live) { _ in true }
                segments.release(try #require(segment))
                return calls.withLock { $0 }
            }
        }
        let looks = try #require(counts)
        #expect(world.segments.count > 16)
        #expect(looks.dropFirst().allSatisfy { $0 < 8 && $0 < looks[0] }, "\(looks), \(world.segments.count)")
    }

    @Test("sets are slowed down while another process cleans, too, until it is done")
    func pacedBesideOthers() throws {
        let world = Self.world { $0.sharing = .processes }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let segments = try #require(two.store.disk.runAnyway { $0?.segments })
        let membership = one.store.disk.others.object.membership
        // From the first look on, cleaning can be behind.
        two.store.cleaner.cleanInBackground(isShort: true)
        two.settle()
        let isBehind: Bool? = try membership.perform(.clean) {
            for round in 0..<8 {
                for key in Self.keys { try two.setString(Self.value(key, round), forKey: "\(key)", ttl: .forever) }
                two.store.reaper.deleteAllObsolete()
            }
            two.store.cleaner.cleanInBackground(isShort: true)
            two.settle()
            return segments.dead.isBehind.isSet
        }
        #expect(isBehind == true)
        try two.flush()
        #expect(!segments.dead.isBehind.isSet)
        for cache in [one, two] {
            for key in Self.keys { #expect(cache.string(forKey: "\(key)") == Self.value(key, 7)) }
        }
        let live = two.statistics.segments.liveBytes
        #expect(Self.bytes(world) <= live * 3 / 2 + 2 * Self.segmentLength)
        try one.close()
        two.checkInvariants(world, settled: true)
    }

    /// How long the other process may take before the cleaning one goes on: it may be waiting for it. Milliseconds.
    private static let patience = 4

    @Test(
        "what another process removes, replaces, renews or clears while values are moved stays so",
        arguments: Action.allCases)
    func held(action: Action) throws {
        for number in Sample.calls {
            let world = Self.world { $0.sharing = .processes }
            let (one, two) = (try world.open(), try world.anotherProcess().open())
            try Self.fill(one)
            one.settle()
            Self.check(two, Self.filled, "before")
            let (hold, isHeld) = (MemoryFileSystem.Hold(), Flag())
            world.files.inject { call, _ in
                guard call == number else { return nil }
                isHeld.set()
                return .hold(hold)
            }
            let (isFlushed, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            DispatchQueue.global().async {
                try? one.flush()
                isFlushed.signal()
                hold.reached.signal()
            }
            hold.reached.wait()
            let changed = Lock(Self.filled)
            DispatchQueue.global().async {
                do {
                    var expected = Self.filled
                    try action.run(two, &expected)
                    changed.withLock { [expected] in $0 = expected }
                } catch {
                    Issue.record(error)
                }
                isDone.signal()
            }
            let isFree = isDone.wait(timeout: .now() + .milliseconds(Self.patience)) == .success
            hold.free.signal()
            isFlushed.wait()
            if !isFree { isDone.wait() }
            world.files.inject(nil)
            let expected = changed.withLock { $0 }
            let context: Comment = "held in call \(number), beside \(action)"
            Self.check(two, expected, context)
            Self.check(one, expected, context)
            let third = try world.anotherProcess().open()
            Self.check(third, expected, context)
            let image = world.files.image
            for cache in [third, two, one] { try cache.close() }
            for losesIndex in [false, true] {
                var alone = world
                alone.configuration.sharing = .exclusive
                alone.restart(with: image)
                if losesIndex { alone.loseIndex() }
                let last = try alone.open()
                Self.check(last, expected, "\(context), all killed, index lost: \(losesIndex)")
                try last.flush()
                Self.check(last, expected, "\(context), flushed")
                last.checkInvariants(alone, settled: true)
            }
            if !isHeld.isSet { break }
        }
    }

    @Test("one process after another cleans, and all find everything")
    func severalCleaners() throws {
        let world = Self.world { $0.sharing = .processes }
        let caches = try (0..<3).map { try ($0 == 0 ? world : world.anotherProcess()).open() }
        var generator = SeededGenerator(seed: 20)
        var expected: [String: String] = [:]
        for step in 0..<600 {
            let cache = caches[Int.random(in: 0..<3, using: &generator)]
            let key = "\(Int.random(in: 0..<30, using: &generator))"
            if generator.chance(80) {
                expected[key] = "value \(step)"
                try cache.setString("value \(step)", forKey: key)
            } else {
                expected[key] = nil
                try cache.removeValue(forKey: key)
            }
            if step.isMultiple(of: 40) { try cache.flush() }
            let reader = caches[Int.random(in: 0..<3, using: &generator)]
            #expect(reader.string(forKey: key) == expected[key], "step \(step)")
        }
        for cache in caches {
            for key in 0..<30 { #expect(cache.string(forKey: "\(key)") == expected["\(key)"]) }
        }
        #expect(caches.reduce(0) { $0 + $1.statistics.segments.cleaned } > 5)
        world.files.kill()
        var last = world.with(world.files.another())
        let other = try #require(caches.last)
        for key in 0..<30 { #expect(other.string(forKey: "\(key)") == expected["\(key)"]) }
        // Deletes the replaced values that the killed process had not deleted yet.
        try other.flush()
        for cache in caches.dropFirst() { try cache.close() }
        last.restart()
        last.loseIndex()
        let rebuilt = try last.open()
        for key in 0..<30 { #expect(rebuilt.string(forKey: "\(key)") == expected["\(key)"], "\(key)") }
    }
}
