import Dispatch
import Foundation

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
        try lock.withLock { _ throws(Failure) in try body() }
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

    @usableFromInline
    func enter() -> Int {
        // Threads are told apart by where their stacks are. Were it wrong, two would share a lane, or one change it: no harm.
        var local = 0
        let stack = withUnsafePointer(to: &local) { UInt64(UInt(bitPattern: $0) >> 16) }
        let lane = Int((stack &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - Self.laneBits))
        if isBarrierWaiting.isSet { barrier.withLock { _ in } }
        lanes.read(lane)
        return lane
    }

    @usableFromInline
    func leave(_ lane: Int) {
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

/// Some reader-writer locks, each alone in its cache lines.
///
/// `@unchecked Sendable`: the memory is made in `init`, freed in `deinit`, and in between touched by the C library alone.
final class ReaderWriterLocks: @unchecked Sendable {
    /// Bytes. Processors fetch cache lines of 64 bytes in pairs; Apple's are 128 bytes long.
    private static let stride = (MemoryLayout<pthread_rwlock_t>.size + 127) / 128 * 128

    let count: Int
    private let base: UnsafeMutableRawPointer

    init(count: Int) {
        self.count = count
        base = .allocate(byteCount: count * Self.stride, alignment: 128)
        for number in 0..<count {
            let lock = (base + number * Self.stride).bindMemory(to: pthread_rwlock_t.self, capacity: 1)
            lock.initialize(to: pthread_rwlock_t())
            pthread_rwlock_init(lock, nil)
        }
    }

    deinit {
        for number in 0..<count { pthread_rwlock_destroy(lock(number)) }
        base.deallocate()
    }

    func read(_ number: Int) {
        // EAGAIN: more readers than the lock can count.
        while case let error = pthread_rwlock_rdlock(lock(number)), error != 0 {
            precondition(error == EAGAIN, "a block waits for its own queue")
            sched_yield()
        }
    }

    func write(_ number: Int) {
        let error = pthread_rwlock_wrlock(lock(number))
        precondition(error == 0, "a block waits for its own queue")
    }

    func unlock(_ number: Int) {
        pthread_rwlock_unlock(lock(number))
    }

    private func lock(_ number: Int) -> UnsafeMutablePointer<pthread_rwlock_t> {
        (base + number * Self.stride).assumingMemoryBound(to: pthread_rwlock_t.self)
    }
}
