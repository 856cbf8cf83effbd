import Dispatch
import Foundation
import LarderFiles

/// Runs the disk work of async callers on dispatch queues, at most two jobs per core at a time. The others wait without
/// a thread; those of higher priority run first.
final class IOLimiter: Sendable {
    private struct Job: Sendable {
        let work: @Sendable () -> Void
        let rank: Int
    }

    private struct State {
        var running = 0
        /// By rank.
        var waiting = Array(repeating: FIFO(), count: TaskPriority.ranks)

        /// Returns the oldest waiting job of the highest priority.
        mutating func take() -> Job? {
            for rank in waiting.indices.reversed() {
                if let job = waiting[rank].take() { return job }
            }
            return nil
        }
    }

    private struct FIFO {
        /// Those before `next` have been taken.
        private var jobs: [Job?] = []
        private var next = 0

        mutating func append(_ job: Job) {
            jobs.append(job)
        }

        mutating func take() -> Job? {
            guard next < jobs.count else { return nil }
            let job = jobs[next]
            jobs[next] = nil
            next += 1
            if next == jobs.count || next >= 64 && next * 2 >= jobs.count {
                jobs.removeFirst(next)
                next = 0
            }
            return job
        }
    }

    private let limit: Int
    // One for each quality of service: a block with its own costs one more object.
    private let queues = [DispatchQoS.background, .utility, .default, .userInitiated].map {
        DispatchQueue(label: "larder.io", qos: $0, attributes: .concurrent)
    }
    private let state = Lock(State())

    init(limit: Int = 2 * ProcessInfo.processInfo.activeProcessorCount) {
        self.limit = limit
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
        let mayRun = state.withLock { state in
            if state.running == limit {
                state.waiting[job.rank].append(job)
                return false
            }
            state.running += 1
            return true
        }
        if mayRun { begin(job) }
    }

    /// Each job has a block of its own, so that everything it holds is released when it is done.
    private func begin(_ job: Job) {
        queues[job.rank].async {
            job.work()
            let next = self.state.withLock { state in
                let next = state.take()
                if next == nil { state.running -= 1 }
                return next
            }
            if let next { self.begin(next) }
        }
    }
}

extension TaskPriority {
    fileprivate static let ranks = 4

    /// The position of the priority's queue.
    fileprivate var rank: Int { self >= .high ? 3 : self >= .medium ? 2 : self >= .utility ? 1 : 0 }
}
