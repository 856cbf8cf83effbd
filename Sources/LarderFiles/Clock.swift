import Dispatch

/// The world's time: it tells the time *and* runs work later.
///
/// The debounced save and the sweep go through it, so a test drives them by hand and nothing in the suite sleeps.
package protocol Clock: Sendable {
    /// The wall-clock time.
    var now: Timestamp { get }

    /// Runs `work` once, no earlier than after `delay`, on a thread of the clock's choice.
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void)
}

extension Clock {
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        let nanoseconds = delay.components.attoseconds / 1_000_000_000
        let wait = DispatchTimeInterval.seconds(Int(clamping: delay.components.seconds))
        let deadline = DispatchTime.now() + wait + .nanoseconds(Int(nanoseconds))
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: deadline, execute: work)
    }
}
