import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A remote tier that fails makes nothing worse")
struct RemoteFaultTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }

    @Test(
        "local answers go on, changes succeed, and everything is sent when the fault is over",
        arguments: [TestRemoteServer.Fault.unreachable, .readOnly])
    func fails(_ fault: TestRemoteServer.Fault) async throws {
        let log = RemoteLog()
        let (one, two) = (try machines.cache(0) { $0.onEvent = { log.note($0) } }, try machines.cache(1))
        try await one.setValue("old", forKey: "a")
        #expect(await two.value(forKey: "a") == "old")
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierConnected) == 1 && log.count(of: .remoteTierLost) == 0)
        server.faults = [fault]
        try await one.setValue("new", forKey: "a")
        try await one.setValue("b", forKey: "b", tags: ["t"])
        try await one.removeAll(tagged: "u")
        #expect(await one.values(forKeys: ["a", "b"]) == ["a": "new", "b": "b"])
        #expect(await one.value(forKey: "c") == nil)
        #expect(await two.value(forKey: "a") == "old")
        server.faults = []
        machines.advance(by: .seconds(60))
        await one.sent()
        #expect(await two.values(forKeys: ["a", "b"]) == ["a": "new", "b": "b"])
        #expect(one.statistics.remote?.waiting == 0)
        #expect(try #require(one.statistics.remote).failures > 0)
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierLost) == 1 && log.count(of: .remoteTierConnected) == 2)
        #expect(log.count(of: .remoteChangesDropped) == 0)
    }

    @Test("a server that is never reached is one event, however often the tier tries it")
    func neverReached() async throws {
        let log = RemoteLog()
        server.disconnect()
        let connection = server.connection()
        let one = try machines.cache(0) {
            $0.remoteTier = connection
            $0.onEvent = { log.note($0) }
        }
        try await one.setValue("v", forKey: "k")
        for _ in 0..<3 { one.remoteLink?.receive(.disconnected(reason: "refused")) }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierLost) == 1)
        server.reconnect()
        server.disconnect()
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierConnected) == 1 && log.count(of: .remoteTierLost) == 2)
    }

    @Test("reads of a silent server end at the timeout, and after five the circuit breaker spares the others")
    func silent() async throws {
        let log = RemoteLog()
        let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
        server.faults = [.silent]
        for number in 0..<5 {
            async let value = one.value(forKey: "\(number)")
            await eventually { server.callCount("read") == number + 1 }
            machines.worlds[0].advance(by: .milliseconds(100))
            #expect(await value == nil)
        }
        #expect(await one.value(forKey: "6") == nil)
        #expect(server.callCount("read") == 5)
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierLost) == 1)
        server.faults = []
        machines.advance(by: .seconds(10))
        #expect(await one.value(forKey: "7") == nil)
        #expect(server.callCount("read") == 6)
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierConnected) == 2)
    }

    @Test("a late answer is there for the next read; after five in a row nobody waits, until one comes in time")
    func late() async throws {
        let log = RemoteLog()
        let (one, two) = (try machines.cache(0) { $0.onEvent = { log.note($0) } }, try machines.cache(1))
        for number in 0..<6 { try await two.setValue("v", forKey: "\(number)") }
        for number in 0..<5 {
            #expect(one.remoteTierState == server.connection().state)
            server.faults = [.silent]
            async let value = one.value(forKey: "\(number)")
            await eventually { server.callCount("read") == number + 1 }
            machines.worlds[0].advance(by: .milliseconds(101))
            #expect(await value == nil)
            server.faults = []
            await eventually { one.disk?.hasValue(forKey: "\(number)") == true }
            #expect(await one.value(forKey: "\(number)") == "v")
            #expect(server.callCount("read") == number + 1 && one.statistics.remote?.late == number + 1)
        }
        let isSlow = if case .slow? = one.remoteTierState { true } else { false }
        #expect(isSlow)
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierSlow) == 1 && log.count(of: .remoteTierLost) == 0)
        server.faults = [.silent]
        #expect(await one.value(forKey: "5") == nil, "without a step of the clock")
        server.faults = []
        await eventually { one.disk?.hasValue(forKey: "5") == true }
        #expect(one.remoteTierState == server.connection().state)
        #expect(await one.value(forKey: "5") == "v")
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierConnected) == 2)
    }

    @Test("a call for many keys that is late counts as one failure")
    func lateBatch() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let keys = (0..<200).map { "\($0)" }
        try await two.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "v") }))
        server.faults = [.silent]
        async let values = one.values(forKeys: keys)
        await eventually { server.callCount("read") == 200 }
        machines.worlds[0].advance(by: .milliseconds(101))
        #expect(await values.isEmpty && one.statistics.remote?.failures == 1)
        server.faults = []
        await eventually { one.disk?.count == 200 }
        #expect(await one.values(forKeys: keys).count == 200 && server.callCount("read") == 200)
    }

    @Test("a change waits for a silent server no longer than the timeout")
    func silentChange() async throws {
        let one = try machines.cache(0)
        server.faults = [.silent]
        let done = Flag()
        let set = Task {
            try await one.setValue("v", forKey: "k")
            done.set()
        }
        // The time alone ends the waiting.
        while !done.isSet {
            machines.worlds[0].advance(by: .milliseconds(100))
            await Task.yield()
        }
        try await set.value
        #expect(await one.value(forKey: "k") == "v")
        server.faults = []
        while one.statistics.remote?.waiting != 0 {
            machines.worlds[0].advance(by: .seconds(1))
            await Task.yield()
        }
        #expect(server.keys == ["k"])
    }

    @Test("a copy that another machine has changed is not returned while the server is silent; others are")
    func noticed() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1) { $0.memory = nil })
        try await one.setValues(["a": "1", "b": "1"])
        #expect(await two.values(forKeys: ["a", "b"]) == ["a": "1", "b": "1"])
        try await one.setValue("2", forKey: "a")
        server.faults = [.unreachable]
        #expect(await two.value(forKey: "a") == nil)
        #expect(await two.value(forKey: "b") == "1")
        let stale = try? await two.value(forKey: "a", policy: .staleIfError(for: .days(1))) { () -> String in
            throw RemoteTierError(.unavailable, "the source is gone, too")
        }
        #expect(stale == nil)
        server.faults = []
        #expect(await two.value(forKey: "a") == "2")
    }

    @Test("a full server loses what a write would replace, and takes removals", arguments: [false, true])
    func full(_ isRemoval: Bool) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        server.faults = [.full]
        if isRemoval { try await one.removeValue(forKey: "k") } else { try await one.setValue("new", forKey: "k") }
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == (isRemoval ? nil : "new"))
        #expect(one.statistics.remote?.waiting == 0)
    }

    @Test(
        "bytes that are not a value are a miss, and reported", arguments: [TestRemoteServer.Fault.corrupt, .nonsense])
    func nonsense(_ fault: TestRemoteServer.Fault) async throws {
        let log = RemoteLog()
        let (one, two) = (try machines.cache(0), try machines.cache(1) { $0.onEvent = { log.note($0) } })
        try await one.setValue("v", forKey: "k")
        server.faults = [fault]
        #expect(await two.value(forKey: "k") == nil)
        #expect(try await two.value(forKey: "k") { "fetched" } == "fetched")
        machines.worlds[1].settle()
        #expect(log.count(of: .failed) > 0 && two.statistics.remote?.malformed == log.count(of: .failed))
    }

    @Test("the server restarts empty: values here are not believed, and stored anew by the next fetch")
    func restartedEmpty() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        server.restartEmpty()
        #expect(await one.value(forKey: "k") == "old")
        server.reconnect()
        #expect(await one.value(forKey: "k") == nil)
        #expect(try await one.value(forKey: "k") { "new" } == "new")
        await one.sent()
        #expect(await two.value(forKey: "k") == "new")
    }

    @Test("more changes than the queue takes become one clear, with an event")
    func overflow() async throws {
        let log = RemoteLog()
        let (one, two) = (
            try machines.cache(0) {
                $0.remoteTierPolicy.queueLimit = 3
                $0.onEvent = { log.note($0) }
            }, try machines.cache(1)
        )
        try await two.setValues(["a": "old", "b": "old", "z": "old"])
        server.disconnect()
        for number in 0..<5 { try await one.setValue("\(number)", forKey: "k\(number)") }
        try await one.removeValue(forKey: "a")
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteChangesDropped) >= 1)
        #expect(try #require(one.statistics.remote).waiting <= 3)
        server.reconnect()
        await one.sent()
        #expect(await two.values(forKeys: ["a", "b", "z"]).isEmpty)
    }

    @Test("changes that have waited too long for the server's tombstones become a clear")
    func tooOld() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "a", ttl: .days(9))
        server.disconnect()
        try await one.setValue("2", forKey: "a", ttl: .days(9))
        machines.advance(by: .seconds(50_000))
        server.reconnect()
        await one.sent()
        #expect(await two.value(forKey: "a") == nil)
        #expect(try #require(one.statistics.remote).dropped == 1)
    }

    @Test("a value that expires while it waits is not sent, and the one that it replaced goes")
    func expiredWaiting() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k", ttl: .days(1))
        server.disconnect()
        try await one.setValue("new", forKey: "k", ttl: .minutes(1))
        machines.advance(by: .seconds(120))
        server.reconnect()
        await one.sent()
        #expect(await two.value(forKey: "k") == nil && server.keys.isEmpty)
    }
}

extension Cache {
    /// Returns when nothing waits to be sent.
    func sent() async {
        await waitForFetches()
        await eventually { statistics.remote?.waiting == 0 }
    }
}
