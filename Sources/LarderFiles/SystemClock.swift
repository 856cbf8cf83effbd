/// The clock of the running system, read without a detour: a cache in memory asks it at each call.
package struct SystemClock: Clock {
    package init() {}

    package var now: Timestamp { Timestamp.now }
}

extension Timestamp {
    /// The system's time, rounded up like a date.
    @usableFromInline
    package static var now: Timestamp {
        let (seconds, nanoseconds) = Platform.time()
        return Timestamp(milliseconds: seconds * 1000 + (nanoseconds + 999_999) / 1_000_000)
    }
}
