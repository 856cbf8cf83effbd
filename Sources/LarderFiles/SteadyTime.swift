/// The time since 1970 as a process sees it: a clock that is set back would make every life longer, so a step back is
/// not followed while the steps are less than a minute in all. Then the time is ahead of the clock by as much.
///
/// A longer step is followed: dates that callers give would be wrong by as much, and other processes would take what is
/// stored here for values from the future.
package final class SteadyTime: Sendable {
    /// The longest step back that is not followed. Milliseconds.
    package static let longestStep: Int64 = 60_000
    /// A difference up to this may be one between the moments at which the two times were read.
    private static let noise: Int64 = 5

    private struct State {
        /// The most by which the clock has been ahead of the time that has passed.
        var lead: Int64?
        /// The last time of the clock, and the time that has passed by then.
        var clock: Int64?
        var passed: Int64 = 0
        /// The last time returned, and how many have been.
        var time: Int64 = 0
        var count: UInt64 = 0
    }

    private let state = Lock(State())

    package init() {}

    /// The number of times returned so far.
    package var count: UInt64 { state.withLock { $0.count } }

    /// By how much the time was ahead of the clock. Milliseconds.
    package var lead: Int64 { state.withLock { $0.time &- ($0.clock ?? $0.time) } }

    /// Returns the time for a time of the clock. Without `passed`, the time that has passed since any moment, time passes
    /// as the clock goes forward. All in milliseconds.
    ///
    /// `count`: that of the moment before the clock was read. If another thread has been here since, an earlier time is
    /// no step back.
    package func time(clock: Int64, passed: Int64? = nil, readAfter count: UInt64? = nil) -> Int64 {
        state.withLock { state in
            if let count, count != state.count, let last = state.clock, clock < last { return state.time }
            state.count += 1
            if let passed {
                state.passed = passed
            } else {
                state.passed &+= max(0, clock &- (state.clock ?? clock))
            }
            state.clock = clock
            let lead = clock &- state.passed
            let step = (state.lead ?? lead) &- lead
            if step <= 0 || step > Self.longestStep { state.lead = lead }
            let isFollowed = step <= (passed == nil ? 0 : Self.noise) || step > Self.longestStep
            state.time = isFollowed ? clock : max(clock, clock &+ step)
            return state.time
        }
    }
}
