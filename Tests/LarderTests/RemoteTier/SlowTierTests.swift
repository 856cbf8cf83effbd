import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// A tier that has something of another program under the key "bad".
private struct PickyTier: RemoteTier {
    let tier: any RemoteTier

    var state: RemoteTierState { tier.state }
    func read(_ request: RemoteRead) async throws -> RemoteReading { try await tier.read(request) }

    func write(_ write: RemoteWrite) async throws -> RemoteOutcome {
        if write.key.key == "bad" { throw RemoteTierError(.malformed, "WRONGTYPE") }
        return try await tier.write(write)
    }
    func renew(_ write: RemoteWrite) async throws -> RemoteOutcome { try await tier.renew(write) }
    func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try await tier.expire(key, version: version)
    }
    func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try await tier.remove(key, version: version)
    }
    func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws {
        try await tier.clear(scope, version: version, isExpiry: isExpiry)
    }
    func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool {
        try await tier.lease(key, holder: holder, for: duration)
    }
    func endLease(_ key: RemoteKey, holder: String) async throws { try await tier.endLease(key, holder: holder) }
    func observe(
        as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void
    ) -> @Sendable () -> Void { tier.observe(as: node, observer) }
}

@Suite("A remote tier that answers late")
struct SlowTierTests {
    private let machines = Machines()
    private var server: TestRemoteServer { machines.server }

    private func makeSlow(_ one: Cache<String>) async throws {
        for number in 0..<5 {
            let before = server.callCount("read")
            server.faults = [.silent]
            async let value = one.value(forKey: "slow\(number)")
            await eventually { server.callCount("read") == before + 1 }
            machines.worlds[0].advance(by: .milliseconds(101))
            _ = await value
            server.faults = []
            await eventually { one.statistics.remote?.late == number + 1 }
        }
        let isSlow = if case .slow? = one.remoteTierState { true } else { false }
        try #require(isSlow)
    }

    @Test("a late call for many keys is one late call")
    func lateBatch() async throws {
        let log = RemoteLog()
        let (one, two) = (try machines.cache(0) { $0.onEvent = { log.note($0) } }, try machines.cache(1))
        let keys = (0..<200).map { "\($0)" }
        try await two.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "v") }))
        try await two.setValue("x", forKey: "next")
        server.faults = [.silent]
        async let values = one.values(forKeys: keys)
        await eventually { server.callCount("read") == 200 }
        machines.worlds[0].advance(by: .milliseconds(101))
        #expect(await values.isEmpty)
        server.faults = []
        await eventually { one.disk?.count == 200 }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierSlow) == 0)
        #expect(await one.value(forKey: "next") == "x")
    }

    @Test("a slow server that then fails is left alone, and tried again")
    func slowThenFailing() async throws {
        let log = RemoteLog()
        let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
        try await makeSlow(one)
        let (link, before) = (try #require(one.remoteLink), server.callCount("read"))
        let failures = link.statistics.failures
        server.faults = [.unreachable]
        for number in 0..<50 {
            _ = await one.value(forKey: "m\(number)")
            await eventually { link.state.withLock { $0.reads.isOpen } || link.statistics.failures > failures + number }
        }
        machines.worlds[0].settle()
        #expect(server.callCount("read") - before == 5)
        #expect(log.count(of: .remoteTierLost) == 1)
        // A try that fails is followed by others.
        machines.worlds[0].advance(by: .seconds(2))
        _ = await one.value(forKey: "try")
        await eventually { server.callCount("read") == before + 6 && link.state.withLock { $0.asking } == 0 }
        server.faults = []
        try await machines.cache(1).setValue("v", forKey: "k")
        machines.worlds[0].advance(by: .seconds(10))
        await eventually { await one.value(forKey: "k") == "v" }
    }

    @Test("a read whose answer comes late is a miss")
    func counts() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await two.setValue("v", forKey: "k")
        server.faults = [.silent]
        async let value = one.value(forKey: "k")
        await eventually { server.callCount("read") == 1 }
        machines.worlds[0].advance(by: .milliseconds(101))
        #expect(await value == nil)
        server.faults = []
        await eventually { one.disk?.hasValue(forKey: "k") == true }
        let counts = one.statistics
        #expect(counts.remoteHits + counts.misses == 1, "\(counts)")
        #expect(counts.hitRatio == 0)
    }

    @Test("each loss has its end")
    func events() async throws {
        let log = RemoteLog()
        let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
        server.faults = [.unreachable]
        for number in 0..<5 { _ = await one.value(forKey: "\(number)") }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierLost) == 1 && log.count(of: .remoteTierConnected) == 1)
        server.faults = []
        let time = Int64(machines.time.now.timeIntervalSince1970 * 1000)
        one.remoteLink?.receive(.connected(epoch: "another", time: time))
        for number in 0..<5 { _ = await one.value(forKey: "x\(number)") }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierConnected) == 2)
    }

    @Test("a late answer does not discard what was fetched meanwhile")
    func fetchDiscarded() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await two.setValue("old", forKey: "k", ttl: .seconds(10), keepStale: .hours(1))
        machines.advance(by: .seconds(20))
        server.faults = [.silent]
        let gate = RemoteGate()
        let isFetching = Lock(false)
        async let value = one.value(forKey: "k", ttl: .hours(1)) { () -> String in
            isFetching.withLock { $0 = true }
            await gate.wait()
            return "new"
        }
        await eventually { server.callCount("read") == 1 }
        machines.worlds[0].advance(by: .milliseconds(101))
        await eventually { isFetching.withLock { $0 } }
        server.faults = []
        await eventually { one.statistics.remote?.late == 1 }
        await eventually { one.disk?.count == 1 }
        gate.open()
        #expect(try await value == "new")
        await one.sent()
        #expect(await one.value(forKey: "k") == "new")
        #expect(await two.value(forKey: "k") == "new")
        #expect(one.statistics.remote?.changes == 1)
    }

    @Test("a connection begins anew: whether it is slow is not known")
    func slowAfterReconnect() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await makeSlow(one)
        try await two.setValue("v", forKey: "k")
        server.disconnect()
        server.reconnect()
        let isSlow = if case .slow? = one.remoteTierState { true } else { false }
        #expect(!isSlow)
        #expect(await one.value(forKey: "k") == "v")
    }

    @Test("a new epoch lets those go on who wait for another machine's fetch")
    func waiters() async throws {
        func leasing(_ machine: Int) throws -> Cache<String> {
            try machines.cache(machine) { $0.remoteTierPolicy.fetchLease = .seconds(3600) }
        }
        let (one, two) = (try leasing(0), try leasing(1))
        let (gate, begun, fetched) = (RemoteGate(), Flag(), Flag())
        let second = Task {
            try? await two.value(forKey: "k") {
                begun.set()
                await gate.wait()
                throw RemoteTierError(.unavailable, "the source is gone")
            }
        }
        await eventually { begun.isSet }
        let first = Task {
            try? await one.value(forKey: "k") {
                fetched.set()
                return "v"
            }
        }
        func waiters() -> Int {
            one.remoteLink?.leases.waitingCount ?? 0
        }
        await eventually { waiters() == 1 }
        // The server was emptied, lease included: nobody will tell of its end.
        let time = Int64(machines.time.now.timeIntervalSince1970 * 1000)
        one.remoteLink?.receive(.connected(epoch: "another", time: time))
        await eventually { fetched.isSet && waiters() == 0 }
        gate.open()
        _ = await (first.value, second.value)
    }

    @Test("late callers of one moment are one late call")
    func concurrentLate() async throws {
        let log = RemoteLog()
        let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
        server.faults = [.silent]
        let task = Task {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<10 { group.addTask { _ = await one.value(forKey: "\(number)") } }
            }
        }
        await eventually { server.callCount("read") == 10 }
        machines.worlds[0].advance(by: .milliseconds(101))
        await task.value
        server.faults = []
        await eventually { one.statistics.remote?.late == 10 }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierLost) == 0)
    }

    @Test("calls that are late now and then make no server slow")
    func flap() async throws {
        let log = RemoteLog()
        let one = try machines.cache(0) { $0.onEvent = { log.note($0) } }
        for round in 0..<10 {
            let before = server.callCount("read")
            server.faults = [.silent]
            async let values = one.values(forKeys: (0..<8).map { "\(round).\($0)" })
            await eventually { server.callCount("read") == before + 8 }
            machines.worlds[0].advance(by: .milliseconds(101))
            _ = await values
            server.faults = []
            await eventually { one.statistics.remote?.late == (round + 1) * 8 }
            _ = await one.value(forKey: "x\(round)")
            await eventually { !one.remoteLink!.isSlow }
        }
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierSlow) <= 1)
        #expect(log.count(of: .remoteTierConnected) <= 2)
    }

    @Test("an error of one key delays no other change")
    func malformedChange() async throws {
        let log = RemoteLog()
        let picky = PickyTier(tier: server.connection())
        let one = try machines.cache(0) {
            $0.remoteTier = picky
            $0.onEvent = { log.note($0) }
        }
        let two = try machines.cache(1)
        try await one.setValue("v", forKey: "bad")
        try await one.setValue("v", forKey: "good")
        await one.sent()
        #expect(await two.value(forKey: "good") == "v" && one.statistics.remote?.waiting == 0)
        machines.worlds[0].settle()
        #expect(log.count(of: .remoteTierLost) == 0)
    }

    @Test("a reload is kept although an older question is answered meanwhile")
    func reload() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await two.setValue("v1", forKey: "k")
        server.faults = [.silent]
        async let early = one.value(forKey: "k")
        await eventually { server.callCount("read") == 1 }
        machines.worlds[0].advance(by: .milliseconds(101))
        #expect(await early == nil)
        let gate = RemoteGate()
        let isFetching = Lock(false)
        async let value = one.value(forKey: "k", policy: .reload) { () -> String in
            isFetching.withLock { $0 = true }
            await gate.wait()
            return "v2"
        }
        await eventually { isFetching.withLock { $0 } }
        server.faults = []
        await eventually { one.statistics.remote?.late == 1 }
        await eventually { one.disk?.count == 1 }
        gate.open()
        #expect(try await value == "v2")
        await one.sent()
        #expect(await one.value(forKey: "k") == "v2")
        #expect(await two.value(forKey: "k") == "v2")
    }

    @Test("reads of one key in slow mode ask once")
    func asksOnce() async throws {
        let one = try machines.cache(0)
        try await makeSlow(one)
        server.faults = [.silent]
        let before = server.callCount("read")
        let tasks = (0..<1_000).map { _ in Task { await one.value(forKey: "hot") } }
        for task in tasks { #expect(await task.value == nil) }
        await eventually { server.callCount("read") > before }
        #expect(server.callCount("read") == before + 1)
        server.faults = []
        await eventually { one.remoteLink?.state.withLock { $0.asking } == 0 }
    }
}
