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

/// Who waits for a flight, and what is to become of it: decides, and resumes and cancels nobody.
struct FlightState: Sendable {
    typealias Waiting = CheckedContinuation<FetchOutcome, Never>

    private struct Waiter {
        let key: Key
        var continuation: Waiting?
        /// What he is to be told, when that is known before he waits.
        var arrival: FetchOutcome?
    }

    /// What leaving a seat has led to.
    struct Left {
        var continuation: Waiting?
        /// Nobody is left who would want the result.
        var isAbandoned = false
    }

    private var waiters: [Int: Waiter] = [:]
    private var last = 0
    /// Those who have not been told anything.
    private var waiting = 0
    private var outlivesCallers: Bool
    /// Those of what it brings and of what it was given.
    var tags: [Key]
    /// Who has begun it, for as long as anybody wants the result: a fetch that does not end must not keep the cache.
    var owner: (any Sendable)?
    private var hasLanded = false
    private(set) var isAbandoned = false
    private var task: Task<Void, Never>?
    private var priority: TaskPriority?
    private var isCancelled = false

    init(tags: [Key], outlivesCallers: Bool) {
        self.tags = tags
        self.outlivesCallers = outlivesCallers
    }

    mutating func join(_ key: Key) -> Int {
        last += 1
        waiting += 1
        waiters[last] = Waiter(key: key)
        return last
    }

    /// Returns what he is to be told, when that is known by now.
    mutating func enter(_ number: Int, _ continuation: Waiting) -> FetchOutcome? {
        guard let arrival = waiters[number]?.arrival else {
            waiters[number]?.continuation = continuation
            return nil
        }
        waiters[number] = nil
        return arrival
    }

    /// A waiter leaves early, with an arrival of his own; nothing when he has arrived.
    mutating func leave(_ number: Int, as arrival: FetchOutcome, outlivesCallers: Bool) -> Left {
        guard let waiter = waiters[number], waiter.arrival == nil else { return Left() }
        if waiter.continuation == nil {
            waiters[number]?.arrival = arrival
        } else {
            waiters[number] = nil
        }
        waiting -= 1
        if outlivesCallers { self.outlivesCallers = true }
        isAbandoned = !self.outlivesCallers && !hasLanded && waiting == 0
        return Left(continuation: waiter.continuation, isAbandoned: isAbandoned)
    }

    /// Returns whom to tell what; nil when it has landed before.
    mutating func land(_ arrivals: [Key: FetchOutcome]) -> [(Waiting, FetchOutcome)]? {
        if hasLanded { return nil }
        hasLanded = true
        waiting = 0
        var told: [(Waiting, FetchOutcome)] = []
        for (number, waiter) in waiters where waiter.arrival == nil {
            let arrival = arrivals[waiter.key] ?? .nothing
            if let continuation = waiter.continuation {
                told.append((continuation, arrival))
                waiters[number] = nil
            } else {
                waiters[number]?.arrival = arrival
            }
        }
        return told
    }

    /// Notes the task; says what was asked of it before it was known.
    mutating func begin(_ task: Task<Void, Never>, _ priority: TaskPriority) -> (cancel: Bool, raise: TaskPriority?) {
        let wanted = self.priority
        if !hasLanded { self.task = task }
        self.priority = max(priority, wanted ?? priority)
        return (isCancelled, wanted.flatMap { $0 > priority ? $0 : nil })
    }

    mutating func cancel() -> Task<Void, Never>? {
        isCancelled = true
        return task
    }

    /// Returns the task when its priority is to be raised.
    mutating func raise(to priority: TaskPriority) -> Task<Void, Never>? {
        if let current = self.priority, current >= priority { return nil }
        self.priority = priority
        return task
    }
}

extension Task<Void, Never> {
    /// Where the system can: from macOS 26 and iOS 26 on, and on Linux.
    func raisePriority(to priority: TaskPriority) {
        if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            escalatePriority(to: priority)
        }
    }
}

/// A place in a flight.
struct Waiter: Sendable {
    let flight: Flight
    let key: Key
    let number: Int

    /// Takes one.
    init(in flight: Flight, for key: Key) {
        self.init(flight: flight, key: key, number: flight.join(key))
    }

    init(flight: Flight, key: Key, number: Int) {
        self.flight = flight
        self.key = key
        self.number = number
    }

    /// Waits for what arrives, or for the seat to be left.
    func wait() async -> FetchOutcome { await flight.wait(in: number) }
}

/// How waiting for a fetch ends.
enum FetchOutcome: Sendable {
    /// A `Lookup` of the type of the flight.
    case found(any Sendable)
    /// There is no value, as the fetch says, or the cache.
    case absent(isFetched: Bool)
    /// The fetch, which was for several keys, says nothing about this one.
    case nothing
    case failed(any Error)
    /// The caller was cancelled.
    case left
    /// The caller does not want to wait any longer.
    case late
}
