import LarderFiles

/// Joining flights, and waiting in them.
extension Fetcher {
    private var type: ObjectIdentifier { ObjectIdentifier(Value.self) }

    /// Takes a seat for each key, in a flight that is under way or in a new one, which `begin` is given; for as long as the call has
    /// patience.
    func join(_ keys: [Key], _ order: FetchOptions, _ patience: WaitDeadlines, _ begin: (Flight) -> Void) -> [Waiter] {
        let (seats, new) = front.flights.join(keys, of: type) {
            Flight(of: type, to: $0, tags: order.tags, outlivesCallers: order.policy.outlivesCallers)
        }
        if let new { begin(new) }
        let joined = seats.filter { $0.flight !== new }
        if !joined.isEmpty { front.counts.withLock { $0.fetches.joined += 1 } }
        for seat in joined { seat.flight.raise(to: Task.currentPriority) }
        for seat in seats { bound(seat, isOwn: seat.flight === new, order, patience) }
        return seats
    }

    /// Sees to it that a seat is left when the call has no patience any more.
    private func bound(_ seat: Waiter, isOwn: Bool, _ order: FetchOptions, _ patience: WaitDeadlines) {
        if patience.soft == nil && patience.hard == nil { return }
        let now = front.clock.now
        if let soft = patience.soft, mayAnswerStale(.late, seat.key, order) {
            leave(seat, as: .late, after: WaitDeadlines.rest(until: soft, at: now), outlivesCallers: true)
        }
        // The timeout of its own flight ends that, and with it the waiting.
        if let hard = patience.hard, let timeout = order.policy.hardTimeout, !isOwn || patience.isTried {
            let arrival = FetchOutcome.failed(CacheError.timedOut(timeout))
            leave(seat, as: arrival, after: WaitDeadlines.rest(until: hard, at: now), outlivesCallers: false)
        }
    }

    /// Waits in some seats; a cancelled caller leaves them all at once.
    func wait(in seats: [Waiter]) async -> [FetchOutcome] {
        await withTaskCancellationHandler {
            var arrivals: [FetchOutcome] = []
            for seat in seats { arrivals.append(await seat.wait()) }
            return arrivals
        } onCancel: {
            for seat in seats { front.flights.leave(seat, as: .left) }
        }
    }

    /// Leaves a seat when it takes too long. Where the flight `outlivesCallers`, what it brings is stored when it comes.
    private func leave(_ seat: Waiter, as arrival: FetchOutcome, after timeout: Duration, outlivesCallers: Bool) {
        let (key, number) = (seat.key, seat.number)
        // The clock must not keep the cache alive.
        front.clock.schedule(after: timeout) { [weak flights = front.flights, weak flight = seat.flight] in
            guard let flights, let flight else { return }
            flights.leave(
                Waiter(flight: flight, key: key, number: number), as: arrival, outlivesCallers: outlivesCallers)
        }
    }

    /// Fetches new values for which nobody waits, but for those that are under way, or have failed a short time ago.
    func refreshBehind(_ keys: [Key], _ order: FetchOptions, _ begin: (Flight) -> Void) {
        let now = front.clock.now
        let isThrottled = order.policy.retryThrottle != nil
        let due = isThrottled ? keys.filter { !front.flights.hasFailed($0, at: now) } : keys
        let new = front.flights.start(due, of: type) {
            Flight(of: type, to: $0, tags: order.tags, outlivesCallers: true)
        }
        if let new { begin(new) }
    }
}
