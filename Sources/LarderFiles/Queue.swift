import LarderFoundation

/// A serial queue: it runs one block at a time, on the caller's thread.
///
/// Callers block, so it is a lock. `DispatchQueue.sync` would do the same, but it allocates for each block and puts
/// threads to sleep even for waits that are shorter than the sleep itself.
package final class SerialQueue: Sendable {
    @usableFromInline let lock = Lock(())

    package init() {}

    /// Runs `body` and returns its result. Must not be called from a block of the same queue.
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

/// A concurrent queue whose callers block: blocks run concurrently on their callers' threads, and a barrier runs alone.
///
/// It consists of reader-writer locks, one per lane (a "big-reader lock"): two threads usually take different lanes and
/// share no memory. A barrier takes all lanes; blocks that arrive while it waits run after it, on every system. Unlike
/// with a dispatch queue, a waiting thread does not donate its priority.
package final class ConcurrentQueue: Sendable {
    private static let laneBits = 5

    private let lanes: ReaderWriterLocks
    /// Held by a barrier, from before it starts to wait.
    @usableFromInline let barrier = Lock(())
    private let isBarrierWaiting = Flag()

    package init() {
        lanes = ReaderWriterLocks(count: 1 << Self.laneBits)
    }

    /// Runs `body` and returns its result. Must not be called from a block of the same queue: a waiting barrier would
    /// deadlock both.
    @inlinable
    package func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let lane = enter()
        defer { leave(lane) }
        return try body()
    }

    /// Runs `body` after all blocks that have begun, while no other block runs.
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
        // The stack's address distinguishes threads. Threads may share a lane, and a thread may change lanes.
        var local = 0
        let stack = withUnsafePointer(to: &local) { UInt64(UInt(bitPattern: $0) >> 16) }
        let lane = Int((stack &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - Self.laneBits))
        if isBarrierWaiting.isSet { barrier.withLock { _ in } }
        if !lanes.tryToRead(lane) { awaitTurn(lane) }
        return lane
    }

    private func awaitTurn(_ lane: Int) {
        if let thread = Simulation.thread {
            thread.wait { lanes.tryToRead(lane) }
        } else {
            lanes.read(lane)
        }
    }

    @usableFromInline
    package func leave(_ lane: Int) {
        lanes.unlock(lane)
    }

    @usableFromInline
    func enterAlone() {
        isBarrierWaiting.set()
        if let thread = Simulation.thread {
            // All at once: which lane a thread takes depends on its stack.
            while !lanes.tryToWriteAll() { thread.wait { lanes.areFree() } }
        } else {
            for lane in 0..<lanes.count { lanes.write(lane) }
        }
    }

    @usableFromInline
    func leaveAlone() {
        for lane in 0..<lanes.count { lanes.unlock(lane) }
        isBarrierWaiting.set(false)
    }
}

/// Reader-writer locks, each in cache lines of its own.
///
/// `@unchecked Sendable`: the memory is allocated in `init`, freed in `deinit`, and in between accessed only by the C
/// library.
final class ReaderWriterLocks: @unchecked Sendable {
    /// Bytes. Processors fetch 64-byte cache lines in pairs; Apple's cache lines have 128 bytes.
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
        // EAGAIN: the lock has reached its maximum number of readers.
        while case let error = pthread_rwlock_rdlock(lock(number)), error != 0 {
            precondition(error == EAGAIN, "a block waits for its own queue")
            sched_yield()
        }
    }

    func write(_ number: Int) {
        let error = pthread_rwlock_wrlock(lock(number))
        precondition(error == 0, "a block waits for its own queue")
    }

    func tryToRead(_ number: Int) -> Bool {
        pthread_rwlock_tryrdlock(lock(number)) == 0
    }

    /// Takes all locks, or none.
    func tryToWriteAll() -> Bool {
        guard let busy = (0..<count).first(where: { pthread_rwlock_trywrlock(lock($0)) != 0 }) else { return true }
        for number in 0..<busy { unlock(number) }
        return false
    }

    func areFree() -> Bool {
        guard tryToWriteAll() else { return false }
        for number in 0..<count { unlock(number) }
        return true
    }

    func unlock(_ number: Int) {
        pthread_rwlock_unlock(lock(number))
    }

    private func lock(_ number: Int) -> UnsafeMutablePointer<pthread_rwlock_t> {
        (base + number * Self.stride).assumingMemoryBound(to: pthread_rwlock_t.self)
    }
}
