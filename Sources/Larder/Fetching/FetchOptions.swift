import LarderFiles

/// How a call wants values fetched, kept and answered. An object: it passes through many async frames, and a policy is
/// large.
final class FetchOptions: Sendable {
    let ttl: TimeToLive
    let tags: [Key]
    let policy: FetchPolicy
    /// Whether the fetch is given the value in the cache.
    let revalidates: Bool
    /// Whether a fetch may bring nothing for a key. Otherwise the call fetches such a key by itself.
    let acceptsNothing: Bool
    /// Whether the call is content to know that there is no value. Otherwise it fetches one by itself.
    let acceptsAbsence: Bool

    init(
        ttl: TimeToLive, tags: [Key], policy: FetchPolicy, revalidates: Bool = false,
        acceptsNothing: Bool = false, acceptsAbsence: Bool = true
    ) {
        self.ttl = ttl
        self.tags = tags
        self.policy = policy
        self.revalidates = revalidates
        self.acceptsNothing = acceptsNothing
        self.acceptsAbsence = acceptsAbsence
    }
}

/// How long a call waits, in however many flights.
struct WaitDeadlines {
    /// When a stale value becomes good enough; nil: never.
    private(set) var soft: Timestamp?
    private let softTimeout: Int64
    /// When the call gives up; nil: never.
    let hard: Timestamp?
    /// Whether the call has waited for a flight in vain.
    private(set) var isRetry = false

    init(_ policy: FetchPolicy, from now: Timestamp) {
        softTimeout = policy.softTimeout?.milliseconds ?? 0
        soft = policy.softTimeout.map { now.advanced(byMilliseconds: $0.milliseconds) }
        hard = policy.hardTimeout.map { now.advanced(byMilliseconds: $0.milliseconds) }
    }

    mutating func noteTry() {
        isRetry = true
    }

    /// Called when the soft deadline has passed. If there is nothing stale after all, the call waits on without one.
    mutating func removeSoft() {
        soft = nil
    }

    /// The same for a flight, which may have been under way before the call.
    func soft(for flight: Flight) -> Timestamp? {
        soft.map { min($0, flight.begun.advanced(byMilliseconds: softTimeout)) }
    }
}
