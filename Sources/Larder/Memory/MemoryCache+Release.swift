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
        if configuration.release == .inline { releaseWaiting(demand) } else { releaseBehind(demand) }
    }

    func releaseBehind(_ demand: ReleaseDemand) {
        switch demand {
        case .none: break
        case .soon: queue.asyncAfter(deadline: .now() + Self.delay) { [weak self] in self?.releaseWaiting(.soon) }
        case .now: queue.async { [weak self] in self?.releaseWaiting(.now) }
        }
    }

    /// Changes the table, and sees to the release of what has left it: `behind`, if the caller holds locks.
    func change<Result>(behind: Bool = false, _ body: (inout Table) -> Result) -> Result {
        let (result, demand) = table.withLock { table in
            let result = body(&table)
            return (result, table.takeDemand())
        }
        if behind { releaseBehind(demand) } else { release(demand) }
        return result
    }

    /// Drops a value that costs too much; it is released like any other.
    @usableFromInline
    func refuse(_ key: Key) {
        change { $0.drop(key, fingerprint: MemoryKey.fingerprint(key), .cost) }
    }

    /// Drops a value as a caller asks for it, and tells of it; true when it was fresh.
    @usableFromInline
    @discardableResult
    func discard(_ key: Key) -> Bool {
        let left = discardKept(key)
        release(left.demand)
        return left.wasFresh
    }

    /// Tells of what waits and releases it, on this thread.
    private func releaseWaiting(_ demand: ReleaseDemand) {
        departure(demand).tell()
    }

    /// Takes out what waits.
    func departure(_ demand: ReleaseDemand) -> Departure {
        let (emptied, removed) = table.withLock { $0.takeWaiting(demand) }
        return Departure(emptied: emptied, removed: removed, observer: observer, onRemove: configuration.onRemove)
    }

    /// Takes out everything, of which nobody is told.
    func rest() -> Departure {
        table.withLock { $0.removeAll() }
        return Departure(
            emptied: table.withLock { $0.takeWaiting(.now) }.emptied, removed: [], observer: nil, onRemove: nil)
    }

    /// What leaves, with those who want to know: nobody else has a reference to it.
    struct Departure: Sendable {
        let emptied: ContiguousArray<EmptiedMemory<Key, Value>>
        let removed: ContiguousArray<MemoryRemoval<Key, Value>>
        let observer: (@Sendable (MemoryObservation<Key>) -> Void)?
        let onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: CacheEvent.Kind) -> Void)?

        func tell() {
            if observer == nil && onRemove == nil { return }
            for all in emptied {
                tell(all.before)
                observer?(.cleared(all.count))
                if let onRemove { all.slots.forEach { onRemove($0.key, $0.value, .cleared) } }
            }
            tell(removed)
        }

        private func tell(_ removed: ContiguousArray<MemoryRemoval<Key, Value>>) {
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
