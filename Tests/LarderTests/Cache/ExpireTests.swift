import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A manually expired value is a miss, but still a stale answer", .timeLimit(.minutes(10)))
struct ExpireTests {
    private let policy = FetchPolicy.staleIfError(for: .seconds(30))

    @Test("it is fetched again, and is the stale answer while the source fails", arguments: Tiers.allCases)
    func one(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world, .init(fetchPolicy: policy))
        try await cache.setValue("v", forKey: "k", ttl: .hours(1))
        try await cache.setValue("w", forKey: "unkept", ttl: .hours(1), keepStale: .seconds(0))
        #expect(try await cache.expireValue(forKey: "k"))
        #expect(try await cache.expireValue(forKey: "unkept"))
        #expect(try await !cache.expireValue(forKey: "k"), "it has already expired")
        #expect(try await !cache.expireValue(forKey: "none"))
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.hasValue(forKey: "k") == false)
        #expect(await cache.value(forKey: "unkept", allowingStale: true) == nil)
        let stale = try await cache.lookup(forKey: "k") { throw SourceFailure() }
        #expect(stale.value == "v" && stale.staleReason == .failed)
        world.clock.advance(by: .seconds(30))
        await #expect(throws: SourceFailure.self) { try await cache.value(forKey: "k") { throw SourceFailure() } }
        #expect(try await cache.value(forKey: "k") { "new" } == "new")
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test("all values, or those with a tag, expire at once; later ones do not", arguments: Tiers.allCases)
    func many(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world, .init(fetchPolicy: policy))
        for key in ["a", "b", "c"] {
            try await cache.setValue(key, forKey: key, ttl: .hours(1), tags: key == "c" ? [] : ["t"])
        }
        try await cache.expireAll(tagged: "t")
        #expect(await cache.values(forKeys: ["a", "b", "c"]) == ["c": "c"])
        try await cache.setValue("a2", forKey: "a", ttl: .hours(1), tags: ["t"])
        #expect(await cache.values(forKeys: ["a", "b", "c"]) == ["a": "a2", "c": "c"])
        #expect(await cache.value(forKey: "b", allowingStale: true) == "b")
        try await cache.expireAll()
        #expect(await cache.values(forKeys: ["a", "b", "c"]).isEmpty)
        for (key, value) in ["a": "a2", "b": "b", "c": "c"] {
            #expect(await cache.value(forKey: key, allowingStale: true) == value)
        }
        world.clock.advance(by: .seconds(30))
        for key in ["a", "b", "c"] { #expect(await cache.value(forKey: key, allowingStale: true) == nil) }
    }

    @Test("a fetch that began earlier stores nothing", arguments: Tiers.allCases)
    func fetches(_ tiers: Tiers) async throws {
        let expirations: [@Sendable (Cache<String>) async throws -> Void] = [
            { _ = try await $0.expireValue(forKey: "k") }, { try await $0.expireAll() },
            { try await $0.expireAll(tagged: "t") },
        ]
        for expire in expirations {
            let cache: Cache<String> = try tiers.cache(in: World())
            try await cache.setValue("old", forKey: "other")
            let source = HandDrivenSource<String>()
            let call = begin { try await cache.value(forKey: "k", tags: ["t"]) { try await source.fetch() } }
            await until("it is under way") { source.begun == 1 }
            try await expire(cache)
            await source.answer("outdated")
            #expect(try await call.value == "outdated")
            #expect(await cache.value(forKey: "k") == nil)
        }
    }

    @Test("a must-revalidate value is never an answer, but the fetch gets it", arguments: Tiers.allCases)
    func mustRevalidate(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world, .init(fetchPolicy: policy))
        _ = try await cache.value(forKey: "k") { FetchResult.value("v", metadata: ["etag": "1"], mustRevalidate: true) }
        try await cache.expireValue(forKey: "k")
        await #expect(throws: SourceFailure.self) { try await cache.value(forKey: "k") { throw SourceFailure() } }
        let value = try await cache.value(forKey: "k") { cached in
            #expect(cached?.metadata == ["etag": "1"])
            return .notModified
        }
        #expect(value == "v")
        #expect(await cache.value(forKey: "k") == "v", "it is fresh again")
    }

    @Test("a known absence is forgotten", arguments: Tiers.allCases)
    func absence(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        #expect(try await cache.optionalValue(forKey: "k", absentTTL: .hours(1)) { nil } == nil)
        try await cache.expireValue(forKey: "k")
        #expect(try await cache.optionalValue(forKey: "k") { "there" } == "there")
    }

    @Test("a value in memory alone, which the disk could not store, expires too")
    func unstored() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world, .init(fetchPolicy: policy))
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        #expect(try await cache.value(forKey: "k") { "v" } == "v")
        #expect(try await cache.value(forKey: "k") { "not asked" } == "v")
        #expect(try await cache.expireValue(forKey: "k"))
        #expect(await cache.value(forKey: "k") == nil)
        #expect(try await cache.value(forKey: "k") { throw SourceFailure() } == "v", "stale")
    }

    @Test("it is one event", arguments: Tiers.allCases)
    func event(_ tiers: Tiers) async throws {
        let log = EventLog()
        let cache: Cache<String> = try tiers.cache(in: World(), .init(onEvent: log.note))
        try await cache.setValue("v", forKey: "k", tags: ["t"])
        try await cache.expireValue(forKey: "k")
        try await cache.setValue("v", forKey: "k", tags: ["t"])
        try await cache.expireAll(tagged: "t")
        try await cache.expireAll()
        (cache.ownEvents ?? cache.disk?.store.events)?.drain()
        let events = log.all.filter { $0.kind == .invalidated }
        #expect(events.map(\.keys) == [["k"], [], []] && events.map(\.tag) == [nil, "t", nil])
    }
}
