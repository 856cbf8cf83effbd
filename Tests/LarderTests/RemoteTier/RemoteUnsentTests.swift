import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Values that a remote tier does not know yet, or never will", .timeLimit(.minutes(10)))
struct RemoteUnsentTests {
    let machines = Machines(3)
    var server: TestRemoteServer { machines.server }

    @Test(
        "a value that was not sent before its process was killed is newer than that of the server, and is sent",
        arguments: [true, false])
    func killed(_ isDisconnected: Bool) async throws {
        do {
            let one = try machines.cache(0)
            try await one.setValue("older", forKey: "k")
            if isDisconnected { server.disconnect() } else { server.faults = [.readOnly] }
            try await one.setValue("first", forKey: "other")
            await eventually { isDisconnected || one.remoteLink?.state.withLock { $0.hasRetry } == true }
            machines.advance(by: .milliseconds(1))
            try await one.setValue("newer", forKey: "k")
            try await one.setValue("new", forKey: "l")
            #expect(await one.value(forKey: "k") == "newer")
            machines.restart(0)
        }
        server.faults = []
        server.reconnect()
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        #expect(await one.values(forKeys: ["k", "l"]) == ["k": "newer", "l": "new"])
        await one.sent()
        #expect(await two.values(forKeys: ["k", "l"]) == ["k": "newer", "l": "new"])
    }

    @Test(
        "so is one whose server answered when its process was killed, but had not taken it", arguments: [true, false])
    func killedWhileConnected(_ hasEvicted: Bool) async throws {
        let (two, three) = (try machines.cache(1), try machines.cache(2))
        try await two.setValue("older", forKey: "k")
        try await two.setValue("older", forKey: "removed")
        try await two.removeValue(forKey: "removed")
        machines.advance(by: .seconds(1))
        // A process that is killed here goes on: it finds its files gone, and would remove what it was to send.
        let held = HeldTier(server.connection(), holding: [.write, .remove])
        do {
            let one = try machines.cache(0) {
                $0.remoteTier = held
                $0.remoteTierPolicy.timeout = .zero
            }
            try await one.setValues(["k": "newer", "removed": "newer"])
            // Both wait in the queue by now. Where the sender has looked between the two, it holds one of them.
            await eventually { held.waiting(.write) >= 1 }
            machines.restart(0)
        }
        if hasEvicted { server.evict("unrelated") }
        let one = try machines.cache(0)
        let expected = ["k": "newer", "removed": "newer"]
        #expect(await one.values(forKeys: ["k", "removed"]) == expected)
        await one.sent()
        for cache in [two, three] {
            let found = await cache.values(forKeys: ["k", "removed"])
            #expect(found == expected)
        }
        held.release(.write, throwing: RemoteTierError(.unavailable, "killed"))
    }

    @Test(
        "an unsent value that was cleared meanwhile is replaced by the older one that was not",
        arguments: [true, false])
    func unsentAndCleared(_ isConnected: Bool) async throws {
        let two = try machines.cache(1)
        try await two.setValue("older", forKey: "k")
        machines.advance(by: .seconds(1))
        let held = HeldTier(server.connection(), holding: [.write, .remove])
        do {
            let one = try machines.cache(0) {
                $0.remoteTier = held
                $0.remoteTierPolicy.timeout = .zero
            }
            if !isConnected { server.disconnect() }
            try await one.setValue("newer", forKey: "k", tags: ["t"])
            await eventually { !isConnected || held.waiting(.write) == 1 }
            machines.restart(0)
        }
        server.reconnect()
        machines.advance(by: .seconds(1))
        try await two.removeAll(tagged: "t")
        let one = try machines.cache(0)
        #expect(await one.value(forKey: "k") == "older")
        held.release(.write, throwing: RemoteTierError(.unavailable, "killed"))
    }

    @Test("nor does it return where it was removed meanwhile", arguments: 0..<3)
    func killedAndRemoved(_ kind: Int) async throws {
        do {
            let one = try machines.cache(0)
            try await one.setValue("old", forKey: "other")
            machines.cut(0)
            try await one.setValue("unsent", forKey: "k", tags: ["t"])
            machines.restart(0)
        }
        machines.advance(by: .seconds(1))
        let two = try machines.cache(1)
        switch kind {
        case 0: try await two.removeValue(forKey: "k")
        case 1: try await two.removeAll(tagged: "t")
        default:
            try await two.removeValue(forKey: "k")
            server.evict("k")
        }
        let one = try machines.cache(0)
        #expect(await one.value(forKey: "k") == nil)
        await one.sent()
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a failure that comes after the next connection delays nothing", arguments: ["key", "tag"])
    func lateFailure(_ kind: String) async throws {
        let held = HeldTier(server.connection(), holding: [.write, .clear])
        let (one, two) = (try machines.cache(0) { $0.remoteTier = held }, try machines.cache(1))
        let method = kind == "key" ? HeldTier.Method.write : .clear
        async let change: Void =
            kind == "key" ? one.setValue("v", forKey: "k") : one.removeAll(tagged: "t")
        await eventually { held.waiting(method) == 1 }
        server.disconnect()
        try await change
        server.reconnect()
        held.release(method, throwing: RemoteTierError(.unavailable, "cut"))
        // The clock stands still.
        await eventually { one.statistics.remote?.waiting == 0 }
        #expect(await two.value(forKey: "k") == (kind == "key" ? "v" : nil))
    }

    @Test(
        "a value that one process on a directory cannot send is not replaced by an older one, nor sent under its name")
    func directory() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let own = server.connection()
        let cut = try machines.cache(0) { $0.remoteTier = own }
        try await cut.setValue("first", forKey: "k")
        server.disconnect(own)
        machines.advance(by: .seconds(1))
        try await two.setValue("older", forKey: "k")
        machines.advance(by: .seconds(1))
        try await cut.setValue("newer", forKey: "k")
        #expect(await cut.value(forKey: "k") == "newer")
        #expect(await one.value(forKey: "k") == "newer")
        #expect(await cut.value(forKey: "k") == "newer")
        server.reconnect()
        await cut.sent()
        await one.sent()
        for cache in [one, cut, two] { #expect(await cache.value(forKey: "k") == "newer") }
    }

    @Test("a waiting change sends no value that another process on the directory has stored since")
    func foreignValue() async throws {
        let own = server.connection()
        let cut = try machines.cache(0) { $0.remoteTier = own }
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        server.disconnect(own)
        try await cut.setValue("waits", forKey: "k")
        // As if the other process had stored an older value of the server.
        let stamp = RemoteStamp(
            version: RemoteVersion(milliseconds: 1, counter: 0, node: "00000000000000aa"), origin: .offline)
        let disk = try #require(one.disk)
        let attachments = disk.store.pool.attachments(.init(coding: .string), metadata: [:], unknown: stamp.field)
        let request = SetRequest(key: Key("k"), life: .forever, attachments: attachments, now: disk.now)
        _ = try Data("older".utf8).withBytes { bytes throws(CacheError) in try disk.store.set(bytes, request) }
        server.reconnect()
        await cut.sent()
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("all values that were stored before the first connection are sent to a new server", arguments: [true, false])
    func beforeFirstConnection(_ hasEvicted: Bool) async throws {
        machines.advance(by: .seconds(10))
        if hasEvicted { server.evict("unrelated") }
        server.disconnect()
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        machines.advance(by: .seconds(10))
        let values = Dictionary(uniqueKeysWithValues: (0..<100).map { ("\($0)", "v") })
        try await one.setValues(values, tags: ["t"])
        machines.advance(by: .milliseconds(20))
        server.reconnect()
        await one.sent()
        #expect(await one.values(forKeys: values.keys) == values)
        #expect(await two.values(forKeys: values.keys) == values)
    }

    @Test(
        "a value that was stored without the server is sent, unless that has evicted something since",
        arguments: [false, true])
    func afterEviction(_ isLater: Bool) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("v", forKey: "other")
        #expect(await two.value(forKey: "other") == "v")
        if !isLater { server.evict("unrelated") }
        machines.cut(0)
        machines.advance(by: .seconds(1))
        try await one.setValue("set", forKey: "k")
        if isLater { server.evict("unrelated") }
        #expect(await one.value(forKey: "k") == "set")
        server.reconnect()
        await one.sent()
        for cache in [one, two] { #expect(await cache.value(forKey: "k") == (isLater ? nil : "set")) }
    }

    @Test(
        "fetched values that cannot be sent stay on each machine, which fetches once", arguments: [true, false],
        [true, false])
    func unsendableFetch(_ isFull: Bool, _ isOnServer: Bool) async throws {
        let caches = try (0..<2).map { machine in
            try machines.cache(machine) { $0.remoteTierPolicy.sizeLimit = isFull ? 1000 : 5 }
        }
        if isOnServer { try await caches[0].setValue("small", forKey: "k", ttl: .seconds(1)) }
        machines.advance(by: .seconds(2))
        if isFull { server.faults = [.full] }
        let fetches = Lock(0)
        for _ in 0..<5 {
            for cache in caches {
                machines.advance(by: .milliseconds(5))
                _ = try await cache.value(forKey: "k", ttl: .hours(1)) {
                    fetches.withLock { $0 += 1 }
                    return "larger than five"
                }
                await cache.sent()
            }
        }
        #expect(fetches.withLock { $0 } == 2)
    }

    @Test("a fetched value that cannot be sent removes the older one that the server has")
    func unsendableReload() async throws {
        let (one, two) = (try machines.cache(0) { $0.remoteTierPolicy.sizeLimit = 5 }, try machines.cache(1))
        try await two.setValue("old", forKey: "k")
        machines.advance(by: .milliseconds(5))
        let value = try await one.value(forKey: "k", policy: .reload) { "larger than five" }
        await one.sent()
        #expect(await one.value(forKey: "k") == value)
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a fetched value that expires before it can be sent leaves no older one")
    func expiredFetch() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        server.disconnect()
        try await two.setValue("older", forKey: "k")
        machines.advance(by: .seconds(1))
        #expect(try await one.value(forKey: "k", ttl: .seconds(1)) { "newer" } == "newer")
        await one.waitForFetches()
        machines.advance(by: .seconds(2))
        server.reconnect()
        for cache in [one, two] { await cache.sent() }
        for cache in [one, two] { #expect(await cache.value(forKey: "k") == nil) }
    }

    @Test("a value above the limit survives a lost connection, a restart and a new life", arguments: [true, false])
    func large(_ isRestarted: Bool) async throws {
        func open() throws -> Cache<String> { try machines.cache(0) { $0.remoteTierPolicy.sizeLimit = 5 } }
        var one = try open()
        func interrupt() async throws {
            server.disconnect()
            if isRestarted {
                try await one.close(waitingForFetches: .zero)
                machines.restart(0)
                one = try open()
            }
            server.reconnect()
        }
        try await one.setValue("larger than five", forKey: "k", ttl: .minutes(1), tags: ["t"])
        try await interrupt()
        #expect(await one.value(forKey: "k") == "larger than five")
        machines.advance(by: .seconds(1))
        try await one.setTimeToLive(.hours(1), forKey: "k")
        try await interrupt()
        machines.advance(by: .seconds(600))
        #expect(await one.value(forKey: "k") == "larger than five")
        server.evict("unrelated")
        let two = try machines.cache(1)
        try await two.removeAll(tagged: "t")
        try await interrupt()
        #expect(await one.value(forKey: "k") == nil)
    }

    @Test("a copy does not outlive its removal because the clock was ahead when it was stored")
    func aheadBeforeFirst() async throws {
        let machines = Machines(2, ahead: [.seconds(60)])
        machines.server.disconnect()
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        machines.server.reconnect()
        await one.sent()
        machines.cut(0)
        machines.advance(by: .seconds(1))
        try await two.removeValue(forKey: "k")
        machines.server.reconnect()
        for _ in 0..<2 { #expect(await one.value(forKey: "k") == nil) }
    }

    @Test(
        "a copy goes when the server's newer value cannot be used",
        arguments: [TestRemoteServer.Fault.corrupt, .nonsense])
    func unusable(_ fault: TestRemoteServer.Fault) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        machines.cut(1)
        machines.advance(by: .seconds(1))
        try await one.setValue("new", forKey: "k")
        server.faults = [fault]
        server.reconnect()
        #expect(await two.value(forKey: "k") == nil)
        server.faults = []
        #expect(await two.value(forKey: "k") == "new")
    }
}
