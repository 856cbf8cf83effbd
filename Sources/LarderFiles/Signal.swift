import Dispatch

/// Wakes one thread that waits, now or later.
package final class Signal: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    package init() {}

    package func send() {
        semaphore.signal()
    }

    /// Returns false when nothing was sent for so long.
    package func wait(nanoseconds: Int) -> Bool {
        guard let thread = Simulation.thread else {
            return semaphore.wait(timeout: .now() + .nanoseconds(nanoseconds)) == .success
        }
        return thread.wait(
            until: { semaphore.wait(timeout: .now()) == .success }, orMicroseconds: UInt64(nanoseconds / 1_000))
    }
}
