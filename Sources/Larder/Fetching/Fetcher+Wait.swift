import LarderFiles

/// Waiting for flights.
extension Fetcher {
    /// Waits for flights until every missing key has an answer, for as long as the policy allows.
    func fetchMissing(_ known: inout Known, _ request: FetchRequest<Value>) async throws {
        var missing = known.missing
        var deadlines = WaitDeadlines(request.options.policy, from: backend.clock.now)
        while !missing.isEmpty {
            try Task.checkCancellation()
            var unanswered: [Int] = []
            let keys = missing.map { request.keys[$0] }
            guard let outcomes = await self.outcomes(for: keys, request, known.lastFailure, deadlines) else {
                missing = await throttled(missing, &known, request)
                continue
            }
            for (index, (outcome, given)) in zip(missing, outcomes) {
                if let answer = try await answer(to: outcome, given, request.keys[index], request.options, &deadlines) {
                    known.answers[index] = answer
                } else {
                    unanswered.append(index)
                }
            }
            missing = unanswered
            deadlines.noteTry()
        }
    }

    /// Answers the keys whose fetches have failed since the call looked, where that is a reason not to try again. Returns
    /// the others.
    private func throttled(_ missing: [Int], _ known: inout Known, _ request: FetchRequest<Value>) async -> [Int] {
        known.lastFailure = backend.flights.lastFailure
        var rest: [Int] = []
        for index in missing {
            if let stale = await throttledAnswer(request.keys[index], request.options) {
                takeBackMiss(of: request.keys[index], stale, request.options)
                known.answers[index] = .found(stale)
            } else {
                rest.append(index)
            }
        }
        return rest
    }

    /// Returns nil where the call has to try again: a reload joined a flight that found the value in the cache, the
    /// flight brought nothing for the key, or there is nothing stale after all.
    private func answer(
        to outcome: FetchOutcome, _ given: ValueSource?, _ key: Key, _ options: FetchOptions,
        _ deadlines: inout WaitDeadlines
    ) async throws -> Answer? {
        let reloads = options.policy.source == .reload
        switch outcome {
        case .found(let value):
            guard let found = value as? Lookup<Value> else {
                preconditionFailure("a flight of another type was joined")
            }
            // It was found in the cache while the flight brought other keys.
            if !found.source.isFetch, !found.life.isFresh(at: backend.clock.now) { return nil }
            return reloads && !found.source.isFetch ? nil : .found(found)
        case .absent(let isFetched): return reloads && !isFetched || !options.acceptsAbsence ? nil : .absent
        case .nothing: return options.acceptsNothing ? .nothing : nil
        case .left: throw CancellationError()
        case .failed(let error):
            guard options.policy.forgives(error), let stale = await staleValue(.failed, key, options, error) else {
                throw error
            }
            takeBackMiss(of: key, stale, options)
            return .found(stale.found(in: given))
        case .late:
            deadlines.removeSoft()
            guard let stale = await staleValue(.late, key, options) else { return nil }
            takeBackMiss(of: key, stale, options)
            return .found(stale.found(in: given))
        }
    }

    /// An answer from the cache is no miss, although the look for a fresh value was one. A reload has not looked.
    private func takeBackMiss(of key: Key, _ found: Lookup<Value>, _ options: FetchOptions) {
        if options.policy.source != .reload { backend.takeBackMiss(of: key, found, isCountedOnDisk: false) }
    }

    var type: ObjectIdentifier { ObjectIdentifier(Value.self) }

    /// Waits for each key, in a flight that is under way or in a new one, which it begins. A cancelled caller leaves
    /// all flights at once. Nil when one has failed after the failure number `seen`.
    private func outcomes(
        for keys: [Key], _ request: FetchRequest<Value>, _ seen: UInt64?, _ deadlines: WaitDeadlines
    ) async -> [(FetchOutcome, given: ValueSource?)]? {
        let options = request.options
        if let hard = deadlines.hard, let timeout = options.policy.hardTimeout, hard <= backend.clock.now {
            return keys.map { _ in (.failed(CacheError.timedOut(timeout)), nil) }
        }
        backend.follow()
        let joining = backend.flights.join(keys, of: type, adding: options.tags, ifNoneFailedAfter: seen) {
            Flight(
                of: type, to: $0, at: backend.clock.now, tags: options.tags,
                outlivesCallers: options.policy.outlives ?? false, limiter: limiter)
        }
        guard case let (waiters, new)? = joining else { return nil }
        // A fetch that waits for itself, maybe through others, would wait forever.
        let current = Flight.current.flatMap { $0.mayWait ? $0 : nil }
        let flights = current == nil ? [] : Self.distinct(waiters.map(\.flight))
        if let current, !WaitGraph.shared.add(from: current, to: flights) {
            var isWanted = false
            for waiter in waiters {
                let isNew = waiter.flight === new
                let isKept = backend.flights.withdraw(waiter, isNew ? [] : options.tags)
                if isNew { isWanted = isKept }
            }
            // Another caller may have joined it meanwhile.
            if let new, isWanted { begin(new, request) }
            return keys.map { (.failed(CacheError.fetchCycle($0.text)), nil) }
        }
        defer { if let current { WaitGraph.shared.remove(from: current, to: flights) } }
        if current != nil { new?.noteNeeded() }
        if let new { begin(new, request) }
        let joined = waiters.filter { $0.flight !== new }
        if !joined.isEmpty { backend.counts.update { $0.fetches.coalesced += 1 } }
        for waiter in joined { hasten(waiter.flight, isNeededByFetch: current != nil) }
        let timers = waiters.flatMap { setTimeouts(of: $0, isOwn: $0.flight === new, options, deadlines) }
        defer { for timer in timers { timer.cancel() } }
        return await withTaskCancellationHandler {
            var outcomes: [(FetchOutcome, given: ValueSource?)] = []
            for waiter in waiters {
                let outcome = await waiter.outcome()
                outcomes.append((outcome, waiter.flight.given(waiter.index)))
            }
            return outcomes
        } onCancel: {
            for waiter in waiters { backend.flights.leave(waiter, as: .left) }
        }
    }

    /// Lets a flight that a call has joined run as soon as the call deserves.
    private func hasten(_ flight: Flight, isNeededByFetch: Bool) {
        let priority = Task.currentPriority
        flight.raise(to: priority)
        if isNeededByFetch { flight.noteNeeded() }
        guard let limiter = flight.limiter else { return }
        if isNeededByFetch { limiter.admit(flight) } else { limiter.raise(flight, to: priority) }
    }

    private static func distinct(_ flights: [Flight]) -> [Flight] {
        var known: Set<ObjectIdentifier> = []
        return flights.filter { known.insert(ObjectIdentifier($0)).inserted }
    }

    /// Schedules the end of the waiting at the deadlines of the call.
    private func setTimeouts(
        of waiter: Waiter, isOwn: Bool, _ options: FetchOptions, _ deadlines: WaitDeadlines
    ) -> [any ScheduledWork] {
        if deadlines.soft == nil && deadlines.hard == nil { return [] }
        let now = backend.clock.now
        var timers: [any ScheduledWork] = []
        if let soft = deadlines.soft(for: waiter.flight), mayAnswerStale(.late, waiter.key, options) {
            timers += leave(waiter, as: .late, at: soft, now, outlivesCallers: true)
        }
        // Unless it may be late, the call's own first flight finishes at the same time by itself.
        let (keepsLate, hard) = (options.policy.keepsLateResult, deadlines.hard)
        if let hard, let timeout = options.policy.hardTimeout, !isOwn || deadlines.isRetry || keepsLate {
            let outcome = FetchOutcome.failed(CacheError.timedOut(timeout))
            timers += leave(waiter, as: outcome, at: hard, now, outlivesCallers: keepsLate)
        }
        return timers
    }

    /// Lets a waiter leave its flight at a deadline, at once if that has passed. With `outlivesCallers` the flight goes
    /// on, and its values are stored.
    private func leave(
        _ waiter: Waiter, as outcome: FetchOutcome, at deadline: Timestamp, _ now: Timestamp, outlivesCallers: Bool
    ) -> [any ScheduledWork] {
        let flights = backend.flights
        let leave: @Sendable () -> Void = { flights.leave(waiter, as: outcome, outlivesCallers: outlivesCallers) }
        let rest = deadline.millisecondsSince(now)
        if rest > 0 { return [backend.clock.schedule(after: .milliseconds(rest), leave)] }
        leave()
        return []
    }

    /// Waits for the flights that are under way; not within a fetch, which others may wait for.
    func waitForFetches() async {
        if Flight.current?.mayWait == true { return }
        for flight in backend.flights.all { await flight.end() }
    }

    /// The same for at most `limit`.
    func waitForFetches(_ limit: Duration) async {
        guard limit > .zero, !backend.flights.all.isEmpty else { return }
        let waiting = backend.clock.begin(nil) { await waitForFetches() }
        let timer = backend.clock.schedule(after: limit) { waiting.cancel() }
        await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
        timer.cancel()
    }

    /// Fetches keys for which nobody waits, except those under way and, with a throttle, those that failed recently.
    func refreshInBackground(_ keys: [Key], _ request: FetchRequest<Value>) {
        let options = request.options
        if let timeout = options.policy.hardTimeout, timeout <= .zero { return }
        let now = backend.clock.now
        let isThrottled = options.policy.retryThrottle != nil
        let new = backend.flights.start(keys, of: type, sparingFailed: isThrottled, at: now) {
            Flight(
                of: type, to: $0, at: now, tags: options.tags, outlivesCallers: true, isRefresh: true, limiter: limiter)
        }
        if let new { begin(new, request) }
    }
}
