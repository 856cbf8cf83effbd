import LarderFiles

/// Numbers the uses of a cache in their order: the time in milliseconds, and within one a count.
final class AccessCounter: Sendable {
    private static let countBits: UInt64 = 16
    /// Some year 4200; a later time in a file is no reason to run out of numbers.
    private static let latest: Int64 = 1 << 46

    private let last = Lock<UInt64>(0)

    /// Returns a number above all before.
    func next(at time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        return last.withLock { last in
            last = max(last + 1, base)
            return last
        }
    }

    /// Returns the number of a use of the past; what comes next is above it.
    func stamp(of time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        last.withLock { $0 = max($0, base) }
        return base
    }

    /// True when the clock has been set back since numbers were taken, by more than two boots may differ.
    func isAhead(of now: Timestamp) -> Bool {
        last.withLock { $0 } > Self.base(now.advanced(byMilliseconds: Life.clockTolerance)) | Self.counts
    }

    /// Begins anew at `now`, after the clock has been set back. Every place in an order needs a new number then.
    func restart(at now: Timestamp) {
        last.withLock { $0 = Self.base(now) }
    }

    private static let counts: UInt64 = 1 << countBits - 1

    private static func base(_ time: Timestamp) -> UInt64 {
        UInt64(min(max(time.milliseconds, 0), latest)) << countBits
    }
}
