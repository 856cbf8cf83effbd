import LarderFiles

/// The expiry of an entry, and the duration that a caller gave it.
///
/// In memory "never" and "no duration" are `Int64.max`; on disk the field is absent.
@usableFromInline
struct Life: Hashable, Sendable {
    /// Milliseconds by which the clocks of two boots may differ before an entry is considered to be from the future.
    @inlinable static var clockTolerance: Int64 { 60_000 }
    static let unlimited = Int64.max
    static let forever = Life(expires: Timestamp(milliseconds: unlimited), ttl: unlimited)

    /// The expiry of an entry read from a file with a damaged life slot: it counts as expired.
    static let unknownExpiry = Timestamp(milliseconds: .min)

    var expires: Timestamp
    /// Milliseconds; `unlimited` for a life until a given date, and forever.
    var ttl: Int64

    /// The life of an entry that a caller has expired.
    static func ended(at time: Timestamp) -> Life { Life(expires: time, ttl: 0) }

    /// The life of a dead entry that hides the older files of its key. No time that stale values are kept reaches
    /// beyond.
    static let over = ended(at: Timestamp(milliseconds: .min + 1))

    /// True for a life that a caller has ended; no other has a duration of zero.
    var isEnded: Bool { ttl == 0 }

    var isForever: Bool { expires.milliseconds == Self.unlimited }

    /// The one rule: an entry is expired from its expiry on.
    func isExpired(at now: Timestamp) -> Bool {
        now >= expires
    }

    /// True for a life that began more than a minute from now: the clock was set back, and may be set forward again.
    ///
    /// A life that a caller has ended is then neither fresh nor stale. `toleratingEnd`: it is still stale when the
    /// clock was corrected by up to a minute.
    func isFromFuture(stored: Timestamp, at now: Timestamp, toleratingEnd: Bool = false) -> Bool {
        let latest = now.advanced(byMilliseconds: Self.clockTolerance)
        if stored > latest { return true }
        guard ttl != Self.unlimited, !isForever else { return false }
        // Without the tolerance: setting the clock back does not revive an ended life.
        if isEnded { return expires > (toleratingEnd ? latest : now) }
        return expires > latest.advanced(byMilliseconds: ttl)
    }

    /// The expiry, brought forward if a clock that was set back would make the remaining life longer than the whole;
    /// nil for never.
    func effectiveExpiry(at now: Timestamp) -> Timestamp? {
        if isForever { return nil }
        return ttl == Self.unlimited ? expires : min(expires, now.advanced(byMilliseconds: ttl))
    }

    /// The same life restarted now; lives without a duration stay unchanged.
    func renewed(at now: Timestamp) -> Life {
        guard ttl != Self.unlimited, !isForever else { return self }
        return Life(expires: max(expires, now.advanced(byMilliseconds: ttl)), ttl: ttl)
    }
}
