import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A change that depends on the current value loses no other change", .timeLimit(.minutes(10)))
struct ModifyTests {
    @Test("a thousand increments through three caches of a directory are a thousand", arguments: Tiers.allCases)
    func increments(_ tiers: Tiers) async throws {
        let world = World()
        let first: Cache<Int> = try tiers.cache(in: world)
        let caches = tiers == .memoryAlone ? [first] : [first, try tiers.cache(in: world), try tiers.cache(in: world)]
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<1000 {
                group.addTask {
                    try await caches[number % caches.count].modifyValue(forKey: "visits") { count in
                        count = (count ?? 0) + 1
                        return count ?? 0
                    }
                }
            }
            var results: Set<Int> = []
            for try await result in group { results.insert(result) }
            #expect(results == Set(1...1000), "each saw the previous change")
        }
        for cache in caches { #expect(await cache.value(forKey: "visits") == 1000) }
        #expect(first.backend.flights.turns.waitingCount(first.backend.key("visits")) == 0)
    }

    @Test("the change is repeated only if another caller has written", arguments: Tiers.allCases)
    func again(_ tiers: Tiers) async throws {
        typealias Write = @Sendable (Cache<String>) async throws -> Void
        let writes: [(name: String, isChange: Bool, write: Write)] = [
            ("a set", true, { try await $0.setValue("set", forKey: "k") }),
            ("a removal", true, { _ = try await $0.removeValue(forKey: "k") }),
            ("a clear", true, { try await $0.removeAll() }),
            ("a life", true, { _ = try await $0.setTimeToLive(.hours(9), forKey: "k") }),
            ("a reload", true, { _ = try await $0.value(forKey: "k", policy: .reload) { "fetched" } }),
            ("another key", false, { try await $0.setValue("set", forKey: "other") }),
            ("a read", false, { _ = await $0.value(forKey: "k") }),
        ]
        for (name, isChange, write) in writes {
            let cache: Cache<String> = try tiers.cache(in: World())
            try await cache.setValue("old", forKey: "k", ttl: .hours(1))
            let seen = try await modify(cache) { try await write(cache) }
            #expect(seen.first == "old" && seen.count == (isChange ? 2 : 1), "\(name)")
            #expect(await cache.value(forKey: "k") == (seen.last.flatMap { $0 } ?? "none") + "+", "\(name)")
        }
    }

    @Test("life, metadata and tags stay; a new value has the configured life", arguments: Tiers.allCases)
    func attributes(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        try await cache.setValue(
            "v", forKey: "k", ttl: .seconds(100), keepStale: .seconds(50), metadata: ["m": "1"], tags: ["t"])
        let before = try #require(await cache.entry(forKey: "k"))
        world.clock.advance(by: .seconds(30))
        try await cache.modifyValue(forKey: "k") { $0?.append("+") }
        var entry = try #require(await cache.entry(forKey: "k"))
        #expect(await cache.value(forKey: "k") == "v+")
        #expect(entry.expiresAt == before.expiresAt && entry.keptUntil == before.keptUntil)
        #expect(entry.metadata == ["m": "1"] && entry.tags == ["t"])
        try await cache.modifyValue(forKey: "k", ttl: .seconds(5)) { $0?.append("+") }
        entry = try #require(await cache.entry(forKey: "k"))
        #expect(entry.expiresAt == world.clock.date.addingTimeInterval(5) && entry.metadata == ["m": "1"])
        world.clock.advance(by: .seconds(5))
        try await cache.modifyValue(forKey: "k") { value in
            #expect(value == nil, "it has expired")
            value = "new"
        }
        entry = try #require(await cache.entry(forKey: "k"))
        #expect(entry.expiresAt == world.clock.date.addingTimeInterval(86_400) && entry.tags.isEmpty)
    }

    @Test(
        "a value that was not there gets the metadata and the tags of the call, and keeps them",
        arguments: Tiers.allCases)
    func newAttributes(_ tiers: Tiers) async throws {
        let cache: Cache<Int> = try tiers.cache(in: World())
        for number in 1...3 {
            try await cache.modifyValue(forKey: "k", metadata: ["by": "\(number)"], tags: ["t\(number)"]) {
                $0 = ($0 ?? 0) + 1
            }
            let entry = try #require(await cache.entry(forKey: "k"))
            #expect(entry.metadata == ["by": "1"] && entry.tags == ["t1"])
        }
        try await cache.removeAll(tagged: "t2")
        #expect(await cache.value(forKey: "k") == 3)
        try await cache.removeAll(tagged: "t1")
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("an error keeps the value, nil removes it, and a missing value may stay missing", arguments: Tiers.allCases)
    func endings(_ tiers: Tiers) async throws {
        let world = World()
        let cache: Cache<String> = try tiers.cache(in: world)
        try await cache.setValue("v", forKey: "k")
        await #expect(throws: SourceFailure.self) {
            try await cache.modifyValue(forKey: "k") { value in
                value = "half"
                throw SourceFailure()
            }
        }
        #expect(await cache.value(forKey: "k") == "v")
        try await cache.modifyValue(forKey: "k") { $0 = nil }
        #expect(await cache.hasValue(forKey: "k") == false)
        let calls = world.files.calls
        try await cache.modifyValue(forKey: "none") { #expect($0 == nil) }
        if tiers != .memoryAlone { #expect(world.files.calls == calls, "nothing was written") }
        try await cache.setValue("v", forKey: "k")
        try await cache.modifyValue(forKey: "k", ttl: .seconds(0)) { $0 = "gone" }
        #expect(await cache.hasValue(forKey: "k") == false)
    }

    @Test("on a failing disk the change throws, and the old value stays")
    func failingDisk() async throws {
        let world = World()
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        try await cache.setValue("v", forKey: "k")
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        #expect(await code { try await cache.modifyValue(forKey: "k") { $0 = "w" } } == .noSpace)
        #expect(await code { try await cache.setValueIfAbsent("w", forKey: "absent") } == .noSpace)
        #expect(await cache.value(forKey: "k") == "v")
        world.files.inject(nil)
        try await cache.modifyValue(forKey: "k") { $0 = "w" }
        #expect(await cache.value(forKey: "k") == "w")
    }

    @Test("a caller cancelled while it waits for its turn leaves, and the others continue")
    func cancelled() async throws {
        let cache = Cache<Int>(memoryOnly: .init())
        let gate = Stop()
        let first = Task { @MainActor in
            try await cache.modifyValue(forKey: "k") { value in
                gate.stop()
                value = 1
            }
        }
        await gate.reached()
        let waiting = (0..<3).map { number in begin { try await cache.modifyValue(forKey: "k") { $0 = number } } }
        let key = cache.backend.key("k")
        await until("they wait") { cache.backend.flights.turns.waitingCount(key) == 3 }
        waiting[1].cancel()
        #expect(await waiting[1].failure is CancellationError)
        gate.open()
        try await first.value
        for call in [waiting[0], waiting[2]] { try await call.value }
        #expect([0, 2].contains(await cache.value(forKey: "k")))
    }

    @Test("callers that are cancelled while another one holds the turn leave nothing behind")
    func cancelledPileUp() async throws {
        let (turns, key) = (KeyTurns(), Key("k"))
        try await turns.take(key)
        let patient = begin { try await turns.take(key) }
        await until("it waits") { turns.waitingCount(key) == 1 }
        for _ in 0..<1000 {
            let call = begin { try await turns.take(key) }
            await until("it waits") { turns.waitingCount(key) == 2 }
            call.cancel()
            #expect(await call.failure is CancellationError)
        }
        #expect(turns.numberCount(key) <= 66)
        turns.giveBack(key)
        try await patient.value
        turns.giveBack(key)
        #expect(turns.numberCount(key) == 0)
    }

    @Test("of a hundred callers that set a missing value one succeeds; all get its value", arguments: Tiers.allCases)
    func ifAbsent(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<Int> = try tiers.cache(in: world)
        for _ in 0..<3 {
            let results = try await withThrowingTaskGroup(of: (Int, Int?).self) { group in
                for number in 0..<100 {
                    group.addTask { (number, try await cache.setValueIfAbsent(number, forKey: "k", ttl: .seconds(10))) }
                }
                return try await group.reduce(into: [Int: Int?]()) { $0[$1.0] = .some($1.1) }
            }
            let winners = results.filter { $0.value == nil }.keys
            #expect(winners.count == 1)
            #expect(await cache.value(forKey: "k") == winners.first)
            #expect(results.values.compactMap(\.self).allSatisfy { $0 == winners.first })
            world.clock.advance(by: .seconds(10))
        }
    }

    @Test("a value of another type, which cannot be read, counts as missing")
    func unreadable() async throws {
        let world = World()
        let disk = try world.open()
        try disk.setString("text", forKey: "k")
        let numbers = Cache<Int>(disk: disk, namespace: "")
        #expect(try await numbers.setValueIfAbsent(1, forKey: "k") == nil)
        try disk.setString("text", forKey: "k")
        try await numbers.modifyValue(forKey: "k") { $0 = ($0 ?? 10) + 1 }
        #expect(await numbers.value(forKey: "k") == 11)
    }

    @Test("a value that an unreadable file hides counts as missing")
    func hidden() async throws {
        var world = World.exclusive { $0.sweepInterval = nil }
        var disk = try world.open()
        try disk.setString("1", forKey: "k", ttl: .forever)
        try disk.setString("2", forKey: "other", ttl: .forever)
        let newest = "/cache/entries/" + (try #require(world.entryFiles.last))
        world.files.setUnreadable(true, at: newest)
        let image = world.files.image
        world.restart(with: image)
        world.loseIndex()
        world.files.setUnreadable(true, at: newest)
        disk = try world.open()
        #expect(disk.string(forKey: "k") == nil)
        let numbers = Cache<Int>(disk: disk, namespace: "")
        let runs = Lock(0)
        let seen = try await numbers.modifyValue(forKey: "k") { value in
            defer { value = 3 }
            if runs.withLock({
                $0 += 1; return $0
            }) > 3 {
                throw CancellationError()
            }
            return value
        }
        #expect(seen == nil && runs.withLock(\.self) == 1)
        #expect(await numbers.value(forKey: "k") == 3)
    }

    @Test("a stale value that a fetch revalidates meanwhile is not overwritten unseen")
    func revalidatedMeanwhile() async throws {
        struct Permit: WritePermit {
            func isValid(for key: Key) -> Bool { true }
        }
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "")
        try await cache.setValue("v", forKey: "k", ttl: .minutes(1), keepStale: .hours(1))
        world.clock.advance(by: .seconds(90))
        #expect(await cache.value(forKey: "k") == nil)
        let runs = Lock(0)
        try await cache.modifyValue(forKey: "k") { value in
            let isFirst = runs.withLock { runs in
                runs += 1
                return runs == 1
            }
            if isFirst {
                let key = cache.backend.key("k")
                let known = try #require(disk.store.index.entry(key))
                let life = try #require(TimeToLive.hours(1).life(from: disk.now, default: .default))
                #expect(try disk.store.renew(known, key, Store.Renewal(life: life), with: Permit()))
            }
            value = (value ?? "none") + "+"
        }
        #expect(await cache.value(forKey: "k") == "v+")
    }

    @Test("a running fetch does not overwrite the change", arguments: Tiers.allCases)
    func fetch(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let source = HandDrivenSource<String>()
        let call = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("it is under way") { source.begun == 1 }
        #expect(try await cache.setValueIfAbsent("set", forKey: "k") == nil)
        await source.answer("fetched")
        #expect(try await call.value == "fetched")
        #expect(await cache.value(forKey: "k") == "set")
    }
}
