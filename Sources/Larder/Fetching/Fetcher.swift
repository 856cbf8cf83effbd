import LarderFiles

/// Answers calls from the cache or by a fetch: one fetch for all callers that wait for a key.
///
/// Each caller's own policy decides how it is answered; how a flight runs is up to the policy of the call that began
/// it. No lock is held while a caller waits or a fetch runs.
struct Fetcher<Value: Sendable>: Sendable {
    let backend: any CacheBackend<Value>
    /// Nil: no limit.
    let limiter: FetchLimiter?

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
        // Reads of a cancelled call are misses.
        if !known.missing.isEmpty { try Task.checkCancellation() }
        if request.options.policy.source == .cacheFirst, !known.aging.isEmpty {
            refreshInBackground(known.aging.map { request.keys[$0] }, request)
        }
        if request.options.policy.source != .cacheOnly, !known.missing.isEmpty {
            try await fetchMissing(&known, request)
        }
        return known.answers
    }

    /// The answers so far. Numbers are indices among the keys of the request.
    struct Known {
        var answers: [Answer]
        var missing: [Int] = []
        /// Those that have an answer and are to be fetched again in the background.
        var aging: [Int] = []
        /// The number of the last failure before the look, where a failure may be a reason not to try again.
        var lastFailure: UInt64?

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
        if options.policy.retryThrottle != nil { known.lastFailure = backend.flights.lastFailure }
        if backend.isProvisional { await backend.settle(keys) }
        // Reading begins a life that slides again.
        let lives = options.policy.eagerRefresh != nil && backend.slides ? keys.map { life(of: $0, options) } : nil
        let brought = backend.hasRemoteTier ? await backend.bring(keys) : []
        var onDisk: [Int] = []
        for (index, key) in keys.enumerated() {
            if !brought.isEmpty, let found = brought[index] {
                known.answer(index, with: found, isAging: isAging(found, lives?[index], options))
                backend.readEvents?.postHit(key, found)
                continue
            }
            if let found = backend.findInMemory(key.text) {
                known.answer(index, with: found, isAging: isAging(found, lives?[index], options))
                backend.readEvents?.postHit(key, found)
                continue
            }
            switch backend.freshness(of: key, at: backend.clock.now) {
            case .fresh: onDisk.append(index)
            case .absent where options.acceptsAbsence:
                known.answers[index] = .absent
                backend.counts.update { $0.absences += 1 }
                backend.readEvents?.post(.hit, key)
            case .absent, .missing, .stale: break
            }
        }
        if !onDisk.isEmpty {
            for (index, found) in zip(onDisk, await backend.lookupsOnDisk(onDisk.map { keys[$0] })) {
                guard let found else { continue }
                if found.source == .disk { backend.countMissInMemory() }
                known.answer(index, with: found, isAging: isAging(found, lives?[index], options))
                backend.readEvents?.postHit(keys[index], found)
            }
        }
        let read = Set(onDisk)
        for (index, key) in keys.enumerated() {
            guard case .nothing = known.answers[index] else { continue }
            if let (stale, isAging) = await staleAnswer(key, options) {
                known.answer(index, with: stale, isAging: isAging)
            } else {
                backend.countMiss(of: key, isCountedOnDisk: read.contains(index))
                backend.readEvents?.post(.missed, key)
                known.missing.append(index)
            }
        }
        return known
    }

    /// Decides by the life before the call, if that is known.
    private func isAging(_ found: Lookup<Value>, _ life: MemoryLife??, _ options: FetchOptions) -> Bool {
        options.policy.isEarly((life ?? nil) ?? found.life, at: backend.clock.now)
    }

    private func life(of key: Key, _ options: FetchOptions) -> MemoryLife? {
        guard case .fresh(let life, let stored) = backend.freshness(of: key, at: backend.clock.now) else { return nil }
        return options.policy.refreshesByAge ? MemoryLife(begun: stored, expires: life.expires) : life
    }

    /// Returns a stale value that can be answered without waiting for a fetch, and whether to fetch it in the
    /// background.
    private func staleAnswer(_ key: Key, _ options: FetchOptions) async -> (Lookup<Value>, isAging: Bool)? {
        if let stale = await staleValue(.revalidating, key, options) { return (stale, true) }
        return await throttledAnswer(key, options).map { ($0, false) }
    }

    /// Returns the value where a fetch has failed so recently that none is begun.
    func throttledAnswer(_ key: Key, _ options: FetchOptions) async -> Lookup<Value>? {
        guard options.policy.retryThrottle != nil,
            let error = backend.flights.failure(of: key, type, at: backend.clock.now), options.policy.forgives(error)
        else { return nil }
        return await staleValue(.failed, key, options, error)
    }

    private func allows(
        _ policy: FetchPolicy, _ occasion: FetchPolicy.Occasion, _ expires: Timestamp, _ now: Timestamp
    ) -> Bool {
        policy.allowsStale(occasion, expires: expires, at: now, defaultTTL: backend.defaultTTL)
    }

    /// True when the cache has a value, fresh or stale, that the policy allows on this occasion. Reads no file.
    func mayAnswerStale(_ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions) -> Bool {
        let now = backend.clock.now
        switch backend.freshness(of: key, at: now) {
        case .stale(let expires, true): return allows(options.policy, occasion, expires, now)
        case .fresh: return allows(options.policy, occasion, now, now)
        default: return false
        }
    }

    /// Returns the value in the cache, fresh or stale, if the policy allows it on this occasion, and counts the hit.
    func staleValue(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions, _ error: (any Error)? = nil
    ) async -> Lookup<Value>? {
        guard let found = await foundStale(occasion, key, options)?.stale(occasion.reason, error) else { return nil }
        if found.isStale { backend.readEvents?.postHit(key, found) }
        return found
    }

    private func foundStale(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions
    ) async -> Lookup<Value>? {
        guard mayAnswerStale(occasion, key, options) else { return nil }
        if let found = inMemory(occasion, key, options) { return found }
        guard let stored = await backend.storedValue(for: key) else { return nil }
        let now = backend.clock.now
        if now >= stored.life.expires {
            guard stored.isAnswerable, allows(options.policy, occasion, stored.life.expires, now) else { return nil }
        }
        let found = stored.lookup(at: now)
        backend.countHit(found)
        return found
    }

    /// The same for a value in memory, which counts the hit itself.
    private func inMemory(
        _ occasion: FetchPolicy.Occasion, _ key: Key, _ options: FetchOptions
    ) -> Lookup<Value>? {
        if let fresh = backend.findInMemory(key.text) { return fresh }
        // Its life in memory may be shorter than that on disk.
        if case .fresh = backend.freshness(of: key, at: backend.clock.now) { return nil }
        return backend.findStaleInMemory(key.text, options.policy.windows(occasion, backend.defaultTTL))
    }
}
