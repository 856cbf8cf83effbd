import LarderFiles

/// The fetches that are under way on one directory, by key, so that no two run for one key and one type of values.
///
/// A flight may store what it brings for as long as it stands here. What sets or removes the key meanwhile, and what cancels the
/// flight or times it out, takes it off: it can overwrite nothing any more, and who comes later starts another.
final class Flights: Sendable {
    private let flying = Lock<[Key: [Flight]]>([:])
    private let failures = Lock(FailureLog())

    /// Joins the flights to some keys that are under way, and puts one more on its way to those that have none, which `make` returns.
    /// Returns a seat for each key, and the flight that is to be begun.
    func join(
        _ keys: [Key], of type: ObjectIdentifier, _ make: ([Key]) -> Flight
    ) -> (seats: [Waiter], new: Flight?) {
        flying.withLock { flying in
            var seats: [Waiter] = []
            var free: [Key] = []
            for key in keys {
                if let flight = flying[key]?.first(where: { $0.type == type }) {
                    seats.append(Waiter(in: flight, for: key))
                } else {
                    free.append(key)
                }
            }
            if free.isEmpty { return (seats, nil) }
            let new = make(free)
            for key in free {
                flying[key, default: []].append(new)
                seats.append(Waiter(in: new, for: key))
            }
            return (seats, new)
        }
    }

    /// Puts a flight on its way for which nobody waits, to those of some keys that have none.
    func start(_ keys: [Key], of type: ObjectIdentifier, _ make: ([Key]) -> Flight) -> Flight? {
        if keys.isEmpty { return nil }
        return flying.withLock { flying in
            let free = keys.filter { key in flying[key]?.contains { $0.type == type } != true }
            if free.isEmpty { return nil }
            let new = make(free)
            for key in free { flying[key, default: []].append(new) }
            return new
        }
    }

    /// Runs `body` unless the flight has been taken off for this key. In locks of the caller; `body` may take those of a memory tier.
    func whileFlying<Result>(_ flight: Flight, _ key: Key, _ body: () -> Result) -> Result? {
        flying.withLock { $0[key]?.contains { $0 === flight } == true ? body() : nil }
    }

    func isFlying(_ flight: Flight, _ key: Key) -> Bool {
        whileFlying(flight, key) { true } ?? false
    }

    /// Takes off the flights to a key, because it is being set or removed; but the one that does it.
    func invalidate(_ key: Key, but spared: Flight? = nil) {
        remove(from: key) { $0 !== spared }
    }

    /// The same while what there is for the key is changed in memory alone: in one piece, in the lock of the flights.
    func invalidating<Result>(_ key: Key, _ change: () -> Result) -> Result {
        let (gone, result) = flying.withLock { ($0.remove(from: key) { _ in true }, change()) }
        _ = consume gone
        return result
    }

    func invalidatingAll<Result>(_ change: () -> Result) -> Result {
        let (gone, result) = flying.withLock { flying in
            defer { flying = [:] }
            return (flying, change())
        }
        _ = consume gone
        return result
    }

    /// Takes off flights to keys in a namespace, or in all: those that are wanted.
    func invalidateAll(in space: Namespace? = nil, where isWanted: (Key, Flight) -> Bool = { _, _ in true }) {
        // Asked for outside of the lock: who decides takes locks too.
        let candidates = flying.withLock { flying in
            flying.filter { space == nil || $0.key.namespace == space }
        }
        for (key, flights) in candidates {
            for flight in flights where isWanted(key, flight) { invalidate(flight, from: key) }
        }
    }

    /// The right of a flight to write the keys that it brings.
    func permit(_ flight: Flight) -> any WritePermit { FlightPermit(flights: self, flight: flight) }

    private func invalidate(_ flight: Flight, from key: Key) {
        remove(from: key) { $0 === flight }
    }

    /// Takes a flight off for all its keys.
    func remove(_ flight: Flight) {
        for key in flight.keys { invalidate(flight, from: key) }
    }

    /// Leaves a seat early; the last who does so takes the flight off, unless it goes on by itself.
    func leave(_ seat: Waiter, as arrival: FetchOutcome, outlivesCallers: Bool = false) {
        let flight = seat.flight
        let left = flying.withLock { flying in
            let left = flight.leave(seat.number, as: arrival, outlivesCallers: outlivesCallers)
            // The seat still holds it: nothing ends in here.
            if left.isAbandoned { for key in flight.keys { flying.remove(from: key) { $0 === flight } } }
            return left
        }
        left.continuation?.resume(returning: arrival)
        if left.isAbandoned { flight.cancel() }
    }

    private func remove(from key: Key, _ isGone: (Flight) -> Bool) {
        // A flight may end with the last reference to it, and what it has fetched with the flight: not in here.
        let gone = flying.withLock { $0.remove(from: key, isGone) }
        _ = consume gone
    }

    /// For tests.
    var count: Int { flying.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// Notes that a fetch has failed, and for how long that is a reason not to try again.
    func noteFailure(of key: Key, until end: Timestamp, at now: Timestamp) {
        failures.withLock { $0.note(key, until: end, at: now) }
    }

    func noteSuccess(of key: Key) {
        failures.withLock { $0.remove(key) }
    }

    func hasFailed(_ key: Key, at now: Timestamp) -> Bool {
        failures.withLock { $0.has(key, at: now) }
    }
}

extension Flights: ChangeObserver {
    func didChange(_ key: Key, with permit: (any WritePermit)?) {
        invalidate(key, but: (permit as? FlightPermit)?.flight)
    }

    /// A tag takes off the flights that were given a value with it, and those that bring one.
    func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool) {
        guard case .tag(let tag) = scope else { return invalidateAll(in: scope.space) }
        invalidateAll(in: scope.space) { key, flight in flight.hasTag(tag) || isTagged(key) }
    }
}

private struct FlightPermit: WritePermit {
    let flights: Flights
    let flight: Flight

    func isValid(for key: Key) -> Bool { flights.isFlying(flight, key) }
}

extension Dictionary<Key, [Flight]> {
    @discardableResult
    fileprivate mutating func remove(from key: Key, _ isGone: (Flight) -> Bool) -> [Flight] {
        guard let flights = self[key] else { return [] }
        let stay = flights.filter { !isGone($0) }
        self[key] = stay.isEmpty ? nil : stay
        return flights.filter(isGone)
    }
}

/// Keys whose last fetch has failed, each for as long as that is a reason not to try again: a bounded number of them.
struct FailureLog: Sendable {
    /// Failures that are kept in mind. With more, all are tried again.
    static let most = 10_000

    private var ends: [Key: Timestamp] = [:]

    var count: Int { ends.count }

    /// O(1) amortised.
    mutating func note(_ key: Key, until end: Timestamp, at now: Timestamp) {
        if ends.count >= Self.most {
            ends = ends.filter { now < $0.value }
            if ends.count > Self.most / 2 { ends = [:] }
        }
        ends[key] = end
    }

    func has(_ key: Key, at now: Timestamp) -> Bool { ends[key].map { now < $0 } ?? false }

    mutating func remove(_ key: Key) {
        ends[key] = nil
    }
}
