import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("One fetch for a key over all machines", .timeLimit(.minutes(10)))
struct RemoteLeaseTests {
    let machines = Machines(3)
    var server: TestRemoteServer { machines.server }

    @Test("the other machines return its value as soon as it is there")
    func shared() async throws {
        let source = TestSource<String>()
        let caches = try (0..<3).map { try machines.leasing($0) }
        async let first = caches[0].value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        async let second = caches[1].value(forKey: "k") { try await source.fetch() }
        async let third = caches[2].value(forKey: "k") { try await source.fetch() }
        await eventually { caches[1].waitersForLeases == 1 && caches[2].waitersForLeases == 1 }
        source.succeed(with: "v")
        #expect(try await [first, second, third] == ["v", "v", "v"])
        #expect(source.requestCount == 1)
    }

    @Test("when its time is over, the other machines fetch, while the first one goes on")
    func timeOver() async throws {
        let source = TestSource<String>()
        // No call of the server may time out when the clocks jump: without the server nobody waits.
        let caches = try (0..<3).map { try machines.leasing($0, timeout: .seconds(100_000)) }
        async let first = caches[0].value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        async let second = caches[1].value(forKey: "k") { try await source.fetch() }
        async let third = caches[2].value(forKey: "k") { try await source.fetch() }
        await eventually { caches[1].waitersForLeases == 1 && caches[2].waitersForLeases == 1 }
        await eventually { machines.worlds[1].clock.scheduledCount > 0 && machines.worlds[2].clock.scheduledCount > 0 }
        machines.advance(by: .seconds(3599))
        #expect(source.requestCount == 1)
        while source.requestCount < 3 {
            for world in machines.worlds { world.advance(by: .seconds(1)) }
            await Task.yield()
        }
        for _ in 0..<3 { source.succeed(with: "v") }
        #expect(try await [first, second, third] == ["v", "v", "v"])
    }

    @Test("the lease of a holder that has died ends by itself")
    func deadHolder() async throws {
        let one = try machines.leasing(0)
        let dead = server.connection()
        #expect(try await dead.lease(RemoteKey(key: "k"), holder: "dead", for: .seconds(10)))
        #expect(try await !dead.lease(RemoteKey(key: "k"), holder: "other", for: .seconds(10)))
        let fetched = Flag()
        async let value = one.value(forKey: "k") {
            fetched.set()
            return "v"
        }
        await eventually { one.waitersForLeases == 1 }
        #expect(!fetched.isSet)
        while !fetched.isSet {
            machines.worlds[0].advance(by: .seconds(3600))
            await Task.yield()
        }
        #expect(try await value == "v")
        machines.time.advance(by: .seconds(10))
        #expect(try await dead.lease(RemoteKey(key: "k"), holder: "other", for: .seconds(10)))
    }

    @Test("it ends with the fetch's timeout, even if the user's function runs on")
    func afterTimeout() async throws {
        let (one, two) = (try machines.leasing(0), try machines.leasing(1))
        let (gate, begun, fetched) = (RemoteGate(), Flag(), Flag())
        async let first: String? = try? one.value(forKey: "k", policy: .cacheFirst.hardTimeout(.seconds(1))) {
            begun.set()
            // It does not hear of its cancellation.
            await Task.detached { await gate.wait() }.value
            return "late"
        }
        await eventually { begun.isSet }
        async let second = two.value(forKey: "k") {
            fetched.set()
            return "v"
        }
        await eventually { two.waitersForLeases == 1 }
        machines.worlds[0].advance(by: .seconds(1))
        #expect(await first == nil)
        await eventually { fetched.isSet }
        #expect(try await second == "v")
        gate.open()
    }

    @Test("it ends when nobody wants the value any more", arguments: [true, false])
    func afterCancellation(_ isTaken: Bool) async throws {
        let held = HeldTier(server.connection(), holding: isTaken ? [] : [.lease])
        let one = try machines.cache(0) {
            $0.remoteTier = held
            $0.remoteTierPolicy.fetchLease = .seconds(3600)
        }
        let two = try machines.leasing(1)
        let (gate, begun, fetched) = (RemoteGate(), Flag(), Flag())
        let first = Task {
            try? await one.value(forKey: "k") {
                begun.set()
                await Task.detached { await gate.wait() }.value
                return "v"
            }
        }
        await eventually { isTaken ? begun.isSet : held.waiting(.lease) == 1 }
        first.cancel()
        _ = await first.value
        held.release(.lease)
        let second = try await two.value(forKey: "k") {
            fetched.set()
            return "v"
        }
        #expect(second == "v" && fetched.isSet)
        gate.open()
    }

    @Test(
        "callers that wait for another machine's fetch fetch at once when the server is lost", arguments: [true, false])
    func leaseLost(_ isCut: Bool) async throws {
        let source = TestSource<String>()
        let (one, two) = (try machines.leasing(0), try machines.leasing(1))
        async let first = one.value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        async let second = two.value(forKey: "k") { try await source.fetch() }
        await eventually { two.waitersForLeases == 1 }
        if isCut { machines.cut(1) } else { try await two.close(waitingForFetches: .zero) }
        await source.waitForRequests(2)
        source.succeed(with: "v")
        source.succeed(with: "v")
        #expect(try await [first, second] == ["v", "v"])
    }

    @Test("after a failed fetch the waiters on another machine fetch at once")
    func leaseAfterFailure() async throws {
        let source = TestSource<String>()
        let (one, two) = (try machines.leasing(0), try machines.leasing(1))
        async let first: String? = try? one.value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        async let second = two.value(forKey: "k") { try await source.fetch() }
        await eventually { two.waitersForLeases == 1 }
        #expect(source.requestCount == 1)
        source.fail(with: RemoteTierError(.unavailable, "the source is gone"))
        // No clock advances: the end of the lease alone lets it go on.
        await source.waitForRequests(2)
        source.succeed(with: "v")
        #expect(await first == nil)
        #expect(try await second == "v")
        #expect(source.requestCount == 2)
    }

    @Test("a lease that was granted after the timeout ends with the fetch, too")
    func lateLease() async throws {
        let source = TestSource<String>()
        let held = HeldTier(server.connection(), holding: [.lease])
        let one = try machines.cache(0) {
            $0.remoteTier = held
            $0.remoteTierPolicy.fetchLease = .seconds(3600)
        }
        let two = try machines.leasing(1)
        async let first: String? = try? one.value(forKey: "k") { try await source.fetch() }
        await eventually { held.waiting(.lease) == 1 }
        machines.worlds[0].advance(by: .milliseconds(100))
        await source.waitForRequests()
        async let second = two.value(forKey: "k") { try await source.fetch() }
        await eventually { two.waitersForLeases == 1 }
        source.fail(with: RemoteTierError(.unavailable, "the source is gone"))
        await source.waitForRequests(2)
        source.succeed(with: "v")
        #expect(await first == nil)
        #expect(try await second == "v")
        held.release(.lease)
    }

    @Test("after a fetch that stores nothing the waiters on another machine fetch at once")
    func leaseAfterNothing() async throws {
        let source = TestSource<FetchResult<String>>()
        let (one, two) = (try machines.leasing(0), try machines.leasing(1))
        async let first = one.value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        async let second = two.value(forKey: "k") { try await source.fetch() }
        await eventually { two.waitersForLeases == 1 }
        source.succeed(with: .doNotStore("1"))
        await source.waitForRequests(2)
        source.succeed(with: .doNotStore("2"))
        #expect(try await [first, second] == ["1", "2"])
        #expect(source.requestCount == 2 && server.keys.isEmpty)
    }
}

extension Machines {
    /// A cache whose fetches keep other machines from fetching for up to an hour.
    fileprivate func leasing(_ machine: Int, timeout: Duration = .milliseconds(100)) throws -> Cache<String> {
        try cache(machine) {
            $0.remoteTierPolicy.fetchLease = .seconds(3600)
            $0.remoteTierPolicy.timeout = timeout
        }
    }
}

extension Cache {
    /// The callers that wait for another machine's fetch.
    fileprivate var waitersForLeases: Int {
        remoteLink?.leases.waitingCount ?? 0
    }
}
