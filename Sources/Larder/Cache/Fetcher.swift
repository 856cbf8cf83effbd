import LarderFiles

/// Fetches through a cache: decides what a call is answered, and sees to it that one fetch runs for all who wait.
///
/// What a caller is answered is up to his own policy; how a fetch runs, to that of the call that has begun it. Nothing
/// is locked while anybody waits or a fetch runs.
struct Fetcher<Value: Sendable>: Sendable {
    let front: any CacheBackend<Value>

    /// Returns the value of a key, fetched if need be; nil when there is none.
    func value(_ request: FetchRequest<Value>) async throws -> Lookup<Value>? {
        let (key, order) = (request.key, request.order)
        switch await known(key, order) {
        case .enough(let lookup, let isAging):
            if isAging { refreshBehind([key], order) { begin($0, request) } }
            return lookup
        case .absent: return nil
        case .missing:
            if order.policy.source == .cacheOnly { throw CacheError.notFound(key) }
            return try await fetched(request)
        }
    }

    /// The same where there has to be one.
    func existing(_ request: FetchRequest<Value>) async throws -> Lookup<Value> {
        guard let found = try await value(request) else { throw CacheError.notFound(request.key) }
        return found
    }

    /// Waits for a fetch; for as long as the policy allows.
    private func fetched(_ request: FetchRequest<Value>) async throws -> Lookup<Value>? {
        let (key, order) = (request.key, request.order)
        var patience = WaitDeadlines(order.policy, from: front.clock.now)
        while true {
            try Task.checkCancellation()
            let seats = join([key], order, patience) { begin($0, request) }
            switch try await answer(to: await wait(in: seats)[0], key, order, &patience) {
            case .found(let lookup): return lookup
            case .absent: return nil
            case .nothing, nil: patience.hasTried()
            }
        }
    }

    /// What a call makes of what has arrived.
    enum Answer {
        case found(Lookup<Value>)
        case absent
        /// A fetch for several keys says nothing about this one.
        case nothing
    }

    /// Returns nil where the call has to go on: it has joined a flight that found in the cache what it wants to be
    /// fetched, or there is nothing stale after all.
    func answer(
        to arrival: FetchOutcome, _ key: Key, _ order: FetchOptions, _ patience: inout WaitDeadlines
    ) async throws -> Answer? {
        let reloads = order.policy.source == .reload
        switch arrival {
        case .found(let arrived):
            guard let found = arrived as? Lookup<Value> else {
                preconditionFailure("a flight of another type was joined")
            }
            return reloads && !found.source.isFetch ? nil : .found(found)
        case .absent(let isFetched): return reloads && !isFetched ? nil : .absent
        case .nothing: return .nothing
        case .left: throw CancellationError()
        case .failed(let error):
            guard let stale = await staleValue(.failed, key, order) else { throw error }
            return .found(stale)
        case .late:
            patience.hasBeenLate()
            return await staleValue(.late, key, order).map { .found($0) }
        }
    }

    /// What a call can be answered without waiting for a fetch.
    enum Known {
        /// Whether it is to be fetched again behind.
        case enough(Lookup<Value>, isAging: Bool)
        case absent
        case missing
    }

    private func known(_ key: Key, _ order: FetchOptions) async -> Known {
        if order.policy.source == .reload { return .missing }
        if front.isProvisional { await front.look(at: [key]) }
        switch front.standing(of: key, at: front.clock.now) {
        case .fresh(let life):
            if let found = await front.lookup(key.text) {
                return .enough(found, isAging: order.policy.isEarly(life, at: front.clock.now))
            }
        case .absent: return .absent
        case .missing, .stale: front.countMiss()
        }
        return await staleEnough(key, order)
    }

    /// What is stale and can be answered without waiting for a fetch.
    func staleEnough(_ key: Key, _ order: FetchOptions) async -> Known {
        if let stale = await staleValue(.revalidating, key, order) { return .enough(stale, isAging: true) }
        if order.policy.retryThrottle != nil, front.flights.hasFailed(key, at: front.clock.now),
            let stale = await staleValue(.failed, key, order)
        {
            return .enough(stale, isAging: false)
        }
        return .missing
    }

    func mayAnswerStale(_ occasion: FetchPolicy.Occasion, _ key: Key, _ order: FetchOptions) -> Bool {
        let now = front.clock.now
        switch front.standing(of: key, at: now) {
        case .stale(let expires, true):
            return order.policy.allowsStale(occasion, expires: expires, at: now, defaultTTL: front.defaultTTL)
        case .fresh:
            return order.policy.allowsStale(occasion, expires: now, at: now, defaultTTL: front.defaultTTL)
        default:
            return false
        }
    }

    /// Returns what there is, fresh or stale, if the policy allows it on this occasion.
    func staleValue(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ order: FetchOptions
    ) async -> Lookup<Value>? {
        guard mayAnswerStale(occasion, key, order), let found = await front.usable(key) else { return nil }
        let now = front.clock.now
        let expires = found.life.expires
        let isFresh = now < expires
        guard
            isFresh
                || found.isAnswerable
                    && order.policy.allowsStale(occasion, expires: expires, at: now, defaultTTL: front.defaultTTL)
        else { return nil }
        if !isFresh { front.counts.withLock { $0.fetches.staleAnswers += 1 } }
        return Lookup(found.value, from: found.source, life: found.life, at: now)
    }
}

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
