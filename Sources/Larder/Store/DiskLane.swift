import Dispatch
import Foundation
import LarderFiles

/// Brings what async callers ask of the disk to its queue: at most two for each core at a time. The others wait without a thread.
final class DiskLane: Sendable {
    private typealias Job = @Sendable () -> Void

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
    private let queue = DispatchQueue(label: "larder.lane", attributes: .concurrent)
    private let state = Lock(State())

    /// Runs `body` on the queue, with no lock held, and suspends the caller until it has.
    func run<Result: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let result = await withCheckedContinuation { continuation in
            submit { continuation.resume(returning: Swift.Result { () throws(Failure) -> Result in try body() }) }
        }
        return try result.get()
    }

    private func submit(_ job: @escaping Job) {
        let mayRun = state.withLock { state in
            if state.running == limit {
                state.waiting.append(job)
                return false
            }
            state.running += 1
            return true
        }
        if mayRun { queue.async { self.run(job) } }
    }

    /// Runs a job, and then those that have waited for it.
    private func run(_ first: @escaping Job) {
        var job = first
        while true {
            job()
            guard let next = takeNext() else { return }
            job = next
        }
    }

    private func takeNext() -> Job? {
        state.withLock { state in
            let job = state.take()
            if job == nil { state.running -= 1 }
            return job
        }
    }
}
