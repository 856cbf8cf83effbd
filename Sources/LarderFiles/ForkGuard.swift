import LarderFoundation

/// Takes shared memory away from a child process that was forked without exec: the child would act in the name of its
/// parent. It finds zeros instead, which nobody else sees. Sets the flags by which it knows what it is.
enum ForkGuard {
    private struct Mapping: Hashable {
        let start: UInt
        let length: Int
    }

    private struct State {
        var mappings: Set<Mapping> = []
        /// The flags that exist, by their addresses.
        var flags: Set<UInt> = []
    }

    private static let state = Lock(State())

    /// Runs once.
    private static let handlers: Void = {
        // The lock is held during the fork, so that the child finds the sets whole.
        pthread_atfork(
            { ForkGuard.state.lockNow() }, { ForkGuard.state.unlock() },
            {
                ForkGuard.beginChild()
                ForkGuard.state.unlock()
            })
    }()

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
        state.lockNow()
        defer { state.unlock() }
        _ = body(&state.state.pointee)
    }

    private static func bits(_ flag: ForkFlag) -> UInt {
        UInt(bitPattern: Unmanaged.passUnretained(flag).toOpaque())
    }

    /// In the child, with the lock held.
    private static func beginChild() {
        for mapping in state.state.pointee.mappings {
            guard let start = UnsafeMutableRawPointer(bitPattern: mapping.start) else { continue }
            Platform.replaceWithZeros(start, length: mapping.length)
        }
        for flag in state.state.pointee.flags {
            guard let start = UnsafeRawPointer(bitPattern: flag) else { continue }
            Unmanaged<ForkFlag>.fromOpaque(start)._withUnsafeGuaranteedRef { $0.set() }
        }
    }
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
