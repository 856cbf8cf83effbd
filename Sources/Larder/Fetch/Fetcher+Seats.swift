import LarderFiles

/// Joining flights, and waiting in them.
extension Fetcher {
    private var type: ObjectIdentifier { ObjectIdentifier(Value.self) }

    /// What a flight of this type has brought; nil where that is not what the call wants: it has joined a flight that looked once more
    /// and found the value in the cache, and wants it to be fetched.
    func wanted(_ arrived: any Sendable, _ order: FetchOrder) -> Lookup<Value>? {
        guard let found = arrived as? Lookup<Value> else { preconditionFailure("a flight of another type was joined") }
        let isFetched = found.source == .fetched || found.source == .revalidated
        return order.policy.source == .reload && !isFetched ? nil : found
    }

    /// Takes a seat for each key, in a flight that is under way or in a new one, which `begin` is given.
    func join(_ keys: [Key], _ order: FetchOrder, _ begin: (Flight) -> Void) -> [Seat] {
        let (seats, new) = front.flights.join(keys, of: type) {
            Flight(of: type, to: $0, tags: order.tags, goesOn: order.policy.goesOn)
        }
        if let new { begin(new) }
        let joined = seats.filter { $0.flight !== new }
        if joined.isEmpty { return seats }
        front.counts.withLock { $0.fetches.joined += 1 }
        for seat in joined {
            seat.flight.raise(to: Task.currentPriority)
            // Its own was counted from its beginning; this call waits no longer than it wants to.
            if let hardTimeout = order.policy.hardTimeout {
                leave(seat, as: .failed(CacheError.timedOut(hardTimeout)), after: hardTimeout, goesOn: false)
            }
        }
        return seats
    }

    /// Waits in some seats; a cancelled caller leaves them all at once.
    func wait(in seats: [Seat]) async -> [Arrival] {
        await withTaskCancellationHandler {
            var arrivals: [Arrival] = []
            for seat in seats { arrivals.append(await seat.flight.wait(in: seat)) }
            return arrivals
        } onCancel: {
            for seat in seats { front.flights.leave(seat, as: .left) }
        }
    }

    /// Leaves a seat when it takes too long. Where the flight `goesOn`, what it brings is stored when it comes.
    func leave(_ seat: Seat, as arrival: Arrival, after timeout: Duration, goesOn: Bool) {
        let (key, number) = (seat.key, seat.number)
        // The clock must not keep the cache alive.
        front.clock.schedule(after: timeout) { [weak flights = front.flights, weak flight = seat.flight] in
            guard let flights, let flight else { return }
            flights.leave(Seat(flight: flight, key: key, number: number), as: arrival, goesOn: goesOn)
        }
    }

    /// Fetches new values for which nobody waits, but for those that are under way, or have failed a short time ago.
    func refreshBehind(_ keys: [Key], _ order: FetchOrder, _ begin: (Flight) -> Void) {
        let now = front.clock.now
        let isThrottled = order.policy.retryThrottle != nil
        let due = isThrottled ? keys.filter { !front.flights.hasFailed($0, at: now) } : keys
        let new = front.flights.depart(due, of: type) {
            Flight(of: type, to: $0, tags: order.tags, goesOn: true)
        }
        if let new { begin(new) }
    }
}
