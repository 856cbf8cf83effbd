import Dispatch
import LarderFiles

/// Releasing removed values. They are collected in the table under its lock and released after it is unlocked.
extension MemoryCache {
    /// How long a small batch waits, so that the queue does not wake up for every value.
    private static var delay: DispatchTimeInterval { .milliseconds(10) }

    /// Arranges the release of removed values.
    @usableFromInline
    func release(_ demand: ReleaseDemand) {
        if demand == .none { return }
        if configuration.release == .inline { releaseRemovals(demand) } else { releaseInBackground(demand) }
    }

    func releaseInBackground(_ demand: ReleaseDemand) {
        switch demand {
        case .none: break
        case .soon: queue.asyncAfter(deadline: .now() + Self.delay) { [weak self] in self?.releaseRemovals(.soon) }
        case .now: queue.async { [weak self] in self?.releaseRemovals(.now) }
        }
    }

    /// Changes the table and arranges the release of the removed values: `inBackground` if the caller holds locks.
    func change<Result>(inBackground: Bool = false, _ body: (inout Table) -> Result) -> Result {
        let (result, demand) = table.withLock { table in
            let result = body(&table)
            return (result, table.takeDemand())
        }
        if inBackground { releaseInBackground(demand) } else { release(demand) }
        return result
    }

    /// Removes the value of a key because its new value exceeds the cost limit.
    @usableFromInline
    func removeTooCostly(_ key: Key) {
        change { $0.remove(key, fingerprint: MemoryKey.fingerprint(key), .cost) }
    }

    /// Removes a value for a caller, and reports it like any other removal; true when it was fresh.
    @usableFromInline
    @discardableResult
    func remove(_ key: Key) -> Bool {
        let removal = discardKept(key)
        release(removal.demand)
        return removal.wasFresh
    }

    /// Reports and releases the removed values on this thread.
    private func releaseRemovals(_ demand: ReleaseDemand) {
        takeRemovals(demand).report()
    }

    /// Takes the removed values out of the table.
    func takeRemovals(_ demand: ReleaseDemand) -> Removals {
        let (cleared, removed) = table.withLock { $0.takeForRelease(demand) }
        return Removals(cleared: cleared, removed: removed, observer: observer, onRemove: configuration.onRemove)
    }

    /// Takes everything out of the table, unreported.
    func takeAll() -> Removals {
        table.withLock { $0.removeAll() }
        return Removals(
            cleared: table.withLock { $0.takeForRelease(.now) }.cleared, removed: [], observer: nil, onRemove: nil)
    }

    /// Removed values, which nobody else references, and the observers to report them to.
    struct Removals: Sendable {
        let cleared: ContiguousArray<ClearedEntries<Key, Value>>
        let removed: ContiguousArray<MemoryRemoval<Key, Value>>
        let observer: (@Sendable (MemoryObservation<Key>) -> Void)?
        let onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: CacheEvent.Kind) -> Void)?

        func report() {
            if observer == nil && onRemove == nil { return }
            for all in cleared {
                report(all.removedBefore)
                observer?(.cleared(all.count))
                if let onRemove { all.slots.forEach { onRemove($0.key, $0.value, .cleared) } }
            }
            report(removed)
        }

        private func report(_ removed: ContiguousArray<MemoryRemoval<Key, Value>>) {
            for removal in removed {
                guard let key = removal.key else { continue }
                observer?(.left(key, removal.cause))
                onRemove?(key, removal.value, removal.cause.kind)
            }
        }
    }

    var queue: DispatchQueue {
        configuration.release == .main ? .main : .global(qos: .utility)
    }
}
