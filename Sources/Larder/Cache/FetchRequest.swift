import LarderFiles

/// A call that fetches: its keys, its options, and the fetch that brings the missing values. A call for one key is a
/// batch of one.
struct FetchRequest<Value: Sendable>: Sendable {
    let keys: [Key]
    let options: FetchOptions
    /// Brings a result for each of the keys it is given, in their order; nil for a key without one.
    let fetch: @Sendable ([MissingKey<Value>]) async throws -> [FetchResult<Value>?]

    /// A call for several keys. Its fetch may bring nothing for some of them.
    init(
        _ keys: [Key], _ options: FetchOptions,
        _ fetch: @escaping @Sendable ([String]) async throws -> [String: FetchResult<Value>]
    ) {
        self.keys = keys
        self.options = options
        self.fetch = { missing in
            let results = try await fetch(missing.map(\.key.text))
            return missing.map { results.value(forExactly: $0.key.text) }
        }
    }

    /// A call for one key. Its fetch is given the value in the cache if the options say so.
    init(
        _ key: Key, _ options: FetchOptions,
        _ revalidate: @escaping @Sendable (Lookup<Value>?) async throws -> FetchResult<Value>
    ) {
        keys = [key]
        self.options = options
        fetch = { missing in [try await revalidate(missing.first.flatMap { $0.stored?.lookup(at: $0.now) })] }
    }
}

extension Dictionary where Key == String {
    /// Returns the value of a key that has the same UTF-8 bytes; a dictionary also finds another spelling of it. O(1).
    fileprivate func value(forExactly key: String) -> Value? {
        guard let index = index(forKey: key), self[index].key.hasSameBytes(as: key) else { return nil }
        return self[index].value
    }
}

/// A key that a flight fetches.
struct MissingKey<Value: Sendable>: Sendable {
    let key: Key
    /// Among the keys of the flight.
    let index: Int
    let now: Timestamp
    /// The value to revalidate; nil when there is none or the call does not revalidate.
    let stored: StoredValue<Value>?
}

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
