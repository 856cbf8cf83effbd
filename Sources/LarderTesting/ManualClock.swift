package import Foundation
package import LarderFiles

/// A clock that does not advance until a test moves it. Scheduled work runs during the move, on the test's thread.
package final class ManualClock: Sendable {
    private struct State {
        var now: Int64
        var scheduled: [(due: Int64, order: Int, work: @Sendable () -> Void)] = []
        var order = 0
    }

    private let state: Lock<State>

    /// Starts at 2025-11-20 10:00:00 UTC, or at the given milliseconds since 1970.
    package init(milliseconds: Int64 = 1_763_632_800_000) {
        state = Lock(State(now: milliseconds))
    }

    package var date: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }

    package var milliseconds: Int64 { state.withLock { $0.now } }

    /// The number of scheduled items that have not run.
    package var scheduledCount: Int { state.withLock { $0.scheduled.count } }

    /// Advances by `duration`, and runs the work that falls due on the way at its time, each followed by `settle`.
    package func advance(by duration: Duration, settle: () -> Void = {}) {
        let target = milliseconds + Int64(duration / .milliseconds(1))
        while true {
            let work = state.withLock { state -> (@Sendable () -> Void)? in
                let next = state.scheduled.indices.min {
                    (state.scheduled[$0].due, state.scheduled[$0].order) < (
                        state.scheduled[$1].due, state.scheduled[$1].order
                    )
                }
                guard let next, state.scheduled[next].due <= target else { return nil }
                state.now = max(state.now, state.scheduled[next].due)
                return state.scheduled.remove(at: next).work
            }
            guard let work else { break }
            work()
            settle()
        }
        state.withLock { $0.now = target }
    }

    /// Sets the time, like a user who sets the computer's clock: no scheduled work runs.
    package func set(milliseconds: Int64) {
        state.withLock { $0.now = milliseconds }
    }
}

extension ManualClock: LarderFiles.Clock {
    package var now: Timestamp { Timestamp(milliseconds: milliseconds) }

    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork {
        let order = state.withLock { state in
            state.order += 1
            state.scheduled.append((state.now + Int64(delay / .milliseconds(1)), state.order, work))
            return state.order
        }
        return Scheduled(clock: self, order: order)
    }

    private struct Scheduled: ScheduledWork {
        let clock: ManualClock
        let order: Int

        func cancel() {
            // Released outside the lock.
            let work = clock.state.withLock { state in
                let index = state.scheduled.firstIndex { $0.order == order }
                return index.map { state.scheduled.remove(at: $0).work }
            }
            _ = consume work
        }
    }
}
