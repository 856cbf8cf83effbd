import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Values that the disk could not store keep in step", .timeLimit(.minutes(10)))
struct UnstoredTests {
    @Test("no cache has an older value in memory alone than one that a call has returned")
    func unstoredElsewhere() async throws {
        let disk = try World { $0.sweepInterval = nil }.open()
        let (one, two) = (Cache<String>(disk: disk, namespace: "n"), Cache<String>(disk: disk, namespace: "n"))
        let key = String(repeating: "k", count: 70_000)
        #expect(try await one.value(forKey: key) { "v1" } == "v1")
        #expect(try await two.value(forKey: key, policy: .reload) { "v2" } == "v2")
        #expect(await one.value(forKey: key) != "v1")
    }

    @Test("expiring a value in memory alone reaches every cache on the directory")
    func expireElsewhere() async throws {
        let disk = try World { $0.sweepInterval = nil }.open()
        let (one, two) = (Cache<String>(disk: disk, namespace: "n"), Cache<String>(disk: disk, namespace: "n"))
        let key = String(repeating: "k", count: 70_000)
        _ = try await one.value(forKey: key) { "v" }
        _ = try await two.value(forKey: key) { "v" }
        try await one.expireValue(forKey: key)
        #expect(await one.value(forKey: key) == nil)
        #expect(await two.value(forKey: key) == nil)
    }

    @Test("expiring a stale value in memory alone leaves it as it is", arguments: [false, true])
    func expireStaleUnstored(_ isStored: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        if !isStored { failWrites(world) }
        let policy = FetchPolicy.staleIfError(for: .hours(1))
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { "v" }
        world.files.inject(nil)
        world.clock.advance(by: .seconds(20))
        try await cache.expireValue(forKey: "k")
        #expect(await cache.value(forKey: "k", allowingStale: true) == "v")
    }

    @Test("expiring all keeps values in memory alone for their window", arguments: [false, true])
    func expireAllUnstored(_ isStored: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        if !isStored { failWrites(world) }
        let policy = FetchPolicy.staleIfError(for: .hours(1))
        _ = try await cache.value(forKey: "k", policy: policy) { "v" }
        world.files.inject(nil)
        try await cache.expireAll()
        #expect(await cache.value(forKey: "k", allowingStale: true) == "v")
    }

    @Test("an absence in memory alone is forgotten with its tag, and only with it")
    func absenceTagged() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let fetches = Lock(0)
        func ask() async throws {
            try await whileWritesFail(world) {
                let value = try await cache.optionalValue(forKey: "k", tags: ["t"]) {
                    fetches.withLock { $0 += 1 }
                    return nil as String?
                }
                #expect(value == nil)
            }
        }
        try await ask()
        try await cache.removeAll(tagged: "other")
        try await ask()
        #expect(fetches.withLock(\.self) == 1)
        try await cache.removeAll(tagged: "t")
        try await ask()
        #expect(fetches.withLock(\.self) == 2)
    }

    @Test("expiring one tag spares values in memory alone with another")
    func expireOtherTagUnstored() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        try await whileWritesFail(world) { _ = try await cache.value(forKey: "k", tags: ["a"]) { "v" } }
        try await cache.expireAll(tagged: "b")
        #expect(await cache.value(forKey: "k") == "v")
    }

    @Test("a life of nothing tells whether there was a fresh value", arguments: [false, true])
    func noLifeUnstored(_ isStored: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        if !isStored { failWrites(world) }
        _ = try await cache.value(forKey: "k") { "v" }
        world.files.inject(nil)
        #expect(try await cache.setTimeToLive(.seconds(0), forKey: "k"))
    }

    @Test("expiring a value in memory alone is an event", arguments: [false, true])
    func expireUnstoredEvent(_ isStored: Bool) async throws {
        let (world, log) = (World { $0.sweepInterval = nil }, EventLog())
        let cache: Cache<String> = try Tiers.both.cache(in: world, .init(onEvent: log.note))
        if !isStored { failWrites(world) }
        _ = try await cache.value(forKey: "k") { "v" }
        world.files.inject(nil)
        #expect(try await cache.expireValue(forKey: "k"))
        let disk = try #require(cache.disk)
        #expect(log.events(of: disk).contains { $0.kind == .invalidated })
    }
}
