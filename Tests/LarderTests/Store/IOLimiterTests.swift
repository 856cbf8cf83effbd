import Dispatch
import LarderFiles
import Testing

@testable import Larder

@Suite("The disk work of async callers")
struct IOLimiterTests {
    @Test("of the jobs that wait, those of higher priority run first, the older of one priority before the younger")
    func priority() {
        let limiter = IOLimiter(limit: 1)
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
}
