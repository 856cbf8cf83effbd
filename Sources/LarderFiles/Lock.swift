#if canImport(Darwin)
    public import os
#elseif LARDER_THREAD_SANITIZER
    // The thread sanitizer does not understand the futex inside `Mutex` and reports false races; it understands
    // pthreads.
    public import LarderFoundation
    import Synchronization
#else
    public import Synchronization
#endif

/// A value protected by a mutex.
///
/// Never call user code or release a user's value inside `withLock`.
///
/// `@unchecked Sendable`: `state` is dereferenced only while `mutex` is locked, and freed in `deinit`, when no other
/// reference is left. A pointer instead of a stored property avoids the dynamic exclusivity check.
@usableFromInline
package final class Lock<State: ~Copyable>: @unchecked Sendable {
    @usableFromInline let state: UnsafeMutablePointer<State>

    #if canImport(Darwin)
        @usableFromInline let mutex = OSAllocatedUnfairLock()
    #elseif LARDER_THREAD_SANITIZER
        @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    #else
        @usableFromInline let mutex = Mutex<Void>(())
    #endif

    @usableFromInline
    package init(_ value: consuming State) {
        state = .allocate(capacity: 1)
        state.initialize(to: value)
        #if LARDER_THREAD_SANITIZER && !canImport(Darwin)
            mutex = .allocate(capacity: 1)
            pthread_mutex_init(mutex, nil)
        #endif
    }

    deinit {
        state.deinitialize(count: 1)
        state.deallocate()
        #if LARDER_THREAD_SANITIZER && !canImport(Darwin)
            pthread_mutex_destroy(mutex)
            mutex.deallocate()
        #endif
    }

    /// Runs `body` with exclusive access to the value; nil when another thread holds the lock.
    package func withLockIfAvailable<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard tryToLock() else { return nil }
        defer { unlock() }
        return try body(&state.pointee)
    }

    @inlinable
    @inline(__always)
    func tryToLock() -> Bool {
        #if canImport(Darwin)
            mutex.lockIfAvailable()
        #elseif LARDER_THREAD_SANITIZER
            pthread_mutex_trylock(mutex) == 0
        #else
            mutex._unsafeTryLock()
        #endif
    }

    /// Waits for a lock that another thread holds; a simulated thread lets others run meanwhile.
    @usableFromInline
    func waitAndLock() {
        guard let thread = Simulation.thread else { return lockNow() }
        repeat {
            // Whoever asks is another thread of the system, which must not keep the lock.
            thread.wait {
                guard tryToLock() else { return false }
                unlock()
                return true
            }
        } while !tryToLock()
    }

    /// Runs `body` with exclusive access to the value. Not recursive.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock()
        defer { unlock() }
        return try body(&state.pointee)
    }

    /// Locks for the rest of a scope; the next line is `defer { unlock() }`.
    @inlinable
    @inline(__always)
    package func lock() {
        if !tryToLock() { waitAndLock() }
    }

    /// Waits without letting the other threads of a simulation run: for locks that all simulations share, whose holders
    /// take no turns.
    func lockNow() {
        #if canImport(Darwin)
            mutex.lock()
        #elseif LARDER_THREAD_SANITIZER
            pthread_mutex_lock(mutex)
        #else
            mutex._unsafeLock()
        #endif
    }

    @inlinable
    @inline(__always)
    package func unlock() {
        #if canImport(Darwin)
            mutex.unlock()
        #elseif LARDER_THREAD_SANITIZER
            pthread_mutex_unlock(mutex)
        #else
            mutex._unsafeUnlock()
        #endif
    }
}

/// A boolean that many threads read often and that is rarely set: unlike taking a lock, reading it writes nothing.
///
/// On Apple platforms `Atomic` requires newer systems than Larder does, so a lock replaces it there.
package final class Flag: Sendable {
    #if canImport(Darwin)
        private let state: Lock<Bool>

        package init(_ isSet: Bool = false) {
            state = Lock(isSet)
        }

        package var isSet: Bool { state.withLock { $0 } }

        package func set(_ isSet: Bool = true) {
            state.withLock { $0 = isSet }
        }
    #else
        private let state: Atomic<Bool>

        package init(_ isSet: Bool = false) {
            state = Atomic(isSet)
        }

        package var isSet: Bool { state.load(ordering: .acquiring) }

        package func set(_ isSet: Bool = true) {
            state.store(isSet, ordering: .releasing)
        }
    #endif
}

/// A word that threads read and write in no order with anything else. As for `Flag`, a lock replaces the atomic on Apple
/// platforms.
package final class Word: Sendable {
    #if canImport(Darwin)
        private let state = Lock<UInt64>(0)

        package init() {}

        package var value: UInt64 {
            get { state.withLock { $0 } }
            set { state.withLock { $0 = newValue } }
        }
    #else
        private let state = Atomic<UInt64>(0)

        package init() {}

        package var value: UInt64 {
            get { state.load(ordering: .relaxed) }
            set { state.store(newValue, ordering: .relaxed) }
        }
    #endif
}

/// Booleans that many threads read, each set on its own and never cleared. As for `Flag`, a lock replaces the atomics
/// on Apple platforms. Elsewhere `init` allocates their memory, and `deinit` frees it.
package final class FlagArray: Sendable {
    #if canImport(Darwin)
        private let flags: Lock<[Bool]>

        package init(count: Int) {
            flags = Lock(Array(repeating: false, count: count))
        }

        package func isSet(_ position: Int) -> Bool { flags.withLock { $0[position] } }

        package func set(_ position: Int) {
            flags.withLock { $0[position] = true }
        }
    #else
        nonisolated(unsafe) private let flags: UnsafeMutableBufferPointer<Atomic<Bool>>

        package init(count: Int) {
            flags = .allocate(capacity: count)
            for position in 0..<count { (flags.baseAddress! + position).initialize(to: Atomic(false)) }
        }

        deinit {
            flags.deinitialize()
            flags.deallocate()
        }

        package func isSet(_ position: Int) -> Bool { flags[position].load(ordering: .acquiring) }

        package func set(_ position: Int) {
            flags[position].store(true, ordering: .releasing)
        }
    #endif
}
