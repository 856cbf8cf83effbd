import Foundation
public import Larder
import LarderFiles

extension TestRemoteServer {
    /// Returns the remote tier of one machine, with a connection of its own.
    public func connection() -> any RemoteTier {
        let (number, isConnected) = newConnection()
        let connection = TestRemoteConnection(self, number, isConnected: isConnected)
        add(
            Connection(
                connect: { [weak connection] in connection?.connect() },
                disconnect: { [weak connection] in connection?.disconnect() },
                tell: { [weak connection] in connection?.tell($0) }), number)
        return connection
    }

    /// Cuts one connection, until ``reconnect()``.
    ///
    /// - Parameter connection: A connection with this server.
    public func disconnect(_ connection: any RemoteTier) {
        (connection as? TestRemoteConnection)?.disconnect()
    }
}

/// The connection of one machine with a server in memory.
final class TestRemoteConnection: RemoteTier {
    private struct State {
        var isConnected: Bool
        var observers: [Int: @Sendable (RemoteNotice) -> Void] = [:]
        var last = 0
    }

    private let server: TestRemoteServer
    private let own: Lock<State>

    private let number: Int

    init(_ server: TestRemoteServer, _ number: Int, isConnected: Bool) {
        self.server = server
        self.number = number
        own = Lock(State(isConnected: isConnected))
    }

    var state: RemoteTierState {
        own.withLock { $0.isConnected } ? .connected(epoch: server.epoch) : .disconnected(reason: "cut")
    }

    func connect() {
        let isNew = own.withLock { state in
            defer { state.isConnected = true }
            return !state.isConnected
        }
        if isNew { tell(.connected(epoch: server.epoch, time: server.time), always: true) }
    }

    func disconnect() {
        let wasConnected = own.withLock { state in
            defer { state.isConnected = false }
            return state.isConnected
        }
        if wasConnected { tell(.disconnected(reason: "cut"), always: true) }
    }

    func tell(_ notice: RemoteNotice, always: Bool = false) {
        let observers = own.withLock { $0.isConnected || always ? $0.observers : [:] }
        for number in observers.keys.sorted() { observers[number]?(notice) }
    }

    func observe(
        as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void
    ) -> @Sendable () -> Void {
        let (number, isConnected) = own.withLock { state in
            state.last += 1
            state.observers[state.last] = observer
            return (state.last, state.isConnected)
        }
        observer(isConnected ? .connected(epoch: server.epoch, time: server.time) : .disconnected(reason: "cut"))
        return { [weak self] in
            let observer = self?.own.withLock { $0.observers.removeValue(forKey: number) }
            _ = consume observer
        }
    }

    private func enter(
        _ method: String, isChange: Bool, needsMemory: Bool = false
    ) async throws -> Set<TestRemoteServer.Fault> {
        let faults = try await server.enter(method, isChange: isChange, needsMemory: needsMemory)
        guard own.withLock({ $0.isConnected }) else { throw RemoteTierError(.unavailable, "The connection is cut.") }
        return faults
    }

    func read(_ request: RemoteRead) async throws -> RemoteReading {
        let faults = try await enter("read", isChange: false)
        var reading = server.change(by: number) { ($0.read(request, at: $1), nil) }
        guard case .value(var entry, let version, let life) = reading.finding else { return reading }
        if faults.contains(.corrupt) { entry.payload.append(0) }
        if faults.contains(.nonsense) {
            entry = RemoteEntry(payload: entry.payload, record: Data([1, 2]), checksum: 3)
        }
        reading.finding = .value(entry, version, life)
        return reading
    }

    private func change(
        _ key: RemoteKey, _ version: RemoteVersion, _ body: (inout TestRemoteServerState, Int64) -> RemoteOutcome
    ) -> RemoteOutcome {
        server.change(by: number) { memory, now in
            let outcome = body(&memory, now)
            guard case .done = outcome else { return (outcome, nil) }
            return (outcome, .changed(key, version: version))
        }
    }

    func write(_ write: RemoteWrite) async throws -> RemoteOutcome {
        _ = try await enter("write", isChange: true, needsMemory: true)
        return change(write.key, write.version) { $0.write(write, at: $1) }
    }

    func renew(_ write: RemoteWrite) async throws -> RemoteOutcome {
        _ = try await enter("renew", isChange: true, needsMemory: true)
        return change(write.key, write.version) { $0.renew(write, at: $1) }
    }

    func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        _ = try await enter("expire", isChange: true)
        return change(key, version) { $0.expire(key, version, at: $1) }
    }

    func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        _ = try await enter("remove", isChange: true)
        return change(key, version) { $0.remove(key, version, at: $1) }
    }

    func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws {
        _ = try await enter("clear", isChange: true)
        server.change(by: number) { memory, now in
            let isNew = memory.clear(scope, version, at: now)
            return ((), isNew ? .cleared(scope, version: version, isExpiry: isExpiry) : nil)
        }
    }

    func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool {
        _ = try await enter("lease", isChange: true)
        let milliseconds = Int64(duration / .milliseconds(1))
        return server.change(by: number) { ($0.lease(key, holder, milliseconds, at: $1), nil) }
    }

    func endLease(_ key: RemoteKey, holder: String) async throws {
        _ = try await enter("endLease", isChange: true)
        server.change(by: number) { memory, _ in
            ((), memory.endLease(key, holder) ? .leaseEnded(key) : nil)
        }
    }
}
