import Dispatch
import LarderFiles

/// The way out. Values gather in the table under its lock, and are released when it is open again.
extension MemoryCache {
    /// How long few values may wait: long enough that a queue is not woken for each.
    private static var delay: DispatchTimeInterval { .milliseconds(10) }

    /// Sees to the release of what waits, after a call has added to it.
    @usableFromInline
    func release(_ demand: ReleaseDemand) {
        if configuration.release == .inline { releaseWaiting() } else { releaseBehind(demand) }
    }

    /// The same for a caller that holds locks.
    func releaseBehind(_ demand: ReleaseDemand) {
        switch demand {
        case .none: break
        case .soon: queue.asyncAfter(deadline: .now() + Self.delay) { [weak self] in self?.releaseWaiting() }
        case .now: queue.async { [weak self] in self?.releaseWaiting() }
        }
    }

    /// Tells of what waits and releases it, on this thread.
    func releaseWaiting() {
        let removed = table.withLock { $0.takeRemoved() }
        for removal in removed {
            guard let key = removal.key else { return }
            observer?(.left(key, removal.cause))
            configuration.onRemove?(key, removal.value, removal.cause.kind)
        }
    }

    /// Empties the cache.
    func takeAll() -> Emptied {
        table.withLock { table in
            var fresh = Table(tellsKeys: table.tellsKeys)
            swap(&table, &fresh)
            swap(&table.removed, &fresh.removed)
            table.demanded = fresh.demanded
            table.statistics = fresh.statistics
            table.statistics.note(.cleared, times: fresh.count)
            return Emptied(fresh)
        }
    }

    /// What was in the cache before it was emptied.
    final class Emptied: Sendable {
        let table: Table

        init(_ table: consuming Table) {
            self.table = table
        }
    }

    /// Tells of all that was in the cache and releases it.
    func release(_ emptied: consuming Emptied, behind: Bool) {
        observer?(.cleared(emptied.table.count))
        let onRemove = configuration.onRemove
        let work: @Sendable () -> Void = { [emptied] in
            if let onRemove { emptied.table.forEach { onRemove($0.key, $0.value, .cleared) } }
        }
        if configuration.release == .inline, !behind { work() } else { queue.async(execute: work) }
    }

    private var queue: DispatchQueue {
        configuration.release == .main ? .main : .global(qos: .utility)
    }
}
