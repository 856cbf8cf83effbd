import LarderFiles

/// Releasing removed values. They are collected in the table under its lock and released after it is unlocked.
extension MemoryCache {
    /// How long a small batch waits, so that the queue does not wake up for every value.
    private static var milliseconds: Int { 10 }
    /// Batches of other threads that a call releases.
    private static var batches: Int { 64 }

    /// Arranges the release of removed values.
    @usableFromInline
    func release(_ demand: ReleaseDemand) {
        if demand == .none { return }
        if configuration.release == .inline { releaseRemovals(demand) } else { releaseInBackground(demand) }
    }

    func releaseInBackground(_ demand: ReleaseDemand) {
        switch demand {
        case .none: break
        case .soon:
            releaseQueue.enqueue(afterMilliseconds: Self.milliseconds) { [weak self] in self?.releaseRemovals(.soon) }
        case .now: releaseQueue.enqueue { [weak self] in self?.releaseRemovals(.now) }
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

    /// Removes a key whose new value is not to be kept: because it costs too much, or has no life.
    @usableFromInline
    func removeUnkept(_ key: Key, cost: Int) {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        change { table in
            if table.limits.allow(cost) {
                _ = table.remove(key, fingerprint: fingerprint, at: now)
            } else {
                table.remove(key, fingerprint: fingerprint, .cost)
            }
        }
    }

    /// Removes a value for a caller, and reports it like any other removal; true when it was fresh.
    @usableFromInline
    @discardableResult
    func remove(_ key: Key) -> Bool {
        let removal = discardKept(key)
        release(removal.demand)
        return removal.wasFresh
    }

    /// Reports and releases the removed values on this thread; unless another thread is at it, or this one is in an
    /// outer call. That call then releases these values as well, which keeps the order.
    private func releaseRemovals(_ demand: ReleaseDemand) {
        if releaseBatch({ $0.beginRelease(demand) }) { releaseMore() }
    }

    /// Releases the values that others have left to this thread; in the background after some batches, so that a call
    /// returns even if others never cease.
    private func releaseMore() {
        for _ in 0..<Self.batches where !releaseBatch({ $0.continueRelease() }) { return }
        releaseQueue.enqueue { self.releaseMore() }
    }

    /// Reports and releases a batch. When it returns true, the values have been released.
    private func releaseBatch(_ take: (inout Table) -> Table.Removed?) -> Bool {
        guard let batch = table.withLock(take) else { return false }
        removals(batch).report()
        return true
    }

    private func removals(_ batch: Table.Removed) -> Removals {
        Removals(
            cleared: batch.cleared, removed: batch.removed, observer: observer, onRemove: configuration.onRemove)
    }

    /// Takes the removed values out of the table, when nobody else has a reference to the cache.
    func takeRemovals() -> Removals {
        removals(table.withLock { $0.takeForRelease() })
    }

    /// Takes everything out of the table, unreported.
    func takeAll() -> Removals {
        table.withLock { $0.removeAll(.cleared) }
        return Removals(
            cleared: table.withLock { $0.takeForRelease() }.cleared, removed: [], observer: nil, onRemove: nil)
    }

    /// Removed values, which nobody else references, and the observers to report them to.
    struct Removals: Sendable {
        let cleared: ContiguousArray<ClearedEntries<Key, Value>>
        let removed: ContiguousArray<MemoryRemoval<Key, Value>>
        let observer: (@Sendable (MemoryObservation<Key>) -> Void)?
        let onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: RemovalCause) -> Void)?

        func report() {
            if observer == nil && onRemove == nil { return }
            for all in cleared {
                report(all.removedBefore)
                observer?(.cleared(all.count, all.cause))
                if let onRemove {
                    all.slots.forEach { entry in
                        if let value = entry.value { onRemove(entry.key, value, all.cause) }
                    }
                }
            }
            report(removed)
        }

        private func report(_ removed: ContiguousArray<MemoryRemoval<Key, Value>>) {
            for removal in removed {
                guard let key = removal.key, let value = removal.value else { continue }
                observer?(.left(key, removal.cause))
                onRemove?(key, value, removal.cause)
            }
        }
    }
}
