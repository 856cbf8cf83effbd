import LarderFoundation

/// Takes shared memory away from a child process that was forked without exec: the child would act in the name of its
/// parent. It finds zeros instead, which nobody else sees.
enum ForkGuard {
    private struct Mapping: Hashable {
        let start: UInt
        let length: Int
    }

    private static let mappings = Lock<Set<Mapping>>([])

    /// Runs once.
    private static let handlers: Void = {
        // The lock is held during the fork, so that the child finds the set whole.
        pthread_atfork(
            { ForkGuard.mappings.lock() }, { ForkGuard.mappings.unlock() },
            {
                ForkGuard.replaceMappings()
                ForkGuard.mappings.unlock()
            })
    }()

    static func add(_ start: UnsafeMutableRawPointer, length: Int) {
        _ = handlers
        mappings.withLock { _ = $0.insert(Mapping(start: UInt(bitPattern: start), length: length)) }
    }

    static func remove(_ start: UnsafeMutableRawPointer, length: Int) {
        mappings.withLock { _ = $0.remove(Mapping(start: UInt(bitPattern: start), length: length)) }
    }

    /// In the child, with the lock held.
    private static func replaceMappings() {
        for mapping in mappings.state.pointee {
            guard let start = UnsafeMutableRawPointer(bitPattern: mapping.start) else { continue }
            Platform.replaceWithZeros(start, length: mapping.length)
        }
    }
}
