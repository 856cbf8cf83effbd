import LarderFiles

/// What a call that fetches one key through the cache has asked for.
struct FetchRequest<Value: Sendable>: Sendable {
    let key: Key
    let order: FetchOptions
    let fetch: @Sendable (CachedValue<Value>?) async throws -> Revalidation<Value>
}

/// How what is fetched is to be kept, and what may be answered. An object: it goes through many async frames, and a policy is large.
final class FetchOptions: Sendable {
    let ttl: TimeToLive
    let tags: [Key]
    let policy: FetchPolicy
    /// Whether the fetch wants to be given what the cache has.
    let revalidates: Bool

    init(ttl: TimeToLive, tags: [Key], policy: FetchPolicy, revalidates: Bool = false) {
        self.ttl = ttl
        self.tags = tags
        self.policy = policy
        self.revalidates = revalidates
    }
}

/// For how long a call is willing to wait, however many flights it has to join.
struct WaitDeadlines {
    /// From then on something stale is good enough; nil: never.
    private(set) var soft: Timestamp?
    /// From then on it is over; nil: never.
    let hard: Timestamp?
    /// Whether the call has waited for a flight in vain.
    private(set) var isTried = false

    init(_ policy: FetchPolicy, from now: Timestamp) {
        soft = policy.softTimeout.map { now.advanced(byMilliseconds: $0.milliseconds) }
        hard = policy.hardTimeout.map { now.advanced(byMilliseconds: $0.milliseconds) }
    }

    mutating func hasTried() {
        isTried = true
    }

    /// There was nothing stale after all.
    mutating func hasBeenLate() {
        soft = nil
    }

    static func rest(until end: Timestamp, at now: Timestamp) -> Duration {
        .milliseconds(max(0, end.millisecondsSince(now)))
    }
}
