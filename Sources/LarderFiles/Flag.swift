#if !canImport(Darwin)
    import Synchronization
#endif

/// A mark that is seldom set and often read, by all threads at a time: reading it writes nothing, where taking a lock would.
///
/// On Apple's platforms `Atomic` needs newer systems than Larder does; a lock stands in for it.
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
