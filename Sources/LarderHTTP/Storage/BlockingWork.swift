import Dispatch
import LarderFiles

/// Work on files that blocks: never on a thread of Swift's executor. On Linux the two share a pool, so the queue is
/// serial and takes one thread of it at most.
enum BlockingWork {
    private static let queue = SystemClock().queue("LarderHTTP files", .unspecified)

    static func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.enqueue { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}
