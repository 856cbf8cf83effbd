import LarderFiles

/// Answers calls from the cache or by a fetch: one fetch for all callers that wait for a key.
///
/// Each caller's own policy decides how it is answered; how a flight runs is up to the policy of the call that began
/// it. No lock is held while a caller waits or a fetch runs.
struct Fetcher<Value: Sendable>: Sendable {
    let backend: any CacheBackend<Value>

    /// The answer to a call for one key.
    enum Answer {
        case found(Lookup<Value>)
        /// It is known that there is no value.
        case absent
        /// Nothing is known.
        case nothing
    }

    /// Returns the value of a request's only key, fetched if need be; nil when it is known that there is none.
    func value(_ request: FetchRequest<Value>) async throws -> Lookup<Value>? {
        switch try await answers(to: request)[0] {
        case .found(let lookup): return lookup
        case .absent: return nil
        case .nothing: throw CacheError.notFound(request.keys[0])
        }
    }

    /// The same where there has to be a value.
    func existing(_ request: FetchRequest<Value>) async throws -> Lookup<Value> {
        guard let found = try await value(request) else { throw CacheError.notFound(request.keys[0]) }
        return found
    }

    /// Returns an answer for each key of a request, in their order.
    func answers(to request: FetchRequest<Value>) async throws -> [Answer] {
        var known = await look(for: request)
        if !known.aging.isEmpty { refreshInBackground(known.aging.map { request.keys[$0] }, request) }
        if request.options.policy.source != .cacheOnly, !known.missing.isEmpty {
            try await fetchMissing(&known, request)
        }
        return known.answers
    }

    /// The answers so far. Numbers are indices among the keys of the request.
    private struct Known {
        var answers: [Answer]
        var missing: [Int] = []
        /// Those that have an answer and are to be fetched again in the background.
        var aging: [Int] = []

        mutating func answer(_ index: Int, with found: Lookup<Value>, isAging: Bool) {
            answers[index] = .found(found)
            if isAging { aging.append(index) }
        }
    }

    /// Answers the keys that need no fetch.
    private func look(for request: FetchRequest<Value>) async -> Known {
        let (keys, options) = (request.keys, request.options)
        var known = Known(answers: Array(repeating: .nothing, count: keys.count))
        if options.policy.source == .reload {
            known.missing = Array(keys.indices)
            return known
        }
        var onDisk: [(index: Int, life: MemoryLife)] = []
        if backend.isProvisional { await backend.settle(keys) }
        for (index, key) in keys.enumerated() {
            switch backend.freshness(of: key, at: backend.clock.now) {
            case .fresh(let life):
                if let found = backend.lookupInMemory(key.text) {
                    let isAging = options.policy.isEarly(life, at: backend.clock.now)
                    known.answer(index, with: found, isAging: isAging)
                } else {
                    onDisk.append((index, life))
                }
            case .absent: known.answers[index] = .absent
            case .missing, .stale: backend.countMiss()
            }
        }
        if !onDisk.isEmpty {
            let found = await backend.lookupsOnDisk(onDisk.map { keys[$0.index].text })
            for ((index, life), found) in zip(onDisk, found) {
                guard let found else { continue }
                known.answer(index, with: found, isAging: options.policy.isEarly(life, at: backend.clock.now))
            }
        }
        for (index, key) in keys.enumerated() {
            guard case .nothing = known.answers[index] else { continue }
            if let (stale, isAging) = await staleAnswer(key, options) {
                known.answer(index, with: stale, isAging: isAging)
            } else {
                known.missing.append(index)
            }
        }
        return known
    }

    /// Returns a stale value that can be answered without waiting for a fetch, and whether to fetch it in the
    /// background.
    private func staleAnswer(_ key: Key, _ options: FetchOptions) async -> (Lookup<Value>, isAging: Bool)? {
        if let stale = await staleValue(.revalidating, key, options) { return (stale, true) }
        if options.policy.retryThrottle != nil, backend.flights.hasFailed(key, at: backend.clock.now),
            let stale = await staleValue(.failed, key, options)
        {
            return (stale, false)
        }
        return nil
    }

    /// True when the cache has a value, fresh or stale, that the policy allows on this occasion. Reads no file.
    private func mayAnswerStale(_ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions) -> Bool {
        let now = backend.clock.now
        switch backend.freshness(of: key, at: now) {
        case .stale(let expires, true):
            return options.policy.allowsStale(occasion, expires: expires, at: now, defaultTTL: backend.defaultTTL)
        case .fresh:
            return options.policy.allowsStale(occasion, expires: now, at: now, defaultTTL: backend.defaultTTL)
        default:
            return false
        }
    }

    /// Returns the value in the cache, fresh or stale, if the policy allows it on this occasion.
    private func staleValue(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions
    ) async -> Lookup<Value>? {
        guard mayAnswerStale(occasion, key, options), let stored = await backend.storedValue(for: key) else {
            return nil
        }
        let now = backend.clock.now
        let expires = stored.life.expires
        if now >= expires {
            guard stored.isAnswerable,
                options.policy.allowsStale(occasion, expires: expires, at: now, defaultTTL: backend.defaultTTL)
            else { return nil }
            backend.counts.update { $0.fetches.staleAnswers += 1 }
        }
        return Lookup(stored.value, from: stored.source, life: stored.life, at: now)
    }

    /// Waits for flights until every missing key has an answer, for as long as the policy allows.
    private func fetchMissing(_ known: inout Known, _ request: FetchRequest<Value>) async throws {
        var missing = known.missing
        var deadlines = WaitDeadlines(request.options.policy, from: backend.clock.now)
        while !missing.isEmpty {
            try Task.checkCancellation()
            let waiters = join(missing.map { request.keys[$0] }, request, deadlines)
            var unanswered: [Int] = []
            for (index, outcome) in zip(missing, await outcomes(for: waiters)) {
                if let answer = try await answer(to: outcome, request.keys[index], request.options, &deadlines) {
                    known.answers[index] = answer
                } else {
                    unanswered.append(index)
                }
            }
            missing = unanswered
            deadlines.noteTry()
        }
    }

    /// Returns nil where the call has to try again: a reload joined a flight that found the value in the cache, the
    /// flight brought nothing for the key, or there is nothing stale after all.
    private func answer(
        to outcome: FetchOutcome, _ key: Key, _ options: FetchOptions, _ deadlines: inout WaitDeadlines
    ) async throws -> Answer? {
        let reloads = options.policy.source == .reload
        switch outcome {
        case .found(let value):
            guard let found = value as? Lookup<Value> else {
                preconditionFailure("a flight of another type was joined")
            }
            return reloads && !found.source.isFetch ? nil : .found(found)
        case .absent(let isFetched): return reloads && !isFetched ? nil : .absent
        case .nothing: return options.acceptsNothing ? .nothing : nil
        case .left: throw CancellationError()
        case .failed(let error):
            guard let stale = await staleValue(.failed, key, options) else { throw error }
            return .found(stale)
        case .late:
            deadlines.removeSoft()
            return await staleValue(.late, key, options).map { .found($0) }
        }
    }

    private var type: ObjectIdentifier { ObjectIdentifier(Value.self) }

    /// Returns a waiter for each key, in a flight that is under way or in a new one, which it begins.
    private func join(_ keys: [Key], _ request: FetchRequest<Value>, _ deadlines: WaitDeadlines) -> [Waiter] {
        let options = request.options
        let (waiters, new) = backend.flights.join(keys, of: type) {
            Flight(of: type, to: $0, tags: options.tags, outlivesCallers: options.policy.outlivesCallers)
        }
        if let new { begin(new, request) }
        let joined = waiters.filter { $0.flight !== new }
        if !joined.isEmpty { backend.counts.update { $0.fetches.joined += 1 } }
        for waiter in joined { waiter.flight.raise(to: Task.currentPriority) }
        for waiter in waiters { setTimeouts(of: waiter, isOwn: waiter.flight === new, options, deadlines) }
        return waiters
    }

    /// Waits for all; a cancelled caller leaves all flights at once.
    private func outcomes(for waiters: [Waiter]) async -> [FetchOutcome] {
        await withTaskCancellationHandler {
            var outcomes: [FetchOutcome] = []
            for waiter in waiters { outcomes.append(await waiter.outcome()) }
            return outcomes
        } onCancel: {
            for waiter in waiters { backend.flights.leave(waiter, as: .left) }
        }
    }

    /// Schedules the end of the waiting at the deadlines of the call.
    private func setTimeouts(of waiter: Waiter, isOwn: Bool, _ options: FetchOptions, _ deadlines: WaitDeadlines) {
        if deadlines.soft == nil && deadlines.hard == nil { return }
        let now = backend.clock.now
        if let soft = deadlines.soft, mayAnswerStale(.late, waiter.key, options) {
            leave(waiter, as: .late, after: WaitDeadlines.rest(until: soft, at: now), outlivesCallers: true)
        }
        // The call's own first flight finishes at the same time by itself.
        if let hard = deadlines.hard, let timeout = options.policy.hardTimeout, !isOwn || deadlines.isRetry {
            let outcome = FetchOutcome.failed(CacheError.timedOut(timeout))
            leave(waiter, as: outcome, after: WaitDeadlines.rest(until: hard, at: now), outlivesCallers: false)
        }
    }

    /// Lets a waiter leave its flight after a timeout. With `outlivesCallers` the flight goes on, and its values are
    /// stored.
    private func leave(_ waiter: Waiter, as outcome: FetchOutcome, after timeout: Duration, outlivesCallers: Bool) {
        let (index, number) = (waiter.index, waiter.number)
        // Weak: the clock must not keep the cache alive.
        backend.clock.schedule(after: timeout) { [weak flights = backend.flights, weak flight = waiter.flight] in
            guard let flights, let flight else { return }
            let waiter = Waiter(flight: flight, index: index, number: number)
            flights.leave(waiter, as: outcome, outlivesCallers: outlivesCallers)
        }
    }

    /// Fetches keys for which nobody waits, except those under way and, with a throttle, those that failed recently.
    private func refreshInBackground(_ keys: [Key], _ request: FetchRequest<Value>) {
        let options = request.options
        let now = backend.clock.now
        let isThrottled = options.policy.retryThrottle != nil
        let due = isThrottled ? keys.filter { !backend.flights.hasFailed($0, at: now) } : keys
        let new = backend.flights.start(due, of: type) {
            Flight(of: type, to: $0, tags: options.tags, outlivesCallers: true)
        }
        if let new { begin(new, request) }
    }
}
