public import Foundation
import Larder
import LarderFiles

/// A remote tier in memory, for tests: a server that several caches use, each as a machine of its own, and that fails
/// as the test wants.
///
///     let (here, there) = (TestWorld(), TestWorld())
///     let server = TestRemoteServer(world: here)
///     let one: Cache<String> = try here.cache(configuration: .init(remoteTier: server.connection()))
///     let two: Cache<String> = try there.cache(configuration: .init(remoteTier: server.connection()))
///     try await one.setValue("Ann", forKey: "42")
///     let name = await two.value(forKey: "42")  // "Ann"
///
/// It follows the rules that `RemoteTier` states, as a real server does. Notices arrive before the call that causes
/// them returns. All methods may be called from any thread.
public final class TestRemoteServer: Sendable {
    /// A way in which the server fails.
    public enum Fault: Hashable, Sendable {
        /// Every call fails.
        case unreachable
        /// Calls wait until the fault is over.
        case silent
        /// Changes fail: the server is a replica.
        case readOnly
        /// Writes and renewals fail: the server has no memory left. Removals and clears do not.
        case full
        /// Payloads have other bytes than those that were written.
        case corrupt
        /// Records are not what Larder writes.
        case nonsense
        /// Notices of changes are lost, and the connection with them: the caches hear of neither.
        case deaf
    }

    /// A connection, as the server sees it.
    struct Connection: Sendable {
        let connect: @Sendable () -> Void
        let disconnect: @Sendable () -> Void
        let tell: @Sendable (RemoteNotice) -> Void
    }

    private struct State {
        var memory: TestRemoteServerState
        var isReachable = true
        var faults: Set<Fault> = []
        var connections: [Int: Connection] = [:]
        var last = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
        var calls: [String: Int] = [:]
    }

    private let state: Lock<State>
    private let clock: @Sendable () -> Int64

    /// Creates an empty server that shows the time of a world.
    public init(world: TestWorld) {
        let time = world.clock
        clock = { time.milliseconds }
        state = Lock(State(memory: TestRemoteServerState(at: time.milliseconds)))
    }

    /// Creates an empty server.
    ///
    /// - Parameter now: Returns the server's time.
    public init(now: @escaping @Sendable () -> Date) {
        clock = { Int64((now().timeIntervalSince1970 * 1000).rounded()) }
        state = Lock(State(memory: TestRemoteServerState(at: clock())))
    }

    /// Notes a connection of the given number.
    func add(_ connection: Connection, _ number: Int) {
        state.withLock { $0.connections[number] = connection }
    }

    /// Returns a number for a connection, and whether it can be made now.
    func newConnection() -> (number: Int, isConnected: Bool) {
        state.withLock { state in
            state.last += 1
            return (state.last, state.isReachable)
        }
    }

    /// The present faults. Default: none.
    public var faults: Set<Fault> {
        get { state.withLock { $0.faults } }
        set {
            let waiting = state.withLock { state in
                state.faults = newValue
                defer { if !newValue.contains(.silent) { state.waiting = [] } }
                return newValue.contains(.silent) ? [] : state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    /// Cuts all connections and those to come, until ``reconnect()``.
    public func disconnect() {
        state.withLock { $0.isReachable = false }
        for connection in connections { connection.value.disconnect() }
    }

    /// Lets the caches connect again.
    public func reconnect() {
        state.withLock { $0.isReachable = true }
        for connection in connections { connection.value.connect() }
    }

    /// Ends the server and begins another one without memory, which the caches do not reach before ``reconnect()``.
    public func restartEmpty() {
        disconnect()
        let time = time
        state.withLock { $0.memory.restart(at: time) }
    }

    /// Evicts what the server has for a key, be it a value or a tombstone. The caches do not hear of it, as they do not
    /// with Redis.
    public func evict(_ key: String, namespace: String = "") {
        let time = time
        state.withLock { $0.memory.evict(RemoteKey(namespace: namespace, key: key), at: time) }
    }

    /// Deletes what the server has for a key, as an administrator would. The caches do not hear of it, as they do not
    /// with Redis.
    public func delete(_ key: String, namespace: String = "") {
        state.withLock { $0.memory.items[RemoteKey(namespace: namespace, key: key)] = nil }
    }

    /// Evicts the generations of all namespaces and tags.
    public func evictGenerations() {
        let time = time
        state.withLock { $0.memory.evictMarks(at: time) }
    }

    /// The keys that have a value on the server, in alphabetical order.
    public var keys: [String] {
        state.withLock { $0.memory.items.filter { $0.value.value != nil }.map(\.key.key) }.sorted()
    }

    /// The number of calls of a method since the server was created, by its name: `read`, `write`, `renew`, `expire`,
    /// `remove`, `clear`, `lease`, `endLease`.
    public func callCount(_ method: String) -> Int { state.withLock { $0.calls[method] ?? 0 } }

    private var connections: [(key: Int, value: Connection)] {
        state.withLock { state in state.connections.sorted { $0.key < $1.key } }
    }

    var time: Int64 { clock() }
    var epoch: String { state.withLock { $0.memory.epoch } }

    /// Waits while the server is silent, and fails as the faults say. Returns the faults.
    func enter(_ method: String, isChange: Bool, needsMemory: Bool = false) async throws -> Set<Fault> {
        state.withLock { $0.calls[method, default: 0] += 1 }
        await withCheckedContinuation { continuation in
            let mustWait = state.withLock { state in
                if state.faults.contains(.silent) { state.waiting.append(continuation) }
                return state.faults.contains(.silent)
            }
            if !mustWait { continuation.resume() }
        }
        let faults = faults
        if faults.contains(.unreachable) { throw RemoteTierError(.unavailable, "The server is gone.") }
        if faults.contains(.readOnly), isChange { throw RemoteTierError(.readOnly, "The server is a replica.") }
        if faults.contains(.full), needsMemory { throw RemoteTierError(.full, "The server is full.") }
        return faults
    }

    /// Changes the memory, and tells the connections but the one that asks.
    func change<Result>(
        by own: Int, _ body: (inout TestRemoteServerState, Int64) -> (Result, RemoteNotice?)
    ) -> Result {
        let time = time
        let (result, notice) = state.withLock { body(&$0.memory, time) }
        if let notice { tell(notice, except: own) }
        return result
    }

    private func tell(_ notice: RemoteNotice, except own: Int? = nil) {
        if faults.contains(.deaf) { return }
        for (number, connection) in connections where number != own { connection.tell(notice) }
    }
}
