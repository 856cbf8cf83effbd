import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Waiting for a remote tier", .timeLimit(.minutes(10)))
struct RemoteWaitTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }

    enum Call: CaseIterable {
        case read, fetch, batch, modify, setIfAbsent, setTimeToLive, set, removeMany
    }

    @Test(
        "a call waits for a silent server no longer than the timeout, whatever it asks and changes",
        arguments: Call.allCases)
    func once(_ call: Call) async throws {
        let clock = ImpatientClock(machines.worlds[0])
        let one = try machines.cache(0, clock)
        let keys = (0..<10).map { "\($0)" }
        try await one.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "v") }))
        // Its copies are unverified.
        server.disconnect()
        server.reconnect()
        server.faults = [.silent]
        let waited = try await clock.waiting {
            switch call {
            case .read: #expect(await one.value(forKey: "1") == "v")
            case .fetch: #expect(try await one.value(forKey: "1") { "fetched" } == "v")
            case .batch: #expect(await one.values(forKeys: ["1"]) == ["1": "v"])
            case .modify: try await one.modifyValue(forKey: "1") { $0 = "w" }
            case .setIfAbsent: #expect(try await one.setValueIfAbsent("w", forKey: "new") == nil)
            case .setTimeToLive: try await one.setTimeToLive(.hours(1), forKey: "1")
            case .set: try await one.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "w") }))
            case .removeMany: #expect(try await one.removeValues(forKeys: keys) == 10)
            }
        }
        #expect(waited == .milliseconds(100))
        server.faults = []
    }

    @Test("without time for it, nothing is asked, and changes are sent all the same")
    func noTime() async throws {
        let (one, two) = (try machines.cache(0) { $0.remoteTierPolicy.timeout = .zero }, try machines.cache(1))
        try await one.setValue("v", forKey: "k")
        await one.sent()
        #expect(await two.value(forKey: "k") == "v")
        try await two.setValue("w", forKey: "l")
        #expect(await one.value(forKey: "l") == nil)
        #expect(one.statistics.remote?.failures == 0 && server.callCount("read") == 1)
    }

    @Test("more values than the queue takes are stored and sent, one part after the other", arguments: [true, false])
    func manyValues(_ areFetched: Bool) async throws {
        let (one, two) = (try machines.cache(0) { $0.remoteTierPolicy.queueLimit = 100 }, try machines.cache(1))
        try await two.setValue("precious", forKey: "other")
        machines.advance(by: .milliseconds(5))
        let values = Dictionary(uniqueKeysWithValues: (0..<600).map { ("\($0)", "v") })
        if areFetched {
            #expect(try await one.values(forKeys: values.keys) { _ in values } == values)
        } else {
            try await one.setValues(values)
        }
        await one.sent()
        #expect(one.statistics.remote?.dropped == 0)
        #expect(server.keys.count == 601)
        #expect(await two.value(forKey: "other") == "precious")
        #expect(try await one.removeValues(forKeys: values.keys) == 600)
        await one.sent()
        #expect(one.statistics.remote?.dropped == 0 && server.keys == ["other"])
    }

    @Test("a call with more values than a silent server takes waits for that once")
    func manyValuesInVain() async throws {
        let clock = ImpatientClock(machines.worlds[0])
        let one = try machines.cache(0, clock, queueLimit: 100)
        server.faults = [.silent]
        let waited = try await clock.waiting {
            try await one.setValues(Dictionary(uniqueKeysWithValues: (0..<1000).map { ("\($0)", "v") }))
        }
        #expect(waited <= .milliseconds(200))
        #expect(try #require(one.statistics.remote).dropped > 0)
        server.faults = []
    }

    @Test("one value waits for room in the queue and for its turn no longer than the timeout, a fetch for neither")
    func oneValue() async throws {
        let clock = ImpatientClock(machines.worlds[0])
        let one = try machines.cache(0, clock, queueLimit: 100)
        server.faults = [.silent]
        // Without time passing.
        async let many: Void = one.setValues(Dictionary(uniqueKeysWithValues: (0..<40).map { ("\($0)", "v") }))
        async let more: Void = one.setValues(Dictionary(uniqueKeysWithValues: (40..<80).map { ("\($0)", "v") }))
        await eventually { one.statistics.remote.map { $0.waiting >= 60 } == true && clock.waits == 2 }
        let fetching = try await clock.waiting { _ = try await one.value(forKey: "a") { "v" } }
        #expect(fetching == .milliseconds(100))
        let setting = try await clock.waiting { try await one.setValue("v", forKey: "b") }
        #expect(setting == .milliseconds(100))
        server.faults = []
        _ = try await (many, more)
        await one.sent()
        #expect(one.statistics.remote?.dropped == 0)
    }

    @Test("any number of values that are set at a time by one call each are sent", arguments: [100, 1])
    func manyCalls(_ queueLimit: Int) async throws {
        let one = try machines.cache(0) { $0.remoteTierPolicy.queueLimit = queueLimit }
        let two = try machines.cache(1)
        try await two.setValue("precious", forKey: "other")
        machines.advance(by: .milliseconds(5))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<500 {
                group.addTask { try await one.setValue("v", forKey: "\(number)") }
            }
            try await group.waitForAll()
        }
        await one.sent()
        #expect(one.statistics.remote?.dropped == 0 && server.keys.count == 501)
    }

    @Test("all values of a large batch are found")
    func manyKeys() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let keys = (0..<1500).map { "\($0)" }
        try await one.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "v") }))
        await one.sent()
        #expect(await two.values(forKeys: keys).count == 1500)
    }

    @Test("closing sends what waits, also when the server comes back only then", arguments: ["failing", "connecting"])
    func closing(_ problem: String) async throws {
        let log = RemoteLog()
        if problem == "connecting" { server.disconnect() } else { server.faults = [.unreachable] }
        let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
        try await one.setValue("v", forKey: "k")
        if problem == "connecting" {
            async let closed: Void = one.close()
            await eventually { one.remoteLink?.state.withLock { $0.senders.count } == 1 }
            server.reconnect()
            try await closed
        } else {
            await eventually { one.remoteLink?.state.withLock { $0.hasRetry } == true }
            server.faults = []
            // No clock advances: it does not wait for the next try.
            try await one.close()
        }
        machines.worlds[0].settle()
        #expect(server.keys == ["k"])
        #expect(log.count(of: .remoteChangesDropped) == 0)
    }

    @Test("closing gives up after its limit, with an event")
    func closingInVain() async throws {
        let log = RemoteLog()
        server.disconnect()
        do {
            let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
            try await one.setValue("v", forKey: "k")
            let done = Flag()
            async let close: Void = one.close(waitingForFetches: .seconds(5), then: done)
            while !done.isSet {
                machines.worlds[0].advance(by: .seconds(5))
                await Task.yield()
            }
            try await close
        }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteChangesDropped) == 1)
    }
}

extension Cache {
    fileprivate func close(waitingForFetches limit: Duration, then done: Flag) async throws {
        defer { done.set() }
        try await close(waitingForFetches: limit)
    }
}
