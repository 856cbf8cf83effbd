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
        /// No caller wants the result any more.
        var isAbandoned = false
    }

    /// The timer to cancel and the observers to resume once the flight is over.
    struct End {
        fileprivate var timer: (any ScheduledWork)?
        fileprivate var observers: [CheckedContinuation<Void, Never>] = []

        func tell() {
            timer?.cancel()
            for observer in observers { observer.resume() }
        }
    }

    private var callers: [Int: Caller] = [:]
    private var last = 0
    /// Callers without an outcome.
    private var waiting = 0
    private var outlivesCallers: Bool
    /// The tags of the values it brings, for the call that began it, and of those it was given.
    var tags: [Key]
    /// The tags that joined callers want as well, by the index of their key; each with the number of these callers.
    private var joinedTags: [Int: [(tag: Key, callers: Int)]] = [:]
    /// Whether another fetch waits for this one.
    var isNeededByFetch = false
    /// Where the values were found that the user's fetch was given, by the index of their key.
    var given: [Int: ValueSource] = [:]
    /// The flight's part in a remote tier.
    var remotePart: (any Sendable)?
    /// Whether the user's fetch has returned.
    var hasFetched = false
    /// The indices of the keys whose callers have been resumed.
    private(set) var settled: Set<Int> = []
    private var timer: (any ScheduledWork)?
    private var observers: [Int: CheckedContinuation<Void, Never>] = [:]
    /// The fetcher that runs the flight, while anybody wants the result: a fetch that never ends must not keep the
    /// cache alive.
    var owner: (any Sendable)?
    private var hasFinished = false
    /// Whether the observers of the end have been resumed.
    private var hasEnded = false
    private(set) var isAbandoned = false
    private var task: Task<Void, Never>?
    private(set) var priority: TaskPriority?
    private var isCancelled = false

    init(tags: [Key], outlivesCallers: Bool) {
        self.tags = tags
        self.outlivesCallers = outlivesCallers
    }

    mutating func join(_ index: Int, adding tags: [Key]) -> Int {
        waiting += 1
        let number = takeNumber()
        callers[number] = Caller(index: index)
        for tag in tags { change(by: 1, tag, index) }
        return number
    }

    /// In the order in which the first caller of each joined.
    func joinedTags(_ index: Int) -> [Key] { joinedTags[index]?.map(\.tag) ?? [] }

    private mutating func change(by difference: Int, _ tag: Key, _ index: Int) {
        if let place = joinedTags[index]?.firstIndex(where: { $0.tag == tag }) {
            joinedTags[index]?[place].callers += difference
        } else if difference > 0 {
            joinedTags[index, default: []].append((tag, difference))
        }
        joinedTags[index]?.removeAll { $0.callers == 0 }
    }

    /// Takes a caller back, and the tags that it added; with its outcome, to be released outside of the lock. The
    /// flight is not wanted when it has not begun, and nobody waits for it.
    mutating func withdraw(_ number: Int, _ tags: [Key]) -> (isWanted: Bool, outcome: FetchOutcome?) {
        let caller = callers.removeValue(forKey: number)
        if let caller {
            if caller.outcome == nil { waiting -= 1 }
            for tag in tags { change(by: -1, tag, caller.index) }
        }
        return (waiting > 0 || owner != nil || isOver, caller?.outcome)
    }

    /// Notes the outcome for one key. Returns the callers to resume.
    mutating func settle(_ index: Int, _ outcome: FetchOutcome) -> [Continuation] {
        settled.insert(index)
        var resumed: [Continuation] = []
        let waitingForIt = callers.filter { $0.value.index == index && $0.value.outcome == nil }
        for (number, caller) in waitingForIt.inOrder(of: { $0.key }) {
            waiting -= 1
            if let continuation = caller.continuation {
                resumed.append(continuation)
                callers[number] = nil
            } else {
                callers[number]?.outcome = outcome
            }
        }
        return resumed
    }

    mutating func takeNumber() -> Int {
        last += 1
        return last
    }

    func hasTag(_ tag: Key) -> Bool { tags.contains(tag) || joinedTags.values.joined().contains { $0.tag == tag } }

    var isOver: Bool { hasFinished || isCancelled }

    var isObserved: Bool { !observers.isEmpty }
    var callerCount: Int { callers.count }

    /// False when the flight is over.
    mutating func observe(_ number: Int, _ continuation: CheckedContinuation<Void, Never>) -> Bool {
        if hasEnded { return false }
        observers[number] = continuation
        return true
    }

    mutating func takeObserver(_ number: Int) -> CheckedContinuation<Void, Never>? {
        observers.removeValue(forKey: number)
    }

    /// False when the flight is over.
    mutating func setTimer(_ timer: any ScheduledWork) -> Bool {
        if isOver { return false }
        self.timer = timer
        return true
    }

    mutating func takeEnd() -> End {
        hasEnded = true
        defer { (timer, observers) = (nil, [:]) }
        return End(timer: timer, observers: observers.inOrder { $0.key }.map(\.value))
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
        for (number, caller) in callers.inOrder(of: { $0.key }) where caller.outcome == nil {
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
