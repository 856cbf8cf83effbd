import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The settings of a cache take effect", .timeLimit(.minutes(10)), .ownCaches)
struct SettingsTests {
    @Test("a directory that cannot be opened gives a cache in memory, and reports the reason")
    func fallback() async throws {
        for failure in [CacheError.Code.io, .noSpace, .directoryInUse, .unsupportedDisk] {
            let log = EventLog()
            let settings = Cache<Int>.Configuration(
                defaultTTL: .seconds(10), fallsBackToMemory: true, onEvent: log.note)
            let cache = try Cache<Int>(coder: .json, configuration: settings) { () throws(CacheError) in
                throw CacheError(code: failure, message: "It is so.")
            }
            #expect(cache.disk == nil)
            try await cache.setValue(1, forKey: "k")
            #expect(await cache.value(forKey: "k") == 1)
            let expiry = try #require(await cache.lookup(forKey: "k")?.expiresAt)
            #expect(expiry.timeIntervalSinceNow < 11)
            cache.ownEvents?.drain()
            #expect(log.all.first?.kind == .failed && log.all.first?.error?.code == failure)
            let code = code {
                try Cache<Int>(coder: .json, configuration: .init()) { () throws(CacheError) in
                    throw CacheError(code: failure, message: "It is so.")
                }
            }
            #expect(code == failure, "only if configured")
        }
    }

    /// A cache whose directory cannot be opened.
    private func fallenBack<Value: Sendable>(
        _ coder: Coder<Value>, _ memory: MemoryCache<String, Value>.Configuration, sizeLimit: Int,
        cost: (@Sendable (Value, Int) -> Int)? = nil
    ) throws -> Cache<Value> {
        var settings = Cache<Value>.Configuration(memory: memory, fallsBackToMemory: true, cost: cost)
        settings.disk.sizeLimit = sizeLimit
        return try Cache(coder: coder, configuration: settings) { () throws(CacheError) in
            throw CacheError(code: .io, message: "It is so.")
        }
    }

    @Test("after a fall back costs have the user's unit, and values are encoded only where the user asks for the size")
    func fallbackCosts() async throws {
        let encoded = Lock(0)
        let coder = Coder<String> { text in
            encoded.withLock { $0 += 1 }
            return data(text)
        } decode: {
            String(decoding: $0, as: UTF8.self)
        }
        let own = try fallenBack(coder, .init(cost: { _ in 1000 }), sizeLimit: 50)
        let sized = try fallenBack(coder, .init(costLimit: 9000), sizeLimit: 50) { _, size in 1000 * size }
        for number in 0..<10 {
            try await own.setValue("v", forKey: "\(number)")
            #expect(encoded.withLock { $0 } == number, "the memory tier's own cost needs no size")
            try await sized.setValue("v", forKey: "\(number)")
        }
        #expect(own.count == 10 && own.payloadSize == 10_000, "a limit in bytes is none of theirs")
        #expect(sized.count == 9 && sized.payloadSize == 9000)
    }

    @Test("after a fall back the smaller limit in bytes holds", arguments: [(1000, 300), (300, 1000)])
    func fallbackSmallerLimit(_ memory: Int, disk: Int) async throws {
        let cache = try fallenBack(.string, .init(costLimit: memory), sizeLimit: disk)
        let text = String(repeating: "v", count: 100)
        for number in 0..<100 { try await cache.setValue(text, forKey: "\(number)") }
        #expect(cache.count == 3 && cache.payloadSize == 300)
    }

    @Test("after a fall back the limit of one entry counts bytes")
    func fallbackEntryLimit() async throws {
        let cache = try fallenBack(.string, .init(entryCostLimit: 50), sizeLimit: 1000)
        try await cache.setValue(String(repeating: "v", count: 51), forKey: "large")
        try await cache.setValue(String(repeating: "v", count: 50), forKey: "small")
        #expect(await cache.keys() == ["small"])
    }

    @Test("a foreign directory, a newer format and an invalid name are still errors")
    func noFallback() async throws {
        let home = try TemporaryDirectory()
        try Data("x".utf8).write(to: home.url.appendingPathComponent("thesis.txt"))
        let settings = Cache<Int>.Configuration(fallsBackToMemory: true)
        #expect(code { try Cache<Int>(directory: home.url, configuration: settings) } == .notACache)
        #expect(code { try Cache<Int>(name: "a/b", configuration: settings) } == .invalidName)
        let newer = try TemporaryDirectory()
        let folder = newer.url.appendingPathComponent("cache", isDirectory: true)
        try DiskCache(directory: folder).close()
        let header = "[" + RecordTests.checked(#"{"larder":9,"new":true"#) + "\n"
        try Data(header.utf8).write(to: folder.appendingPathComponent("manifest.json"))
        #expect(code { try Cache<Int>(directory: folder, configuration: settings) } == .newerFormat)
    }

    @Test("a value stays in memory for memoryTTL, and on disk for its life")
    func memoryTTL() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world, .init(memoryTTL: .seconds(10)))
        try await cache.setValue("v", forKey: "k", ttl: .seconds(100))
        let stored = world.clock.date
        world.clock.advance(by: .seconds(9))
        var found = try #require(await cache.lookup(forKey: "k"))
        #expect(found.source == .memory && found.expiresAt == stored.addingTimeInterval(100))
        world.clock.advance(by: .seconds(1))
        found = try #require(await cache.lookup(forKey: "k"))
        #expect(found.source == .disk && found.age == .seconds(10))
        #expect(await cache.lookup(forKey: "k")?.source == .memory, "it was promoted again")
        world.clock.advance(by: .seconds(90))
        #expect(await cache.value(forKey: "k") == nil)
        try await cache.setValue("short", forKey: "k", ttl: .seconds(1))
        world.clock.advance(by: .seconds(1))
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("with sliding expiry a value used in memory stays alive on disk, whatever memoryTTL is")
    func slidingMemoryTTL() async throws {
        let world = World {
            $0.sweepInterval = nil
            $0.slidingExpiry = true
        }
        let cache: Cache<String> = try Tiers.both.cache(in: world, .init(memoryTTL: .seconds(25)))
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        for _ in 0..<20 {
            world.clock.advance(by: .seconds(9))
            #expect(await cache.value(forKey: "k") == "v")
        }
    }

    @Test("only caches with reportsReads get events of their reads", arguments: Tiers.allCases)
    func reads(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let (log, other) = (EventLog(), EventLog())
        let cache: Cache<String> = try tiers.cache(in: world, .init(reportsReads: true, onEvent: log.note))
        let quiet: Cache<String>? =
            tiers == .memoryAlone ? nil : try tiers.cache(in: world, .init(onEvent: other.note))
        _ = await cache.value(forKey: "k")
        _ = try await cache.value(forKey: "k", ttl: .seconds(10)) { "v" }
        _ = await cache.value(forKey: "k")
        _ = try await cache.value(forKey: "k") { "w" }
        _ = await cache.values(forKeys: ["k", "none"])
        world.clock.advance(by: .seconds(10))
        let policy = FetchPolicy.staleIfError(for: .hours(1))
        _ = try? await cache.value(forKey: "k", policy: policy.keepStale(for: .hours(1))) { throw SourceFailure() }
        _ = try await cache.value(forKey: "s", ttl: .seconds(1), policy: policy) { "v" }
        world.clock.advance(by: .seconds(1))
        _ = try await cache.value(forKey: "s", policy: policy) { throw SourceFailure() }
        (cache.ownEvents ?? cache.disk?.store.events)?.drain()
        let source = tiers == .diskAlone ? ValueSource.disk : .memory
        let kinds = log.all.map(\.kind)
        let expected: [CacheEvent.Kind] = [
            .missed, .missed, .fetched, .hit, .hit, .hit, .missed, .missed, .fetchFailed, .missed, .fetched, .missed,
            .fetchFailed, .answeredStale,
        ]
        #expect(kinds.filter { $0 != .expired && $0 != .replaced } == expected)
        #expect(log.all.filter { $0.kind == .hit }.allSatisfy { $0.source == source && $0.keys == ["k"] })
        #expect(log.all.last { $0.kind == .answeredStale }?.keys == ["s"])
        #expect(other.all.allSatisfy { [.expired, .replaced, .fetchFailed].contains($0.kind) })
        _ = quiet
    }

    @Test("a stream of events includes reads")
    func stream() async throws {
        let cache = Cache<Int>(memoryOnly: .init(), configuration: .init(reportsReads: true))
        var events = cache.events.makeAsyncIterator()
        _ = await cache.value(forKey: "k")
        let event = try #require(await events.next())
        #expect(event.kind == .missed && "\(event)" == #"missed "k""#)
        try await cache.setValue(1, forKey: "k")
        _ = await cache.value(forKey: "k")
        #expect(await events.next().map { "\($0)" } == #"hit "k" from memory"#)
    }

    @Test(
        "several values are stored and removed in one call; an error names the unchanged keys",
        arguments: Tiers.allCases)
    func several(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<Int> = try tiers.cache(in: world)
        let values = Dictionary(uniqueKeysWithValues: (0..<100).map { ("\($0)", $0) })
        try await cache.setValues(values, ttl: .seconds(10), tags: ["all"])
        #expect(await cache.values(forKeys: values.keys) == values)
        #expect(cache.count == 100)
        #expect(try await cache.removeValues(forKeys: ["1", "2", "none"]) == 2)
        #expect(cache.count == 98)
        if tiers != .memoryAlone {
            let created = Lock(0)
            world.files.inject { _, operation in
                guard operation == .create else { return nil }
                return created.withLock { created in
                    created += 1
                    return created > 50 ? .fail(.noSpace) : nil
                }
            }
            do {
                try await cache.setValues(values.mapValues { $0 + 1000 })
                Issue.record("the disk is full")
            } catch {
                #expect(error.code == .noSpace && !error.keys.isEmpty && error.keys.count < 100)
                #expect(error.message.contains("\(error.keys.count) keys are left as before"))
                world.files.inject(nil)
                for (key, value) in values {
                    let expected = error.keys.contains(key) ? (["1", "2"].contains(key) ? nil : value) : value + 1000
                    #expect(await cache.value(forKey: key) == expected)
                }
            }
        }
        world.clock.advance(by: .seconds(10))
        #expect(await cache.removeExpired() > 0)
    }

    @Test("statistics have the duration of fetches and the hit ratio", arguments: Tiers.allCases)
    func statistics(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        #expect(cache.statistics.hitRatio == nil)
        for seconds in [2, 5] {
            _ = try? await cache.value(forKey: "k", policy: .reload) {
                world.clock.advance(by: .seconds(seconds))
                if seconds == 5 { throw SourceFailure() }
                return "v"
            }
        }
        for _ in 0..<3 { _ = await cache.value(forKey: "k") }
        _ = await cache.value(forKey: "none")
        let statistics = cache.statistics
        #expect(statistics.hitRatio == 0.75)
        #expect(statistics.fetches.totalTime == .seconds(7) && statistics.fetches.longestTime == .seconds(5))
        #expect("\(statistics.fetches)" == "2 begun, 1 failed, longest 5 s")
    }

    @Test("lives and durations may be given in any unit")
    func units() {
        var settings = DiskCache.Configuration()
        settings.ageLimit = .days(30)
        settings.sweepInterval = .minutes(1.5)
        #expect(settings.ageLimit == .seconds(30 * 86_400) && settings.sweepInterval == .seconds(90))
        #expect("\(FetchPolicy.cacheFirst.hardTimeout(.hours(1)))" == "cacheFirst, hardTimeout: 1 h")
        let maximumAge = 300
        #expect(TimeToLive.seconds(maximumAge) == .minutes(5) && TimeToLive.milliseconds(1500) == .seconds(1.5))
        #expect("\(FetchPolicy.staleIfError(for: .milliseconds(300)))" == "cacheFirst, staleIfError: 300 ms")
        #expect(TimeToLive(.minutes(2)) == .minutes(2))
    }
}
