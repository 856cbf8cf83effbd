import Dispatch
import Foundation
import LarderFiles
import Testing

@testable import Larder

@Suite("The disk work of async callers")
struct IOLimiterTests {
    @Test("waiting jobs run by priority, and jobs of one priority in order of arrival")
    func priority() {
        let limiter = IOLimiter(SystemClock(), limit: 1)
        let (isRunning, mayEnd, isDone) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        let order = Lock<[String]>([])
        limiter.enqueue(.medium) {
            isRunning.signal()
            mayEnd.wait()
        }
        isRunning.wait()
        let jobs: [(name: String, priority: TaskPriority)] = [
            ("low 1", .background), ("low 2", .background), ("middle", .medium), ("high", .high),
        ]
        for job in jobs {
            limiter.enqueue(job.priority) {
                order.withLock { $0.append(job.name) }
                isDone.signal()
            }
        }
        mayEnd.signal()
        for _ in jobs { isDone.wait() }
        #expect(order.withLock { $0 } == ["high", "middle", "low 1", "low 2"])
    }

    @Test("blocking jobs take no thread from Swift's tasks", .timeLimit(.minutes(10)))
    func starvation() async {
        // A shared pool gains one thread per second while all its threads block.
        let limiter = IOLimiter(SystemClock(), limit: 200)
        let (isRunning, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let jobs = limiter.limit
        // Begun outside of Swift's tasks but with the priority of most of them, because each priority has its own
        // thread pool.
        let blocked = (0..<jobs).map { _ in
            Thread {
                limiter.enqueue(.medium) {
                    isRunning.signal()
                    mayEnd.wait()
                }
            }
        }
        for thread in blocked { thread.start() }
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                for _ in 0..<jobs { isRunning.wait() }
                continuation.resume()
            }
        }
        // Every job waits for this test, which needs tasks to finish.
        let sum = await withTaskGroup(of: Int.self) { group in
            for number in 0..<100 { group.addTask(priority: .medium) { number } }
            return await group.reduce(0, +)
        }
        #expect(sum == 4950)
        for _ in 0..<jobs { mayEnd.signal() }
    }
}
