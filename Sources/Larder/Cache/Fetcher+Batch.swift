import LarderFiles

/// Several keys at once: what is missing is fetched in one flight, but for what is in the air already.
extension Fetcher {
    typealias Fetch = @Sendable ([String]) async throws -> [String: Value]

    /// Returns the values of those keys that have one.
    func values(_ keys: [Key], _ order: FetchOptions, _ fetch: @escaping Fetch) async throws -> [Key: Lookup<Value>] {
        var (known, missing) = order.policy.source == .reload ? (Batch(), keys) : await look(for: keys, order)
        refreshBehind(known.aging, order) { begin($0, order, fetch) }
        if order.policy.source == .cacheOnly { missing = [] }
        for (key, lookup) in try await fetched(missing, order, fetch) { known.found[key] = lookup }
        return known.found
    }

    /// What the cache has of several keys.
    private struct Batch {
        var found: [Key: Lookup<Value>] = [:]
        /// Those of them that are to be fetched again behind.
        var aging: [Key] = []
    }

    private func look(for keys: [Key], _ order: FetchOptions) async -> (known: Batch, missing: [Key]) {
        var (batch, onDisk, unknown) = (Batch(), [] as [(key: Key, life: MemoryLife)], [] as [Key])
        func take(_ found: Lookup<Value>, _ key: Key, _ life: MemoryLife) {
            batch.found[key] = found
            if order.policy.isEarly(life, at: front.clock.now) { batch.aging.append(key) }
        }
        if front.isProvisional { await front.look(at: keys) }
        for key in keys {
            switch front.standing(of: key, at: front.clock.now) {
            case .fresh(let life):
                if let found = front.lookupInMemory(key.text) {
                    take(found, key, life)
                } else {
                    onDisk.append((key, life))
                }
            case .absent: break
            case .missing, .stale:
                front.countMiss()
                unknown.append(key)
            }
        }
        for (entry, found) in zip(onDisk, await front.lookupsBehindMemory(onDisk.map(\.key.text))) {
            if let found { take(found, entry.key, entry.life) } else { unknown.append(entry.key) }
        }
        var missing: [Key] = []
        for key in unknown {
            guard case .enough(let stale, let isAging) = await staleEnough(key, order) else {
                missing.append(key)
                continue
            }
            batch.found[key] = stale
            if isAging { batch.aging.append(key) }
        }
        return (batch, missing)
    }

    private func fetched(
        _ missing: [Key], _ order: FetchOptions, _ fetch: @escaping Fetch
    ) async throws -> [(Key, Lookup<Value>)] {
        var found: [(Key, Lookup<Value>)] = []
        var missing = missing
        var patience = WaitDeadlines(order.policy, from: front.clock.now)
        while !missing.isEmpty {
            try Task.checkCancellation()
            let seats = join(missing, order, patience) { begin($0, order, fetch) }
            missing = []
            for (seat, arrival) in zip(seats, await wait(in: seats)) {
                switch try await answer(to: arrival, seat.key, order, &patience) {
                case .found(let lookup): found.append((seat.key, lookup))
                case .absent, .nothing: break
                case nil: missing.append(seat.key)
                }
            }
            patience.hasTried()
        }
        return found
    }

    private func begin(_ flight: Flight, _ order: FetchOptions, _ fetch: @escaping Fetch) {
        begin(flight, order.policy) { await Self.fly(flight, order, fetch) }
    }

    private static func fly(_ flight: Flight, _ order: FetchOptions, _ fetch: Fetch) async {
        guard let arrived = await flight.owner(Self.self)?.prepare(flight, order) else { return }
        let missing = flight.keys.filter { arrived[$0] == nil }
        let brought: Result<[String: Value], any Error>
        do {
            brought = .success(missing.isEmpty ? [:] : try await fetch(missing.map(\.text)))
        } catch {
            brought = .failure(error)
        }
        await flight.owner(Self.self)?.arrive(brought, missing, arrived, flight, order)
    }

    /// Looks once more for each key.
    private func prepare(_ flight: Flight, _ order: FetchOptions) async -> [Key: FetchOutcome] {
        var arrivals: [Key: FetchOutcome] = [:]
        for key in flight.keys { arrivals[key] = await arrivedMeanwhile(key, order.policy) }
        if arrivals.count < flight.keys.count { front.counts.withLock { $0.fetches.begun += 1 } }
        return arrivals
    }

    private func arrive(
        _ brought: Result<[String: Value], any Error>, _ missing: [Key], _ arrived: [Key: FetchOutcome],
        _ flight: Flight,
        _ order: FetchOptions
    ) async {
        var arrivals = arrived
        for key in missing {
            switch brought {
            case .success(let values):
                guard let value = values[key.text] else { continue }
                arrivals[key] = await keep(.modified(value), key, order, nil, from: flight)
            case .failure(let error): arrivals[key] = .failed(error)
            }
        }
        land(flight, order.policy) { arrivals[$0] ?? .nothing }
    }
}
