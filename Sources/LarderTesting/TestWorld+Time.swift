public import Foundation
import LarderFiles

extension TestWorld {
    /// The current time of the world. It changes by ``advance(by:)`` and ``setClock(to:)`` alone.
    public var now: Date { clock.date }

    /// Moves the time on, and runs what falls due on the way, each at its time and in order: sweeps, saves of the index,
    /// and the timeouts of fetches.
    ///
    /// When it returns, background work that was due has been done, and its events have been delivered. A call that
    /// waited for a timeout goes on in a task of its own: await its result.
    ///
    /// - Parameter duration: How far. Milliseconds count.
    public func advance(by duration: Duration) {
        clock.advance(by: duration) { settle() }
    }

    /// Sets the time, forwards or backwards, as somebody who sets the computer's clock does. Nothing falls due by that.
    public func setClock(to date: Date) {
        clock.set(milliseconds: Int64((date.timeIntervalSince1970 * 1000).rounded()))
    }

    /// Returns when the background work that the caches have begun is done, such as evicting and deleting files, and
    /// all events have been delivered.
    ///
    /// Fetches are not waited for, as they may wait for the test: see `Cache.waitForFetches()`.
    public func settle() {
        let settlings = state.withLock { $0.settlings }
        let gone = settlings.filter { !$0.value() }.keys
        if gone.isEmpty { return }
        state.withLock { state in
            for number in gone { state.settlings[number] = nil }
        }
    }
}
