import LarderFiles
public import LarderFoundation

/// How long a value is kept.
///
/// Counted in whole milliseconds, rounded up; a life too long to be counted is forever. Zero, negative and not-a-number
/// lives mean "do not keep": storing with one removes the key.
public struct TimeToLive: Hashable, Sendable {
    private enum Kind: Hashable {
        case standard
        case span(Int64)
        case until(Timestamp)
    }

    private let kind: Kind

    private init(_ kind: Kind) {
        self.kind = kind
    }

    /// Creates a life of a given duration.
    public init(_ duration: Duration) {
        self.init(.span(duration.milliseconds))
    }

    /// Milliseconds.
    private static let day: Int64 = 86_400_000

    /// The life from the cache's configuration: one day, unless changed.
    public static let `default` = TimeToLive(.standard)
    /// No expiry at all.
    public static let forever = TimeToLive(.span(Life.unlimited))

    /// A number of milliseconds.
    public static func milliseconds(_ milliseconds: Double) -> TimeToLive {
        TimeToLive(.span(wholeMilliseconds(milliseconds)))
    }

    /// A number of seconds.
    public static func seconds(_ seconds: Double) -> TimeToLive {
        milliseconds(seconds * 1000)
    }

    /// A number of seconds, as an HTTP header gives it.
    public static func seconds(_ seconds: some BinaryInteger) -> TimeToLive { .seconds(Double(seconds)) }

    /// A number of minutes.
    public static func minutes(_ minutes: Double) -> TimeToLive { seconds(minutes * 60) }

    /// A number of hours.
    public static func hours(_ hours: Double) -> TimeToLive { seconds(hours * 3600) }

    /// A number of days of 24 hours.
    public static func days(_ days: Double) -> TimeToLive { seconds(days * 86_400) }

    /// Until a date; a past date means "do not keep". Such a life does not slide.
    public static func until(_ date: Date) -> TimeToLive {
        TimeToLive(.until(Timestamp(date)))
    }

    private static func wholeMilliseconds(_ value: Double) -> Int64 {
        if value.isNaN { return 0 }
        return Int64(exactly: value.rounded(.up)) ?? (value < 0 ? 0 : Life.unlimited)
    }

    /// This life, or `other` if this is the default.
    func or(_ other: TimeToLive) -> TimeToLive {
        if case .standard = kind { other } else { self }
    }

    /// Returns the life that begins at `now`; nil for "do not keep".
    func life(from now: Timestamp, default standard: TimeToLive) -> Life? {
        switch or(standard).kind {
        case .standard:
            // A default of "default" is one day.
            return Life(expires: now.advanced(byMilliseconds: Self.day), ttl: Self.day)
        case .span(let ttl):
            if ttl <= 0 { return nil }
            let expires = now.advanced(byMilliseconds: ttl)
            return expires.milliseconds == Life.unlimited ? .forever : Life(expires: expires, ttl: ttl)
        case .until(let date):
            return date <= now ? nil : Life(expires: date, ttl: Life.unlimited)
        }
    }
}

extension TimeToLive: CustomStringConvertible {
    /// The life in words: "5 min", "until" a date, "forever", "default" or "do not keep".
    public var description: String {
        switch kind {
        case .standard: "default"
        case .span(Life.unlimited): "forever"
        case .span(let ttl): ttl > 0 ? Wording.duration(milliseconds: ttl) : "do not keep"
        case .until(let date): "until \(Wording.date(date.date))"
        }
    }
}

// Disfavored, so that a program with functions of the same names keeps using its own.
extension Duration {
    /// A number of minutes.
    @_disfavoredOverload
    public static func minutes(_ minutes: Double) -> Duration { .seconds(minutes * 60) }

    /// A number of hours.
    @_disfavoredOverload
    public static func hours(_ hours: Double) -> Duration { .seconds(hours * 3600) }

    /// A number of days of 24 hours.
    @_disfavoredOverload
    public static func days(_ days: Double) -> Duration { .seconds(days * 86_400) }
}

extension Duration {
    /// Whole milliseconds, rounded up and saturating.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        let part = (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        let (sum, overflow2) = whole.addingReportingOverflow(part)
        return overflow || overflow2 ? (seconds < 0 ? 0 : Life.unlimited) : sum
    }
}

extension Timestamp {
    /// Converts a date, rounded up to the millisecond. Dates out of range saturate; not-a-number is long past.
    init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded(.up)
        if milliseconds.isNaN {
            self.init(milliseconds: Self.longPast)
        } else {
            self.init(milliseconds: Int64(exactly: milliseconds) ?? (milliseconds < 0 ? Self.longPast : .max))
        }
    }

    /// Not at the end of the range, so that it can be printed and read again.
    private static let longPast = Int64.min / 2

    var date: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
}
