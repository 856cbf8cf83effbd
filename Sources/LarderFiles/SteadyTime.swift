/// The time since 1970 as a process sees it: a clock that is set back would make every life longer, so a step back is
/// not followed while the steps are less than a minute in all. Then the time is ahead of the clock by as much.
///
/// A longer step is followed: dates that callers give would be wrong by as much, and other processes would take what is
/// stored here for values from the future.
package struct SteadyTime: Sendable {
    /// The longest step back that is not followed. Milliseconds.
    package static let longestStep: Int64 = 60_000
    /// A difference up to this may be one between the moments at which the two times were read.
    private static let noise: Int64 = 5

    /// The number of times returned so far.
    package private(set) var count: UInt64 = 0
    /// The last of them.
    private var time: Int64 = 0
    /// The last time of the clock, and the time that has passed by then.
    private var clock: Int64?
    private var passed: Int64 = 0
    /// The most by which the clock has been ahead of the time that has passed.
    private var greatest: Int64?

    package init() {}

    /// By how much the time was ahead of the clock. Milliseconds.
    package var lead: Int64 { time &- (clock ?? time) }

    /// Returns the time for a time of the clock. Without `passed`, the time that has passed since any moment, time passes
    /// as the clock goes forward. All in milliseconds.
    ///
    /// `count`: that of the moment before the clock was read. If another thread has been here since, an earlier time is
    /// no step back.
    package mutating func time(clock: Int64, passed: Int64? = nil, readAfter count: UInt64? = nil) -> Int64 {
        if let count, count != self.count, let last = self.clock, clock < last { return time }
        self.count += 1
        self.passed = passed ?? self.passed &+ max(0, clock &- (self.clock ?? clock))
        self.clock = clock
        let difference = clock &- self.passed
        let step = (greatest ?? difference) &- difference
        if step <= 0 || step > Self.longestStep { greatest = difference }
        let isFollowed = step <= (passed == nil ? 0 : Self.noise) || step > Self.longestStep
        time = isFollowed ? clock : max(clock, clock &+ step)
        return time
    }
}
