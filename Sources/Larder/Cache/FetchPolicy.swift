import LarderFiles

/// Which values a call that fetches through the cache may return, and when it asks the source.
///
///     .cacheFirst
///     .staleWhileRevalidate(for: .minutes(5)).staleIfError(for: .days(1))
///     .reload.hardTimeout(.seconds(10))
///
/// Each call decides for itself how stale its answer may be, how long it waits, and when it fetches. The call that
/// begins a fetch decides how that runs and how its result is stored; calls that join take it as it is. Windows are
/// counted from the expiry: an expired value is kept on disk for the longest of them, and only a call with such a
/// policy ever returns it.
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
    var eagerRefresh: Double?
    var jitter = 0.0
    var outlives = false

    /// The values in memory that answer a call at once.
    @usableFromInline
    enum MemoryUse: Hashable, Sendable {
        case none, fresh
        /// Also an expired one, while a fetch is under way or shortly after one has failed.
        case freshOrStale
    }

    /// Derived from the others, so that a hit in memory reads one field.
    @usableFromInline private(set) var memoryUse = MemoryUse.none

    private var ownMemoryUse: MemoryUse {
        if source == .reload || eagerRefresh != nil { return .none }
        let mayBeStale = staleWhileRevalidate != nil || staleIfError != nil && retryThrottle != nil
        return source == .cacheFirst && mayBeStale ? .freshOrStale : .fresh
    }

    private init(_ source: Source) {
        self.source = source
        memoryUse = ownMemoryUse
    }

    /// Returns a fresh value; otherwise fetches it. The default.
    public static let cacheFirst = FetchPolicy(.cacheFirst)
    /// Fetches the value, whatever the cache has. Joins a fetch that is already under way.
    public static let reload = FetchPolicy(.reload)
    /// Returns a fresh value; otherwise throws `.notFound`. Fetches nothing and returns nothing stale, whatever else
    /// the policy says.
    public static let cacheOnly = FetchPolicy(.cacheOnly)

    /// See ``staleWhileRevalidate(for:)-swift.method``.
    public static func staleWhileRevalidate(for window: TimeToLive) -> FetchPolicy {
        cacheFirst.staleWhileRevalidate(for: window)
    }

    /// See ``staleIfError(for:)-swift.method``.
    public static func staleIfError(for window: TimeToLive) -> FetchPolicy {
        cacheFirst.staleIfError(for: window)
    }

    /// Returns a stale value at once for this long after its expiry, while a new one is fetched in the background (RFC
    /// 5861, section 3). By default: not at all.
    public func staleWhileRevalidate(for window: TimeToLive) -> FetchPolicy {
        with { $0.staleWhileRevalidate = window }
    }

    /// Returns a stale value for this long after its expiry, when fetching a new one fails or times out (RFC 5861,
    /// section 4). By default: not at all.
    public func staleIfError(for window: TimeToLive) -> FetchPolicy { with { $0.staleIfError = window } }

    /// Keeps a value for this long after its expiry, so that it can be revalidated, without returning it. By default: a
    /// day for calls that revalidate, and otherwise not at all.
    public func keepStale(for window: TimeToLive) -> FetchPolicy { with { $0.keepStale = window } }

    /// Limits how long a caller waits when there is a stale value that one of the windows allows: that is returned, and
    /// the result of the fetch is stored when it comes. A caller that joins a fetch which has taken that long already
    /// does not wait. By default callers wait.
    public func softTimeout(_ timeout: Duration) -> FetchPolicy { with { $0.softTimeout = timeout } }

    /// Cancels a fetch that takes longer, which counts as failed, with `.timedOut`; the next call begins another. A
    /// result that comes later is dropped. A call that joins a fetch leaves it after this long. None by default.
    public func hardTimeout(_ timeout: Duration) -> FetchPolicy { with { $0.hardTimeout = timeout } }

    /// Begins no fetch for this long after a failed one, where a stale value can be returned instead. By default each
    /// call tries.
    public func retryThrottle(_ pause: Duration) -> FetchPolicy { with { $0.retryThrottle = pause } }

    /// Fetches a value in the background once it has spent this fraction of its life, and returns the one that is still
    /// fresh: a value in constant use never expires.
    ///
    /// - Parameter fraction: From 0 to 1. Without it, values are not fetched early.
    /// - Returns: The changed policy.
    public func eagerRefresh(atFraction fraction: Double) -> FetchPolicy { with { $0.eagerRefresh = fraction } }

    /// Shortens the lives of fetched values at random by up to this part, so that values fetched together do not expire
    /// together. Never lengthens a life.
    ///
    /// - Parameter part: From 0 to 1. 0 by default.
    /// - Returns: The changed policy.
    public func jitter(_ part: Double) -> FetchPolicy { with { $0.jitter = part > 0 ? min(part, 1) : 0 } }

    /// Lets a fetch go on, and stores its value, when all its callers have been cancelled. By default it is cancelled
    /// with the last of them.
    public func outlivesCallers() -> FetchPolicy { with { $0.outlives = true } }

    private func with(_ change: (inout FetchPolicy) -> Void) -> FetchPolicy {
        var policy = self
        change(&policy)
        policy.memoryUse = policy.ownMemoryUse
        return policy
    }
}

/// The decisions of a policy, given times.
extension FetchPolicy {
    /// Why a stale value might be returned.
    enum Occasion {
        case revalidating, failed, late
    }

    /// True when a value that is fresh until `expires` may be returned at `now`.
    func allowsStale(_ occasion: Occasion, expires: Timestamp, at now: Timestamp, defaultTTL: TimeToLive) -> Bool {
        windows(occasion, defaultTTL).allow(expires, at: now)
    }

    /// The windows that count on an occasion.
    func windows(_ occasion: Occasion, _ defaultTTL: TimeToLive) -> StaleWindows {
        if source == .cacheOnly { return StaleWindows(first: nil, second: nil, defaultTTL: defaultTTL) }
        let refresh = source == .reload && occasion == .revalidating ? nil : staleWhileRevalidate
        return StaleWindows(
            first: occasion == .failed ? nil : refresh, second: occasion == .revalidating ? nil : staleIfError,
            defaultTTL: defaultTTL)
    }

    /// How long a value is kept after its expiry. Milliseconds.
    func keptStale(after expires: Timestamp, revalidates: Bool, defaultTTL: TimeToLive) -> Int64 {
        let kept = keepStale ?? (revalidates ? .days(1) : nil)
        return [staleWhileRevalidate, staleIfError, kept].compactMap(\.self).reduce(0) { longest, window in
            let end = StaleWindows.end(of: window, after: expires, defaultTTL: defaultTTL)
            return max(longest, end.milliseconds == Life.unlimited ? Life.unlimited : end.millisecondsSince(expires))
        }
    }

    /// True when a fresh value is old enough to be fetched again in the background.
    func isEarly(_ life: MemoryLife, at now: Timestamp) -> Bool {
        guard let eagerRefresh, life.expires.milliseconds != Life.unlimited else { return false }
        let whole = Double(life.expires.millisecondsSince(life.begun))
        return Double(now.millisecondsSince(life.begun)) >= whole * eagerRefresh
    }

    /// Returns a life shortened by the jitter, to a millisecond at least.
    func jittered(_ life: Life, from now: Timestamp, by random: (ClosedRange<Int64>) -> Int64) -> Life {
        if jitter == 0 || life.isForever { return life }
        let rest = life.expires.millisecondsSince(now)
        let most = Int64(exactly: (Double(rest) * jitter).rounded(.down)) ?? rest
        let cut = min(random(0...most), rest - 1)
        let expires = life.expires.advanced(byMilliseconds: -cut)
        return Life(expires: expires, ttl: life.ttl == Life.unlimited ? life.ttl : life.ttl - cut)
    }
}

extension FetchPolicy: CustomStringConvertible {
    /// The source that is asked first, and whatever differs from the defaults.
    public var description: String {
        var parts = [source == .cacheFirst ? "cacheFirst" : "\(source)"]
        let windows = [
            ("staleWhileRevalidate", staleWhileRevalidate), ("staleIfError", staleIfError), ("keepStale", keepStale),
        ]
        for case (let name, let window?) in windows { parts.append("\(name): \(window)") }
        let timeouts = [
            ("softTimeout", softTimeout), ("hardTimeout", hardTimeout), ("retryThrottle", retryThrottle),
        ]
        for case (let name, let time?) in timeouts { parts.append("\(name): \(Wording.duration(time))") }
        if let eagerRefresh { parts.append("eagerRefresh: \(eagerRefresh)") }
        if jitter > 0 { parts.append("jitter: \(jitter)") }
        if outlives { parts.append("outlivesCallers") }
        return parts.joined(separator: ", ")
    }
}
