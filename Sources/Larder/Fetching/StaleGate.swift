public import LarderFiles

/// Decides whether a call may be answered with a stale value at once: while a fetch of the key is under way, or shortly
/// after one has failed.
///
/// The common case of an outage. It knows the type of the values by identity alone, so that it is compiled once.
@usableFromInline
final class StaleGate: Sendable {
    private let flights: Flights
    private let namespace: Namespace
    private let type: ObjectIdentifier
    private let defaultTTL: TimeToLive

    init<Value>(_ backend: some CacheBackend<Value>) {
        flights = backend.flights
        namespace = backend.key("").namespace
        type = ObjectIdentifier(Value.self)
        defaultTTL = backend.defaultTTL
    }

    /// True when a value that has expired may be an answer now; false also where a fetch has to begin first.
    @usableFromInline
    func opens(_ text: String, expired: Timestamp, _ policy: FetchPolicy, at now: Timestamp) -> Bool {
        let key = Key(text, in: namespace)
        let isThrottled = policy.retryThrottle != nil
        if isThrottled, let error = flights.failure(of: key, type, at: now) {
            // Without a window for errors, the one for revalidation counts all the same.
            let occasion: FetchPolicy.Occasion = policy.forgives(error) ? .late : .revalidating
            return policy.windows(occasion, defaultTTL).allow(expired, at: now)
        }
        return policy.staleWhileRevalidate != nil && flights.isUnderWay(key, type)
            && policy.windows(.revalidating, defaultTTL).allow(expired, at: now)
    }
}
