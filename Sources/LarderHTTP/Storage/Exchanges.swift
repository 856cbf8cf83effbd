import LarderFiles

/// The requests that are on their way to a server and may change what is stored.
///
/// One of several requests for a URL leads, the others wait and then look again: they take its response only where they
/// could have found it stored (RFC 9111, section 4). An invalidation reaches the exchanges under way in this cache, so
/// that the answer to an older request does not bring back what it removed.
final class Exchanges: Sendable {
    /// An exchange that other requests for the URL wait for.
    final class Flight: Sendable {
        fileprivate struct State {
            var outcome: Outcome?
            var waiters: [Int: CheckedContinuation<Outcome, Never>] = [:]
            var next = 0
        }

        fileprivate let state = Lock(State())

        /// Returns its outcome, or `abandoned` once the waiting task is cancelled.
        func wait() async -> Outcome {
            let number = state.withLock { state in
                state.next += 1
                return state.next
            }
            return await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let outcome = state.withLock { state -> Outcome? in
                        if let outcome = state.outcome { return outcome }
                        if Task.isCancelled { return .abandoned }
                        state.waiters[number] = continuation
                        return nil
                    }
                    if let outcome { continuation.resume(returning: outcome) }
                }
            } onCancel: {
                let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
                waiter?.resume(returning: .abandoned)
            }
        }

        fileprivate var waiting: Int { state.withLock { $0.waiters.count } }

        fileprivate func finish(_ outcome: Outcome) {
            let waiters = state.withLock { state in
                state.outcome = outcome
                defer { state.waiters = [:] }
                return state.waiters.values
            }
            for waiter in waiters { waiter.resume(returning: outcome) }
        }
    }

    /// How a flight ended.
    enum Outcome: Sendable {
        /// The server has answered.
        case answered
        /// The server has answered with this error, and a stale response was used instead.
        case refused(Int)
        /// The server could not be reached.
        case failed(any Error)
        /// It ended for a reason of its own: its caller was cancelled, for example.
        case abandoned
    }

    /// The right of an exchange to store its response.
    final class Permit: Sendable {
        fileprivate let isRevoked = Flag()

        /// Whether the response may be stored.
        var isValid: Bool { !isRevoked.isSet }
    }

    /// A request's role in a flight.
    enum Role: Sendable {
        case leader(Flight)
        case follower(Flight)
    }

    private struct State {
        var flights: [String: Flight] = [:]
        var permits: [String: [ObjectIdentifier: Permit]] = [:]
    }

    private let state = Lock(State())

    /// Joins the flight of a key, or begins one.
    func join(_ key: String) -> Role {
        state.withLock { state in
            if let flight = state.flights[key] { return .follower(flight) }
            let flight = Flight()
            state.flights[key] = flight
            return .leader(flight)
        }
    }

    func finish(_ key: String, _ outcome: Outcome) {
        state.withLock { $0.flights.removeValue(forKey: key) }?.finish(outcome)
    }

    /// The number of requests that wait for others.
    var waiting: Int { state.withLock { $0.flights.values.reduce(0) { $0 + $1.waiting } } }

    /// Runs an exchange for a URL with a permit that an invalidation of the URL revokes.
    func withPermit<Result: Sendable>(
        _ url: String, _ body: (Permit) async throws -> Result
    ) async rethrows -> Result {
        let permit = Permit()
        let id = ObjectIdentifier(permit)
        state.withLock { $0.permits[url, default: [:]][id] = permit }
        defer {
            state.withLock { state in
                state.permits[url]?[id] = nil
                if state.permits[url]?.isEmpty == true { state.permits[url] = nil }
            }
        }
        return try await body(permit)
    }

    /// Revokes the permits of a URL; nil: of all.
    func revoke(_ url: String?) {
        let permits = state.withLock { state in
            url.map { Array((state.permits[$0] ?? [:]).values) } ?? state.permits.values.flatMap(\.values)
        }
        for permit in permits { permit.isRevoked.set() }
    }
}
