import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Changes of one value come one after the other", .serialized, .timeLimit(.minutes(10)))
struct ChangeRaceTests {
    @Test("a read that fails for now is no reason to begin a counter anew", arguments: [Tiers.both, .diskAlone])
    func modifyReadError(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<Int> = try tiers.cache(in: world)
        try await cache.setValue(5, forKey: "k")
        cache.memory?.trim(toCount: 0)
        world.files.inject { _, operation in operation == .read ? .fail(.io) : nil }
        _ = try? await cache.modifyValue(forKey: "k") { $0 = ($0 ?? 0) + 1 }
        world.files.inject(nil)
        let found = await cache.value(forKey: "k")
        #expect(found == 5 || found == 6, "found \(String(describing: found))")
    }

    @Test("a read that fails for now does not make a fresh value absent", arguments: [Tiers.both, .diskAlone])
    func ifAbsentReadError(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<Int> = try tiers.cache(in: world)
        try await cache.setValue(5, forKey: "k")
        cache.memory?.trim(toCount: 0)
        world.files.inject { _, operation in operation == .read ? .fail(.io) : nil }
        _ = try? await cache.setValueIfAbsent(0, forKey: "k")
        world.files.inject(nil)
        #expect(await cache.value(forKey: "k") == 5)
    }

    @Test("while a lost index is rebuilt, a value whose file was not looked at yet is not replaced as if it were none")
    func modifyWhileRebuilding() async throws {
        var world = World { $0.sweepInterval = nil }
        do {
            let disk = try world.open()
            let cache = Cache<Int>(disk: disk, namespace: "")
            try await cache.setValue(5, forKey: "k")
            for number in 0..<OpeningScan.mostAtOnce + 700 { try disk.setString("v", forKey: "\(number)") }
        }
        for name in world.names where name == "manifest.json" || name.hasPrefix("journal") { world.remove(name) }
        world.restart()
        let (files, opened) = (world.files, Lock<DiskCache?>(nil))
        let open = world
        let done = DispatchSemaphore(value: 0)
        await withCheckedContinuation { continuation in
            // Not on a thread of the tasks, which it blocks.
            Thread.detachNewThread {
                files.holdingOtherReaders {
                    guard let disk = try? open.open() else { return }
                    opened.withLock { $0 = disk }
                    Task {
                        let cache = Cache<Int>(disk: disk, namespace: "")
                        _ = try? await cache.modifyValue(forKey: "k") { $0 = ($0 ?? 0) + 1 }
                        done.signal()
                    }
                    // A change that waits for the scan, as it should, goes on afterwards.
                    _ = done.wait(timeout: .now() + 0.3)
                }
                continuation.resume()
            }
        }
        let disk = try #require(opened.withLock { $0 })
        try disk.flush()
        let found = await Cache<Int>(disk: disk, namespace: "").value(forKey: "k")
        #expect(found == 5 || found == 6, "found \(String(describing: found))")
    }

    @Test("a value that comes into memory and leaves it while it is read is no missing one", arguments: 1...4)
    func modifyPromotion(_ number: Int) async throws {
        let (world, clock) = (World { $0.sweepInterval = nil }, HookClock())
        let disk = try world.open(clock)
        let cache = Cache<Int>(disk: disk, namespace: "n")
        try await cache.setValue(5, forKey: "k")
        cache.memory?.trim(toCount: 0)
        clock.arm(2) {
            // Another caller reads it.
            runAndWait { _ = await cache.value(forKey: "k") }
            clock.arm(number) { cache.memory?.trim(toCount: 0) }
        }
        try await cache.modifyValue(forKey: "k") { $0 = ($0 ?? 0) + 1 }
        clock.disarm()
        #expect(await cache.value(forKey: "k") == 6)
    }

    @Test("a life that is set while a value in memory alone is being modified is not lost")
    func modifyUnstoredLife() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        try await whileWritesFail(world) { _ = try await cache.value(forKey: "k", ttl: .seconds(100)) { "v" } }
        _ = try await modify(cache) {
            let isSet = try await cache.setTimeToLive(.hours(9), forKey: "k")
            #expect(isSet)
        }
        let expiry = try #require(await cache.lookup(forKey: "k")?.expiresAt)
        #expect(expiry == world.clock.date.addingTimeInterval(9 * 3600))
    }

    @Test(
        "a value in memory alone that is cleared or expired by its tag while it is being modified does not come back",
        arguments: [false, true], [false, true])
    func clearUnstoredWhileModified(_ isExpired: Bool, isKept: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        try await cache.setValue("w", forKey: "other", tags: ["t"])
        failWrites(world)
        let policy = isKept ? FetchPolicy.staleIfError(for: .hours(1)) : .default
        _ = try await cache.value(forKey: "k", tags: ["t"], policy: policy) { "v" }
        world.files.inject(nil)
        let seen = try await modify(cache) {
            if isExpired { try await cache.expireAll(tagged: "t") } else { try await cache.removeAll(tagged: "t") }
        }
        #expect(seen == ["v", nil])
        #expect(await cache.value(forKey: "k") == "none+")
        #expect(await cache.entry(forKey: "k")?.tags == [])
    }

    @Test("a value in memory alone is modified once when another tag is expired meanwhile")
    func otherTagWhileModified() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        try await whileWritesFail(world) { _ = try await cache.value(forKey: "k", tags: ["t"]) { "v" } }
        #expect(try await modify(cache) { try await cache.expireAll(tagged: "u") } == ["v"])
        #expect(await cache.value(forKey: "k") == "v+")
    }

    @Test("a life that a read prolongs while the value is being modified stays", arguments: Tiers.allCases)
    func modifySliding(_ tiers: Tiers) async throws {
        let world = World {
            $0.sweepInterval = nil
            $0.slidingExpiry = true
        }
        let cache: Cache<String> = try tiers.cache(in: world, .init(memory: .init(slidingExpiry: true)))
        try await cache.setValue("v", forKey: "k", ttl: .seconds(100))
        var before: Date?
        _ = try await modify(cache) {
            world.clock.advance(by: .seconds(60))
            #expect(await cache.value(forKey: "k") == "v")
            before = try #require(await cache.entry(forKey: "k")?.expiresAt)
        }
        #expect(await cache.entry(forKey: "k")?.expiresAt == before, "until the old one would have expired")
    }

    @Test("setting the life of a value in memory alone and storing it leave the tiers in step", arguments: 1...2)
    func lifeWhileStored(_ number: Int) async throws {
        let (world, clock) = (World { $0.sweepInterval = nil }, HookClock())
        let disk = try world.open(clock)
        let cache = Cache<String>(disk: disk, namespace: "n")
        try await whileWritesFail(world) { _ = try await cache.value(forKey: "k", ttl: .hours(1)) { "v1" } }
        let setting = Lock<Task<Void, Never>?>(nil)
        clock.arm(number) {
            let task = runAndWait { try? await cache.setValue("v2", forKey: "k", ttl: .seconds(10)) }
            setting.withLock { $0 = task }
        }
        _ = try await cache.setTimeToLive(.hours(48), forKey: "k")
        clock.disarm()
        await setting.withLock { $0 }?.value
        clock.base.advance(by: .seconds(20))
        let found = await cache.value(forKey: "k")
        #expect(found == disk.namespace("n").string(forKey: "k"))
    }

    @Test("expiring a value in memory alone and modifying it are one after the other", arguments: 1...4)
    func expireWhileModified(_ number: Int) async throws {
        let (world, clock) = (World { $0.sweepInterval = nil }, HookClock())
        let disk = try world.open(clock)
        let cache = Cache<String>(disk: disk, namespace: "n")
        try await whileWritesFail(world) { _ = try await cache.value(forKey: "k", ttl: .hours(1)) { "v" } }
        let seen = Lock<[String?]>([])
        let modifying = Lock<Task<Void, Never>?>(nil)
        clock.arm(number) {
            let task = runAndWait {
                try? await cache.modifyValue(forKey: "k") { value in
                    seen.withLock { [value] in $0.append(value) }
                    value = (value ?? "none") + "+"
                }
            }
            modifying.withLock { $0 = task }
        }
        _ = try await cache.expireValue(forKey: "k")
        clock.disarm()
        await modifying.withLock { $0 }?.value
        let found = await cache.value(forKey: "k")
        #expect(found == nil || found == "none+", "found \(found ?? ""), it saw \(seen.withLock { $0 })")
    }

    /// A race: it may pass. The window is between the two `didClear` of `MemoryBackend.clear`.
    @Test("clearing a tag and modifying values with it are one after the other")
    func tagWhileModified() async throws {
        let cache = Cache<String>(memoryOnly: .init())
        var wrong = 0
        for _ in 0..<300 where wrong == 0 {
            try await cache.setValue("v", forKey: "k", tags: ["t"])
            let isCleared = Flag()
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    let flights = cache.backend.flights
                    let key = cache.backend.key("k")
                    for _ in 0..<100 where !isCleared.isSet {
                        let watch = flights.watch(key)
                        defer { flights.endWatch(watch) }
                        guard let current = try? await cache.backend.current(key), current.stored != nil else {
                            await Task.yield()
                            continue
                        }
                        _ = try? await cache.backend.replace(current, with: "v+", SetOptions(), watch)
                    }
                }
                group.addTask {
                    try? await cache.removeAll(tagged: "t")
                    isCleared.set()
                }
            }
            if await cache.value(forKey: "k") != nil { wrong += 1 }
        }
        #expect(wrong == 0, "a removed value came back")
    }

    /// A race: it may pass. The window is between the change and the `noteChange` of `MemoryBackend.setTimeToLive`.
    @Test("setting a life and modifying the value are one after the other")
    func lifeWhileModified() async throws {
        let clock = ManualClock()
        let cache = Cache<String>(memoryOnly: .init(), clock: clock)
        var wrong = 0
        for _ in 0..<300 where wrong == 0 {
            try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
            let isSet = Flag()
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    for _ in 0..<100 where !isSet.isSet {
                        _ = try? await cache.modifyValue(forKey: "k") { $0 = "v+" }
                    }
                }
                group.addTask {
                    _ = try? await cache.setTimeToLive(.hours(48), forKey: "k")
                    isSet.set()
                }
            }
            if await cache.entry(forKey: "k")?.expiresAt != clock.date.addingTimeInterval(48 * 3600) { wrong += 1 }
        }
        #expect(wrong == 0, "a life was lost")
    }

    @Test("the change is not made again when something else was cleared", arguments: Tiers.allCases)
    func notAgain(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World { $0.sweepInterval = nil })
        try await cache.setValue("v", forKey: "k")
        try await cache.setValue("w", forKey: "other", tags: ["t"])
        let seen = try await modify(cache) { try await cache.removeAll(tagged: "t") }
        #expect(seen == ["v"], "'when somebody else has changed the key, and only then'")
    }

    @Test("a directory that is closed expires nothing, as the error says")
    func expireAllClosed() async throws {
        let disk = try World { $0.sweepInterval = nil }.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        try disk.close()
        _ = try await cache.value(forKey: "k") { "v" }
        #expect(await cache.value(forKey: "k") == "v")
        #expect(await code { try await cache.expireAll() } == .closed)
        #expect(await cache.value(forKey: "k") == "v", "'All values are then still fresh.'")
    }

    @Test("a call that a stale value answers is one hit and no miss", arguments: Tiers.allCases)
    func staleAnswerIsNoMiss(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10), keepStale: .hours(1))
        world.clock.advance(by: .seconds(20))
        let policy = FetchPolicy.staleIfError(for: .hours(1))
        #expect(try await cache.value(forKey: "k", policy: policy) { throw SourceFailure() } == "v")
        let statistics = cache.statistics
        #expect(statistics.fetches.staleAnswers == 1)
        #expect(statistics.misses == 0, "'neither tier answered, not even with a stale value'")
    }

    @Test("the limits of memory hold after a fall back", arguments: [false, true])
    func fallbackLimits(_ hasCost: Bool) async throws {
        var settings = Cache<String>.Configuration(memory: .init(costLimit: 1000), fallsBackToMemory: true)
        if hasCost { settings.cost = { _, size in size } }
        let cache = try Cache<String>(coder: .string, configuration: settings) { () throws(CacheError) in
            throw CacheError(code: .io, message: "It is so.")
        }
        let text = String(repeating: "v", count: 100)
        for number in 0..<100 { try await cache.setValue(text, forKey: "\(number)") }
        #expect(cache.count <= 10, "ten values of a hundred bytes")
    }

    @Test("the limits of the directory hold after a fall back")
    func fallbackCountLimit() async throws {
        var settings = Cache<String>.Configuration(memory: nil, fallsBackToMemory: true)
        settings.disk.countLimit = 10
        let cache = try Cache<String>(coder: .string, configuration: settings) { () throws(CacheError) in
            throw CacheError(code: .io, message: "It is so.")
        }
        for number in 0..<100 { try await cache.setValue("v", forKey: "\(number)") }
        #expect(cache.count <= 10, "memory must not grow where the disk would not have")
    }
}
