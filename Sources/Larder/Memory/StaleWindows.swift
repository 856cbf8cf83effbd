public import LarderFiles

/// The times after its expiry during which a call may be answered with a value.
@usableFromInline
struct StaleWindows: Sendable {
    /// The windows that count on this occasion; nil: none.
    let first: TimeToLive?
    let second: TimeToLive?
    /// The life that `.default` stands for.
    let defaultTTL: TimeToLive

    /// True when a value that is fresh until `expires` may be an answer at `now`. O(1).
    @usableFromInline
    func allow(_ expires: Timestamp, at now: Timestamp) -> Bool {
        now < Self.end(of: first, after: expires, defaultTTL: defaultTTL)
            || now < Self.end(of: second, after: expires, defaultTTL: defaultTTL)
    }

    /// The end of a window; without one, the expiry itself.
    static func end(of window: TimeToLive?, after expires: Timestamp, defaultTTL: TimeToLive) -> Timestamp {
        window?.life(from: expires, default: defaultTTL)?.expires ?? expires
    }
}
