import Foundation
import LarderFiles
import Testing

/// Runs the tests of a suite on two threads that all such suites share, instead of those of Swift's executor.
///
/// A storm computes for seconds. On the executor, which has a thread for each core, every other test would wait for it
/// at each suspension; between threads, the system divides the cores fairly. Before macOS 15 it changes nothing.
struct StormThreads: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    @concurrent
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil, #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) else {
            return try await function()
        }
        try await withTaskExecutorPreference(StormExecutor.shared) { try await function() }
    }
}

extension Trait where Self == StormThreads {
    static var storm: Self { StormThreads() }
}

@available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
private final class StormExecutor: TaskExecutor {
    static let shared = StormExecutor(threads: 2)

    private let jobs = Lock<[UnownedJob]>([])
    private let waiting = DispatchSemaphore(value: 0)

    private init(threads: Int) {
        for _ in 0..<threads {
            let thread = Thread { [unowned self] in
                while true { run() }
            }
            thread.stackSize = 8 << 20
            thread.start()
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        waiting.signal()
    }

    private func run() {
        waiting.wait()
        jobs.withLock { $0.removeFirst() }.runSynchronously(on: asUnownedTaskExecutor())
    }
}
