/// A source of the wall-clock time that also runs work later: debounced saves, the sweep, and all other background work.
///
/// A test that owns the clock drives them and never sleeps.
package protocol Clock: Scheduler {
    /// The wall-clock time.
    var now: Timestamp { get }
    /// By how much that is ahead of the system's clock, which was set back. Milliseconds.
    var lead: Int64 { get }
}

extension Clock {
    package var lead: Int64 { 0 }
}

/// The system's clock. A memory cache reads it on every call, so it bypasses the protocol and calls `Timestamp.now`.
package struct SystemClock: Clock {
    package init() {}

    package var now: Timestamp { Timestamp.now }
    package var lead: Int64 { SystemTime.lead }
}

extension Timestamp {
    /// The system's time, rounded up to the millisecond.
    @usableFromInline
    package static var now: Timestamp { Timestamp(milliseconds: SystemTime.milliseconds) }
}

/// The system's time, steady as long as the process lives.
private enum SystemTime {
    private static let steady = ProcessLock(SteadyTime())
    /// The last time of the clock, and in the lower bits by how much `steady` is ahead of it: the two have to be compared
    /// once per millisecond.
    private static let last = Word()
    private static let aheadBits: UInt64 = 17

    static var milliseconds: Int64 {
        let clock = clock
        let last = last.value
        guard last >> aheadBits == UInt64(bitPattern: clock) else { return compare() }
        return clock + Int64(last & (1 << aheadBits - 1))
    }

    static var lead: Int64 { Int64(last.value & (1 << aheadBits - 1)) }

    private static var clock: Int64 {
        let (seconds, nanoseconds) = Platform.time()
        return seconds * 1000 + (nanoseconds + 999_999) / 1_000_000
    }

    @inline(never)
    private static func compare() -> Int64 {
        var (passed, time) = (Platform.uptime(), clock)
        // Of one moment, unless the thread is stopped in between again and again.
        for _ in 0..<4 where Platform.uptime() - passed > 1_000_000 { (passed, time) = (Platform.uptime(), clock) }
        let now = steady.withLock { $0.time(clock: time, passed: passed / 1_000_000) }
        last.value = UInt64(bitPattern: time) << aheadBits | UInt64(now - time)
        return now
    }
}

/// A clock that reads the time from a function, steady as long as it lives.
package struct WallClock: Clock {
    private let read: @Sendable () -> Timestamp
    private let steady = Lock(SteadyTime())

    package init(reading read: @escaping @Sendable () -> Timestamp) {
        self.read = read
    }

    package var now: Timestamp {
        let count = steady.withLock { $0.count }
        let time = read().milliseconds
        return Timestamp(milliseconds: steady.withLock { $0.time(clock: time, readAfter: count) })
    }

    package var lead: Int64 { steady.withLock { $0.lead } }
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
