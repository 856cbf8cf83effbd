import Dispatch
import LarderFiles

/// The way out. Values gather in the table under its lock, and are released when it is open again.
extension MemoryCache {
    /// How long few values may wait: long enough that a queue is not woken for each.
    private static var delay: DispatchTimeInterval { .milliseconds(10) }

    /// Sees to the release of what waits, after a call has added to it.
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

    /// Changes the table, and sees to the release of what has left it: `behind`, if the caller holds locks.
    func change<Result>(inBackground: Bool = false, _ body: (inout Table) -> Result) -> Result {
        let (result, demand) = table.withLock { table in
            let result = body(&table)
            return (result, table.takeDemand())
        }
        if inBackground { releaseInBackground(demand) } else { release(demand) }
        return result
    }

    /// Drops a value that costs too much; it is released like any other.
    @usableFromInline
    func removeTooCostly(_ key: Key) {
        change { $0.remove(key, fingerprint: MemoryKey.fingerprint(key), .cost) }
    }

    /// Drops a value as a caller asks for it, and tells of it; true when it was fresh.
    @usableFromInline
    @discardableResult
    func remove(_ key: Key) -> Bool {
        let removal = discardKept(key)
        release(removal.demand)
        return removal.wasFresh
    }

    /// Tells of what waits and releases it, on this thread.
    private func releaseRemovals(_ demand: ReleaseDemand) {
        takeRemovals(demand).report()
    }

    /// Takes out what waits.
    func takeRemovals(_ demand: ReleaseDemand) -> Removals {
        let (cleared, removed) = table.withLock { $0.takeForRelease(demand) }
        return Removals(cleared: cleared, removed: removed, observer: observer, onRemove: configuration.onRemove)
    }

    /// Takes out everything, of which nobody is told.
    func takeAll() -> Removals {
        table.withLock { $0.removeAll() }
        return Removals(
            cleared: table.withLock { $0.takeForRelease(.now) }.cleared, removed: [], observer: nil, onRemove: nil)
    }

    /// What leaves, with those who want to know: nobody else has a reference to it.
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
