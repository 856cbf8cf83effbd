public import Foundation
import LarderFiles

extension TestWorld {
    /// The current time of the world. Only ``advance(by:)`` and ``setClock(to:)`` change it.
    public var now: Date { clock.date }

    /// Moves the time forward, and runs the work that falls due on the way, at its time and in order: sweeps, saves of
    /// the index, and the timeouts of fetches.
    ///
    /// When it returns, background work that was due has been done, and its events have been delivered. A call that
    /// waited for a timeout continues in a task of its own: await its result.
    ///
    /// - Parameter duration: How far to move the time, in whole milliseconds.
    public func advance(by duration: Duration) {
        clock.advance(by: duration) { settle() }
    }

    /// Sets the time, forward or backward, like a user who sets the computer's clock. No work falls due.
    public func setClock(to date: Date) {
        clock.set(milliseconds: Int64((date.timeIntervalSince1970 * 1000).rounded()))
    }

    /// Returns when the caches have finished their background work, such as evicting and deleting files, and all events
    /// have been delivered.
    ///
    /// Does not wait for fetches, which may be waiting for the test: see `Cache.waitForFetches()`.
    public func settle() {
        simulator?.run()
        let settlings = state.withLock { $0.settlings }
        let gone = settlings.filter { !$0.value() }.keys
        if gone.isEmpty { return }
        state.withLock { state in
            for number in gone { state.settlings[number] = nil }
        }
    }
}
