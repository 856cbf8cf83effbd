import LarderFiles

/// What a flight does: fetches, keeps what it has fetched, and hands it to all who wait.
extension Fetcher {
    func begin(_ flight: Flight, _ request: FetchRequest<Value>) {
        begin(flight, request.order.policy) { await Self.fly(flight, request) }
    }

    /// `run` must not hold the fetcher: the flight does, for as long as anybody wants the result.
    func begin(_ flight: Flight, _ policy: FetchPolicy, _ run: @escaping @Sendable () async -> Void) {
        flight.hold(self)
        if let hardTimeout = policy.hardTimeout {
            front.clock.schedule(after: hardTimeout) { [weak flight] in
                guard let flight, let fetcher = flight.owner(Self.self) else { return }
                fetcher.land(flight, policy) { _ in .failed(CacheError.timedOut(hardTimeout)) }
                flight.cancel()
            }
        }
        let priority = Task.currentPriority
        flight.begin(Task(priority: priority) { await run() }, priority: priority)
    }

    /// Takes the flight off, so that nobody joins it any more, and tells everybody.
    func land(_ flight: Flight, _ policy: FetchPolicy, _ arrival: (Key) -> FetchOutcome) {
        let arrivals = Dictionary(uniqueKeysWithValues: flight.keys.map { ($0, arrival($0)) })
        front.flights.remove(flight)
        guard let waiting = flight.land(arrivals) else { return }
        // A fetch that nobody wants any more was cancelled; what it says about that is no failure.
        if !flight.isAbandoned { note(arrivals, policy) }
        for (continuation, arrival) in waiting { continuation.resume(returning: arrival) }
    }

    private func note(_ arrivals: [Key: FetchOutcome], _ policy: FetchPolicy) {
        let now = front.clock.now
        let end = policy.retryThrottle.map { now.advanced(byMilliseconds: $0.milliseconds) }
        var failed: [Key] = []
        var failure: (any Error)?
        for (key, arrival) in arrivals {
            guard case .failed(let error) = arrival else {
                front.flights.noteSuccess(of: key)
                continue
            }
            failed.append(key)
            failure = error
            if let end { front.flights.noteFailure(of: key, until: end, at: now) }
        }
        guard let failure else { return }
        front.counts.withLock { $0.fetches.failed += 1 }
        front.tell(CacheError(code: .fetchFailed, message: "The fetch has failed: \(failure)."), of: failed)
    }

    private static func fly(_ flight: Flight, _ request: FetchRequest<Value>) async {
        guard case .fetch(let known)? = await flight.owner(Self.self)?.prepare(flight, request) else { return }
        let answer: Result<Revalidation<Value>, any Error>
        do {
            answer = .success(try await request.fetch(known?.cached))
        } catch {
            answer = .failure(error)
        }
        await flight.owner(Self.self)?.arrive(answer, known, flight, request)
    }

    private enum Preparation {
        /// There is no need to fetch any more, and everybody has been told.
        case landed
        /// The fetch is to be given what is known, if it has asked for it.
        case fetch(StoredValue<Value>?)
    }

    private func prepare(_ flight: Flight, _ request: FetchRequest<Value>) async -> Preparation {
        let key = request.key
        if let arrival = await arrivedMeanwhile(key, request.order.policy) {
            land(flight, request.order.policy) { _ in arrival }
            return .landed
        }
        var known = request.order.revalidates ? await front.usable(key) : nil
        if let tags = known?.entry?.tags, !tags.isEmpty { flight.note(tags: tags) }
        // It may have been removed by a tag before that was noted.
        if let usable = known, !front.isCurrent(usable, key) { known = nil }
        front.counts.withLock { $0.fetches.begun += 1 }
        return .fetch(known)
    }

    private func arrive(
        _ answer: Result<Revalidation<Value>, any Error>, _ known: StoredValue<Value>?, _ flight: Flight,
        _ request: FetchRequest<Value>
    ) async {
        let arrival: FetchOutcome =
            switch answer {
            case .success(let answer): await keep(answer, request.key, request.order, known, from: flight)
            case .failure(let error): .failed(error)
            }
        land(flight, request.order.policy) { _ in arrival }
    }

    /// Another flight may have brought the value since the caller looked.
    func arrivedMeanwhile(_ key: Key, _ policy: FetchPolicy) async -> FetchOutcome? {
        if policy.source == .reload { return nil }
        let now = front.clock.now
        switch front.standing(of: key, at: now) {
        case .fresh(let life):
            if policy.isEarly(life, at: now) { return nil }
            return await front.lookup(key.text).map { .found($0) }
        case .absent: return .absent(isFetched: false)
        case .missing, .stale: return nil
        }
    }

    /// Keeps what a fetch has brought, for as long as it says, or else the call.
    func keep(
        _ answer: Revalidation<Value>, _ key: Key, _ order: FetchOptions, _ known: StoredValue<Value>?,
        from flight: Flight
    ) async -> FetchOutcome {
        let now = front.clock.now
        let terms = terms(of: answer, order, at: now)
        if terms == nil { await front.discard(key, from: flight) }
        let life = MemoryLife(begun: now, expires: terms?.life.expires ?? now)
        switch answer.outcome {
        case .modified(let value):
            if let terms { await front.keep(value, key, terms, from: flight) }
            return .found(Lookup(value, from: .fetched, life: life, at: now, isStale: false))
        case .notModified:
            guard let known else { return .failed(CacheError.nothingToRevalidate) }
            if let terms { await front.renew(known, key, terms, from: flight) }
            return .found(Lookup(known.value, from: .revalidated, life: life, at: now, isStale: false))
        case .absent:
            if let terms { await front.keepAbsence(key, terms, from: flight) }
            return .absent(isFetched: true)
        }
    }

    /// Nil for "do not keep".
    private func terms(
        of answer: Revalidation<Value>, _ order: FetchOptions, at now: Timestamp
    ) -> StoreOptions? {
        let ttl = answer.ttl ?? order.ttl
        guard let whole = ttl.life(from: now, default: front.defaultTTL) else { return nil }
        let life = order.policy.jittered(whole, from: now) { Int64.random(in: $0) }
        let keptStale = order.policy.keptStale(
            after: life.expires, revalidates: order.revalidates, defaultTTL: front.defaultTTL)
        return StoreOptions(
            now: now, life: life, metadata: answer.metadata, tags: order.tags, keptStale: keptStale,
            mustRevalidate: answer.mustRevalidate)
    }
}
