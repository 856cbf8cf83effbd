import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The rights to fetch, and those who wait for them", .timeLimit(.minutes(10)))
struct RemoteLeasesTests {
    private let world = TestWorld()
    private let key = Key("k")

    private func take(
        _ leases: RemoteLeases, awaitSent: @escaping @Sendable () async -> Void = {}
    ) async -> RemoteLeases.Answer {
        await leases.take(RemoteKey(key: "k"), for: .seconds(60), timeout: .seconds(1), awaitSent: awaitSent)
    }

    @Test("a right is refused to others until it is released and its value has been sent")
    func taken() async throws {
        let server = TestRemoteServer(world: world)
        let (one, two) = (
            RemoteLeases(server.connection(), world.clock), RemoteLeases(server.connection(), world.clock)
        )
        let sent = RemoteGate()
        var answer: RemoteLeases.Answer? = await take(one) { await sent.wait() }
        guard case .taken? = answer else { throw RemoteTierError(.unavailable, "\(String(describing: answer))") }
        answer = nil
        guard case .refused = await take(two) else { throw RemoteTierError(.unavailable, "It has ended too early.") }
        #expect(server.callCount("endLease") == 0)
        sent.open()
        await eventually { server.callCount("endLease") == 1 }
        guard case .taken = await take(two) else { throw RemoteTierError(.unavailable, "It has not ended.") }
    }

    @Test("a right that may have been granted without an answer ends with the fetch, too")
    func unanswered() async throws {
        let server = TestRemoteServer(world: world)
        server.faults = [.unreachable]
        var answer: RemoteLeases.Answer? = await take(RemoteLeases(server.connection(), world.clock))
        guard case .unavailable(.some)? = answer else {
            throw RemoteTierError(.unavailable, "\(String(describing: answer))")
        }
        #expect(server.callCount("endLease") == 0)
        answer = nil
        await eventually { server.callCount("endLease") == 1 }
    }

    @Test("a notice opens the gates of its key, and of no other, unless their callers have gone")
    func gates() {
        let leases = RemoteLeases(TestRemoteServer(world: world).connection(), world.clock)
        let (first, second, gone, other) = (
            leases.gate(key), leases.gate(key), leases.gate(key), leases.gate(Key("other"))
        )
        leases.remove(gone, key)
        #expect(leases.waitingCount == 3)
        leases.openGates(key)
        #expect(first.isOpen && second.isOpen && !gone.isOpen && !other.isOpen && leases.waitingCount == 1)
        leases.openAllGates()
        #expect(other.isOpen && leases.waitingCount == 0)
    }
}
