import LarderFiles

/// The result of a call that may take too long.
final class RemoteRace<Result: Sendable>: Sendable {
    private let state = Lock<(result: Swift.Result<Result, any Error>?, continuation: Continuation?)>((nil, nil))
    typealias Continuation = CheckedContinuation<Result, any Error>

    /// Settles the race; only the first call does.
    func finish(_ result: Swift.Result<Result, any Error>) {
        let continuation = state.withLock { state -> Continuation? in
            guard state.result == nil else { return nil }
            state.result = result
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(with: result)
    }

    func result() async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            let result = state.withLock { state in
                if state.result == nil { state.continuation = continuation }
                return state.result
            }
            if let result { continuation.resume(with: result) }
        }
    }

    /// Returns the result of `body`, or throws after `limit`; `body` is then cancelled, unless it `outlives` the call, and
    /// its result dropped.
    static func run(
        _ limit: Duration, _ clock: any Clock, outlives: Bool = false,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let race = RemoteRace()
        let task = Lock<Task<Void, Never>?>(nil)
        // First: the time counts from here.
        let timer = clock.schedule(after: limit) {
            race.finish(.failure(RemoteTierError(.timedOut, "The remote tier has not answered in time.")))
            if !outlives { task.withLock { $0 }?.cancel() }
        }
        // Not a part of the fetch that may be under way.
        let running = Flight.$current.withValue(nil) {
            clock.begin(nil) {
                do {
                    race.finish(.success(try await body()))
                } catch {
                    race.finish(.failure(error))
                }
            }
        }
        task.withLock { $0 = running }
        defer { timer.cancel() }
        return try await race.result()
    }
}
