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
                for seat in seats where mayAnswerStale(.late, seat.key, order) { leave(seat, after: softTimeout) }
            }
            missing = []
            for (seat, arrival) in zip(seats, await wait(in: seats)) {
                switch arrival {
                case .found(let lookup): found.append((seat.key, self.lookup(lookup)))
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
        begin(flight, order.policy) {
            let arrivals = await fly(flight, order, fetch)
            land(flight, order.policy) { arrivals[$0] ?? .nothing }
        }
    }

    private func fly(_ flight: Flight, _ order: FetchOrder, _ fetch: Fetch) async -> [Key: Arrival] {
        var arrivals: [Key: Arrival] = [:]
        for key in flight.keys { arrivals[key] = await arrivedMeanwhile(key, order.policy) }
        let missing = flight.keys.filter { arrivals[$0] == nil }
        if missing.isEmpty { return arrivals }
        front.counts.withLock { $0.fetches.begun += 1 }
        do {
            let brought = try await fetch(missing.map(\.text))
            for key in missing {
                guard let value = brought[key.text] else { continue }
                arrivals[key] = await keep(.modified(value), key, order, nil, from: flight)
            }
        } catch {
            for key in missing { arrivals[key] = .failed(error) }
        }
        return arrivals
    }
}
