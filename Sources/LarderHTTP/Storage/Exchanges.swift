import LarderFiles

/// The requests that are on their way to a server and may change what is stored.
///
/// One of several requests for a URL leads, the others wait and then look again: they take its response only where they
/// could have found it stored (RFC 9111, section 4). An invalidation reaches the exchanges under way in this cache, so
/// that the answer to an older request does not bring back what it removed.
final class Exchanges: Sendable {
    /// An exchange that other requests for the URL wait for.
    final class Flight: Sendable {
        private struct Waiter {
            let continuation: CheckedContinuation<Outcome, Never>
            let isOfUse: @Sendable (Head) -> Bool
        }

        private struct State {
            var head: Head?
            var outcome: Outcome?
            /// The callers that have not left, and those of them that wait.
            var callers: Set<Int> = []
            var waiters: [Int: Waiter] = [:]
            var next = 0
        }

        private let state = Lock(State())

        /// Returns its outcome; `useless` once its head is there and of no use to the caller, or its body takes longer
        /// than `limit`; `late` after `limit` without a head; and `abandoned` once the waiting task is cancelled.
        func wait(
            atMost limit: Duration, _ clock: any LarderFiles.Clock, _ isOfUse: @escaping @Sendable (Head) -> Bool
        ) async -> Outcome {
            let number = state.withLock { state in
                state.next += 1
                state.callers.insert(state.next)
                return state.next
            }
            let timer = clock.schedule(after: limit) { [self] in leave(number, as: Self.end) }
            defer { timer.cancel() }
            return await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let (outcome, head) = state.withLock { state -> (Outcome?, Head?) in
                        if let outcome = state.outcome { return (outcome, nil) }
                        if Task.isCancelled { return (.abandoned, nil) }
                        if !state.callers.contains(number) { return (Self.end(state.head), nil) }
                        state.waiters[number] = Waiter(continuation: continuation, isOfUse: isOfUse)
                        return (nil, state.head)
                    }
                    if let outcome { return continuation.resume(returning: outcome) }
                    if let head, !isOfUse(head) { leave(number) { _ in .useless } }
                }
            } onCancel: {
                leave(number) { _ in .abandoned }
            }
        }

        /// How waiting ends after the limit.
        private static func end(_ head: Head?) -> Outcome { head == nil ? .late : .useless }

        private func leave(_ number: Int, as outcome: (Head?) -> Outcome) {
            let (waiter, head) = state.withLock { state in
                state.callers.remove(number)
                return (state.waiters.removeValue(forKey: number), state.head)
            }
            waiter?.continuation.resume(returning: outcome(head))
        }

        /// Lets those go for whom the response is of no use, whatever its body.
        func note(_ head: Head) {
            let waiters = state.withLock { state in
                state.head = head
                return state.waiters
            }
            for (number, waiter) in waiters where !waiter.isOfUse(head) { leave(number) { _ in .useless } }
        }

        fileprivate var waiting: Int { state.withLock { $0.waiters.count } }

        fileprivate var hasHead: Bool { state.withLock { $0.head != nil } }

        fileprivate func finish(_ outcome: Outcome) {
            let waiters = state.withLock { state in
                state.outcome = outcome
                defer { (state.callers, state.waiters) = ([], [:]) }
                return state.waiters.values
            }
            for waiter in waiters { waiter.continuation.resume(returning: outcome) }
        }
    }

    /// A response whose body is still to come, and the request that it answers.
    struct Head: Sendable {
        let response: HTTPResponseHead
        let request: HTTPRequestHead
    }

    /// How a flight ended, or the wait for it.
    enum Outcome: Sendable {
        /// The server has answered.
        case answered
        /// The server has answered with this error, and a stale response was used instead.
        case refused(Int)
        /// The server could not be reached.
        case failed(any Error)
        /// It ended for a reason of its own: its caller was cancelled, for example.
        case abandoned
        /// The server has answered what the caller may not use, or does not end in time.
        case useless
        /// The server has not answered for as long as the caller waits for one.
        case late
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

    /// The flights whose response has begun. For tests.
    var begunResponses: Int { state.withLock { $0.flights.values.count { $0.hasHead } } }

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
