import LarderFiles

/// How waiting for a fetch ends.
enum FetchOutcome: Sendable {
    /// A `Lookup` of the flight's type of values.
    case found(any Sendable)
    /// There is no value, according to the fetch or to the cache.
    case absent(isFetched: Bool)
    /// The fetch was for several keys and brought nothing for this one.
    case nothing
    case failed(any Error)
    /// The caller was cancelled.
    case left
    /// The caller's soft timeout has passed.
    case late
}

/// A caller waiting in a flight for one of its keys.
struct Waiter: Sendable {
    let flight: Flight
    /// Among the keys of the flight.
    let index: Int
    /// Its number among all waiters that have joined the flight.
    let number: Int

    var key: Key { flight.keys[index] }

    /// Waits until the flight finishes or the waiter leaves it.
    func outcome() async -> FetchOutcome { await flight.outcome(for: number) }
}

/// One run of a fetch, for one key or for several, and the callers that wait for it.
///
/// It knows the type of the values by identity alone: code that is compiled once for all types is faster than generic
/// code, which looks up the size of every value it moves.
final class Flight: Sendable {
    /// The type of the values. Flights of different types never join, even for the same key.
    let type: ObjectIdentifier
    let keys: [Key]
    private let state: Lock<FlightState>

    /// A flight that `outlivesCallers` is not cancelled when its last caller leaves.
    init(of type: ObjectIdentifier, to keys: [Key], tags: [Key], outlivesCallers: Bool) {
        self.type = type
        self.keys = keys
        state = Lock(FlightState(tags: tags, outlivesCallers: outlivesCallers))
    }

    /// Adds a waiter for `keys[index]`. Call it through `Flights`, while the flight is registered.
    func join(_ index: Int) -> Waiter {
        Waiter(flight: self, index: index, number: state.withLock { $0.join(index) })
    }

    /// Waits until the flight finishes or the waiter leaves it.
    func outcome(for number: Int) async -> FetchOutcome {
        await withCheckedContinuation { continuation in
            if let outcome = state.withLock({ $0.wait(number, continuation) }) {
                continuation.resume(returning: outcome)
            }
        }
    }

    /// Call it through `Flights`, so that nobody joins at the same time.
    func leave(_ number: Int, as outcome: FetchOutcome, outlivesCallers: Bool) -> FlightState.Departure {
        state.withLock { $0.leave(number, as: outcome, outlivesCallers: outlivesCallers) }
    }

    /// Notes the outcome for each key, in the order of `keys`, once nobody can join any more. Returns the callers to
    /// resume; nil when the flight has finished before.
    func finish(_ outcomes: [FetchOutcome]) -> [(FlightState.Continuation, FetchOutcome)]? {
        setOwner(nil)
        return state.withLock { $0.finish(outcomes) }
    }

    var isAbandoned: Bool { state.withLock { $0.isAbandoned } }

    /// Keeps the fetcher that runs the flight alive, until the flight finishes or is cancelled.
    func setOwner(_ owner: (any Sendable)?) {
        // The old owner may be released here: outside the lock.
        let old = state.withLock { state in
            defer { state.owner = owner }
            return state.owner
        }
        _ = consume old
    }

    /// Returns the fetcher that runs the flight; nil when nobody wants the result any more.
    func owner<Owner>(_ type: Owner.Type) -> Owner? {
        state.withLock { $0.owner } as? Owner
    }

    func add(tags: [Key]) {
        state.withLock { $0.tags += tags }
    }

    func hasTag(_ tag: Key) -> Bool { state.withLock { $0.tags.contains(tag) } }

    /// Notes the task that runs the flight, and catches up on a cancellation or a higher priority that came before it.
    func setTask(_ task: Task<Void, Never>, priority: TaskPriority) {
        let wanted = state.withLock { $0.setTask(task, priority) }
        if wanted.cancel { task.cancel() }
        if let priority = wanted.raise { task.raisePriority(to: priority) }
    }

    func cancel() {
        setOwner(nil)
        state.withLock { $0.cancel() }?.cancel()
    }

    /// Raises the priority of the task to that of a caller, where the platform can.
    func raise(to priority: TaskPriority) {
        state.withLock { $0.raise(to: priority) }?.raisePriority(to: priority)
    }
}

/// The state of a flight. Its methods decide; the flight resumes callers and cancels the task outside the lock.
struct FlightState: Sendable {
    typealias Continuation = CheckedContinuation<FetchOutcome, Never>

    private struct Caller {
        /// Among the keys of the flight.
        let index: Int
        var continuation: Continuation?
        /// Set when it is known before the caller waits.
        var outcome: FetchOutcome?
    }

    /// The effect of leaving a flight.
    struct Departure {
        var continuation: Continuation?
        /// Nobody is left who wants the result.
        var isAbandoned = false
    }

    private var callers: [Int: Caller] = [:]
    private var last = 0
    /// Callers without an outcome.
    private var waiting = 0
    private var outlivesCallers: Bool
    /// The tags of the values it brings and of those it was given.
    var tags: [Key]
    /// The fetcher that runs the flight, while anybody wants the result: a fetch that never ends must not keep the
    /// cache alive.
    var owner: (any Sendable)?
    private var hasFinished = false
    private(set) var isAbandoned = false
    private var task: Task<Void, Never>?
    private var priority: TaskPriority?
    private var isCancelled = false

    init(tags: [Key], outlivesCallers: Bool) {
        self.tags = tags
        self.outlivesCallers = outlivesCallers
    }

    mutating func join(_ index: Int) -> Int {
        last += 1
        waiting += 1
        callers[last] = Caller(index: index)
        return last
    }

    /// Keeps the continuation, unless the outcome is known: that is returned.
    mutating func wait(_ number: Int, _ continuation: Continuation) -> FetchOutcome? {
        guard let outcome = callers[number]?.outcome else {
            callers[number]?.continuation = continuation
            return nil
        }
        callers[number] = nil
        return outcome
    }

    /// Lets a caller leave early, with an outcome of its own. Does nothing when it has one.
    mutating func leave(_ number: Int, as outcome: FetchOutcome, outlivesCallers: Bool) -> Departure {
        guard let caller = callers[number], caller.outcome == nil else { return Departure() }
        if caller.continuation == nil {
            callers[number]?.outcome = outcome
        } else {
            callers[number] = nil
        }
        waiting -= 1
        if outlivesCallers { self.outlivesCallers = true }
        isAbandoned = !self.outlivesCallers && !hasFinished && waiting == 0
        return Departure(continuation: caller.continuation, isAbandoned: isAbandoned)
    }

    /// Returns the callers to resume; nil when the flight has finished before.
    mutating func finish(_ outcomes: [FetchOutcome]) -> [(Continuation, FetchOutcome)]? {
        if hasFinished { return nil }
        hasFinished = true
        waiting = 0
        var finished: [(Continuation, FetchOutcome)] = []
        for (number, caller) in callers where caller.outcome == nil {
            let outcome = outcomes[caller.index]
            if let continuation = caller.continuation {
                finished.append((continuation, outcome))
                callers[number] = nil
            } else {
                callers[number]?.outcome = outcome
            }
        }
        return finished
    }

    /// Notes the task; returns the requests that came before it.
    mutating func setTask(_ task: Task<Void, Never>, _ priority: TaskPriority) -> (cancel: Bool, raise: TaskPriority?) {
        let wanted = self.priority
        if !hasFinished { self.task = task }
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
    /// Has an effect from macOS 26 and iOS 26 on, and on Linux.
    fileprivate func raisePriority(to priority: TaskPriority) {
        if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            escalatePriority(to: priority)
        }
    }
}
