import LarderFiles

/// One fetch for a key over all machines, where the policy of the shared tier says so.
extension Fetcher {
    /// Notes the versions of the values to be fetched. With a lease it first waits while another machine fetches, and
    /// returns that one's result.
    func beginShared(
        _ flight: Flight, _ keys: [Key], _ options: FetchOptions, _ link: SharedLink
    ) async -> FetchOutcome? {
        var lease: SharedLease?
        if keys.count == 1, let duration = link.policy.fetchLease, duration > .zero, options.policy.source != .reload {
            let end = backend.clock.now.advanced(byMilliseconds: duration.milliseconds)
            switch await awaitTurn(keys[0], options, link, duration, until: end, flight) {
            case .found(let outcome): return outcome
            case .fetch(let own): lease = own
            }
        }
        flight.setSharedPart(SharedFetch(keys, link, lease))
        return nil
    }

    private enum Turn {
        case found(FetchOutcome)
        /// The lease is nil when another machine did not bring a value, or the server cannot be asked.
        case fetch(SharedLease?)
    }

    private func awaitTurn(
        _ key: Key, _ options: FetchOptions, _ link: SharedLink, _ duration: Duration, until end: Timestamp,
        _ flight: Flight
    ) async -> Turn {
        // First: the end of the other fetch must not be missed.
        let gate = link.gate(key)
        defer { link.remove(gate, key) }
        let lease: SharedLease?
        switch await link.takeLease(key, for: duration) {
        case .unavailable(let possible): return .fetch(possible)
        case .taken(let taken): lease = taken
        case .refused:
            lease = nil
            await gate.wait(.milliseconds(max(1, end.millisecondsSince(backend.clock.now))), backend.clock)
        }
        if flight.isOver { return .fetch(lease) }
        // Another machine may have stored a value since the last look.
        if let found = await backend.bring([key])[0] { return .found(.found(found)) }
        if let outcome = await cachedOutcome(key, flight, options) { return .found(outcome) }
        return .fetch(lease)
    }
}
