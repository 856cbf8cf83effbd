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
        if request.options.policy.source == .cacheFirst, !known.aging.isEmpty {
            refreshInBackground(known.aging.map { request.keys[$0] }, request)
        }
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
        if backend.isProvisional { await backend.settle(keys) }
        var onDisk: [Int] = []
        for (index, key) in keys.enumerated() {
            if let found = backend.findInMemory(key.text) {
                known.answer(index, with: found, isAging: isAging(found, options))
                continue
            }
            switch backend.freshness(of: key, at: backend.clock.now) {
            case .fresh: onDisk.append(index)
            case .absent where options.acceptsAbsence: known.answers[index] = .absent
            case .absent, .missing, .stale: break
            }
        }
        if !onDisk.isEmpty {
            for (index, found) in zip(onDisk, await backend.lookupsOnDisk(onDisk.map { keys[$0] })) {
                guard let found else { continue }
                if found.source == .disk { backend.countMissInMemory() }
                known.answer(index, with: found, isAging: isAging(found, options))
            }
        }
        let read = Set(onDisk)
        for (index, key) in keys.enumerated() {
            guard case .nothing = known.answers[index] else { continue }
            if let (stale, isAging) = await staleAnswer(key, options) {
                known.answer(index, with: stale, isAging: isAging)
            } else {
                backend.countMiss(of: key, isCountedOnDisk: read.contains(index))
                known.missing.append(index)
            }
        }
        return known
    }

    private func isAging(_ found: Lookup<Value>, _ options: FetchOptions) -> Bool {
        options.policy.isEarly(found.life, at: backend.clock.now)
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

    private func allows(
        _ policy: FetchPolicy, _ occasion: FetchPolicy.Occasion, _ expires: Timestamp, _ now: Timestamp
    ) -> Bool {
        policy.allowsStale(occasion, expires: expires, at: now, defaultTTL: backend.defaultTTL)
    }

    /// True when the cache has a value, fresh or stale, that the policy allows on this occasion. Reads no file.
    private func mayAnswerStale(_ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions) -> Bool {
        let now = backend.clock.now
        switch backend.freshness(of: key, at: now) {
        case .stale(let expires, true): return allows(options.policy, occasion, expires, now)
        case .fresh: return allows(options.policy, occasion, now, now)
        default: return false
        }
    }

    /// Returns the value in the cache, fresh or stale, if the policy allows it on this occasion.
    private func staleValue(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions
    ) async -> Lookup<Value>? {
        guard mayAnswerStale(occasion, key, options) else { return nil }
        if let found = staleInMemory(occasion, key, options) { return found }
        guard let stored = await backend.storedValue(for: key) else { return nil }
        let now = backend.clock.now
        if now >= stored.life.expires {
            guard stored.isAnswerable, allows(options.policy, occasion, stored.life.expires, now) else { return nil }
            backend.counts.update { $0.fetches.staleAnswers += 1 }
        }
        return stored.lookup(at: now)
    }

    /// The same for a value in memory, which counts the answer itself.
    private func staleInMemory(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions
    ) -> Lookup<Value>? {
        if let fresh = backend.findInMemory(key.text) { return fresh }
        return backend.findStaleInMemory(key.text, options.policy.windows(occasion, backend.defaultTTL))
    }

    /// Waits for flights until every missing key has an answer, for as long as the policy allows.
    private func fetchMissing(_ known: inout Known, _ request: FetchRequest<Value>) async throws {
        var missing = known.missing
        var deadlines = WaitDeadlines(request.options.policy, from: backend.clock.now)
        while !missing.isEmpty {
            try Task.checkCancellation()
            var unanswered: [Int] = []
            for (index, outcome) in zip(
                missing, await outcomes(for: missing.map { request.keys[$0] }, request, deadlines))
            {
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
            // It was found in the cache while the flight brought other keys.
            if !found.source.isFetch, !found.life.isFresh(at: backend.clock.now) { return nil }
            return reloads && !found.source.isFetch ? nil : .found(found)
        case .absent(let isFetched): return reloads && !isFetched || !options.acceptsAbsence ? nil : .absent
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

    /// Waits for each key, in a flight that is under way or in a new one, which it begins. A cancelled caller leaves
    /// all flights at once.
    private func outcomes(
        for keys: [Key], _ request: FetchRequest<Value>, _ deadlines: WaitDeadlines
    ) async -> [FetchOutcome] {
        let options = request.options
        if let hard = deadlines.hard, let timeout = options.policy.hardTimeout, hard <= backend.clock.now {
            return keys.map { _ in .failed(CacheError.timedOut(timeout)) }
        }
        let (waiters, new) = backend.flights.join(keys, of: type, adding: options.tags) {
            Flight(
                of: type, to: $0, at: backend.clock.now, tags: options.tags,
                outlivesCallers: options.policy.outlives)
        }
        // A fetch that waits for itself, maybe through others, would wait for ever.
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
            return keys.map { .failed(CacheError.fetchCycle($0.text)) }
        }
        defer { if let current { WaitGraph.shared.remove(from: current, to: flights) } }
        if let new { begin(new, request) }
        let joined = waiters.filter { $0.flight !== new }
        if !joined.isEmpty { backend.counts.update { $0.fetches.coalesced += 1 } }
        for waiter in joined { waiter.flight.raise(to: Task.currentPriority) }
        let timers = waiters.flatMap { setTimeouts(of: $0, isOwn: $0.flight === new, options, deadlines) }
        defer { for timer in timers { timer.cancel() } }
        return await withTaskCancellationHandler {
            var outcomes: [FetchOutcome] = []
            for waiter in waiters { outcomes.append(await waiter.outcome()) }
            return outcomes
        } onCancel: {
            for waiter in waiters { backend.flights.leave(waiter, as: .left) }
        }
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
        // The call's own first flight finishes at the same time by itself.
        if let hard = deadlines.hard, let timeout = options.policy.hardTimeout, !isOwn || deadlines.isRetry {
            let outcome = FetchOutcome.failed(CacheError.timedOut(timeout))
            timers += leave(waiter, as: outcome, at: hard, now, outlivesCallers: false)
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
        let waiting = Task { await waitForFetches() }
        let timer = backend.clock.schedule(after: limit) { waiting.cancel() }
        await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
        timer.cancel()
    }

    /// Fetches keys for which nobody waits, except those under way and, with a throttle, those that failed recently.
    private func refreshInBackground(_ keys: [Key], _ request: FetchRequest<Value>) {
        let options = request.options
        if let timeout = options.policy.hardTimeout, timeout <= .zero { return }
        let now = backend.clock.now
        let isThrottled = options.policy.retryThrottle != nil
        let due = isThrottled ? keys.filter { !backend.flights.hasFailed($0, at: now) } : keys
        let new = backend.flights.start(due, of: type) {
            Flight(of: type, to: $0, at: now, tags: options.tags, outlivesCallers: true)
        }
        if let new { begin(new, request) }
    }
}
