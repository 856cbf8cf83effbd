import Dispatch
import LarderFiles

/// In a world with a seed.
extension TestWorld {
    /// Runs a part of the test in the world, until it has returned; beside it what the caches do in the background, in
    /// an order that the seed decides. A world without a seed merely calls `body`, and so does a call within another.
    ///
    /// The seed orders the tasks that `body` runs in, its child tasks and the caches' own. Others, such as `Task {…}`
    /// and the main actor, are outside the world: `body` may wait for them, but when they answer is not the seed's to
    /// decide. A lock held across a call of a cache stops the world.
    ///
    /// - Parameter body: The calls of caches of this world, and whatever the test does with the results.
    /// - Returns: The result of `body`.
    /// - Throws: The errors of `body`; and one that says so when it has waited for ten seconds while nothing in the world
    ///   was ready, and the main actor and other tasks were not too busy. Then `body` stays where it is, and goes on with
    ///   the world.
    public func run<Result: Sendable>(
        _ body: @escaping @concurrent @Sendable () async throws -> Result
    ) async throws -> Result {
        guard let simulator, !simulator.isCaller else { return try await body() }
        let outcome = Lock<Swift.Result<Result, any Error>?>(nil)
        let executor = AnyTaskExecutor(simulator, process: files.process)
        let task = executor.begin(nil) {
            do {
                let result = try await body()
                outcome.withLock { $0 = .success(result) }
            } catch {
                outcome.withLock { $0 = .failure(error) }
            }
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The simulation blocks the thread that drives it.
                DispatchQueue(label: "larder.simulation").async {
                    guard simulator.run(sparingBusy: true, until: { outcome.withLock { $0 != nil } }) else {
                        return continuation.resume(throwing: StuckError(waiting: simulator.names))
                    }
                    continuation.resume(with: outcome.withLock { $0! })
                }
            }
        } onCancel: {
            task.cancel()
        }
    }

    /// Runs what is ready, one step after another, until nothing is; also the work that becomes ready meanwhile. Within
    /// ``run(_:)`` it lets all the rest go first. Time does not move: see ``advance(by:)``. Does nothing in a world
    /// without a seed.
    public func run() {
        simulator?.run()
    }

    /// Runs one step: all that a thread does until it calls the file system or waits. Returns false when nothing is
    /// ready.
    package func step() -> Bool { simulator?.run(steps: 1) ?? false }

    /// What ran: a line for each thread and each call of the file system.
    package var trace: [String] { simulator?.trace ?? [] }

    /// Keeps the first lines of the trace from now on.
    package func keepTrace(upTo lines: Int = 100_000) { simulator?.tracedLines = lines }
}

/// A part of a test waits for what does not happen.
struct StuckError: Error, CustomStringConvertible {
    /// The names of the other threads that wait.
    let waiting: [String]

    var description: String {
        "the test waits for what does not happen, in the world or outside (`Task {}`, the main actor, a sleep); "
            + "threads that wait beside it: \(waiting)"
    }
}
