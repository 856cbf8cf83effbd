import LarderFiles

/// One fetch for a key over all machines, where the policy of the remote tier says so.
extension RemoteBackend {
    /// Notes the versions of the values to be fetched. With a lease it first waits while another machine fetches, and
    /// returns that one's result.
    func beginFetch(
        _ keys: [Key], _ options: FetchOptions, by flight: Flight,
        cached: @escaping @Sendable (Key) async -> FetchOutcome?
    ) async -> FetchOutcome? {
        var lease: RemoteLease?
        if keys.count == 1, let duration = link.policy.fetchLease, duration > .zero, options.policy.source != .reload {
            switch await awaitTurn(keys[0], duration, flight, cached) {
            case .found(let outcome): return outcome
            case .fetch(let own): lease = own
            }
        }
        flight.setRemotePart(RemoteFetch(keys, link, lease))
        return nil
    }

    private func awaitTurn(
        _ key: Key, _ duration: Duration, _ flight: Flight, _ cached: (Key) async -> FetchOutcome?
    ) async -> Turn {
        let end = clock.now.advanced(byMilliseconds: duration.milliseconds)
        // First: the end of the other fetch must not be missed.
        let gate = link.leases.gate(key)
        defer { link.leases.remove(gate, key) }
        let lease: RemoteLease?
        switch await link.takeLease(key, for: duration) {
        case .unavailable(let possible): return .fetch(possible)
        case .taken(let taken): lease = taken
        case .refused:
            lease = nil
            await gate.wait(.milliseconds(max(1, end.millisecondsSince(clock.now))), clock)
        }
        if flight.isOver { return .fetch(lease) }
        // Another machine may have stored a value since the last look.
        if let found = await bring([key])[0] { return .found(.found(found)) }
        if let outcome = await cached(key) { return .found(outcome) }
        return .fetch(lease)
    }
}

/// The result of waiting for other machines.
private enum Turn {
    case found(FetchOutcome)
    /// The lease is nil when another machine did not bring a value, or the server cannot be asked.
    case fetch(RemoteLease?)
}
