import LarderFiles

/// The expiry of an entry, and the duration that it was given.
///
/// In memory "never" and "no duration" are `Int64.max`; on disk the field is absent.
@usableFromInline
struct Life: Hashable, Sendable {
    /// Milliseconds by which the clocks of two boots may differ before an entry is considered to be from the future.
    @inlinable static var clockTolerance: Int64 { 60_000 }
    static let unlimited = Int64.max
    static let forever = Life(expires: Timestamp(milliseconds: unlimited), ttl: unlimited)

    /// The expiry of an entry that was read from a file with a damaged life slot: it counts as expired.
    static let unknownExpiry = Timestamp(milliseconds: .min)

    var expires: Timestamp
    /// Milliseconds; `unlimited` for a life until a given date, and for ever.
    var ttl: Int64

    var isForever: Bool { expires.milliseconds == Self.unlimited }

    /// The one rule: an entry is expired from its expiry on.
    func isExpired(at now: Timestamp) -> Bool {
        now >= expires
    }

    /// True for a life that began more than a minute from now: the clock was set back, and may be set forward again.
    func isFromFuture(stored: Timestamp, at now: Timestamp) -> Bool {
        let latest = now.advanced(byMilliseconds: Self.clockTolerance)
        if stored > latest { return true }
        guard ttl != Self.unlimited, !isForever else { return false }
        return expires > latest.advanced(byMilliseconds: ttl)
    }

    /// The expiry, brought forward where a clock set back would make the rest longer than the whole; nil for never.
    func effectiveExpiry(at now: Timestamp) -> Timestamp? {
        if isForever { return nil }
        return ttl == Self.unlimited ? expires : min(expires, now.advanced(byMilliseconds: ttl))
    }

    /// The same life begun again now; lives without a duration stay as they are.
    func renewed(at now: Timestamp) -> Life {
        guard ttl != Self.unlimited, !isForever else { return self }
        return Life(expires: max(expires, now.advanced(byMilliseconds: ttl)), ttl: ttl)
    }
}
