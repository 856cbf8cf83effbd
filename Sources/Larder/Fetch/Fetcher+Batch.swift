import LarderFiles

/// Several keys at once: what is missing is fetched in one flight, but for what is in the air already.
extension Fetcher {
    typealias Fetch = @Sendable ([String]) async throws -> [String: Value]

    /// Returns the values of those keys that have one.
    func values(_ keys: [Key], _ order: FetchOrder, _ fetch: @escaping Fetch) async throws -> [Key: Lookup<Value>] {
        var found: [Key: Lookup<Value>] = [:]
        var missing: [Key] = []
        var aging: [Key] = []
        for key in keys {
            switch await known(key, order) {
            case .enough(let lookup, let isAging):
                found[key] = lookup
                if isAging { aging.append(key) }
            case .missing where order.policy.source != .cacheOnly: missing.append(key)
            case .missing, .absent: break
            }
        }
        refreshBehind(aging, order) { begin($0, order, fetch) }
        for (key, lookup) in try await fetched(missing, order, fetch) { found[key] = lookup }
        return found
    }

    private func fetched(
        _ missing: [Key], _ order: FetchOrder, _ fetch: @escaping Fetch
    ) async throws -> [(Key, Lookup<Value>)] {
        var found: [(Key, Lookup<Value>)] = []
        var (missing, softTimeout) = (missing, order.policy.softTimeout)
        while !missing.isEmpty {
            try Task.checkCancellation()
            let seats = join(missing, order) { begin($0, order, fetch) }
            if let softTimeout {
                for seat in seats where mayAnswerStale(.late, seat.key, order) {
                    leave(seat, as: .late, after: softTimeout, goesOn: true)
                }
            }
            missing = []
            for (seat, arrival) in zip(seats, await wait(in: seats)) {
                switch arrival {
                case .found(let arrived):
                    if let lookup = wanted(arrived, order) {
                        found.append((seat.key, lookup))
                    } else {
                        missing.append(seat.key)
                    }
                case .absent, .nothing: break
                case .left: throw CancellationError()
                case .failed(let error):
                    guard let stale = await staleValue(.failed, seat.key, order) else { throw error }
                    found.append((seat.key, stale))
                case .late:
                    if let stale = await staleValue(.late, seat.key, order) {
                        found.append((seat.key, stale))
                    } else {
                        missing.append(seat.key)
                    }
                }
            }
            softTimeout = nil
        }
        return found
    }

    private func begin(_ flight: Flight, _ order: FetchOrder, _ fetch: @escaping Fetch) {
        begin(flight, order.policy) { await Self.fly(flight, order, fetch) }
    }

    private static func fly(_ flight: Flight, _ order: FetchOrder, _ fetch: Fetch) async {
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
    private func prepare(_ flight: Flight, _ order: FetchOrder) async -> [Key: Arrival] {
        var arrivals: [Key: Arrival] = [:]
        for key in flight.keys { arrivals[key] = await arrivedMeanwhile(key, order.policy) }
        if arrivals.count < flight.keys.count { front.counts.withLock { $0.fetches.begun += 1 } }
        return arrivals
    }

    private func arrive(
        _ brought: Result<[String: Value], any Error>, _ missing: [Key], _ arrived: [Key: Arrival], _ flight: Flight,
        _ order: FetchOrder
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
