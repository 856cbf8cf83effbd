import LarderFiles

/// Numbers the uses of a cache in their order: the time in milliseconds, and a count within each.
final class AccessCounter: Sendable {
    private static let countBits: UInt64 = 16
    /// About the year 4200; a later time in a file must not use up the numbers.
    private static let latest: Int64 = 1 << 46

    private let last = Lock<UInt64>(0)

    /// Returns a number above all previous ones.
    func next(at time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        return last.withLock { last in
            last = max(last + 1, base)
            return last
        }
    }

    /// The same without a time.
    func next() -> UInt64 { next(at: Timestamp(milliseconds: 0)) }

    /// Returns the number of a past use; later uses get higher ones.
    func stamp(of time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        last.withLock { $0 = max($0, base) }
        return base
    }

    /// True when the clock has been set back since numbers were taken, by more than the clocks of two boots may differ.
    func isAhead(of now: Timestamp) -> Bool {
        last.withLock { $0 } > Self.base(now.advanced(byMilliseconds: Life.clockTolerance)) | Self.counts
    }

    /// Restarts at `now`, after the clock was set back. Every use in an order then needs a new number.
    func restart(at now: Timestamp) {
        last.withLock { $0 = Self.base(now) }
    }

    private static let counts: UInt64 = 1 << countBits - 1

    private static func base(_ time: Timestamp) -> UInt64 {
        UInt64(min(max(time.milliseconds, 0), latest)) << countBits
    }
}
