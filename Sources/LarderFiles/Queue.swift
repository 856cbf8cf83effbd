import Dispatch

/// A serial queue whose callers wait: each runs its own block, one at a time.
///
/// It does what `DispatchQueue.sync` does and nothing else, so it is a lock: a dispatch queue allocates for each block, and puts a
/// thread to sleep that would have had to wait for less than that takes.
package final class SerialQueue: Sendable {
    @usableFromInline let lock = Lock(())

    package init() {}

    /// Runs `body` and returns what it does. Never from a block of the same queue.
    @inlinable
    package func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        enter()
        defer { leave() }
        return try body()
    }

    /// Begins a block; the next line is `defer { leave() }`.
    @inlinable
    @inline(__always)
    package func enter() {
        lock.lock()
    }

    @inlinable
    @inline(__always)
    package func leave() {
        lock.unlock()
    }
}

/// A concurrent queue whose callers wait: each runs its own block, beside others; a barrier runs alone.
///
/// Reader-writer locks, one for each of some lanes (a "big-reader lock"): two threads mostly take two, and touch no memory in common.
/// A barrier takes all; blocks that come while it waits come after it, on every system. A thread that waits lends its priority to
/// nobody, other than with a dispatch queue.
package final class ConcurrentQueue: Sendable {
    private static let laneBits = 5

    private let lanes: ReaderWriterLocks
    /// Held by a barrier, from before it waits.
    @usableFromInline let barrier = Lock(())
    private let isBarrierWaiting = Flag()

    package init() {
        lanes = ReaderWriterLocks(count: 1 << Self.laneBits)
    }

    /// Runs `body` and returns what it does. Never from a block of the same queue: a barrier may be waiting in between.
    @inlinable
    package func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let lane = enter()
        defer { leave(lane) }
        return try body()
    }

    /// Runs `body` when all blocks that have begun are done, while no other runs.
    @inlinable
    package func runAlone<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try barrier.withLock { _ throws(Failure) in
            enterAlone()
            defer { leaveAlone() }
            return try body()
        }
    }

    /// Begins a block; the next line is `defer { leave(lane) }`.
    @usableFromInline
    package func enter() -> Int {
        // Threads are told apart by where their stacks are. Were it wrong, two would share a lane, or one change it: no harm.
        var local = 0
        let stack = withUnsafePointer(to: &local) { UInt64(UInt(bitPattern: $0) >> 16) }
        let lane = Int((stack &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - Self.laneBits))
        if isBarrierWaiting.isSet { barrier.withLock { _ in } }
        lanes.read(lane)
        return lane
    }

    @usableFromInline
    package func leave(_ lane: Int) {
        lanes.unlock(lane)
    }

    @usableFromInline
    func enterAlone() {
        isBarrierWaiting.set()
        for lane in 0..<lanes.count { lanes.write(lane) }
    }

    @usableFromInline
    func leaveAlone() {
        for lane in 0..<lanes.count { lanes.unlock(lane) }
        isBarrierWaiting.set(false)
    }
}

extension DispatchQueue {
    /// `sync` that keeps the type of the error.
    package func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        var outcome: Swift.Result<Result, Failure>?
        sync { outcome = Swift.Result { () throws(Failure) -> Result in try body() } }
        return try outcome!.get()
    }
}
