import Dispatch
import LarderFiles

/// The way out. Values gather in the table under its lock, and are released when it is open again.
extension MemoryCache {
    /// How long few values may wait: long enough that a queue is not woken for each.
    private static var delay: DispatchTimeInterval { .milliseconds(10) }

    /// Sees to the release of what waits, after a call has added to it.
    @usableFromInline
    func release(_ demand: ReleaseDemand) {
        if configuration.release == .inline { releaseWaiting(demand) } else { releaseBehind(demand) }
    }

    /// The same for a caller that holds locks.
    func releaseBehind(_ demand: ReleaseDemand) {
        switch demand {
        case .none: break
        case .soon: queue.asyncAfter(deadline: .now() + Self.delay) { [weak self] in self?.releaseWaiting(.soon) }
        case .now: queue.async { [weak self] in self?.releaseWaiting(.now) }
        }
    }

    /// Tells of what waits and releases it, on this thread.
    private func releaseWaiting(_ demand: ReleaseDemand) {
        let (emptied, removed) = table.withLock { $0.takeWaiting(demand) }
        for all in emptied {
            tell(all.before)
            observer?(.cleared(all.count))
            guard let onRemove = configuration.onRemove else { continue }
            all.slots.forEach { onRemove($0.key, $0.value, .cleared) }
        }
        tell(removed)
    }

    private func tell(_ removed: ContiguousArray<MemoryRemoval<Key, Value>>) {
        for removal in removed {
            guard let key = removal.key else { return }
            observer?(.left(key, removal.cause))
            configuration.onRemove?(key, removal.value, removal.cause.kind)
        }
    }

    private var queue: DispatchQueue {
        configuration.release == .main ? .main : .global(qos: .utility)
    }
}
