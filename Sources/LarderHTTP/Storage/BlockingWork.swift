import Dispatch

/// Work on files that blocks: never on a thread of Swift's executor. On Linux the two share a pool, so the queue is
/// serial and takes one thread of it at most.
enum BlockingWork {
    private static let queue = DispatchQueue(label: "LarderHTTP files")

    static func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}
