import LarderFiles

/// What a call that fetches through the cache may answer, and when it asks the source.
///
///     .whenMissingOrExpired
///     .staleWhileRevalidate(for: .minutes(5)).staleIfError(for: .days(1))
///     .reload.hardTimeout(.seconds(10))
///
/// How stale an answer may be, how long a caller waits, and what makes it fetch is each call's own. What becomes of the fetch and
/// of what it brings is up to the call that begins it: who joins takes it as it is. Windows are counted from the expiry; what has
/// expired is kept on disk for the longest of them, and nothing but a call with such a policy ever returns it.
public struct FetchPolicy: Hashable, Sendable {
    enum Source: Hashable {
        case cacheFirst, reload, cacheOnly
    }

    var source = Source.cacheFirst
    var staleWhileRevalidate: TimeToLive?
    var staleIfError: TimeToLive?
    var keepStale: TimeToLive?
    var softTimeout: Duration?
    var hardTimeout: Duration?
    var retryThrottle: Duration?
    var earlyRefresh: Double?
    var jitter = 0.0
    var outlivesCallers = false

    /// True when a fresh value in memory is all that a call wants.
    @usableFromInline var takesAnyFresh: Bool { source != .reload && earlyRefresh == nil }

    private init(_ source: Source) {
        self.source = source
    }

    /// A fresh value is answered; otherwise it is fetched. The default.
    public static let whenMissingOrExpired = FetchPolicy(.cacheFirst)
    /// The value is fetched, whatever there is. A fetch that is under way already is joined.
    public static let reload = FetchPolicy(.reload)
    /// A fresh value is answered; otherwise the call throws `.notFound`. Nothing is fetched, and nothing stale is answered, whatever
    /// else the policy says.
    public static let cacheOnly = FetchPolicy(.cacheOnly)

    /// See ``staleWhileRevalidate(for:)-swift.method``.
    public static func staleWhileRevalidate(for window: TimeToLive) -> FetchPolicy {
        whenMissingOrExpired.staleWhileRevalidate(for: window)
    }

    /// See ``staleIfError(for:)-swift.method``.
    public static func staleIfError(for window: TimeToLive) -> FetchPolicy {
        whenMissingOrExpired.staleIfError(for: window)
    }

    /// For so long beyond its expiry a value is answered at once, and a new one fetched behind (RFC 5861, section 3). By default:
    /// not at all.
    public func staleWhileRevalidate(for window: TimeToLive) -> FetchPolicy {
        with { $0.staleWhileRevalidate = window }
    }

    /// For so long beyond its expiry a value is answered when fetching another fails or times out (RFC 5861, section 4). By
    /// default: not at all.
    public func staleIfError(for window: TimeToLive) -> FetchPolicy { with { $0.staleIfError = window } }

    /// Keeps a value for so long beyond its expiry, so that it can be revalidated, without answering it. By default: a day where the
    /// value can be revalidated, and otherwise not at all.
    public func keepStale(for window: TimeToLive) -> FetchPolicy { with { $0.keepStale = window } }

    /// A caller waits no longer than this when there is a stale value that one of the windows allows: it is answered, and what the fetch
    /// brings is stored when it comes. By default callers wait.
    public func softTimeout(_ timeout: Duration) -> FetchPolicy { with { $0.softTimeout = timeout } }

    /// A fetch that takes longer is cancelled and counts as failed, with `.timedOut`; the next call begins another. What it
    /// brings later is dropped. A call that joins a fetch leaves it after so long. None by default.
    public func hardTimeout(_ timeout: Duration) -> FetchPolicy { with { $0.hardTimeout = timeout } }

    /// For so long after a failed fetch no other is begun where a stale value can be answered instead. By default each call tries.
    public func retryThrottle(_ pause: Duration) -> FetchPolicy { with { $0.retryThrottle = pause } }

    /// A value that is still fresh but has spent this part of its life is answered at once, and a new one fetched behind: what is asked
    /// for all the time never expires.
    ///
    /// - Parameter part: From 0 to 1. Not at all by default.
    /// - Returns: The policy with it.
    public func earlyRefresh(after part: Double) -> FetchPolicy { with { $0.earlyRefresh = part } }

    /// Shortens the lives of fetched values at random by up to this part of them, so that what was fetched together does not expire
    /// together. Never lengthens one.
    ///
    /// - Parameter part: From 0 to 1. 0 by default.
    /// - Returns: The policy with it.
    public func jitter(_ part: Double) -> FetchPolicy { with { $0.jitter = part > 0 ? min(part, 1) : 0 } }

    /// A fetch goes on, and its value is stored, when all its callers have been cancelled. By default it is cancelled with the last of
    /// them.
    public func continuesWithoutCallers() -> FetchPolicy { with { $0.outlivesCallers = true } }

    private func with(_ change: (inout FetchPolicy) -> Void) -> FetchPolicy {
        var policy = self
        change(&policy)
        return policy
    }
}

/// What a policy decides, given times.
extension FetchPolicy {
    /// Why a stale value would be answered.
    enum Occasion {
        case revalidating, failed, late
    }

    /// True when a value that is fresh until `expires` may be answered at `now`.
    func allowsStale(_ occasion: Occasion, expires: Timestamp, at now: Timestamp, defaultTTL: TimeToLive) -> Bool {
        if source == .cacheOnly { return false }
        let windows =
            switch occasion {
            case .revalidating: source == .reload ? [] : [staleWhileRevalidate]
            case .failed: [staleIfError]
            case .late: [staleIfError, staleWhileRevalidate]
            }
        return windows.contains { window in
            guard let window else { return false }
            return now < Self.end(of: window, after: expires, defaultTTL: defaultTTL)
        }
    }

    /// For how long a value is kept beyond its expiry. Milliseconds.
    func keptStale(after expires: Timestamp, revalidates: Bool, defaultTTL: TimeToLive) -> Int64 {
        let kept = keepStale ?? (revalidates ? .days(1) : nil)
        return [staleWhileRevalidate, staleIfError, kept].reduce(0) { longest, window in
            guard let window else { return longest }
            let end = Self.end(of: window, after: expires, defaultTTL: defaultTTL)
            return max(longest, end.milliseconds == Life.unlimited ? Life.unlimited : end.millisecondsSince(expires))
        }
    }

    private static func end(of window: TimeToLive, after expires: Timestamp, defaultTTL: TimeToLive) -> Timestamp {
        window.life(from: expires, default: defaultTTL)?.expires ?? expires
    }

    /// True when a fresh value is old enough to be fetched again behind.
    func isEarly(_ life: MemoryLife, at now: Timestamp) -> Bool {
        guard let earlyRefresh, life.expires.milliseconds != Life.unlimited else { return false }
        let whole = Double(life.expires.millisecondsSince(life.begun))
        return Double(now.millisecondsSince(life.begun)) >= whole * earlyRefresh
    }

    /// A life that the jitter has shortened; it lasts a millisecond at least.
    func jittered(_ life: Life, from now: Timestamp, by random: (ClosedRange<Int64>) -> Int64) -> Life {
        if jitter == 0 || life.isForever { return life }
        let rest = life.expires.millisecondsSince(now)
        let most = Int64(exactly: (Double(rest) * jitter).rounded(.down)) ?? rest
        let cut = min(random(0...most), rest - 1)
        let expires = life.expires.advanced(byMilliseconds: -cut)
        return Life(expires: expires, ttl: life.ttl == Life.unlimited ? life.ttl : life.ttl - cut)
    }
}
