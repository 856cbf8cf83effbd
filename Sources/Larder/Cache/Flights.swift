import LarderFiles

/// The flights that are under way on one directory, by key: at most one for each key and type of values.
///
/// A flight may store values as long as it is registered for their keys. Setting or removing a key removes its flights
/// from here, as does cancelling a flight or timing it out: such a flight can overwrite nothing any more, and later
/// callers start another.
final class Flights: Sendable {
    /// A flight, registered for one of its keys.
    private struct Place {
        let flight: Flight
        let index: Int
    }

    private struct Registry {
        private(set) var places: [Key: [Place]] = [:]

        func place(of key: Key, _ type: ObjectIdentifier) -> Place? {
            places[key]?.first { $0.flight.type == type }
        }

        /// Registers a flight, which `make` returns, for those of `keys` that have none.
        mutating func add(_ keys: [Key], _ type: ObjectIdentifier, _ make: ([Key]) -> Flight) -> Flight? {
            let free = keys.filter { place(of: $0, type) == nil }
            if free.isEmpty { return nil }
            let flight = make(free)
            for (index, key) in free.enumerated() {
                places[key, default: []].append(Place(flight: flight, index: index))
            }
            return flight
        }

        /// Returns what it removes: the last reference to a flight, and so to a user's value, must not be dropped
        /// under the lock.
        mutating func remove(_ key: Key, where isGone: (Flight) -> Bool = { _ in true }) -> [Place] {
            guard let places = places[key] else { return [] }
            let rest = places.filter { !isGone($0.flight) }
            self.places[key] = rest.isEmpty ? nil : rest
            return places.filter { isGone($0.flight) }
        }

        mutating func removeAll() -> [Key: [Place]] {
            defer { places = [:] }
            return places
        }
    }

    private let registry = Lock(Registry())
    private let failures = Lock(FailureLog())

    /// Joins a flight for each key, whose value gets `tags` too. Keys without one share a new flight, which `make`
    /// returns and the caller has to begin.
    ///
    /// - Returns: A waiter for each key, in their order, and the new flight.
    func join(
        _ keys: [Key], of type: ObjectIdentifier, adding tags: [Key] = [], _ make: ([Key]) -> Flight
    ) -> (waiters: [Waiter], new: Flight?) {
        registry.withLock { registry in
            let new = registry.add(keys, type, make)
            let waiters = keys.compactMap { key in
                registry.place(of: key, type).map { $0.flight.join($0.index, adding: $0.flight === new ? [] : tags) }
            }
            return (waiters, new)
        }
    }

    /// Registers a new flight for the keys that have none; nobody waits for it.
    func start(_ keys: [Key], of type: ObjectIdentifier, _ make: ([Key]) -> Flight) -> Flight? {
        registry.withLock { $0.add(keys, type, make) }
    }

    /// Runs `body` if the flight is registered for the key. The caller may hold locks; `body` may take those of a
    /// memory tier.
    func whileRegistered<Result>(_ flight: Flight, for key: Key, _ body: () -> Result) -> Result? {
        registry.withLock { registry in
            registry.places[key]?.contains { $0.flight === flight } == true ? body() : nil
        }
    }

    /// True when a flight of this type is under way for the key.
    func isUnderWay(_ key: Key, _ type: ObjectIdentifier) -> Bool {
        registry.withLock { !$0.places.isEmpty && $0.place(of: key, type) != nil }
    }

    /// All flights under way.
    var all: [Flight] {
        var known: Set<ObjectIdentifier> = []
        let flights = registry.withLock { registry in registry.places.values.joined().map(\.flight) }
        return flights.filter { known.insert(ObjectIdentifier($0)).inserted }
    }

    /// Removes a flight for one of its keys, whose value is stored: nobody joins it any more. False when callers
    /// want other tags than these by now.
    func retire(_ flight: Flight, _ index: Int, ifTags tags: [Key]) -> Bool {
        registry.withLock { registry in
            guard flight.joinedTags(index) == tags else { return false }
            // The caller still holds the flight: nothing is released under the lock.
            _ = registry.remove(flight.keys[index]) { $0 === flight }
            return true
        }
    }

    func isRegistered(_ flight: Flight, for key: Key) -> Bool {
        whileRegistered(flight, for: key) { true } ?? false
    }

    /// Returns the right of a flight to write the keys it is registered for.
    func permit(_ flight: Flight) -> any WritePermit { FlightPermit(flights: self, flight: flight) }

    /// Removes the flights for a key that is being set or removed, except the flight that does so.
    func invalidate(_ key: Key, except writer: Flight? = nil) {
        remove(key) { $0 !== writer }
    }

    /// Removes the flights for a key and changes memory in one step, under the lock of the flights.
    func invalidating<Result>(_ key: Key, _ change: () -> Result) -> Result {
        let (gone, result) = registry.withLock { ($0.remove(key), change()) }
        _ = consume gone
        return result
    }

    /// The same for all keys.
    func invalidatingAll<Result>(_ change: () -> Result) -> Result {
        let (gone, result) = registry.withLock { ($0.removeAll(), change()) }
        _ = consume gone
        return result
    }

    /// Removes flights for keys in a namespace, or in all, that satisfy a condition.
    func invalidateAll(in namespace: Namespace? = nil, where isWanted: (Key, Flight) -> Bool = { _, _ in true }) {
        // `isWanted` takes locks: it is called outside this one.
        let candidates = registry.withLock { registry in
            registry.places.filter { namespace == nil || $0.key.namespace == namespace }
        }
        for (key, places) in candidates {
            for place in places where isWanted(key, place.flight) { remove(key) { $0 === place.flight } }
        }
    }

    /// Removes a flight for one of its keys.
    func remove(_ flight: Flight, for key: Key) {
        remove(key) { $0 === flight }
    }

    /// Takes a waiter back, and the tags that it added, as if it had never joined. Returns false when nobody else wants its flight: that is removed.
    func withdraw(_ waiter: Waiter, _ tags: [Key]) -> Bool {
        let flight = waiter.flight
        return registry.withLock { registry in
            if flight.withdraw(waiter.number, tags) { return true }
            // The waiter still holds the flight: nothing is released under the lock.
            for key in flight.keys { _ = registry.remove(key) { $0 === flight } }
            return false
        }
    }

    /// Removes a flight for all its keys.
    func remove(_ flight: Flight) {
        for key in flight.keys { remove(flight, for: key) }
    }

    private func remove(_ key: Key, where isGone: (Flight) -> Bool) {
        let gone = registry.withLock { $0.remove(key, where: isGone) }
        _ = consume gone
    }

    /// Leaves a flight early. When the last waiter does, the flight is removed and cancelled, unless it outlives its
    /// callers.
    func leave(_ waiter: Waiter, as outcome: FetchOutcome, outlivesCallers: Bool = false) {
        let flight = waiter.flight
        let departure = registry.withLock { registry in
            let departure = flight.leave(waiter.number, as: outcome, outlivesCallers: outlivesCallers)
            // The waiter still holds the flight: nothing is released under the lock.
            if departure.isAbandoned {
                for key in flight.keys { _ = registry.remove(key) { $0 === flight } }
            }
            return departure
        }
        departure.continuation?.resume(returning: outcome)
        if departure.isAbandoned { flight.cancel() }
    }

    /// For tests.
    var count: Int { registry.withLock { $0.places.values.reduce(0) { $0 + $1.count } } }

    /// Notes that a fetch has failed, and until when that is a reason not to try again.
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
        invalidate(key, except: (permit as? FlightPermit)?.flight)
    }

    /// Clearing a tag removes the flights that were given a value with it and those that bring one.
    func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool) {
        guard case .tag(let tag) = scope else { return invalidateAll(in: scope.namespace) }
        invalidateAll(in: scope.namespace) { key, flight in flight.hasTag(tag) || isTagged(key) }
    }
}

private struct FlightPermit: WritePermit {
    let flights: Flights
    let flight: Flight

    func isValid(for key: Key) -> Bool { flights.isRegistered(flight, for: key) }
}

/// Keys whose last fetch failed, each for as long as that is a reason not to try again. Bounded.
struct FailureLog: Sendable {
    /// The most failures that are kept. Beyond it all keys may be tried again.
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

    func has(_ key: Key, at now: Timestamp) -> Bool { !ends.isEmpty && ends[key].map { now < $0 } ?? false }

    mutating func remove(_ key: Key) {
        ends[key] = nil
    }
}
