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
        /// The last clear of a tag before.
        let tagClear: UInt64
    }

    /// How a flight ends for a key.
    enum Ending {
        case answered
        /// With the reason not to try again for a while; nil: there is none.
        case failed(FailureLog.Failure?)
    }

    private struct Registry {
        private(set) var places: [Key: [Place]] = [:]
        /// The keys that are being modified.
        var watches = Watches()
        /// The flights whose fetches have returned and whose results are being stored and counted.
        var ending: [Flight] = []
        /// The tags that were cleared while flights were under way.
        var tagClears = TagClears()
        /// The keys whose last fetch has failed.
        var failures = FailureLog()

        func isRegistered(_ flight: Flight, for key: Key) -> Bool {
            places[key]?.contains { $0.flight === flight } ?? false
        }

        func place(of key: Key, _ type: ObjectIdentifier) -> Place? {
            places[key]?.first { $0.flight.type == type }
        }

        /// True when a key has no flight, and its last one has failed.
        func hasFailed(_ key: Key, _ type: ObjectIdentifier) -> Bool {
            place(of: key, type) == nil && failures.has(.init(key: key, type: type))
        }

        /// Registers a flight, which `make` returns, for those of `keys` that have none.
        mutating func add(_ keys: [Key], _ type: ObjectIdentifier, _ make: ([Key]) -> Flight) -> Flight? {
            let free = keys.filter { place(of: $0, type) == nil }
            if free.isEmpty { return nil }
            let flight = make(free)
            for (index, key) in free.enumerated() {
                places[key, default: []].append(Place(flight: flight, index: index, tagClear: tagClears.last))
            }
            return flight
        }

        /// Removes a flight for a key, and notes how it has ended. Nothing where it is registered no more: whoever has
        /// removed it has a later word on the key. The caller holds the flight, and releases the errors.
        mutating func end(_ flight: Flight, _ key: Key, _ ending: Ending) -> [any Error] {
            if remove(key, where: { $0 === flight }).isEmpty { return [] }
            let name = FailureLog.Name(key: key, type: flight.type)
            switch ending {
            case .answered: return failures.remove(name).map { [$0] } ?? []
            case .failed(let failure): return failure.map { failures.note(name, $0) } ?? []
            }
        }

        /// Returns the removed places: the last reference to a flight, and so to a user's value, must not be dropped
        /// under the lock.
        mutating func remove(_ key: Key, where isGone: (Flight) -> Bool = { _ in true }) -> [Place] {
            guard let places = places[key] else { return [] }
            let rest = places.filter { !isGone($0.flight) }
            self.places[key] = rest.isEmpty ? nil : rest
            return places.filter { isGone($0.flight) }
        }

        mutating func removeAll() -> [Key: [Place]] {
            watches.noteChanges { _ in true }
            defer { places = [:] }
            return places
        }
    }

    private let registry = Lock(Registry())
    /// The number of the last failure that is a reason not to try again. Read by every call that may be throttled.
    private let failureCount = Word()
    /// Those of the callers that modify values.
    let turns = KeyTurns()

    /// Joins a flight for each key, whose value gets `tags` too. Keys without one share a new flight, which `make`
    /// returns and the caller has to begin.
    ///
    /// - Returns: A waiter for each key, in their order, and the new flight; nil where a key without a flight has failed
    ///   after the failure number `seen`: that may be a reason not to begin another one.
    func join(
        _ keys: [Key], of type: ObjectIdentifier, adding tags: [Key] = [], ifNoneFailedAfter seen: UInt64? = nil,
        _ make: ([Key]) -> Flight
    ) -> (waiters: [Waiter], new: Flight?)? {
        registry.withLock { registry in
            if let seen, registry.failures.last > seen, keys.contains(where: { registry.hasFailed($0, type) }) {
                return nil
            }
            let new = registry.add(keys, type, make)
            let waiters = keys.compactMap { key in
                registry.place(of: key, type).map { $0.flight.join($0.index, adding: $0.flight === new ? [] : tags) }
            }
            return (waiters, new)
        }
    }

    /// Registers a new flight for the keys that have none; nobody waits for it. `sparingFailed`: not for those whose
    /// last fetch has failed, as long as that counts.
    func start(
        _ keys: [Key], of type: ObjectIdentifier, sparingFailed: Bool = false, at now: Timestamp,
        _ make: ([Key]) -> Flight
    ) -> Flight? {
        registry.withLock { registry in
            let failures = registry.failures
            let due = keys.filter { !sparingFailed || failures.error(of: .init(key: $0, type: type), at: now) == nil }
            return registry.add(due, type, make)
        }
    }

    /// Changes the value of a key if the flight is registered for it. The caller may hold locks; `change` may take
    /// those of a memory tier.
    func whileRegistered<Result>(_ flight: Flight, for key: Key, _ change: () -> Result) -> Result? {
        registry.withLock { registry in
            guard registry.isRegistered(flight, for: key) else { return nil }
            registry.watches.noteChange(of: key)
            return change()
        }
    }

    /// Notes the tags that a fetch has brought for a key. Returns false when one of them was cleared since the flight
    /// began: its value may be older than that.
    func mayBring(_ tags: [Key], _ flight: Flight, for key: Key) -> Bool {
        registry.withLock { registry in
            guard let place = registry.places[key]?.first(where: { $0.flight === flight }) else { return false }
            flight.add(tags: tags)
            return !registry.tagClears.hasAny(of: tags, after: place.tagClear)
        }
    }

    /// True when a flight of this type is under way for the key.
    func isUnderWay(_ key: Key, _ type: ObjectIdentifier) -> Bool {
        registry.withLock { !$0.places.isEmpty && $0.place(of: key, type) != nil }
    }

    /// All flights under way.
    var all: [Flight] {
        var known: Set<ObjectIdentifier> = []
        let flights = registry.withLock { registry in
            (registry.places.values.joined().map(\.flight) + registry.ending).inOrder {
                $0.keys[0].hash
            }
        }
        return flights.filter { known.insert(ObjectIdentifier($0)).inserted }
    }

    func beginEnding(_ flight: Flight) {
        registry.withLock { $0.ending.append(flight) }
    }

    /// The caller holds the flight, so that it is not released under the lock.
    func endEnding(_ flight: Flight) {
        registry.withLock { $0.ending.removeAll { $0 === flight } }
    }

    /// Removes a flight for one of its keys, whose value is stored: nobody joins it any more. False when callers
    /// want other tags than these by now.
    func retire(_ flight: Flight, _ index: Int, ifTags tags: [Key]) -> Bool {
        let gone = registry.withLock { registry in
            flight.joinedTags(index) == tags ? registry.end(flight, flight.keys[index], .answered) : nil
        }
        return gone != nil
    }

    /// Removes a flight for one of its keys, and notes how it has ended, in one step: the end of a flight that begins
    /// afterwards is not hidden by this one.
    func end(_ flight: Flight, for key: Key, _ ending: Ending) {
        let gone = registry.withLock { registry in
            defer { failureCount.value = registry.failures.last }
            return registry.end(flight, key, ending)
        }
        _ = consume gone
    }

    func isRegistered(_ flight: Flight, for key: Key) -> Bool {
        registry.withLock { $0.isRegistered(flight, for: key) }
    }

    /// Returns the right of a flight to write the keys it is registered for.
    func permit(_ flight: Flight) -> any WritePermit { FlightPermit(flights: self, flight: flight) }

    /// Removes the flights for a key that is being set or removed, except the flight that does so.
    func invalidate(_ key: Key, except writer: Flight? = nil) {
        let gone = registry.withLock { registry in
            registry.watches.noteChange(of: key)
            return registry.remove(key) { $0 !== writer }
        }
        _ = consume gone
    }

    /// Removes the flights for a key and changes memory in one step, under the lock of the flights.
    func invalidating<Result>(_ key: Key, _ change: () -> Result) -> Result {
        let (gone, result) = registry.withLock { registry in
            registry.watches.noteChange(of: key)
            return (registry.remove(key), change())
        }
        _ = consume gone
        return result
    }

    /// The same for all keys.
    func invalidatingAll<Result>(_ change: () -> Result) -> Result {
        let (gone, result) = registry.withLock { ($0.removeAll(), change()) }
        _ = consume gone
        return result
    }

    /// Changes the values with a tag, in memory, and removes the flights that were given one or bring one, in one step.
    /// `change` returns the keys of the values.
    func clearing<Result>(_ tag: Key, _ change: () -> (keys: Set<String>, Result)) -> Result {
        let (gone, result) = registry.withLock { registry -> ([Place], Result) in
            registry.tagClears.note(tag, isAnyUnderWay: !registry.places.isEmpty)
            let (keys, result) = change()
            registry.watches.noteChanges { keys.contains($0.text) }
            var gone: [Place] = []
            for (key, places) in registry.places.inOrder(of: { $0.key.hash }) {
                let isWanted = keys.contains(key.text)
                if isWanted || places.contains(where: { $0.flight.hasTag(tag) }) {
                    gone += registry.remove(key) { isWanted || $0.hasTag(tag) }
                }
            }
            return (gone, result)
        }
        _ = consume gone
        return result
    }

    /// Removes flights for keys in a namespace, or in all, that satisfy a condition.
    func invalidateAll(in namespace: Namespace? = nil, where isWanted: (Key, Flight) -> Bool = { _, _ in true }) {
        // `isWanted` takes locks: it is called outside this one.
        let candidates = registry.withLock { registry in
            registry.places.filter { namespace == nil || $0.key.namespace == namespace }
        }
        for (key, places) in candidates.inOrder(of: { $0.key.hash }) {
            for place in places where isWanted(key, place.flight) { remove(key) { $0 === place.flight } }
        }
    }

    /// Takes a waiter back, and the tags that it added, as if it had never joined. Returns false when nobody else wants
    /// its flight: that is removed.
    func withdraw(_ waiter: Waiter, _ tags: [Key]) -> Bool {
        let flight = waiter.flight
        let (isWanted, outcome) = registry.withLock { registry in
            let withdrawn = flight.withdraw(waiter.number, tags)
            if !withdrawn.isWanted {
                // The waiter still holds the flight: nothing is released under the lock.
                for key in flight.keys { _ = registry.remove(key) { $0 === flight } }
            }
            return withdrawn
        }
        _ = consume outcome
        return isWanted
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

    /// The error of a fetch that has failed recently.
    func failure(of key: Key, _ type: ObjectIdentifier, at now: Timestamp) -> (any Error)? {
        registry.withLock { $0.failures.error(of: .init(key: key, type: type), at: now) }
    }

    var lastFailure: UInt64 { failureCount.value }
}

/// Values that are being modified.
extension Flights {
    /// Notes every change of a key from now on, until `endWatch`.
    func watch(_ key: Key) -> Watch {
        let watch = Watch(key)
        registry.withLock { $0.watches.add(watch) }
        return watch
    }

    func isUnchanged(_ watch: Watch) -> Bool {
        registry.withLock { $0.watches.isUnchanged(watch) }
    }

    func endWatch(_ watch: Watch) {
        registry.withLock { $0.watches.remove(watch) }
    }

    /// Changes memory, and removes the flights for the key, if it has not changed since the watch began. One step,
    /// under the lock of the flights.
    func ifUnchanged<Result>(_ watch: Watch, _ change: () -> Result) -> Result? {
        let changed = registry.withLock { registry -> ([Place], Result)? in
            guard registry.watches.isUnchanged(watch) else { return nil }
            registry.watches.noteChange(of: watch.key)
            return (registry.remove(watch.key), change())
        }
        return changed?.1
    }

    /// Makes a change that leaves flights alone, that of a life.
    func noting<Result>(_ key: Key, _ change: () -> Result) -> Result {
        registry.withLock { registry in
            registry.watches.noteChange(of: key)
            return change()
        }
    }
}

extension Flights: ChangeObserver {
    func didChange(_ key: Key, with permit: (any WritePermit)?) {
        if let permit, permit.event == nil { return }
        invalidate(key, except: (permit as? FlightPermit)?.flight)
    }

    /// Clearing a tag removes the flights that were given a value with it and those that bring one.
    func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool) {
        guard case .tag(let tag) = scope else {
            registry.withLock { $0.watches.noteChanges { scope.namespace == nil || $0.namespace == scope.namespace } }
            return invalidateAll(in: scope.namespace)
        }
        registry.withLock { $0.tagClears.note(tag, isAnyUnderWay: !$0.places.isEmpty) }
        invalidateAll(in: scope.namespace) { key, flight in flight.hasTag(tag) || isTagged(key) }
    }
}

private struct FlightPermit: WritePermit {
    let flights: Flights
    let flight: Flight

    func isValid(for key: Key) -> Bool { flights.isRegistered(flight, for: key) }
}
