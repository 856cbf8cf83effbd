import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// A source of values that a test answers by hand.
final class HandDrivenSource<Answer: Sendable>: Sendable {
    private struct State {
        var waiting: [(number: Int, continuation: CheckedContinuation<Answer, any Error>)] = []
        var last = 0
        var begun = 0
        var cancelled: Set<Int> = []
    }

    private let state = Lock(State())
    /// True for a source that ignores cancellation.
    private let isDeaf: Bool

    init(isDeaf: Bool = false) {
        self.isDeaf = isDeaf
    }

    /// The number of requests that wait or have ended.
    var begun: Int { state.withLock { $0.begun } }
    /// The number of cancelled requests.
    var cancelled: Int { state.withLock { $0.cancelled.count } }

    func fetch() async throws -> Answer {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isCancelled = state.withLock { state in
                    state.begun += 1
                    if !isDeaf && state.cancelled.contains(number) { return true }
                    state.waiting.append((number, continuation))
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            let continuation = state.withLock { state -> CheckedContinuation<Answer, any Error>? in
                state.cancelled.insert(number)
                guard !isDeaf, let place = state.waiting.firstIndex(where: { $0.number == number }) else { return nil }
                return state.waiting.remove(at: place).continuation
            }
            continuation?.resume(throwing: CancellationError())
        }
    }

    /// Answers the oldest waiting request, once there is one.
    func answer(_ result: Result<Answer, any Error>) async {
        var continuation: CheckedContinuation<Answer, any Error>?
        await until("a request waits") {
            continuation = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst().continuation }
            return continuation != nil
        }
        continuation?.resume(with: result)
    }

    func answer(_ answer: Answer) async { await self.answer(.success(answer)) }
}

struct SourceFailure: Error, Equatable {
    var number = 0
}

/// Waits until a condition holds.
func until(
    _ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async -> Bool
) async {
    if await !eventually(condition) { Issue.record(what, sourceLocation: sourceLocation) }
}

/// Caches with and without a disk tier, each in its own world.
enum Tiers: CaseIterable, Sendable {
    case both, diskAlone, memoryAlone

    func cache<Value: Codable & Sendable>(
        in world: World, namespace: String = "n",
        _ configuration: Cache<Value>.Configuration = .init()
    ) throws -> Cache<Value> {
        var configuration = configuration
        switch self {
        case .both: break
        case .diskAlone: configuration.memory = nil
        case .memoryAlone:
            return Cache(
                memoryOnly: configuration.memory ?? .init(), configuration: configuration, clock: world.clock)
        }
        return Cache(disk: try world.open(), namespace: namespace, configuration: configuration)
    }

    func cache<Value: Codable & Sendable>(
        of type: Value.Type = String.self, in world: TestWorld
    ) throws -> Cache<Value> {
        switch self {
        case .both: return try world.cache()
        case .diskAlone:
            var configuration = Cache<Value>.Configuration()
            configuration.memory = nil
            return try world.cache(configuration: configuration)
        case .memoryAlone: return world.memoryOnlyCache()
        }
    }
}

/// Begins a call that a test awaits later.
func begin<Result: Sendable>(_ call: @escaping @Sendable () async throws -> Result) -> Task<Result, any Error> {
    Task { try await call() }
}

extension Task where Failure == any Error {
    /// The error that the call threw; nil when it returned.
    var failure: (any Error)? {
        get async {
            if case .failure(let error) = await result { return error }
            return nil
        }
    }
}
