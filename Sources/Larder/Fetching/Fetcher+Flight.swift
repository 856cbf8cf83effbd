import LarderFiles

/// The run of a flight: it looks into the cache again, fetches the missing keys, stores the results, and resumes the
/// callers that wait.
extension Fetcher {
    func begin(_ flight: Flight, _ request: FetchRequest<Value>) {
        flight.setOwner(self)
        let policy = request.options.policy
        if let timeout = policy.hardTimeout, flight.isRefresh || !policy.keepsLateResult {
            // Ends with the flight; it holds neither that nor the user's fetch.
            let timer = backend.clock.schedule(after: timeout) { [weak flight, options = request.options] in
                guard let flight, let fetcher = flight.owner(Self.self) else { return }
                fetcher.timeOut(flight, options, after: timeout)
            }
            flight.setTimer(timer)
        }
        let priority = Task.currentPriority
        flight.setTask(backend.clock.begin(priority) { await Self.run(flight, request) }, priority: priority)
    }

    private func timeOut(_ flight: Flight, _ options: FetchOptions, after timeout: Duration) {
        let outcome = FetchOutcome.failed(CacheError.timedOut(timeout))
        finish(flight, options, Array(repeating: outcome, count: flight.keys.count))
        flight.cancel()
    }

    /// Does not hold the fetcher while the fetch runs: the flight does, as long as anybody wants the result.
    private static func run(_ flight: Flight, _ request: FetchRequest<Value>) async {
        guard let prepared = await flight.owner(Self.self)?.prepare(flight, request.options), !flight.isOver else {
            return
        }
        let fetched: Result<[FetchResult<Value>?], any Error>
        do {
            fetched = .success(prepared.missing.isEmpty ? [] : try await fetch(prepared.missing, flight, request))
        } catch {
            fetched = .failure(error)
        }
        flight.noteFetched()
        await flight.owner(Self.self)?.complete(flight, request.options, prepared, fetched)
    }

    /// Runs the user's fetch, once there is a slot for it.
    private static func fetch(
        _ missing: [MissingKey<Value>], _ flight: Flight, _ request: FetchRequest<Value>
    ) async throws -> [FetchResult<Value>?] {
        let hasSlot = await flight.limiter?.acquire(for: flight) ?? false
        defer { if hasSlot { flight.limiter?.release() } }
        if flight.isOver { throw CancellationError() }
        guard let (clock, counts) = flight.owner(Self.self).map({ ($0.backend.clock, $0.backend.counts) }) else {
            throw CancellationError()
        }
        counts.update { $0.fetches.begun += 1 }
        let begun = clock.now
        defer {
            let time = Duration.milliseconds(max(0, clock.now.millisecondsSince(begun)))
            counts.update { $0.fetches.note(time) }
        }
        return try await Flight.$current.withValue(flight) { try await request.fetch(missing) }
    }

    private struct Preparation {
        /// In the order of the flight's keys; `.nothing` for those that are missing.
        var outcomes: [FetchOutcome]
        var missing: [MissingKey<Value>] = []
    }

    private func prepare(_ flight: Flight, _ options: FetchOptions) async -> Preparation {
        var prepared = Preparation(outcomes: Array(repeating: .nothing, count: flight.keys.count))
        for (index, key) in flight.keys.enumerated() {
            if let outcome = await cachedOutcome(key, flight, options) {
                // Nobody joins for a value that may be replaced or expire before the others are there.
                prepared.outcomes[index] = outcome
                settle(flight, index, outcome, options)
            } else {
                let stored = options.revalidates ? await valueToRevalidate(key, flight) : nil
                if let stored { flight.noteGiven(index, from: stored.source) }
                prepared.missing.append(MissingKey(key: key, index: index, now: backend.clock.now, stored: stored))
            }
        }
        if !prepared.missing.isEmpty {
            let keys = prepared.missing.map(\.key)
            // Only a flight for one key can wait for another machine.
            let brought = await backend.beginFetch(keys, options, by: flight) {
                await cachedOutcome($0, flight, options)
            }
            if let outcome = brought {
                prepared.outcomes[prepared.missing[0].index] = outcome
                settle(flight, prepared.missing[0].index, outcome, options)
                prepared.missing = []
            }
        }
        return prepared
    }

    /// Another flight may have stored a value since the caller looked.
    func cachedOutcome(_ key: Key, _ flight: Flight, _ options: FetchOptions) async -> FetchOutcome? {
        if options.policy.source == .reload { return nil }
        let now = backend.clock.now
        switch backend.freshness(of: key, at: now) {
        case .fresh(let life, let stored):
            if options.policy.isEarly(life, at: now) { return nil }
            // The read that began the refresh has begun its life again.
            if flight.isRefresh, backend.slides, stored < flight.begun { return nil }
            if let found = backend.findInMemory(key.text) { return .found(found) }
            return await backend.lookupsOnDisk([key])[0].map { .found($0) }
        case .absent: return options.acceptsAbsence ? .absent(isFetched: false) : nil
        case .missing, .stale: return nil
        }
    }

    private func valueToRevalidate(_ key: Key, _ flight: Flight) async -> StoredValue<Value>? {
        guard let stored = await backend.storedValue(for: key) else { return nil }
        if !stored.tags.isEmpty { flight.add(tags: stored.tags) }
        // One of its tags may have been cleared before the flight had it.
        return backend.isCurrent(stored, key) ? stored : nil
    }

    private func complete(
        _ flight: Flight, _ options: FetchOptions, _ prepared: Preparation,
        _ fetched: Result<[FetchResult<Value>?], any Error>
    ) async {
        backend.flights.beginEnding(flight)
        var outcomes = prepared.outcomes
        switch fetched {
        case .success(let answers):
            for (missing, answer) in zip(prepared.missing, answers) {
                guard let answer else { continue }
                let outcome = await keep(answer, missing, options, by: flight)
                outcomes[missing.index] = outcome
                if case .failed = outcome { continue }
                settle(flight, missing.index, outcome, options)
            }
        case .failure(let error):
            for missing in prepared.missing { outcomes[missing.index] = .failed(error) }
        }
        finish(flight, options, outcomes)
    }

    /// Resumes the callers that wait for one key, after its event; nobody joins the flight for that any more.
    private func settle(_ flight: Flight, _ index: Int, _ outcome: FetchOutcome, _ options: FetchOptions) {
        backend.flights.end(flight, for: flight.keys[index], ending(outcome, options))
        if let events = backend.readEvents, isFetched(outcome), !flight.isOver {
            events.post(.fetched, flight.keys[index])
        }
        for continuation in flight.settle(index, outcome) { continuation.resume(returning: outcome) }
    }

    private func isFetched(_ outcome: FetchOutcome) -> Bool {
        switch outcome {
        case .found(let found): (found as? Lookup<Value>)?.source.isFetch == true
        case .absent(let isFetched): isFetched
        case .nothing, .failed, .left, .late: false
        }
    }

    /// Removes the flight, so that nobody joins it any more, and resumes the callers that wait.
    private func finish(_ flight: Flight, _ options: FetchOptions, _ outcomes: [FetchOutcome]) {
        backend.flights.beginEnding(flight)
        defer { backend.flights.endEnding(flight) }
        for (key, outcome) in zip(flight.keys, outcomes) {
            backend.flights.end(flight, for: key, ending(outcome, options))
        }
        guard let waiting = flight.finish(outcomes) else { return }
        // An abandoned fetch was cancelled; whatever it throws is no failure.
        if !flight.isAbandoned { reportFailures(outcomes, of: flight) }
        for (continuation, outcome) in waiting { continuation.resume(returning: outcome) }
        flight.tellEnd()
    }

    /// How a flight with this outcome ends for a key: a failure may be a reason not to fetch again for a while.
    private func ending(_ outcome: FetchOutcome, _ options: FetchOptions) -> Flights.Ending {
        guard case .failed(let error) = outcome else { return .answered }
        let now = backend.clock.now
        let end = options.policy.retryThrottle.map { now.advanced(byMilliseconds: $0.milliseconds) }
        return .failed(end.map { FailureLog.Failure(error: error, begin: now, end: $0) })
    }

    private func reportFailures(_ outcomes: [FetchOutcome], of flight: Flight) {
        var failed: [Key] = []
        var failure: (any Error)?
        for (index, (key, outcome)) in zip(flight.keys, outcomes).enumerated() {
            guard case .failed(let error) = outcome, !flight.isSettled(index) else { continue }
            failed.append(key)
            failure = error
        }
        guard let failure else { return }
        backend.counts.update { $0.fetches.failed += 1 }
        backend.report(CacheError(code: .fetchFailed, message: "The fetch has failed: \(failure)."), of: failed)
    }

    /// Stores the answer of a fetch, for as long as the answer or else the call says; again when callers that join
    /// meanwhile want other tags.
    private func keep(
        _ answer: FetchResult<Value>, _ missing: MissingKey<Value>, _ options: FetchOptions, by flight: Flight
    ) async -> FetchOutcome {
        if case .notModified = answer.outcome, missing.stored == nil {
            return .failed(CacheError.nothingToRevalidate)
        }
        let now = backend.clock.now
        let ttl = answer.ttl ?? options.ttl
        let tags = answer.tags.map { backend.key($0) }
        if !answer.isStored || !tags.isEmpty && !backend.flights.mayBring(tags, flight, for: missing.key) {
            let expires = answer.isStored ? ttl.life(from: now, default: backend.defaultTTL)?.expires : nil
            return outcome(of: answer, missing, MemoryLife(begun: now, expires: expires ?? now), at: now)
        }
        guard var storing = storeOptions(for: answer, tags, options, at: now) else {
            await backend.remove(missing.key, by: flight)
            return outcome(of: answer, missing, MemoryLife(begun: now, expires: now), at: now)
        }
        repeat {
            storing.joinedTags = flight.joinedTags(missing.index)
            await store(answer, missing, storing, by: flight)
        } while !backend.flights.retire(flight, missing.index, ifTags: storing.joinedTags)
        return outcome(of: answer, missing, MemoryLife(begun: now, expires: storing.life.expires), at: now)
    }

    private func store(
        _ answer: FetchResult<Value>, _ missing: MissingKey<Value>, _ storing: StoreOptions, by flight: Flight
    ) async {
        switch answer.outcome {
        case .value(let value): await backend.keep(value, missing.key, storing, by: flight)
        case .notModified:
            if let stored = missing.stored { await backend.renew(stored, missing.key, storing, by: flight) }
        case .absent: await backend.keepAbsence(missing.key, storing, by: flight)
        }
    }

    private func outcome(
        of answer: FetchResult<Value>, _ missing: MissingKey<Value>, _ life: MemoryLife, at now: Timestamp
    ) -> FetchOutcome {
        switch answer.outcome {
        case .value(let value):
            return .found(
                Lookup(
                    value, from: .fetched, life: life, metadata: answer.metadata ?? [:], at: now, isStale: false))
        case .notModified:
            guard let stored = missing.stored else { return .failed(CacheError.nothingToRevalidate) }
            return .found(
                Lookup(
                    stored.value, from: .revalidated, life: life, metadata: answer.metadata ?? stored.metadata, at: now,
                    isStale: false))
        case .absent: return .absent(isFetched: true)
        }
    }

    /// Nil for "do not keep".
    private func storeOptions(
        for answer: FetchResult<Value>, _ tags: [Key], _ options: FetchOptions, at now: Timestamp
    ) -> StoreOptions? {
        let ttl = answer.ttl ?? options.ttl
        guard let whole = ttl.life(from: now, default: backend.defaultTTL) else { return nil }
        var generator = Simulation.Generator()
        let life = options.policy.jittered(whole, from: now) { Int64.random(in: $0, using: &generator) }
        let keptStale =
            answer.keepStale?.milliseconds(after: life.expires, defaultTTL: backend.defaultTTL)
            ?? options.policy.keptStale(
                after: life.expires, revalidates: options.revalidates, configured: backend.defaults.keepStale,
                defaultTTL: backend.defaultTTL)
        return StoreOptions(
            now: now, life: life, metadata: answer.metadata,
            tags: options.tags + tags.filter { !options.tags.contains($0) }, joinedTags: [], keptStale: keptStale,
            mustRevalidate: answer.mustRevalidate, toDisk: answer.toDisk,
            marksBeginning: options.policy.refreshesByAge)
    }
}
