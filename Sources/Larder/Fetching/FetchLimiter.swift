import LarderFiles

/// A fetch, as its limiter sees it.
protocol LimitedFetch: AnyObject, Sendable {
    /// Whether another fetch waits for this one.
    var isNeededByFetch: Bool { get }
    /// True once nobody wants the result any more.
    var isOver: Bool { get }
    /// The highest priority among the waiting callers.
    var priority: TaskPriority? { get }
}

/// Limits how many fetches of a cache run at a time. The others wait; those of higher priority run first.
///
/// A fetch that another fetch waits for takes no slot: the other one may hold the last.
final class FetchLimiter: Sendable {
    private struct Waiting {
        var priority: TaskPriority
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var running = 0
        var waiting: [ObjectIdentifier: Waiting] = [:]
        /// By priority, oldest first. A flight whose priority was raised is in two of them.
        var queues: [UInt8: FIFO<ObjectIdentifier>] = [:]

        mutating func enqueue(_ flight: some LimitedFetch, _ priority: TaskPriority) {
            waiting[ObjectIdentifier(flight)]?.priority = priority
            queues[priority.rawValue, default: FIFO()].append(ObjectIdentifier(flight))
            // Flights that have gone on without a slot.
            if queues[priority.rawValue]!.count > 2 * waiting.count + 64 {
                queues[priority.rawValue]?.removeAll { waiting[$0]?.priority != priority }
            }
        }

        /// Returns the flight that runs next; nil frees the slot.
        mutating func next() -> CheckedContinuation<Bool, Never>? {
            while let priority = queues.keys.max() {
                while let flight = queues[priority]?.take() {
                    guard waiting[flight]?.priority.rawValue == priority else { continue }
                    return waiting.removeValue(forKey: flight)?.continuation
                }
                queues[priority] = nil
            }
            running -= 1
            return nil
        }
    }

    private let limit: Int
    private let state = Lock(State())

    init(limit: Int) {
        self.limit = max(1, limit)
    }

    /// Waits for a slot. Returns whether the flight has got one, which it must give back with `release`: not when the
    /// task is cancelled, or another fetch waits for this one.
    func acquire(for flight: some LimitedFetch) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer = state.withLock { state -> Bool? in
                    if flight.isNeededByFetch || flight.isOver { return false }
                    if state.running < limit {
                        state.running += 1
                        return true
                    }
                    let priority = max(Task.currentPriority, flight.priority ?? .background)
                    state.waiting[ObjectIdentifier(flight)] = Waiting(priority: priority, continuation: continuation)
                    state.enqueue(flight, priority)
                    return nil
                }
                if let answer { return continuation.resume(returning: answer) }
                if Task.isCancelled { admit(flight) }
            }
        } onCancel: {
            admit(flight)
        }
    }

    func release() {
        state.withLock { $0.next() }?.resume(returning: true)
    }

    /// Lets a waiting flight go on without a slot.
    func admit(_ flight: some LimitedFetch) {
        state.withLock { $0.waiting.removeValue(forKey: ObjectIdentifier(flight)) }?.continuation
            .resume(returning: false)
    }

    /// Moves a waiting flight forward: a caller of higher priority has joined it.
    func raise(_ flight: some LimitedFetch, to priority: TaskPriority) {
        state.withLock { state in
            guard let waiting = state.waiting[ObjectIdentifier(flight)], waiting.priority < priority else { return }
            state.enqueue(flight, priority)
        }
    }

    /// The flights that wait. For tests.
    var waitingCount: Int { state.withLock { $0.waiting.count } }
}
