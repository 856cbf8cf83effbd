package import Dispatch
import Foundation
package import LarderFiles

/// The clock of a simulated process: the time of the world, and its scheduler.
package final class SimulatedClock: Clock {
    private let clock: ManualClock
    private let simulator: Simulator
    private let process: Int
    private let executor: AnyTaskExecutor

    package init(_ clock: ManualClock, _ simulator: Simulator, process: Int) {
        self.clock = clock
        self.simulator = simulator
        self.process = process
        executor = AnyTaskExecutor(simulator, process: process)
    }

    package var now: Timestamp { clock.now }

    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork {
        clock.schedule(after: delay) { [simulator, process] in simulator.begin("timer", process: process, work) }
    }

    package func queue(_ label: String, _ quality: DispatchQoS) -> any WorkQueue {
        SimulatedQueue(label, simulator, process: process)
    }

    package var mainQueue: any WorkQueue { queue("main", .userInteractive) }

    /// The same on every machine.
    package var processorCount: Int { 2 }

    package func group() -> any WorkGroup { SimulatedGroup(simulator) }

    @discardableResult
    package func begin(
        _ priority: TaskPriority?, _ work: @escaping @concurrent @Sendable () async -> Void
    ) -> Task<Void, Never> {
        executor.begin(priority, work)
    }

    @discardableResult
    package func beginDetached(_ work: @escaping @concurrent @Sendable () async -> Void) -> Task<Void, Never> {
        executor.begin(nil, work)
    }

    package func runHalves(_ body: @Sendable (Int) -> Void) {
        for half in 0..<2 { body(half) }
    }
}

extension Simulator {
    /// Runs `body` on a thread of a process, and whatever is drawn beside it, until it has returned.
    package func perform<Result: Sendable, Failure: Error>(
        _ name: String, process: Int, _ body: @escaping @Sendable () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let outcome = Lock<Swift.Result<Result, Failure>?>(nil)
        begin(name, process: process) {
            let found = Swift.Result { () throws(Failure) -> Result in try body() }
            outcome.withLock { $0 = found }
        }
        wait { outcome.withLock { $0 != nil } }
        return try outcome.withLock { $0! }.get()
    }

    /// Waits on a simulated thread, or drives the simulation from outside.
    fileprivate func wait(for isDone: () -> Bool) {
        if isCaller, let thread = Simulation.thread { return thread.wait(until: isDone) }
        let isDone = withoutActuallyEscaping(isDone) { isDone in run(until: isDone) }
        precondition(isDone, "a thread outside the simulation waits for what never happens, beside \(names)")
    }
}

/// A serial queue of a simulation: a thread of it for each block.
///
/// `@unchecked Sendable`: `lock` protects the state. Not a `Lock`: a thread that waited for that would let others run.
private final class SimulatedQueue: WorkQueue, @unchecked Sendable {
    private let label: String
    private let simulator: Simulator
    private let process: Int
    private let lock = NSLock()
    /// The numbers of the blocks that have not begun, in their order.
    private var waiting: [Int] = []
    private var last = 0
    private var isBusy = false

    init(_ label: String, _ simulator: Simulator, process: Int) {
        self.label = label
        self.simulator = simulator
        self.process = process
    }

    func enqueue(_ work: @escaping @Sendable () -> Void) {
        let number = take()
        simulator.begin(label, process: process) { [self] in runInTurn(number, work) }
    }

    func enqueue(afterMilliseconds delay: Int, _ work: @escaping @Sendable () -> Void) {
        simulator.begin(label, process: process) { [self] in
            _ = Simulation.thread?.wait(until: { false }, orMicroseconds: UInt64(delay) * 1_000)
            runInTurn(take(), work)
        }
    }

    func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try runInTurn(take(), body)
    }

    func requireCurrent() {
        precondition(lock.withLock { isBusy }, "\(label) is not running")
    }

    private func take() -> Int {
        lock.withLock {
            last += 1
            waiting.append(last)
            return last
        }
    }

    private func runInTurn<Result, Failure: Error>(
        _ number: Int, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        simulator.wait { lock.withLock { !isBusy && waiting.first == number } }
        lock.withLock {
            waiting.removeFirst()
            isBusy = true
        }
        defer { lock.withLock { isBusy = false } }
        return try body()
    }
}

/// `@unchecked Sendable`: `lock` protects the state.
private final class SimulatedGroup: WorkGroup, @unchecked Sendable {
    private let simulator: Simulator
    private let lock = NSLock()
    private var count = 0

    init(_ simulator: Simulator) {
        self.simulator = simulator
    }

    func enter() { lock.withLock { count += 1 } }
    func leave() { lock.withLock { count -= 1 } }

    func wait() {
        simulator.wait { lock.withLock { count == 0 } }
    }
}

/// Runs the tasks of a process as threads of the simulation, where the platform lets a task choose its executor.
package struct AnyTaskExecutor: Sendable {
    private let begin: @Sendable (TaskPriority?, @escaping @concurrent @Sendable () async -> Void) -> Task<Void, Never>

    package init(_ simulator: Simulator, process: Int) {
        if #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) {
            let executor = SimulatedExecutor(simulator, process: process)
            begin = { Task(executorPreference: executor, priority: $0, operation: $1) }
        } else {
            begin = { Task(priority: $0, operation: $1) }
        }
    }

    @discardableResult
    package func begin(
        _ priority: TaskPriority?, _ work: @escaping @concurrent @Sendable () async -> Void
    ) -> Task<Void, Never> {
        begin(priority, work)
    }
}

@available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
private final class SimulatedExecutor: TaskExecutor {
    private let simulator: Simulator
    private let process: Int

    init(_ simulator: Simulator, process: Int) {
        self.simulator = simulator
        self.process = process
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        simulator.begin("task", process: process) { [self] in
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}
