import Larder
import LarderFiles

/// A remote tier whose calls of some methods wait until the test lets them go.
final class HeldTier: RemoteTier {
    enum Method: Hashable {
        case write, clear, remove
        /// The server has granted it when its answer waits.
        case lease
        /// The server has answered it when the answer waits.
        case read
    }

    private struct State {
        var held: Set<Method>
        var waiting: [Method: [CheckedContinuation<Void, any Error>]] = [:]
    }

    private let tier: any RemoteTier
    private let own: Lock<State>

    init(_ tier: any RemoteTier, holding held: Set<Method>) {
        self.tier = tier
        own = Lock(State(held: held))
    }

    func waiting(_ method: Method) -> Int { own.withLock { $0.waiting[method]?.count ?? 0 } }

    /// Lets the calls go on, or fail, and holds no more of them.
    func release(_ method: Method, throwing error: RemoteTierError? = nil) {
        let waiting = own.withLock { state in
            state.held.remove(method)
            return state.waiting.removeValue(forKey: method) ?? []
        }
        for continuation in waiting {
            if let error { continuation.resume(throwing: error) } else { continuation.resume() }
        }
    }

    private func enter(_ method: Method) async throws {
        try await withCheckedThrowingContinuation { continuation in
            let isHeld = own.withLock { state in
                if state.held.contains(method) { state.waiting[method, default: []].append(continuation) }
                return state.held.contains(method)
            }
            if !isHeld { continuation.resume() }
        }
    }

    var state: RemoteTierState { tier.state }

    func read(_ request: RemoteRead) async throws -> RemoteReading {
        let reading = try await tier.read(request)
        try await enter(.read)
        return reading
    }

    func write(_ write: RemoteWrite) async throws -> RemoteOutcome {
        try await enter(.write)
        return try await tier.write(write)
    }

    func renew(_ write: RemoteWrite) async throws -> RemoteOutcome { try await tier.renew(write) }

    func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try await tier.expire(key, version: version)
    }

    func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try await enter(.remove)
        return try await tier.remove(key, version: version)
    }

    func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws {
        try await enter(.clear)
        try await tier.clear(scope, version: version, isExpiry: isExpiry)
    }

    func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool {
        let isTaken = try await tier.lease(key, holder: holder, for: duration)
        try await enter(.lease)
        return isTaken
    }

    func endLease(_ key: RemoteKey, holder: String) async throws { try await tier.endLease(key, holder: holder) }

    func observe(
        as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void
    ) -> @Sendable () -> Void {
        tier.observe(as: node, observer)
    }
}
