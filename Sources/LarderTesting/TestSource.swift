import LarderFiles

/// A source of values for caches that fetch. The test gives its answers.
///
///     let source = TestSource<String>()
///     async let name = names.value(forKey: "42") { try await source.fetch("42") }
///     await source.waitForRequests()
///     source.succeed(with: "Ann")
///     #expect(try await name == "Ann" && source.requestCount == 1)
///
/// A request waits until the test answers it. An answer for which no request waits is kept for the next one, so a test
/// may also give all answers in advance. Nothing polls or sleeps; a request that is never answered waits until its task
/// is cancelled.
public final class TestSource<Value: Sendable>: Sendable {
    private let state = Lock(TestSourceState<Value>())

    /// Creates a source.
    ///
    /// - Parameter answers: The answers to the first requests, in order. Default: none.
    public init(answers: [Value] = []) {
        for answer in answers { succeed(with: answer) }
    }

    // MARK: For the code under test

    /// Returns the answer that the test gives. Call it in the fetch.
    ///
    /// - Parameter key: Identifies the request. Default: "".
    /// - Returns: The value.
    /// - Throws: The error that the test gives; `CancellationError` when the task is cancelled first.
    public func fetch(_ key: String = "") async throws -> Value {
        let number = state.withLock { $0.takeNumber() }
        defer { state.withLock { $0.forget(number) } }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let answer = state.withLock { $0.request(number, key, continuation) }
                if let answer { continuation.resume(with: answer) }
                resumeObservers()
            }
        } onCancel: {
            let continuation = state.withLock { $0.cancel(number) }
            continuation?.resume(throwing: CancellationError())
            resumeObservers()
        }
    }

    // MARK: For the test

    /// Answers the oldest waiting request, or else the next one.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Answers a request with this key. Default: nil, any.
    public func succeed(with value: Value, forKey key: String? = nil) {
        answer(.success(value), key)
    }

    /// Makes the oldest waiting request fail, or else the next one.
    ///
    /// - Parameters:
    ///   - error: The error that the fetch throws.
    ///   - key: Answers a request with this key. Default: nil, any.
    public func fail(with error: any Error, forKey key: String? = nil) {
        answer(.failure(error), key)
    }

    private func answer(_ answer: Result<Value, any Error>, _ key: String?) {
        state.withLock { $0.answer(answer, forKey: key) }?.resume(with: answer)
    }

    /// Returns when at least `count` requests have been made since the source was created, whether they are answered or
    /// not; at once when the calling task is cancelled.
    ///
    /// - Parameter count: The number of requests. Default: 1.
    public func waitForRequests(_ count: Int = 1) async {
        await wait(for: .requests, count)
    }

    /// Returns when at least `count` requests have been cancelled; at once when the calling task is cancelled.
    ///
    /// - Parameter count: The number of cancellations. Default: 1.
    public func waitForCancellations(_ count: Int = 1) async {
        await wait(for: .cancellations, count)
    }

    private func wait(for counter: TestSourceState<Value>.Counter, _ count: Int) async {
        let number = state.withLock { $0.takeNumber() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if !state.withLock({ $0.observe(number, counter, count, continuation) }) { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.stopObserving(number) }?.resume()
        }
        state.withLock { $0.forget(number) }
    }

    private func resumeObservers() {
        for observer in state.withLock({ $0.takeSatisfiedObservers() }) { observer.resume() }
    }

    /// The number of requests that have been made.
    public var requestCount: Int { state.withLock { $0.requestedKeys.count } }

    /// The keys of all requests, the oldest first.
    public var requestedKeys: [String] { state.withLock { $0.requestedKeys } }

    /// The keys of the requests that wait for an answer, the oldest first.
    public var pendingKeys: [String] { state.withLock { $0.waitingKeys } }

    /// The number of requests that were cancelled before they had an answer.
    public var cancellationCount: Int { state.withLock { $0.cancellations } }

    /// The number of answers that wait for a request.
    public var unusedAnswerCount: Int { state.withLock { $0.keptCount } }
}
