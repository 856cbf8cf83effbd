import LarderFiles

/// The rights to fetch on behalf of all machines: those that this machine takes, and the callers that wait for those of
/// others.
final class RemoteLeases: Sendable {
    private let tier: any RemoteTier
    private let clock: any Clock
    private let waiting = Lock<[Key: [RemoteGate]]>([:])

    init(_ tier: any RemoteTier, _ clock: any Clock) {
        self.tier = tier
        self.clock = clock
    }

    enum Answer: Sendable {
        case taken(RemoteLease)
        case refused
        /// Without the server nobody waits. The lease may have been granted although no answer has come: it ends with
        /// the fetch.
        case unavailable(RemoteLease?)
    }

    /// Asks for the right to fetch a key. When its last reference is gone it ends, after `awaitSent`: those who wait
    /// look for the value then.
    func take(
        _ name: RemoteKey, for duration: Duration, timeout: Duration, awaitSent: @escaping @Sendable () async -> Void
    ) async -> Answer {
        let holder = FixedHex.random()
        let isTaken = try? await RemoteRace.run(timeout, clock) { [tier] in
            try await tier.lease(name, holder: holder, for: duration)
        }
        if isTaken == false { return .refused }
        let lease = RemoteLease(clock) { [tier, clock] in
            await awaitSent()
            // Without an answer it ends by itself.
            try? await RemoteRace.run(RemoteDelivery.timeLimit, clock) { try await tier.endLease(name, holder: holder) }
        }
        return isTaken == nil ? .unavailable(lease) : .taken(lease)
    }

    /// The number of callers that wait. For tests.
    var waitingCount: Int { waiting.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// A gate that the next notice about the key opens.
    func gate(_ key: Key) -> RemoteGate {
        let gate = RemoteGate()
        waiting.withLock { $0[key, default: []].append(gate) }
        return gate
    }

    func remove(_ gate: RemoteGate, _ key: Key) {
        waiting.withLock { waiting in
            waiting[key]?.removeAll { $0 === gate }
            if waiting[key]?.isEmpty == true { waiting[key] = nil }
        }
    }

    func openGates(_ key: Key) {
        for gate in waiting.withLock({ $0.removeValue(forKey: key) ?? [] }) { gate.open() }
    }

    /// Releases all callers: nobody would hear of the end of the fetches that they wait for.
    func openAllGates() {
        let gates = waiting.withLock { waiting in
            defer { waiting = [:] }
            return waiting.values.flatMap { $0 }
        }
        for gate in gates { gate.open() }
    }
}

/// The right to fetch a key on behalf of all machines, until it is released.
final class RemoteLease: Sendable {
    private let clock: any Clock
    private let end: @Sendable () async -> Void

    init(_ clock: any Clock, end: @escaping @Sendable () async -> Void) {
        self.clock = clock
        self.end = end
    }

    deinit {
        // Not a part of the fetch that may be under way.
        Flight.$current.withValue(nil) { [clock, end] in _ = clock.begin(nil) { await end() } }
    }
}
