import Dispatch
import Foundation
import LarderFiles

/// Runs threads one at a time, in an order that a seed gives: the same seed, the same run.
///
/// A thread keeps its turn until it waits, ends, or makes a step and another one is drawn. Each is a thread of the
/// system, so code under test blocks and locks as usual. Time stands still while a thread runs: a step takes a
/// microsecond, and when all wait, the time moves on to the first end of a wait.
///
/// `@unchecked Sendable`: the state is accessed by the thread that has its turn; and while none has, by the driver, the
/// thread outside that calls `run` and holds `driving`. Threads begun by anybody else arrive through `arrivals`.
package final class Simulator: @unchecked Sendable {
    /// The percentage of steps after which the next thread is drawn. Default: 20.
    package var switchPercent = 20
    /// The most lines that `trace` keeps, the first ones. Default: none.
    package var tracedLines = 0
    /// How long to wait for something outside of the simulation when no thread is ready, in milliseconds. Default: not
    /// at all, for a program that does nothing else.
    package var patience = 0
    package private(set) var trace: [String] = []
    /// The hash of all lines so far.
    package private(set) var traceHash: UInt64 = 0xCBF2_9CE4_8422_2325
    /// The steps so far: a logical time.
    package private(set) var steps: UInt64 = 0
    /// The simulated microseconds since the beginning.
    package private(set) var microseconds: UInt64 = 0

    private var order: SeededGenerator
    private var numbers: SeededGenerator
    private var threads: [Thread] = []
    private var current: Thread?
    private var stopped: Set<Int> = []
    private var held: Set<Int> = []
    private var idle: [Worker] = []
    private var lastThread = 0
    /// The steps and draws that are left before the driver goes on.
    private var turns = Int.max
    /// Ends the driver's wait.
    private var isDone: (() -> Bool)?
    private let driver = DispatchSemaphore(value: 0)
    private let driving = NSLock()
    private var arrivals: [Thread] = []
    private var isAbandoned = false
    /// Protects `arrivals`. Not a `Lock`: a thread that waited for that would let others run.
    private let arriving = NSLock()
    private let hasMoved = Flag()

    package init(seed: UInt64) {
        // Random hashes would decide which keys share a lock.
        HashSeed.fixed.withLock { $0 = $0 ?? 1 }
        order = SeededGenerator(seed: seed)
        numbers = SeededGenerator(seed: seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    deinit {
        for worker in idle { worker.end() }
    }

    /// Adds a thread, which is ready; nil: to the process or the group of the caller.
    package func begin(
        _ name: String, process: Int? = nil, group: Int? = nil, _ body: @escaping @Sendable () -> Void
    ) {
        let thread = Thread(name, process ?? caller?.process ?? 0, group ?? caller?.group ?? 0, self, body)
        arriving.withLock { if !isAbandoned { arrivals.append(thread) } }
    }

    /// The calling thread, if it is one of this simulation.
    private var caller: Thread? {
        guard let thread = Simulation.thread as? Thread, thread.simulator === self else { return nil }
        return thread
    }

    /// True on a thread of this simulation.
    package var isCaller: Bool { caller != nil }

    /// Runs ready threads until none is left. A thread of the simulation waits until no other is ready.
    package func run() {
        if let caller {
            caller.isLast = true
            pass(caller)
            caller.isLast = false
        } else {
            // A lock that all caches of the program share may be held outside.
            _ = run(patience: min(patience, 100)) {
                self.threads.isEmpty && self.arriving.withLock { self.arrivals.isEmpty }
            }
        }
    }

    /// Lets threads make some steps; false when none is ready before.
    package func run(steps: Int) -> Bool {
        driving.withLock {
            _ = drive(turns: steps, until: nil)
            return turns < 1
        }
    }

    /// Runs threads until a condition holds; false when none has been ready for as long as the patience lasts.
    ///
    /// `sparesBusy`: the time counts only while the main actor and tasks outside of the simulation get their turns. Not
    /// for a caller that may have the thread of one of them.
    package func run(sparingBusy sparesBusy: Bool = false, until isDone: @escaping () -> Bool) -> Bool {
        run(patience: patience, sparingBusy: sparesBusy, isDone)
    }

    /// Others may drive in between: each runs the threads of all.
    private func run(patience: Int, sparingBusy sparesBusy: Bool = false, _ isDone: @escaping () -> Bool) -> Bool {
        var waited = 0
        var turn: DispatchSemaphore?
        while true {
            let (isOver, hasRun) = driving.withLock {
                isDone() ? (true, false) : (false, drive(turns: .max, until: isDone))
            }
            if isOver { return true }
            if hasRun {
                waited = 0
            } else if waited == patience {
                return false
            } else {
                Foundation.Thread.sleep(forTimeInterval: 0.001)
                if sparesBusy {
                    let asked = turn ?? Self.askForTurn()
                    turn = asked
                    if asked.wait(timeout: .now()) == .timedOut { continue }
                    turn = nil
                }
                waited += 1
            }
        }
    }

    /// Signals once the main actor and a task have had a turn.
    private static func askForTurn() -> DispatchSemaphore {
        let turn = DispatchSemaphore(value: 0)
        Task.detached {
            await MainActor.run {}
            turn.signal()
        }
        return turn
    }

    /// Returns whether a thread has run.
    private func drive(turns: Int, until isDone: (() -> Bool)?) -> Bool {
        precondition(caller == nil, "a simulated thread drives its own simulation")
        self.turns = turns
        self.isDone = isDone
        defer { self.isDone = nil }
        guard let next = draw() else { return false }
        self.turns -= 1
        resume(next)
        while driver.wait(timeout: .now() + .seconds(10)) == .timedOut {
            if !hasMoved.isSet { Self.warn() }
            hasMoved.set(false)
        }
        current = nil
        return true
    }

    private static func warn() {
        let text = """
            A simulation has made no step for ten seconds. Does a thread wait outside of it, perhaps for a lock of the \
            test that another one holds across a call of a cache?

            """
        FileHandle.standardError.write(Data(text.utf8))
    }

    /// Ends a simulation that nobody will drive any more: what has not begun never will, and is released.
    package func abandon() {
        // Released outside of the lock, because that may begin another one.
        _ = arriving.withLock {
            isAbandoned = true
            defer { arrivals = [] }
            return arrivals
        }
        threads = threads.filter { $0.worker != nil }
    }

    /// Notes what the running thread is about to do, and draws the next thread.
    func step(_ code: Int, _ line: () -> String) {
        guard let thread = caller else { return }
        hasMoved.set()
        steps += 1
        microseconds += 1
        for word in [UInt64(thread.id), UInt64(truncatingIfNeeded: code)] {
            traceHash = (traceHash ^ word) &* 0x100_0000_01B3
        }
        note("\(thread.process) \(thread.name) \(thread.id): \(line())")
        turns -= 1
        if turns > 0, !order.chance(switchPercent) { return }
        pass(thread)
    }

    /// Adds a line to the trace.
    package func note(_ line: @autoclosure () -> String) {
        if trace.count < tracedLines { trace.append(line()) }
    }

    /// From now on no thread of a process runs, until `resume`.
    package func stop(process: Int) {
        stopped.insert(process)
    }

    package func resume(process: Int) {
        stopped.remove(process)
    }

    /// From now on no thread of a group runs, until `releaseGroups`.
    package func hold(group: Int) {
        held.insert(group)
    }

    package func releaseGroups() {
        held = []
    }

    package func isStopped(process: Int) -> Bool { stopped.contains(process) }

    /// The threads that have not ended, and have not been stopped, with their processes.
    package var names: [String] {
        threads.filter { !stopped.contains($0.process) }.map { "\($0.process) \($0.name)" }
    }

    /// The names of the threads of a process.
    package func threads(of process: Int) -> [String] {
        arrive()
        return threads.filter { $0.process == process }.map(\.name)
    }

    package func randomNumber() -> UInt64 { numbers.next() }

    // MARK: Turns

    private func arrive() {
        let arrived = arriving.withLock {
            defer { arrivals.removeAll(keepingCapacity: true) }
            return arrivals
        }
        for thread in arrived {
            lastThread += 1
            thread.id = lastThread
            note("\(thread.process) \(thread.name) \(thread.id) begins")
            threads.append(thread)
        }
    }

    /// Returns the thread that goes on; nil when the driver does.
    private func draw() -> Thread? {
        arrive()
        if turns <= 0 { return nil }
        if let isDone, isDone() { return nil }
        while true {
            var ready: [Thread] = []
            var (first, last): (Thread?, Thread?)
            for thread in threads where !stopped.contains(thread.process) && !held.contains(thread.group) {
                if thread.isLast {
                    last = last ?? thread
                } else if thread.isReady(at: microseconds) {
                    ready.append(thread)
                } else if let end = thread.end, first.map({ end < $0.end! }) ?? true {
                    first = thread
                }
            }
            if !ready.isEmpty { return ready[Int.random(in: 0..<ready.count, using: &order)] }
            guard let end = first?.end else { return last }
            microseconds = end
        }
    }

    /// Lets a drawn thread go on; the caller waits for its own turn.
    private func pass(_ thread: Thread) {
        guard let next = draw() else {
            driver.signal()
            return thread.worker!.turn.wait()
        }
        turns -= 1
        if next === thread { return }
        resume(next)
        thread.worker!.turn.wait()
    }

    private func resume(_ thread: Thread) {
        current = thread
        if let worker = thread.worker { return worker.wake() }
        let worker = idle.popLast() ?? Worker(self)
        thread.worker = worker
        worker.begin(thread)
    }

    /// Ends the running thread; returns the next one if it can run on the same thread of the system.
    private func finish(_ thread: Thread, on worker: Worker) -> Thread? {
        threads.removeAll { $0 === thread }
        guard let next = draw() else {
            idle.append(worker)
            driver.signal()
            return nil
        }
        turns -= 1
        current = next
        if let other = next.worker {
            idle.append(worker)
            other.wake()
            return nil
        }
        next.worker = worker
        return next
    }

    fileprivate func wait(_ thread: Thread, until isReady: () -> Bool, limit: UInt64?) -> Bool {
        if isReady() { return true }
        if let limit { thread.end = microseconds + limit }
        return withoutActuallyEscaping(isReady) { isReady in
            thread.condition = isReady
            pass(thread)
            thread.condition = nil
            thread.end = nil
            defer { thread.isReadyForGood = false }
            return thread.isReadyForGood
        }
    }

    /// A thread of the simulation.
    final class Thread: SimulatedThread {
        let name: String
        let process: Int
        let group: Int
        unowned let simulator: Simulator
        private var body: (@Sendable () -> Void)?
        fileprivate var id = 0
        fileprivate var worker: Worker?
        /// Holds when the thread may go on; nil while it does not wait.
        fileprivate var condition: (() -> Bool)?
        /// Goes on when no other thread can.
        fileprivate var isLast = false
        /// The condition has held, and must not be asked again.
        fileprivate var isReadyForGood = false
        /// The end of the wait.
        fileprivate var end: UInt64?

        init(
            _ name: String, _ process: Int, _ group: Int, _ simulator: Simulator, _ body: @escaping @Sendable () -> Void
        ) {
            self.name = name
            self.process = process
            self.group = group
            self.simulator = simulator
            self.body = body
        }

        /// Runs the body and releases it in the same turn, because what it holds last may be a cache.
        fileprivate func run() {
            body?()
            body = nil
        }

        fileprivate func isReady(at now: UInt64) -> Bool {
            guard let condition, !isReadyForGood else { return true }
            isReadyForGood = condition()
            return isReadyForGood || end.map { $0 <= now } ?? false
        }

        func wait(until isReady: () -> Bool) {
            _ = simulator.wait(self, until: isReady, limit: nil)
        }

        func wait(until isReady: () -> Bool, orMicroseconds limit: UInt64) -> Bool {
            simulator.wait(self, until: isReady, limit: limit)
        }

        func randomNumber() -> UInt64 { simulator.randomNumber() }
    }

    /// A thread of the system, which runs one thread of the simulation after another.
    ///
    /// `@unchecked Sendable`: `next` is handed over by `turn`.
    final class Worker: @unchecked Sendable {
        let turn = DispatchSemaphore(value: 0)
        private var next: Thread?

        init(_ simulator: Simulator) {
            let thread = Foundation.Thread { [self, weak simulator] in
                while true {
                    turn.wait()
                    guard var thread = next else { return }
                    next = nil
                    while true {
                        Simulation.run(as: thread, thread.run)
                        guard let following = simulator?.finish(thread, on: self) else { break }
                        thread = following
                    }
                }
            }
            thread.stackSize = 1 << 20
            thread.start()
        }

        func begin(_ thread: Thread) {
            next = thread
            turn.signal()
        }

        func wake() { turn.signal() }

        /// Ends the thread of the system, which is idle.
        func end() { turn.signal() }
    }
}
