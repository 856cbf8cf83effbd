import LarderFiles

/// Which values a call that fetches through the cache may return, and when it asks the source.
///
///     .cacheFirst
///     .staleWhileRevalidate(for: .minutes(5)).staleIfError(for: .days(1))
///     .reload.hardTimeout(.seconds(10))
///
/// Each call decides for itself how stale its answer may be, how long it waits, and when it fetches. The call that
/// begins a fetch decides how that runs and how its result is stored; calls that join take it as it is. Windows are
/// counted from the expiry: an expired value is kept for the longest of them, and only a call with such a policy, or
/// one that allows stale values, ever returns it.
public struct FetchPolicy: Sendable {
    enum Source: Hashable {
        /// The configured policy says which.
        case configured
        case cacheFirst, reload, cacheOnly
    }

    var source: Source
    var staleWhileRevalidate: TimeToLive?
    var staleIfError: TimeToLive?
    /// Whether a failure is an outage; nil: each is.
    var isOutage: (@Sendable (any Error) -> Bool)?
    var keepStale: TimeToLive?
    var softTimeout: Duration?
    var hardTimeout: Duration?
    var keepsLateResult = false
    var retryThrottle: Duration?
    var eagerRefresh: EagerRefresh?
    var jitter: Double?
    var outlives: Bool?

    /// When a fresh value is old enough to be fetched again.
    enum EagerRefresh: Sendable {
        /// Once it has spent this part of its life.
        case fraction(Double)
        /// Once its life has begun so long ago.
        case age(Duration)
    }

    /// The values in memory that answer a call at once.
    @usableFromInline
    enum MemoryUse: Hashable, Sendable {
        /// Those that the configured policy allows.
        case configured
        case none, fresh
        /// Also an expired one, while a fetch is under way or shortly after one has failed.
        case freshOrStale
    }

    /// Derived from the others, so that a hit in memory reads one field.
    @usableFromInline private(set) var memoryUse = MemoryUse.configured

    private var ownMemoryUse: MemoryUse {
        switch source {
        case .configured:
            // A window or a throttle changes the answers of the configured policy.
            let isUnchanged = staleWhileRevalidate == nil && staleIfError == nil && retryThrottle == nil
            return isUnchanged && eagerRefresh == nil ? .configured : .none
        case .reload: return .none
        case .cacheFirst, .cacheOnly: break
        }
        if eagerRefresh != nil { return .none }
        let mayBeStale = staleWhileRevalidate != nil || staleIfError != nil && retryThrottle != nil
        return source == .cacheFirst && mayBeStale ? .freshOrStale : .fresh
    }

    private init(_ source: Source) {
        self.source = source
        memoryUse = ownMemoryUse
    }

    /// The policy that the cache is configured with: `cacheFirst`, unless changed. Settings made on it replace the
    /// configured ones: `.default.hardTimeout(.seconds(5))`.
    public static let `default` = FetchPolicy(.configured)
    /// Returns a fresh value; otherwise fetches it.
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

    /// See ``staleIfError(for:when:)-swift.method``.
    public static func staleIfError(
        for window: TimeToLive, when isOutage: (@Sendable (any Error) -> Bool)? = nil
    ) -> FetchPolicy {
        cacheFirst.staleIfError(for: window, when: isOutage)
    }

    /// Returns a stale value at once for this long after its expiry, while a new one is fetched in the background (RFC
    /// 5861, section 3). Default: not at all.
    public func staleWhileRevalidate(for window: TimeToLive) -> FetchPolicy {
        with { $0.staleWhileRevalidate = window }
    }

    /// Returns a stale value for this long after its expiry, when fetching a new one fails or times out (RFC 5861,
    /// section 4). Default: not at all.
    ///
    ///     .staleIfError(for: .days(1)) { error in (error as? HTTPFailure)?.status != 404 }
    ///
    /// - Parameters:
    ///   - window: How long after the expiry.
    ///   - isOutage: Returns whether a stale value is a good answer to this error; a 404, for example, is an answer of
    ///     the source itself, and is thrown. Called with no lock held; it gets `.timedOut` after a hard timeout.
    ///     Default: nil, every error is an outage.
    /// - Returns: The changed policy.
    public func staleIfError(
        for window: TimeToLive, when isOutage: (@Sendable (any Error) -> Bool)? = nil
    ) -> FetchPolicy {
        with {
            $0.staleIfError = window
            $0.isOutage = isOutage
        }
    }

    /// Keeps a value for this long after its expiry, so that it can be revalidated, without returning it. Default:
    /// `Configuration.keepStale`; without that, a day for calls that revalidate.
    public func keepStale(for window: TimeToLive) -> FetchPolicy { with { $0.keepStale = window } }

    /// Limits how long a caller waits when there is a stale value that one of the windows allows: that is returned, and
    /// the result of the fetch is stored when it comes. A caller that joins a fetch which has taken that long already
    /// does not wait. Default: callers wait.
    public func softTimeout(_ timeout: Duration) -> FetchPolicy { with { $0.softTimeout = timeout } }

    /// Limits how long a call waits for a fetch; then it fails with `.timedOut`, unless a stale value may be returned.
    ///
    /// - Parameters:
    ///   - timeout: How long; zero begins no fetch. A call that joins a fetch leaves it after this long. Default: calls
    ///     wait.
    ///   - keepsLateResult: Whether the fetch goes on when its callers have left, however long it takes, and its result
    ///     is stored when it comes; calls meanwhile join it. Not in the background. Default: false, the fetch that the
    ///     call began is cancelled and counts as failed, a result that comes later is dropped, and the next call begins
    ///     another.
    /// - Returns: The changed policy.
    public func hardTimeout(_ timeout: Duration, keepsLateResult: Bool = false) -> FetchPolicy {
        with {
            $0.hardTimeout = timeout
            $0.keepsLateResult = keepsLateResult
        }
    }

    /// Begins no fetch for this long after a failed one, where a stale value can be returned instead. Default: each
    /// call tries.
    public func retryThrottle(_ pause: Duration) -> FetchPolicy { with { $0.retryThrottle = pause } }

    /// Fetches a value in the background once it has spent this fraction of its life, and returns the one that is still
    /// fresh: a value in constant use never expires. Where reading begins a life again, its life before the call counts.
    ///
    /// - Parameter fraction: From 0 to 1. Without it, values are not fetched early.
    /// - Returns: The changed policy.
    public func eagerRefresh(atFraction fraction: Double) -> FetchPolicy {
        with { $0.eagerRefresh = .fraction(fraction) }
    }

    /// Fetches a value in the background at its first use after this time, and returns the one that is still fresh; the
    /// last of this and ``eagerRefresh(atFraction:)`` counts.
    ///
    ///     .cacheFirst.eagerRefresh(after: .minutes(5))
    ///
    /// - Parameter age: The time since it was stored or confirmed. Without it, values are not fetched early.
    /// - Returns: The changed policy.
    public func eagerRefresh(after age: Duration) -> FetchPolicy { with { $0.eagerRefresh = .age(age) } }

    /// Shortens the lives of fetched values at random by up to this fraction, so that values fetched together do not
    /// expire together. Never lengthens a life.
    ///
    /// - Parameter fraction: From 0 to 1. Default: 0.
    /// - Returns: The changed policy.
    public func jitter(_ fraction: Double) -> FetchPolicy {
        with { $0.jitter = fraction > 0 ? min(fraction, 1) : 0 }
    }

    /// Lets a fetch go on, and stores its value, when all its callers have been cancelled. Default: it is cancelled
    /// with the last of them.
    public func outlivesCallers() -> FetchPolicy { with { $0.outlives = true } }

    private func with(_ change: (inout FetchPolicy) -> Void) -> FetchPolicy {
        var policy = self
        change(&policy)
        policy.memoryUse = policy.ownMemoryUse
        return policy
    }
}

/// The configured policy.
extension FetchPolicy {
    /// True without a setting of its own.
    private var isPlain: Bool {
        let hasWindow = staleWhileRevalidate != nil || staleIfError != nil || keepStale != nil
        let hasTimeout = softTimeout != nil || hardTimeout != nil || retryThrottle != nil
        return !hasWindow && !hasTimeout && eagerRefresh == nil && jitter == nil && outlives == nil
    }

    /// Whether the age of a value counts, wherever its life ends.
    var refreshesByAge: Bool { if case .age = eagerRefresh { true } else { false } }

    /// The same for a reload.
    var reloading: FetchPolicy { with { $0.source = .reload } }

    /// The policy itself; or if it is the default, the configured one with its settings.
    func resolved(_ configured: FetchPolicy) -> FetchPolicy {
        guard source == .configured else { return self }
        if isPlain { return configured }
        return configured.with { policy in
            policy.staleWhileRevalidate = staleWhileRevalidate ?? policy.staleWhileRevalidate
            if let staleIfError { (policy.staleIfError, policy.isOutage) = (staleIfError, isOutage) }
            policy.keepStale = keepStale ?? policy.keepStale
            policy.softTimeout = softTimeout ?? policy.softTimeout
            if let hardTimeout { (policy.hardTimeout, policy.keepsLateResult) = (hardTimeout, keepsLateResult) }
            policy.retryThrottle = retryThrottle ?? policy.retryThrottle
            policy.eagerRefresh = eagerRefresh ?? policy.eagerRefresh
            policy.jitter = jitter ?? policy.jitter
            policy.outlives = outlives ?? policy.outlives
        }
    }
}

/// The decisions of a policy, given times.
extension FetchPolicy {
    /// Why a stale value might be returned.
    enum Occasion {
        case revalidating, failed, late

        var reason: StaleReason {
            switch self {
            case .revalidating: .revalidating
            case .failed: .failed
            case .late: .late
            }
        }
    }

    /// True when a stale value may be the answer to a failure. Calls the user's closure: with no lock held.
    func forgives(_ error: (any Error)?) -> Bool {
        guard let isOutage, let error else { return true }
        return isOutage(error)
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

    /// How long a value is kept after its expiry, unless it says so itself. Milliseconds.
    func keptStale(
        after expires: Timestamp, revalidates: Bool, configured: TimeToLive?, defaultTTL: TimeToLive
    ) -> Int64 {
        let kept = keepStale ?? configured ?? (revalidates ? .days(1) : nil)
        return [staleWhileRevalidate, staleIfError, kept].compactMap(\.self).reduce(0) { longest, window in
            max(longest, window.milliseconds(after: expires, defaultTTL: defaultTTL))
        }
    }

    /// True when a fresh value is old enough to be fetched again in the background.
    func isEarly(_ life: MemoryLife, at now: Timestamp) -> Bool {
        let age = now.millisecondsSince(life.begun)
        switch eagerRefresh {
        case nil: return false
        case .age(let limit): return age >= limit.milliseconds
        case .fraction(let fraction):
            if life.expires.milliseconds == Life.unlimited { return false }
            return Double(age) >= Double(life.expires.millisecondsSince(life.begun)) * fraction
        }
    }

    /// Returns a life shortened by the jitter, to a millisecond at least.
    func jittered(_ life: Life, from now: Timestamp, by random: (ClosedRange<Int64>) -> Int64) -> Life {
        guard let jitter, jitter > 0, !life.isForever else { return life }
        let rest = life.expires.millisecondsSince(now)
        let most = Int64(exactly: (Double(rest) * jitter).rounded(.down)) ?? rest
        let cut = min(random(0...most), rest - 1)
        let expires = life.expires.advanced(byMilliseconds: -cut)
        return Life(expires: expires, ttl: life.ttl == Life.unlimited ? life.ttl : life.ttl - cut)
    }
}

extension TimeToLive {
    /// The length of a window that begins at an expiry. Milliseconds; `Life.unlimited`: without end.
    func milliseconds(after expires: Timestamp, defaultTTL: TimeToLive) -> Int64 {
        // A span has its own length, also where the expiry is never: a caller may bring that forward.
        guard let life = life(from: Timestamp(milliseconds: 0), default: defaultTTL) else { return 0 }
        if life.isForever { return Life.unlimited }
        return life.ttl == Life.unlimited ? max(0, life.expires.millisecondsSince(expires)) : life.ttl
    }
}

extension FetchPolicy: CustomStringConvertible {
    /// The source that is asked first, and whatever differs from the defaults.
    public var description: String {
        var parts = [source == .configured ? "default" : "\(source)"]
        let windows = [
            ("staleWhileRevalidate", staleWhileRevalidate), ("staleIfError", staleIfError), ("keepStale", keepStale),
        ]
        for case (let name, let window?) in windows { parts.append("\(name): \(window)") }
        let timeouts = [
            ("softTimeout", softTimeout), ("hardTimeout", hardTimeout), ("retryThrottle", retryThrottle),
        ]
        for case (let name, let time?) in timeouts { parts.append("\(name): \(Wording.duration(time))") }
        if keepsLateResult { parts.append("keepsLateResult") }
        switch eagerRefresh {
        case nil: break
        case .fraction(let fraction): parts.append("eagerRefresh: \(fraction)")
        case .age(let age): parts.append("eagerRefresh: after \(Wording.duration(age))")
        }
        if let jitter, jitter > 0 { parts.append("jitter: \(jitter)") }
        if outlives == true { parts.append("outlivesCallers") }
        return parts.joined(separator: ", ")
    }
}
