import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Changes that meet on a remote tier", .timeLimit(.minutes(10)))
struct RemoteOrderTests {
    let machines = Machines(3)
    var server: TestRemoteServer { machines.server }

    @Test("a value that gets a new life before it was sent is sent")
    func renewedUnsent() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        machines.cut(0)
        try await one.setValue("v", forKey: "k", ttl: .minutes(1))
        try await one.setTimeToLive(.hours(1), forKey: "k")
        server.reconnect()
        await one.sent()
        machines.advance(by: .seconds(600))
        #expect(await two.value(forKey: "k") == "v")
        #expect(await one.value(forKey: "k") == "v")
    }

    @Test("a value that expires before it was sent is sent as the stale one, instead of the older one of the server")
    func expiredUnsent() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await two.setValue("old", forKey: "k", keepStale: .hours(1))
        machines.cut(0)
        machines.advance(by: .seconds(1))
        try await one.setValue("new", forKey: "k", keepStale: .hours(1))
        try await one.expireValue(forKey: "k")
        server.reconnect()
        await one.sent()
        #expect(await two.value(forKey: "k") == nil)
        #expect(await two.value(forKey: "k", allowingStale: true) == "new")
        #expect(await one.value(forKey: "k", allowingStale: true) == "new")
    }

    @Test("a new life for an outdated copy leaves the newer value of the server as it is")
    func renewedOutdated() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        machines.advance(by: .seconds(1))
        server.faults = [.deaf]
        try await two.setValue("new", forKey: "k")
        machines.advance(by: .seconds(1))
        try await one.setTimeToLive(.hours(9), forKey: "k")
        server.faults = []
        #expect(await one.value(forKey: "k") == "new")
        #expect(await two.value(forKey: "k") == "new")
        let other = try machines.cache(2)
        #expect(await other.value(forKey: "k") == "new")
        #expect(other.statistics.remote?.malformed == 0)
    }

    @Test("a copy that was renewed before is renewed again without its payload")
    func renewedTwice() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("v", forKey: "k", ttl: .minutes(1))
        for hours in [1.0, 2, 3] {
            machines.advance(by: .seconds(1))
            try await one.setTimeToLive(.hours(hours), forKey: "k")
        }
        #expect(server.callCount("write") == 1 && server.callCount("renew") == 3)
        machines.advance(by: .seconds(2 * 3600))
        #expect(await two.value(forKey: "k") == "v")
        try await two.setTimeToLive(.hours(9), forKey: "k")
        #expect(server.callCount("write") == 1)
        machines.advance(by: .seconds(5 * 3600))
        #expect(await one.value(forKey: "k") == "v")
    }

    @Test("a copy does not outlive the newer value that has replaced it elsewhere and has expired", arguments: 0..<3)
    func replacedByExpired(_ kind: Int) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k", ttl: .hours(1), keepStale: .seconds(5))
        #expect(await two.value(forKey: "k") == "old")
        machines.cut(1)
        machines.advance(by: .seconds(1))
        switch kind {
        case 0: try await one.setValue("new", forKey: "k", ttl: .seconds(10))
        case 1: try await one.setTimeToLive(.seconds(10), forKey: "k")
        default: try await one.expireValue(forKey: "k")
        }
        machines.advance(by: .seconds(20))
        server.reconnect()
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a write that waited does not return after a newer value that has expired", arguments: [true, false])
    func lateAfterExpired(_ isCut: Bool) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        // Both know the generation of the namespace.
        try await one.setValue("1", forKey: "other")
        #expect(await two.value(forKey: "other") == "1")
        if isCut { machines.cut(0) } else { server.faults = [.unreachable] }
        try await one.setValue("older", forKey: "k", ttl: .hours(1))
        server.faults = []
        machines.time.advance(by: .milliseconds(1))
        machines.worlds[1].advance(by: .milliseconds(1))
        try await two.setValue("newer", forKey: "k", ttl: .milliseconds(500))
        machines.time.advance(by: .seconds(1))
        machines.worlds[1].advance(by: .seconds(1))
        server.reconnect()
        machines.worlds[0].advance(by: .seconds(2))
        await one.sent()
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == nil)
    }

    @Test("a clear that arrives late does not hide that a later one was evicted", arguments: [nil, "t"])
    func lateClear(_ tag: String?) async throws {
        let caches = try (0..<3).map { try machines.cache($0) }
        for cache in caches.prefix(2) { _ = await cache.value(forKey: "k") }
        for machine in 0..<2 { machines.cut(machine) }
        func clear(_ cache: Cache<String>) async throws {
            machines.advance(by: .milliseconds(5))
            if let tag { try await cache.removeAll(tagged: tag) } else { try await cache.removeAll() }
            machines.advance(by: .milliseconds(5))
        }
        try await clear(caches[1])
        try await caches[0].setValue("between", forKey: "k", tags: ["t"])
        try await clear(caches[2])
        server.evictGenerations()
        server.reconnect()
        for cache in caches { await cache.sent() }
        for cache in caches { #expect(await cache.value(forKey: "k") == nil) }
    }

    @Test(
        "a removal whose tombstone is evicted before a copy is checked is a removal all the same",
        arguments: [TimeToLive.forever, .hours(1)])
    func evictedBeforeCheck(_ ttl: TimeToLive) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("0", forKey: "other")
        machines.advance(by: .seconds(1))
        try await one.setValue("1", forKey: "k", ttl: ttl)
        #expect(await two.value(forKey: "k") == "1")
        machines.cut(1)
        try await one.removeValue(forKey: "k")
        server.reconnect()
        server.evict("k")
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a server whose clock was set back takes new values instead of those from its future")
    func serverSetBack() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k", tags: ["t"])
        try await one.setValue("old", forKey: "m")
        try await one.removeValue(forKey: "l")
        try await one.removeAll(tagged: "t")
        try await one.setValue("old", forKey: "k", tags: ["t"])
        machines.time.setClock(to: machines.time.now.addingTimeInterval(-3600))
        try await two.setValue("new", forKey: "k", tags: ["t"])
        try await two.setValue("new", forKey: "l")
        try await two.setValue("new", forKey: "m")
        for cache in [one, two] {
            #expect(await cache.values(forKeys: ["k", "l", "m"]) == ["k": "new", "l": "new", "m": "new"])
        }
    }
}
