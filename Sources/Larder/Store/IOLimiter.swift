import Dispatch
import LarderFiles

/// Runs the disk work of async callers, at most two jobs per core at a time. Waiting jobs occupy no thread, and jobs of
/// higher priority run first.
///
/// Each running job has a serial dispatch queue to itself. On Linux, concurrent queues take their threads from the pool
/// that runs Swift's tasks, as many as there are cores: two jobs that wait for a disk would stop every task of the
/// process. Serial queues have threads of their own.
final class IOLimiter: Sendable {
    private struct Job: Sendable {
        let work: @Sendable () -> Void
        let rank: Int
    }

    private struct State {
        var running = 0
        /// Queues without a job, by rank.
        var idle: [[any WorkQueue]] = Array(repeating: [], count: TaskPriority.ranks)
        /// By rank.
        var waiting = Array(repeating: FIFO<Job>(), count: TaskPriority.ranks)

        /// Returns the oldest waiting job of the highest priority.
        mutating func take() -> Job? {
            for rank in waiting.indices.reversed() {
                if let job = waiting[rank].take() { return job }
            }
            return nil
        }

        mutating func queue(_ rank: Int, _ scheduler: any Scheduler) -> any WorkQueue {
            idle[rank].popLast() ?? scheduler.queue("larder.io", IOLimiter.qualities[rank])
        }
    }

    /// By rank. A queue has one quality of service: a block with its own would cost one more object.
    private static let qualities: [DispatchQoS] = [.background, .utility, .default, .userInitiated]

    let limit: Int
    private let scheduler: any Scheduler
    private let state = Lock(State())

    init(_ scheduler: any Scheduler, limit: Int? = nil) {
        self.scheduler = scheduler
        self.limit = limit ?? 2 * scheduler.processorCount
    }

    /// Runs `body` on a queue, with no lock held, and suspends the caller until it has finished.
    func run<Result: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let priority = Task.currentPriority
        let result = await withCheckedContinuation { continuation in
            enqueue(priority) {
                continuation.resume(returning: Swift.Result { () throws(Failure) -> Result in try body() })
            }
        }
        return try result.get()
    }

    func enqueue(_ priority: TaskPriority, _ work: @escaping @Sendable () -> Void) {
        let job = Job(work: work, rank: priority.rank)
        let queue = state.withLock { state -> (any WorkQueue)? in
            if state.running == limit {
                state.waiting[job.rank].append(job)
                return nil
            }
            state.running += 1
            return state.queue(job.rank, scheduler)
        }
        if let queue { begin(job, on: queue) }
    }

    /// Each job has its own block, so everything that it holds is released when it is done.
    private func begin(_ job: Job, on queue: any WorkQueue) {
        queue.enqueue {
            job.work()
            let next = self.state.withLock { state -> (Job, any WorkQueue)? in
                state.idle[job.rank].append(queue)
                if let next = state.take() { return (next, state.queue(next.rank, self.scheduler)) }
                state.running -= 1
                return nil
            }
            if let (job, queue) = next { self.begin(job, on: queue) }
        }
    }
}

extension TaskPriority {
    fileprivate static let ranks = 4

    /// The position of the priority's queue.
    fileprivate var rank: Int { self >= .high ? 3 : self >= .medium ? 2 : self >= .utility ? 1 : 0 }
}
