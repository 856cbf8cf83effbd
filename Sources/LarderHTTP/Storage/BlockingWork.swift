import Dispatch

/// Work that blocks on the disk: it runs on threads of Dispatch, never on those of Swift's executor.
enum BlockingWork {
    private static let queue = DispatchQueue(label: "LarderHTTP files", attributes: .concurrent)

    static func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}
