import LarderFiles

/// Stops asking a server that does not answer, and tries it again from time to time.
///
/// Five failures in a row open it, for a second at first and twice as long each time, up to half a minute. Then one
/// call may try; its success closes the breaker.
struct CircuitBreaker: Sendable {
    static let mostFailures = 5
    static let shortest: Int64 = 1000
    static let longest: Int64 = 30_000

    private var failures = 0
    /// How often it has opened since the last success.
    private var rounds = 0
    private(set) var closesAt: Timestamp?
    private var isTrying = false

    var isOpen: Bool { closesAt != nil }

    /// Whether a call may be made now. The one that may try the server has to report its outcome.
    mutating func allows(at now: Timestamp) -> Bool {
        guard let closesAt else { return true }
        // A clock that was set back must not keep it open for longer than it would be.
        let isFar = closesAt.millisecondsSince(now) > 2 * Self.longest
        if isTrying || now < closesAt && !isFar { return false }
        isTrying = true
        return true
    }

    /// Returns true when the breaker was open.
    mutating func noteSuccess() -> Bool {
        defer { self = CircuitBreaker() }
        return isOpen
    }

    /// Returns true when the breaker opens for the first time since the last success. `jitter`, from 0 to 1, spreads
    /// the machines' next tries.
    mutating func noteFailure(at now: Timestamp, jitter: Double) -> Bool {
        let wasTrying = isTrying
        isTrying = false
        failures += 1
        guard wasTrying || closesAt == nil && failures >= Self.mostFailures else { return false }
        let length = min(Self.longest, Self.shortest << min(rounds, 5))
        closesAt = now.advanced(byMilliseconds: length + Int64(Double(length) * jitter / 2))
        rounds += 1
        return rounds == 1
    }

    /// The time until the next try, in milliseconds; nil while it is closed.
    func wait(at now: Timestamp) -> Int64? {
        closesAt.map { max(1, $0.millisecondsSince(now)) }
    }
}
