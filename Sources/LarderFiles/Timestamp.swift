/// An instant: whole milliseconds since 1970, in wall-clock time, because the lives of entries outlive reboots.
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

    /// Returns the instant `milliseconds` later; it saturates instead of overflowing.
    @inlinable
    package func advanced(byMilliseconds milliseconds: Int64) -> Timestamp {
        let (sum, overflow) = self.milliseconds.addingReportingOverflow(milliseconds)
        return Timestamp(milliseconds: overflow ? (milliseconds < 0 ? .min : .max) : sum)
    }

    /// Returns the milliseconds from `other` until this instant; it saturates instead of overflowing.
    @inlinable
    package func millisecondsSince(_ other: Timestamp) -> Int64 {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(other.milliseconds)
        return overflow ? (milliseconds < 0 ? .min : .max) : difference
    }
}
