import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Two caches with separate memory tiers, and the bare disk cache, on one store.
@Suite("Both tiers have the same value through every handle")
struct CoherenceTests {
    /// Strings whose decoding can be interrupted, when no lock is held and the value has been read but is not in memory
    /// yet.
    final class Seam: Sendable {
        private let interruption = Lock<(@Sendable () -> Void)?>(nil)

        func interrupt(_ work: @escaping @Sendable () -> Void) {
            interruption.withLock { $0 = work }
        }

        var coder: Coder<String> {
            Coder {
                Data($0.utf8)
            } decode: { data in
                let work = self.interruption.withLock { work in
                    defer { work = nil }
                    return work
                }
                work?()
                return String(decoding: data, as: UTF8.self)
            }
        }
    }

    struct Handles {
        let world: World
        let disk: DiskCache
        let seam = Seam()
        let first: Cache<String>
        let second: Cache<String>

        init(_ world: World, namespace: String = "n", memory limit: Int? = nil) throws {
            self.world = world
            disk = try world.open()
            var configuration = Cache<String>.Configuration()
            configuration.memory?.countLimit = limit
            configuration.memory?.sweepInterval = nil
            first = Cache(disk: disk, namespace: namespace, coder: seam.coder, configuration: configuration)
            second = Cache(
                disk: try world.open(), namespace: namespace, coder: .string, configuration: configuration)
        }

        var bare: DiskCache { disk.namespace(first.disk?.keyNamespace.name ?? "") }

        /// The value of a key in each handle.
        func values(_ key: String) async -> [String?] {
            [await first.value(forKey: key), await second.value(forKey: key), bare.string(forKey: key)]
        }
    }

    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let expected: String?
        let run: @Sendable (DiskCache, ManualClock) throws -> Void
    }

    /// The changes that others make between a read from disk and the promotion of its value.
    static let changes: [Change] = [
        Change(testDescription: "nothing", expected: "old") { _, _ in },
        Change(testDescription: "set", expected: "new") { disk, _ in try disk.setString("new", forKey: "k") },
        Change(testDescription: "two sets", expected: "newer") { disk, _ in
            try disk.setString("new", forKey: "k")
            try disk.setString("newer", forKey: "k")
        },
        Change(testDescription: "set of the same", expected: "old") { disk, _ in try disk.setString("old", forKey: "k")
        },
        Change(testDescription: "remove", expected: nil) { disk, _ in try disk.removeValue(forKey: "k") },
        Change(testDescription: "remove and set", expected: "new") { disk, _ in
            try disk.removeValue(forKey: "k")
            try disk.setString("new", forKey: "k")
        },
        Change(testDescription: "removeAll of the namespace", expected: nil) { disk, _ in
            try disk.namespace("").removeAll()
        },
        Change(testDescription: "removeAll", expected: nil) { disk, _ in try disk.removeAll() },
        Change(testDescription: "eviction", expected: nil) { disk, _ in disk.trim(toCount: 0) },
        Change(testDescription: "shorter life", expected: nil) { disk, clock in
            try disk.setTimeToLive(.seconds(1), forKey: "k")
            clock.set(milliseconds: clock.milliseconds + 1000)
        },
        Change(testDescription: "longer life", expected: "old") { disk, clock in
            try disk.setTimeToLive(.days(9), forKey: "k")
            clock.set(milliseconds: clock.milliseconds + 8 * 86_400_000)
        },
        Change(testDescription: "expiry", expected: nil) { disk, clock in
            clock.set(milliseconds: clock.milliseconds + 86_400_000)
            _ = disk.removeExpired()
        },
        Change(testDescription: "life of zero", expected: nil) { disk, _ in
            try disk.setTimeToLive(.seconds(0), forKey: "k")
        },
        Change(testDescription: "close", expected: nil) { disk, _ in try disk.close() },
    ]

    @Test("a promotion loses against any change made meanwhile", arguments: changes)
    func promotionRace(change: Change) async throws {
        let handles = try Handles(World { $0.sweepInterval = nil })
        try handles.bare.setString("old", forKey: "k")
        let bare = handles.bare
        handles.seam.interrupt {
            do { try change.run(bare, handles.world.clock) } catch { Issue.record(error) }
        }
        let read = await handles.first.value(forKey: "k")
        #expect(read == "old", "it began before the change")
        let later = await handles.first.value(forKey: "k")
        #expect(later == change.expected)
        if change.testDescription != "close" {
            #expect(await handles.values("k") == [change.expected, change.expected, change.expected])
        } else {
            #expect(handles.first.memory?.count == 0)
        }
        let expiry = handles.bare.entry(forKey: "k")?.expiresAt
        #expect(await handles.first.lookup(forKey: "k")?.expiresAt == expiry)
    }

    @Test("every kind of change reaches the memory tiers before its call returns", arguments: changes.dropLast())
    func invalidation(change: Change) async throws {
        let handles = try Handles(World { $0.sweepInterval = nil })
        try handles.bare.setString("old", forKey: "k")
        #expect(await handles.values("k") == ["old", "old", "old"])
        #expect(handles.first.memory?.count == 1 && handles.second.memory?.count == 1)
        try change.run(handles.bare, handles.world.clock)
        let memories = [handles.first.memoryTier?.value(forKey: "k"), handles.second.memoryTier?.value(forKey: "k")]
        #expect(memories.allSatisfy { $0 == nil || $0 == change.expected })
        #expect(await handles.values("k") == [change.expected, change.expected, change.expected])
    }

    @Test("a set through one cache is in its own memory tier and in no other")
    func ownMemory() async throws {
        let handles = try Handles(World())
        try await handles.second.setValue("old", forKey: "k")
        try await handles.first.setValue("new", forKey: "k")
        #expect(handles.first.memoryTier?.value(forKey: "k") == "new" && handles.second.memory?.count == 0)
        #expect(await handles.values("k") == ["new", "new", "new"])
        try handles.disk.namespace("other").setString("other", forKey: "k")
        #expect(handles.first.memory?.count == 1, "a change in another namespace does not affect it")
    }

    @Test("a set during the closing of its handle does not fill a detached memory tier")
    func closedMeanwhile() async throws {
        let world = World()
        let (closing, staying) = (try world.open(), try world.open())
        var configuration = Cache<String>.Configuration()
        // Called between the check of the handle and the storing.
        configuration.cost = { _, size in
            try? closing.close()
            return size
        }
        let cache = Cache<String>(disk: closing, namespace: "n", configuration: configuration)
        try await cache.setValue("v1", forKey: "k")
        #expect(cache.memory?.count == 0)
        try staying.namespace("n").setString("v2", forKey: "k")
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("a value put into memory alone is removed with its key, and with everything")
    func memoryAlone() async throws {
        let handles = try Handles(World())
        handles.first.memoryTier?.setValue("alone", forKey: "k")
        #expect(try await !handles.first.removeValue(forKey: "k"))
        #expect(await handles.first.value(forKey: "k") == nil)
        handles.first.memoryTier?.setValue("alone", forKey: "k")
        try await handles.first.setValue("new", forKey: "k", ttl: .seconds(0))
        #expect(await handles.first.value(forKey: "k") == nil)
        handles.first.memoryTier?.setValue("alone", forKey: "k")
        try await handles.first.removeAll()
        #expect(await handles.first.value(forKey: "k") == nil)
    }

    @Test("the memory tier reports the cause when a change on disk removes a value")
    func causes() async throws {
        let told = Lock<[RemovalCause]>([])
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        var configuration = Cache<String>.Configuration()
        configuration.memory?.onRemove = { _, _, cause in told.withLock { $0.append(cause) } }
        let cache = Cache<String>(disk: disk, namespace: "n", configuration: configuration)
        try await cache.setValue("1", forKey: "k")
        try await cache.setValue("2", forKey: "k")
        try await cache.removeValue(forKey: "k")
        try await cache.setValue("3", forKey: "k", ttl: .seconds(1))
        world.clock.advance(by: .seconds(1))
        disk.removeExpired()
        try await cache.setValue("4", forKey: "k")
        disk.trim(toCount: 0)
        cache.memoryTier?.releaser.releaseWaiting()
        #expect(told.withLock { $0 } == [.replaced, .removed, .expired, .evictedOnDisk])
        #expect(cache.memory?.statistics.removals == 2 && cache.memory?.statistics.expirations == 1)
    }

    @Test("damage and loss on disk found by a read remove the value from all memory tiers")
    func damage() async throws {
        let handles = try Handles(World())
        try await handles.first.setValue("old", forKey: "k")
        let file = try #require(handles.world.entryFiles.last)
        let entries = try handles.world.files.openDirectory(path: "/cache/entries", creation: .never)
        try handles.world.files.remove(FileName(file), in: entries, directory: false)
        #expect(await handles.first.value(forKey: "k") == "old", "memory does not check the disk")
        #expect(await handles.second.value(forKey: "k") == nil)
        #expect(await handles.first.value(forKey: "k") == nil)
    }

    @Test("handles never disagree under random operations", arguments: Sample.few(2, of: 1...6 as ClosedRange<UInt64>))
    func model(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let world = World {
            $0.sweepInterval = nil
            $0.saveDelay = .seconds(1)
        }
        let handles = try Handles(world, namespace: seed.isMultiple(of: 2) ? "" : "n", memory: 6)
        var model: [String: (value: String, expires: Int64)] = [:]
        for step in 0..<800 {
            let key = "k\(Int.random(in: 0..<12, using: &generator))"
            let (cache, bare) = (generator.chance(50) ? handles.first : handles.second, handles.bare)
            let ttl = [1, 40, 1000].randomElement(using: &generator) ?? 1
            let expires = world.clock.milliseconds + Int64(ttl)
            let isFresh = model[key].map { world.clock.milliseconds < $0.expires } ?? false
            switch Int.random(in: 0..<20, using: &generator) {
            case 0..<4:
                try await cache.setValue("\(step)", forKey: key, ttl: .init(.milliseconds(ttl)))
                model[key] = ("\(step)", expires)
            case 4..<6:
                try bare.setString("\(step)", forKey: key, ttl: .init(.milliseconds(ttl)))
                model[key] = ("\(step)", expires)
            case 6:
                #expect(try await cache.removeValue(forKey: key) == isFresh)
                model[key] = nil
            case 7:
                #expect(try bare.removeValue(forKey: key) == isFresh)
                model[key] = nil
            case 8:
                let isRenewed =
                    generator.chance(50)
                    ? try await cache.setTimeToLive(.init(.milliseconds(ttl)), forKey: key)
                    : try bare.setTimeToLive(.init(.milliseconds(ttl)), forKey: key)
                #expect(isRenewed == isFresh)
                if isFresh { model[key]?.expires = expires }
            case 9: world.clock.advance(by: .milliseconds([1, 39, 500].randomElement(using: &generator) ?? 1))
            case 10 where generator.chance(20):
                try await cache.removeAll()
                model = [:]
            case 11: cache.memoryTier?.removeAll()
            case 12: bare.removeExpired()
            default: break
            }
            for key in [key, "k\(Int.random(in: 0..<12, using: &generator))"] {
                let expected = model[key].flatMap { world.clock.milliseconds < $0.expires ? $0.value : nil }
                let values = await handles.values(key)
                #expect(values == [expected, expected, expected], "seed \(seed), step \(step), \(key)")
            }
        }
        #expect(Set(await handles.first.keys()) == Set(await handles.second.keys()))
        let statistics = handles.first.statistics
        print("coherence model: seed \(seed), \(statistics.memoryHits) hits in memory, \(statistics.diskHits) on disk")
        #expect(statistics.memoryHits > 50 && statistics.diskHits > 50)
    }

    @Test("with many tasks no reader ever sees an older value than before, whichever handle it asks next")
    func neverBack() async throws {
        let handles = try Handles(World { $0.saveDelay = .milliseconds(1) }, memory: 3)
        let keys = (0..<6).map { "k\($0)" }
        let isDone = Lock(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (position, key) in keys.enumerated() {
                // One writer per key, with increasing values and a different handle each time.
                group.addTask {
                    for number in 1...300 {
                        switch (number + position) % 4 {
                        case 0: try handles.bare.setString("\(number)", forKey: key)
                        case 1, 2: try await handles.first.setValue("\(number)", forKey: key)
                        default: try await handles.second.setValue("\(number)", forKey: key)
                        }
                        let values = await handles.values(key)
                        #expect(values.allSatisfy { $0 == "\(number)" }, "its own writes")
                    }
                    isDone.withLock { $0 += 1 }
                }
            }
            for reader in 0..<4 {
                group.addTask {
                    var generator = SeededGenerator(seed: UInt64(reader))
                    var seen: [String: Int] = [:]
                    while isDone.withLock({ $0 }) < keys.count {
                        let key = keys.randomElement(using: &generator) ?? ""
                        let value: String? =
                            switch Int.random(in: 0..<3, using: &generator) {
                            case 0: await handles.first.value(forKey: key)
                            case 1: await handles.second.value(forKey: key)
                            default: handles.bare.string(forKey: key)
                            }
                        guard let value, let number = Int(value) else { continue }
                        #expect(number >= seen[key] ?? 0, "reader \(reader)")
                        seen[key] = number
                        await Task.yield()
                    }
                }
            }
            try await group.waitForAll()
        }
        let statistics = handles.first.statistics
        print("readers: \(statistics.memoryHits) hits in memory, \(statistics.diskHits) on disk")
    }

    @Test(
        "a write that fails in any system call leaves the old value in both tiers, and on disk",
        arguments: [Durability.killSafe, .powerSafe])
    func failedWrite(durability: Durability) async throws {
        for number in 1... {
            var world = World { $0.durability = durability }
            let handles = try Handles(world)
            try await handles.first.setValue("old", forKey: "k")
            _ = await handles.values("k")
            let isReached = Lock(false)
            world.files.inject { call, _ in
                guard call == number else { return nil }
                isReached.withLock { $0 = true }
                return .fail(.noSpace)
            }
            let hasThrown = await code { try await handles.first.setValue("new", forKey: "k") } != nil
            world.files.inject(nil)
            let expected = hasThrown ? "old" : "new"
            #expect(await handles.values("k") == [expected, expected, expected], "call \(number)")
            handles.first.memoryTier?.removeAll()
            #expect(await handles.values("k") == [expected, expected, expected], "call \(number)")
            world.restart()
            #expect(try world.open().namespace("n").string(forKey: "k") == expected, "call \(number)")
            if !isReached.withLock({ $0 }) {
                #expect(number > (durability == .killSafe ? 2 : 5))
                break
            }
        }
    }

    /// A value whose deinit calls the cache.
    final class Restless: Codable, Sendable {
        let number: Int
        private let cache = Lock<DiskCache?>(nil)

        enum CodingKeys: CodingKey { case number }

        init(_ number: Int, _ cache: DiskCache?) {
            self.number = number
            self.cache.withLock { $0 = cache }
        }

        convenience init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            self.init(try values.decode(Int.self, forKey: .number), nil)
        }

        func encode(to encoder: any Encoder) throws {
            var values = encoder.container(keyedBy: CodingKeys.self)
            try values.encode(number, forKey: .number)
        }

        deinit {
            let cache = cache.withLock { $0 }
            _ = cache?.data(forKey: "other")
            try? cache?.setString("from deinit", forKey: "other")
        }
    }

    @Test(
        "a value whose deinit calls the cache is released with no lock held",
        arguments: [ValueRelease.inline, .background])
    func deinitReentrancy(release: ValueRelease) async throws {
        let disk = try World().open()
        var configuration = Cache<Restless>.Configuration()
        configuration.memory?.release = release
        configuration.memory?.countLimit = 2
        let cache = Cache<Restless>(disk: disk, namespace: "n", configuration: configuration)
        for number in 0..<40 {
            try await cache.setValue(Restless(number, disk), forKey: "\(number % 4)")
            if number % 5 == 0 { try await cache.removeValue(forKey: "\(number % 4)") }
            if number % 7 == 0 { try disk.namespace("n").setString("1", forKey: "\(number % 4)") }
            if number % 11 == 0 { try await cache.removeAll() }
        }
        cache.memoryTier?.removeAll()
        try await cache.setValue(Restless(1, disk), forKey: "k")
        try disk.removeAll()
        #expect(await cache.value(forKey: "k") == nil)
    }
}
