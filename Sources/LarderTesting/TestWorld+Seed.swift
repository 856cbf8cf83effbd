import Dispatch
import LarderFiles

/// In a world with a seed.
extension TestWorld {
    /// Runs a part of the test in the world, until it has returned; beside it what the caches do in the background, in
    /// an order that the seed decides. A world without a seed merely calls `body`.
    ///
    /// - Parameter body: The calls of caches of this world, and whatever the test does with the results.
    /// - Returns: The result of `body`.
    /// - Throws: The errors of `body`; and, when it waits for what never happens, one that names the threads that wait.
    public func run<Result: Sendable>(
        _ body: @escaping @concurrent @Sendable () async throws -> Result
    ) async throws -> Result {
        guard let simulator else { return try await body() }
        let outcome = Lock<Swift.Result<Result, any Error>?>(nil)
        let executor = AnyTaskExecutor(simulator, process: files.process)
        executor.begin(nil) {
            do {
                let result = try await body()
                outcome.withLock { $0 = .success(result) }
            } catch {
                outcome.withLock { $0 = .failure(error) }
            }
        }
        return try await withCheckedThrowingContinuation { continuation in
            // The simulation blocks the thread that drives it.
            DispatchQueue(label: "larder.simulation").async {
                guard simulator.run(until: { outcome.withLock { $0 != nil } }) else {
                    return continuation.resume(throwing: StuckError(waiting: simulator.names))
                }
                continuation.resume(with: outcome.withLock { $0! })
            }
        }
    }

    /// Runs what is ready, one step after another, until nothing is; also the work that becomes ready meanwhile. Time
    /// does not move: see ``advance(by:)``. Does nothing in a world without a seed.
    public func run() {
        simulator?.run()
    }

    /// Runs one step: all that a thread does until it calls the file system or waits. Returns false when nothing is
    /// ready.
    package func step() -> Bool { simulator?.run(steps: 1) ?? false }

    /// What ran: a line for each thread and each call of the file system, the first 100,000.
    package var trace: [String] { simulator?.trace ?? [] }
}

/// A part of a test waits for what never happens.
struct StuckError: Error, CustomStringConvertible {
    /// The names of the threads that wait.
    let waiting: [String]

    var description: String { "the test waits for what never happens, beside \(waiting)" }
}
