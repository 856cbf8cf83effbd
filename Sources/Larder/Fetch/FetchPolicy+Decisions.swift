import LarderFiles

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
