import Dispatch
import Foundation
import LarderFiles

/// Runs the disk work of async callers on dispatch queues, at most two jobs per core at a time. The others wait without
/// a thread.
final class IOLimiter: Sendable {
    private struct Job: Sendable {
        let work: @Sendable () -> Void
        let queue: DispatchQueue
    }

    private struct State {
        var running = 0
        /// Those before `next` have been taken.
        var waiting: [Job?] = []
        var next = 0

        mutating func take() -> Job? {
            guard next < waiting.count else { return nil }
            let job = waiting[next]
            waiting[next] = nil
            next += 1
            if next == waiting.count || next >= 64 && next * 2 >= waiting.count {
                waiting.removeFirst(next)
                next = 0
            }
            return job
        }
    }

    private let limit = 2 * ProcessInfo.processInfo.activeProcessorCount
    // One for each quality of service: a block with its own costs one more object.
    private let queues = [DispatchQoS.background, .utility, .default, .userInitiated].map {
        DispatchQueue(label: "larder.io", qos: $0, attributes: .concurrent)
    }
    private let state = Lock(State())

    /// Runs `body` on a queue, with no lock held, and suspends the caller until it has finished.
    func run<Result: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let queue = queues[Task.currentPriority.rank]
        let result = await withCheckedContinuation { continuation in
            let work: @Sendable () -> Void = {
                continuation.resume(returning: Swift.Result { () throws(Failure) -> Result in try body() })
            }
            submit(Job(work: work, queue: queue))
        }
        return try result.get()
    }

    private func submit(_ job: Job) {
        let mayRun = state.withLock { state in
            if state.running == limit {
                state.waiting.append(job)
                return false
            }
            state.running += 1
            return true
        }
        if mayRun { begin(job) }
    }

    /// Each job has a block of its own, so that everything it holds is released when it is done.
    private func begin(_ job: Job) {
        job.queue.async {
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
    /// The position of the priority's queue.
    fileprivate var rank: Int { self >= .high ? 3 : self >= .medium ? 2 : self >= .utility ? 1 : 0 }
}
