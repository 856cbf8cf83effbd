import Dispatch

/// The clock of the running system, reading the time from a function.
package struct WallClock: Clock {
    private let read: @Sendable () -> Timestamp

    package init(reading read: @escaping @Sendable () -> Timestamp) {
        self.read = read
    }

    package var now: Timestamp { read() }

    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        let nanoseconds = delay.components.attoseconds / 1_000_000_000
        let wait = DispatchTimeInterval.seconds(Int(clamping: delay.components.seconds))
        let deadline = DispatchTime.now() + wait + .nanoseconds(Int(nanoseconds))
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: deadline, execute: work)
    }
}
