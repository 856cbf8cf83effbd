import LarderFoundation

/// Takes shared memory away from a child process that was forked without exec: the child would act in the name of its
/// parent. It finds zeros instead, which nobody else sees. Sets the flags by which it knows what it is, and leaves no
/// `ProcessLock` to a thread that the child does not have.
enum ForkGuard {
    private struct Mapping: Hashable {
        let start: UInt
        let length: Int
    }

    private struct State {
        var mappings: Set<Mapping> = []
        /// The flags that exist, by their addresses.
        var flags: Set<UInt> = []
        var locks: [ProcessMutex] = []
        /// Those that are held during a fork.
        var held: [ProcessMutex] = []
    }

    private static let mutex = ProcessMutex()
    /// Protected by `mutex`.
    nonisolated(unsafe) private static var state = State()

    /// Runs once.
    private static let handlers: Void = {
        // The locks are held during the fork, so that the child finds whole what they protect.
        pthread_atfork(
            { ForkGuard.lockAll() }, { ForkGuard.unlockAll() },
            {
                ForkGuard.beginChild()
                ForkGuard.unlockAll()
            })
    }()

    fileprivate static func add(_ lock: ProcessMutex) {
        _ = handlers
        change { $0.locks.append(lock) }
    }

    private static func lockAll() {
        var locks: [ProcessMutex] = []
        change { locks = $0.locks }
        // The guard's own is the last: a holder of another may release a flag, which takes it.
        for lock in locks { lock.lock() }
        mutex.lock()
        state.held = locks
    }

    private static func unlockAll() {
        let held = state.held
        state.held = []
        mutex.unlock()
        for lock in held { lock.unlock() }
    }

    static func add(_ start: UnsafeMutableRawPointer, length: Int) {
        _ = handlers
        change { $0.mappings.insert(Mapping(start: UInt(bitPattern: start), length: length)) }
    }

    static func remove(_ start: UnsafeMutableRawPointer, length: Int) {
        change { $0.mappings.remove(Mapping(start: UInt(bitPattern: start), length: length)) }
    }

    fileprivate static func add(_ flag: ForkFlag) {
        _ = handlers
        change { $0.flags.insert(bits(flag)) }
    }

    fileprivate static func remove(_ flag: ForkFlag) {
        change { $0.flags.remove(bits(flag)) }
    }

    private static func change<Result>(_ body: (inout State) -> Result) {
        mutex.lock()
        defer { mutex.unlock() }
        _ = body(&state)
    }

    private static func bits(_ flag: ForkFlag) -> UInt {
        UInt(bitPattern: Unmanaged.passUnretained(flag).toOpaque())
    }

    /// In the child, with the locks held.
    private static func beginChild() {
        for mapping in state.mappings {
            guard let start = UnsafeMutableRawPointer(bitPattern: mapping.start) else { continue }
            Platform.replaceWithZeros(start, length: mapping.length)
        }
        for flag in state.flags {
            guard let start = UnsafeRawPointer(bitPattern: flag) else { continue }
            Unmanaged<ForkFlag>.fromOpaque(start)._withUnsafeGuaranteedRef { $0.set() }
        }
    }
}

/// A value that the whole process shares, under a lock that no forked child finds held: a fork waits for its holder,
/// which must be quick. A holder of one takes no other.
///
/// It is for static values: nothing frees it. Not a `Lock`, whose mutex only the thread that took it may unlock: the
/// thread of a child is another one.
///
/// `@unchecked Sendable`: `state` is dereferenced only while `mutex` is locked.
package final class ProcessLock<State>: @unchecked Sendable {
    private let mutex = ProcessMutex()
    private let state: UnsafeMutablePointer<State>

    package init(_ value: State) {
        state = .allocate(capacity: 1)
        state.initialize(to: value)
        ForkGuard.add(mutex)
    }

    package func withLock<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        mutex.lock()
        defer { mutex.unlock() }
        return try body(&state.pointee)
    }
}

/// A mutex of the C library, which the only thread of a child may unlock.
///
/// `@unchecked Sendable`: any thread may use the mutex, and nothing else uses its memory.
private struct ProcessMutex: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    init() {
        pthread_mutex_init(mutex, nil)
    }

    func lock() { pthread_mutex_lock(mutex) }
    func unlock() { pthread_mutex_unlock(mutex) }
}

/// A flag that a child process finds set when it was forked from the process that made it. Reading it is one load.
@usableFromInline
package final class ForkFlag: Sendable {
    /// Written before other threads know the flag, or where there are no others: right after a fork. A pointer instead
    /// of a stored property avoids the dynamic exclusivity check.
    @usableFromInline nonisolated(unsafe) let value: UnsafeMutablePointer<Bool>

    package init() {
        value = .allocate(capacity: 1)
        value.initialize(to: false)
        ForkGuard.add(self)
    }

    deinit {
        ForkGuard.remove(self)
        value.deallocate()
    }

    @inlinable
    package var isSet: Bool {
        @inline(__always) get { value.pointee }
    }

    package func set() {
        value.pointee = true
    }
}
