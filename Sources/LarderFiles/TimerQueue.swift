import Dispatch

/// Work that a clock will run.
package protocol ScheduledWork: Sendable {
    /// Releases the work without running it, unless it has begun.
    func cancel()
}

/// The timers of the process: one dispatch timer, set to the earliest deadline of a heap.
///
/// A cancelled Dispatch timer keeps its memory until it would have fired. Most timeouts are cancelled early, so this
/// queue removes a cancelled timer at once.
final class TimerQueue: Sendable {
    static let shared = TimerQueue()

    private struct State {
        var heap = TimerHeap()
        /// The deadline that the dispatch timer is set to; `.max`: none.
        var alarm = UInt64.max
    }

    private let state = ProcessLock(State())
    /// Set up in `init`; setting its deadline is safe on every thread.
    nonisolated(unsafe) private let source: any DispatchSourceTimer

    init() {
        source = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "larder.timers", qos: .utility))
        source.setEventHandler { [weak self] in self?.runDue() }
        source.activate()
    }

    deinit {
        source.cancel()
    }

    /// Runs `work` after `delay` on a global queue. O(log n).
    @discardableResult
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> ScheduledTimer {
        let timer = ScheduledTimer(Self.deadline(after: delay), work, in: self)
        state.withLock { state in
            state.heap.insert(timer)
            setAlarm(&state)
        }
        return timer
    }

    fileprivate func cancel(_ timer: ScheduledTimer) {
        // The work is released outside the lock. The dispatch timer stays, and may find nothing due.
        let work = state.withLock { $0.heap.remove(timer) }
        _ = consume work
    }

    /// The number of waiting timers. For tests.
    var count: Int { state.withLock { $0.heap.count } }

    private func runDue() {
        let now = DispatchTime.now().uptimeNanoseconds
        let due = state.withLock { state in
            var due: [@Sendable () -> Void] = []
            while let first = state.heap.first, first.deadline <= now, let work = state.heap.remove(first) {
                due.append(work)
            }
            state.alarm = .max
            setAlarm(&state)
            return due
        }
        for work in due { DispatchQueue.global(qos: .utility).async(execute: work) }
    }

    private func setAlarm(_ state: inout State) {
        guard let deadline = state.heap.first?.deadline, deadline < state.alarm else { return }
        state.alarm = deadline
        source.schedule(deadline: DispatchTime(uptimeNanoseconds: deadline))
    }

    /// Dispatch interprets larger deadlines as wall-clock times.
    private static let latestDeadline = UInt64.max >> 2

    /// A hundred years count as forever.
    private static func deadline(after delay: Duration) -> UInt64 {
        let (seconds, attoseconds) = delay.components
        let wholeSeconds = min(max(0, seconds), 100 * 366 * 86_400)
        let nanoseconds = UInt64(wholeSeconds) * 1_000_000_000 + UInt64(clamping: attoseconds / 1_000_000_000)
        return min(DispatchTime.now().uptimeNanoseconds &+ nanoseconds, latestDeadline)
    }
}

/// A timer of a queue.
final class ScheduledTimer: ScheduledWork {
    let deadline: UInt64
    /// The position in the heap. This and `work` are accessed only under the lock of the queue.
    nonisolated(unsafe) fileprivate var position = 0
    nonisolated(unsafe) fileprivate var work: (@Sendable () -> Void)?
    private unowned let queue: TimerQueue

    init(_ deadline: UInt64, _ work: @escaping @Sendable () -> Void, in queue: TimerQueue) {
        self.deadline = deadline
        self.work = work
        self.queue = queue
    }

    func cancel() {
        queue.cancel(self)
    }
}

/// A binary heap of timers, each of which knows its position.
struct TimerHeap: Sendable {
    private var timers: [ScheduledTimer] = []

    var first: ScheduledTimer? { timers.first }
    var count: Int { timers.count }

    mutating func insert(_ timer: ScheduledTimer) {
        timers.append(timer)
        rise(timer, from: timers.count - 1)
    }

    /// Removes a timer and returns its work; nil when it is no longer in the heap.
    mutating func remove(_ timer: ScheduledTimer) -> (@Sendable () -> Void)? {
        guard let work = timer.work else { return nil }
        timer.work = nil
        let last = timers.removeLast()
        if last !== timer {
            let gap = timer.position
            if gap > 0, last.deadline < timers[(gap - 1) / 2].deadline {
                rise(last, from: gap)
            } else {
                sink(last, from: gap)
            }
        }
        if timers.isEmpty { timers = [] }
        return work
    }

    private mutating func rise(_ timer: ScheduledTimer, from start: Int) {
        var position = start
        while position > 0, timer.deadline < timers[(position - 1) / 2].deadline {
            put(timers[(position - 1) / 2], at: position)
            position = (position - 1) / 2
        }
        put(timer, at: position)
    }

    private mutating func sink(_ timer: ScheduledTimer, from start: Int) {
        var position = start
        while true {
            var child = 2 * position + 1
            guard child < timers.count else { break }
            if child + 1 < timers.count, timers[child + 1].deadline < timers[child].deadline { child += 1 }
            guard timers[child].deadline < timer.deadline else { break }
            put(timers[child], at: position)
            position = child
        }
        put(timer, at: position)
    }

    private mutating func put(_ timer: ScheduledTimer, at position: Int) {
        timers[position] = timer
        timer.position = position
    }
}

/// The one timer of an owner. It is cancelled with the owner.
package final class OwnedTimer: Sendable {
    private let work = Lock<(any ScheduledWork)?>(nil)

    package init() {}

    deinit {
        work.withLock { $0 }?.cancel()
    }

    /// Replaces the timer by another.
    package func set(_ timer: any ScheduledWork) {
        let old = work.withLock { work in
            defer { work = timer }
            return work
        }
        old?.cancel()
    }
}
