import LarderFiles

/// One run of a fetch, for one key or for several, and those who wait for it.
///
/// It knows nothing of the type of the values but its identity: what is the same for all types is compiled once, and quicker than
/// code that has to ask for the size of all that it moves.
final class Flight: Sendable {
    /// What it brings; flights of other types of values to the same key are strangers.
    let type: ObjectIdentifier
    let keys: [Key]
    private let state: Lock<FlightState>

    /// A flight that `outlivesCallers` is not cancelled when nobody waits for it any more.
    init(of type: ObjectIdentifier, to keys: [Key], tags: [Key], outlivesCallers: Bool) {
        self.type = type
        self.keys = keys
        state = Lock(FlightState(tags: tags, outlivesCallers: outlivesCallers))
    }

    /// Returns the number of a seat. Call it through `Flights`, before it has been taken off.
    func join(_ key: Key) -> Int {
        state.withLock { $0.join(key) }
    }

    /// Waits for what arrives, or for the seat to be left.
    func wait(in seat: Int) async -> FetchOutcome {
        await withCheckedContinuation { continuation in
            if let arrival = state.withLock({ $0.enter(seat, continuation) }) {
                continuation.resume(returning: arrival)
            }
        }
    }

    /// Call it through `Flights`, so that nobody joins meanwhile.
    func leave(_ seat: Int, as arrival: FetchOutcome, outlivesCallers: Bool) -> FlightState.Left {
        state.withLock { $0.leave(seat, as: arrival, outlivesCallers: outlivesCallers) }
    }

    /// Notes what has arrived for each key, once nobody can join any more. Returns whom to tell; nil when it has landed before.
    func land(_ arrivals: [Key: FetchOutcome]) -> [(FlightState.Waiting, FetchOutcome)]? {
        hold(nil)
        return state.withLock { $0.land(arrivals) }
    }

    var isAbandoned: Bool { state.withLock { $0.isAbandoned } }

    func hold(_ owner: (any Sendable)?) {
        // What was held ends outside of the lock.
        let old = state.withLock { state in
            defer { state.owner = owner }
            return state.owner
        }
        _ = consume old
    }

    /// Who has begun it; nil when nobody wants the result any more.
    func owner<Owner>(_ type: Owner.Type) -> Owner? {
        state.withLock { $0.owner } as? Owner
    }

    func note(tags more: [Key]) {
        state.withLock { $0.tags += more }
    }

    func hasTag(_ tag: Key) -> Bool { state.withLock { $0.tags.contains(tag) } }

    /// Says which task it is that flies.
    func begin(_ task: Task<Void, Never>, priority: TaskPriority) {
        let orders = state.withLock { $0.begin(task, priority) }
        if orders.cancel { task.cancel() }
        if let priority = orders.raise { task.raisePriority(to: priority) }
    }

    func cancel() {
        hold(nil)
        state.withLock { $0.cancel() }?.cancel()
    }

    /// A caller of higher priority raises that of the task, where the platform can.
    func raise(to priority: TaskPriority) {
        state.withLock { $0.raise(to: priority) }?.raisePriority(to: priority)
    }
}
