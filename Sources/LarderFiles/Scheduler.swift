package import Dispatch
import LarderFoundation

/// Runs what the library does later: timers, queues, tasks. All of it goes through here, so a test can own the order.
///
/// The defaults are the system's.
package protocol Scheduler: Sendable {
    /// Runs `work` once, after `delay` or later, on a thread of the scheduler's choice, unless it is cancelled before.
    @discardableResult
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork

    /// Returns a new serial queue with a thread of its own.
    func queue(_ label: String, _ quality: DispatchQoS) -> any WorkQueue

    /// The queue of the main thread.
    var mainQueue: any WorkQueue { get }

    /// How much work to run at once.
    var processorCount: Int { get }

    /// Returns a new group of work, which can be waited for.
    func group() -> any WorkGroup

    /// Begins a task that belongs to no other; nil: the priority of the caller.
    @discardableResult
    func begin(_ priority: TaskPriority?, _ work: @escaping @concurrent @Sendable () async -> Void) -> Task<Void, Never>

    /// Begins a task that inherits nothing from the caller.
    @discardableResult
    func beginDetached(_ work: @escaping @concurrent @Sendable () async -> Void) -> Task<Void, Never>

    /// Runs `body` with 0 and with 1, on two threads, and waits for both.
    func runHalves(_ body: @Sendable (Int) -> Void)
}

extension Scheduler {
    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork {
        TimerQueue.shared.schedule(after: delay, work)
    }

    package func queue(_ label: String, _ quality: DispatchQoS) -> any WorkQueue {
        DispatchQueue(label: label, qos: quality)
    }

    package var mainQueue: any WorkQueue { DispatchQueue.main }

    package var processorCount: Int { ProcessInfo.processInfo.activeProcessorCount }

    package func group() -> any WorkGroup { DispatchGroup() }

    @discardableResult
    package func begin(_ priority: TaskPriority?, _ work: @escaping @concurrent @Sendable () async -> Void) -> Task<
        Void, Never
    > {
        Task(priority: priority, operation: work)
    }

    @discardableResult
    package func beginDetached(_ work: @escaping @concurrent @Sendable () async -> Void) -> Task<Void, Never> {
        Task.detached(operation: work)
    }

    package func runHalves(_ body: @Sendable (Int) -> Void) {
        DispatchQueue.concurrentPerform(iterations: 2, execute: body)
    }
}

/// Runs blocks one after another, in the order in which they were enqueued.
package protocol WorkQueue: Sendable {
    func enqueue(_ work: @escaping @Sendable () -> Void)

    func enqueue(afterMilliseconds delay: Int, _ work: @escaping @Sendable () -> Void)

    /// Runs `body` in its turn, and waits for it. Must not be called from a block of the same queue.
    func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result

    /// Stops the program unless a block of the queue is running.
    func requireCurrent()
}

extension DispatchQueue: WorkQueue {
    package func enqueue(_ work: @escaping @Sendable () -> Void) {
        async(execute: work)
    }

    package func enqueue(afterMilliseconds delay: Int, _ work: @escaping @Sendable () -> Void) {
        asyncAfter(deadline: .now() + .milliseconds(delay), execute: work)
    }

    /// `sync` with a typed error.
    package func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        var outcome: Swift.Result<Result, Failure>?
        sync { outcome = Swift.Result { () throws(Failure) -> Result in try body() } }
        return try outcome!.get()
    }

    package func requireCurrent() {
        dispatchPrecondition(condition: .onQueue(self))
    }
}

/// Work that is under way. As in Dispatch, `wait` returns once there has been a `leave` for each `enter`.
package protocol WorkGroup: Sendable {
    func enter()
    func leave()
    func wait()
}

extension DispatchGroup: WorkGroup {}
