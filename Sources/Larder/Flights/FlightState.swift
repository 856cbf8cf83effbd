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
