import LarderFiles

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
final class Flight: LimitedFetch {
    /// The type of the values. Flights of different types never join, even for the same key.
    let type: ObjectIdentifier
    let keys: [Key]
    let begun: Timestamp
    /// Whether it fetches values again that are in the cache, in the background.
    let isRefresh: Bool
    /// The limiter of the cache that began the flight; nil: no limit.
    let limiter: FetchLimiter?
    private let state: Lock<FlightState>

    /// The flight whose fetch the current task runs for, and the tasks that inherit its task-local values.
    @TaskLocal static var current: Flight?

    /// A flight that `outlivesCallers` is not cancelled when its last caller leaves.
    init(
        of type: ObjectIdentifier, to keys: [Key], at now: Timestamp, tags: [Key], outlivesCallers: Bool,
        isRefresh: Bool = false, limiter: FetchLimiter? = nil
    ) {
        self.type = type
        self.keys = keys
        begun = now
        self.isRefresh = isRefresh
        self.limiter = limiter
        state = Lock(FlightState(tags: tags, outlivesCallers: outlivesCallers))
    }

    /// Adds a waiter for `keys[index]`, and tags to its value. Call it through `Flights`, while the flight is
    /// registered.
    func join(_ index: Int, adding tags: [Key]) -> Waiter {
        Waiter(flight: self, index: index, number: state.withLock { $0.join(index, adding: tags) })
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
    /// resume; nil when the flight has finished before. `tellEnd` has to follow.
    func finish(_ outcomes: [FetchOutcome]) -> [(FlightState.Continuation, FetchOutcome)]? {
        setOwner(nil)
        defer { setRemotePart(nil) }
        return state.withLock { $0.finish(outcomes) }
    }

    /// Resumes the observers of the end, once the result is stored and counted.
    func tellEnd() {
        state.withLock { $0.takeEnd() }.tell()
    }

    var isAbandoned: Bool { state.withLock { $0.isAbandoned } }

    /// Notes the outcome for `keys[index]`. Returns the callers to resume.
    func settle(_ index: Int, _ outcome: FetchOutcome) -> [FlightState.Continuation] {
        state.withLock { $0.settle(index, outcome) }
    }

    func isSettled(_ index: Int) -> Bool { state.withLock { $0.settled.contains(index) } }

    /// Call it through `Flights`. False when the flight has not begun, and nobody waits for it.
    func withdraw(_ number: Int, _ tags: [Key]) -> (isWanted: Bool, outcome: FetchOutcome?) {
        state.withLock { $0.withdraw(number, tags) }
    }

    /// Notes that another fetch waits for this one, which therefore must not wait for the end of others.
    func noteNeeded() {
        state.withLock { $0.isNeededByFetch = true }
    }

    var isNeededByFetch: Bool { state.withLock { $0.isNeededByFetch } }

    /// Notes where a value was found that the user's fetch is given: it is in memory by now.
    func noteGiven(_ index: Int, from source: ValueSource) {
        state.withLock { $0.given[index] = source }
    }

    func given(_ index: Int) -> ValueSource? { state.withLock { $0.given[index] } }

    /// Notes that the user's fetch has returned: it waits for nothing any more.
    func noteFetched() {
        state.withLock { $0.hasFetched = true }
    }

    /// True while the user's fetch may wait for other flights.
    var mayWait: Bool { state.withLock { !$0.hasFetched && !$0.isOver } }

    /// True once nobody wants the result any more, or it is there.
    var isOver: Bool { state.withLock { $0.isOver } }

    /// Returns when the flight has finished or was cancelled, or the task is cancelled.
    func end() async {
        let number = state.withLock { $0.takeNumber() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if !state.withLock({ $0.observe(number, continuation) }) { return continuation.resume() }
                if Task.isCancelled { stopObserving(number) }
            }
        } onCancel: {
            stopObserving(number)
        }
    }

    /// True while somebody waits for its end. For tests.
    var isObserved: Bool { state.withLock { $0.isObserved } }

    /// The callers that have joined and not got their outcome. For tests.
    var callerCount: Int { state.withLock { $0.callerCount } }

    private func stopObserving(_ number: Int) {
        state.withLock { $0.takeObserver(number) }?.resume()
    }

    /// Keeps the timer of the flight's own timeout, which ends with it.
    func setTimer(_ timer: any ScheduledWork) {
        if !state.withLock({ $0.setTimer(timer) }) { timer.cancel() }
    }

    /// Keeps the fetcher that runs the flight alive, until the flight finishes or is cancelled.
    func setOwner(_ owner: (any Sendable)?) {
        // The old owner may be released here: outside the lock.
        let old = state.withLock { state in
            defer { state.owner = owner }
            return state.owner
        }
        _ = consume old
    }

    /// Keeps the flight's part in a remote tier until the flight is over: other machines then wait no longer, even if
    /// the user's fetch runs on.
    func setRemotePart(_ part: (any Sendable)?) {
        let old = state.withLock { state in
            defer { state.remotePart = state.isOver ? nil : part }
            return state.remotePart
        }
        _ = consume old
    }

    var remotePart: (any Sendable)? { state.withLock { $0.remotePart } }

    /// Returns the fetcher that runs the flight; nil when nobody wants the result any more.
    func owner<Owner>(_ type: Owner.Type) -> Owner? {
        state.withLock { $0.owner } as? Owner
    }

    /// Notes the tags of a value that the fetch was given.
    func add(tags: [Key]) {
        state.withLock { $0.tags += tags }
    }

    func hasTag(_ tag: Key) -> Bool { state.withLock { $0.hasTag(tag) } }

    /// The tags that joined callers have added to the value of `keys[index]`.
    func joinedTags(_ index: Int) -> [Key] { state.withLock { $0.joinedTags(index) } }

    /// Notes the task that runs the flight, and catches up on a cancellation or a higher priority that came before it.
    func setTask(_ task: Task<Void, Never>, priority: TaskPriority) {
        let wanted = state.withLock { $0.setTask(task, priority) }
        if wanted.cancel { task.cancel() }
        if let priority = wanted.raise { task.raisePriority(to: priority) }
    }

    func cancel() {
        setOwner(nil)
        let (task, end) = state.withLock { ($0.cancel(), $0.takeEnd()) }
        setRemotePart(nil)
        task?.cancel()
        end.tell()
    }

    /// The highest priority among the waiting callers.
    var priority: TaskPriority? { state.withLock { $0.priority } }

    /// Raises the priority of the task to that of a caller, where the platform can.
    func raise(to priority: TaskPriority) {
        state.withLock { $0.raise(to: priority) }?.raisePriority(to: priority)
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
