/// A source of the wall-clock time that also runs work later: debounced saves, the sweep, and all other background work.
///
/// A test that owns the clock drives them and never sleeps.
package protocol Clock: Scheduler {
    /// The wall-clock time.
    var now: Timestamp { get }
}

/// The system's clock. A memory cache reads it on every call, so it bypasses the protocol and calls `Timestamp.now`.
package struct SystemClock: Clock {
    package init() {}

    package var now: Timestamp { Timestamp.now }
}

extension Timestamp {
    /// The system's time, rounded up to the millisecond.
    @usableFromInline
    package static var now: Timestamp {
        let (seconds, nanoseconds) = Platform.time()
        return Timestamp(milliseconds: seconds * 1000 + (nanoseconds + 999_999) / 1_000_000)
    }
}

/// A clock that reads the time from a function.
package struct WallClock: Clock {
    private let read: @Sendable () -> Timestamp

    package init(reading read: @escaping @Sendable () -> Timestamp) {
        self.read = read
    }

    package var now: Timestamp { read() }
}

/// An instant, in whole milliseconds since 1970. Wall-clock time, because entries outlive reboots.
@usableFromInline
package struct Timestamp: Hashable, Comparable, Sendable {
    @usableFromInline package var milliseconds: Int64

    @inlinable
    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    @inlinable
    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// Returns the instant `milliseconds` later, saturating on overflow.
    @inlinable
    package func advanced(byMilliseconds milliseconds: Int64) -> Timestamp {
        let (sum, overflow) = self.milliseconds.addingReportingOverflow(milliseconds)
        return Timestamp(milliseconds: overflow ? (milliseconds < 0 ? .min : .max) : sum)
    }

    /// Returns the milliseconds from `other` to this instant, saturating on overflow.
    @inlinable
    package func millisecondsSince(_ other: Timestamp) -> Int64 {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(other.milliseconds)
        return overflow ? (milliseconds < 0 ? .min : .max) : difference
    }
}
