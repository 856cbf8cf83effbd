import Dispatch
import LarderFiles

/// Reports and releases the values that were removed from a table: outside of its lock, in the order of their removals,
/// on one thread at a time.
final class ValueReleaser<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    typealias Table = MemoryTable<Key, Value>

    private let table: Lock<Table>
    /// Whether a call releases what it has removed before it returns.
    private let isInline: Bool
    /// Serial, so that removals are reported in their order; and so with threads of its own, as on Linux the concurrent
    /// queues share theirs with Swift's tasks.
    private let queue: any WorkQueue
    private let observers: RemovalObservers<Key, Value>

    /// How long a small batch waits, so that the queue does not wake up for every value.
    private static var milliseconds: Int { 10 }
    /// Batches of other threads that a call releases.
    private static var batches: Int { 64 }

    init(_ table: Lock<Table>, _ release: ValueRelease, _ clock: any Clock, _ observers: RemovalObservers<Key, Value>) {
        self.table = table
        isInline = release == .inline
        queue = release == .main ? clock.mainQueue : clock.queue("larder.memory.release", .utility)
        self.observers = observers
    }

    /// Releases everything. Values that are still in the table are not reported.
    deinit {
        // Both leave the table first: whoever has the last reference to that releases no value.
        let release: @Sendable () -> Void = { [table, observers] in
            observers.report(table.withLock { $0.takeForRelease() })
            _ = table.withLock { table in
                table.removeAll(.cleared)
                return table.takeForRelease()
            }
        }
        if isInline { release() } else { queue.enqueue(release) }
    }

    /// Arranges the release of removed values.
    func release(_ demand: ReleaseDemand) {
        if demand == .none { return }
        if isInline { releaseNow(demand) } else { releaseInBackground(demand) }
    }

    /// The same for a caller that holds locks.
    func releaseInBackground(_ demand: ReleaseDemand) {
        switch demand {
        case .none: break
        case .soon: queue.enqueue(afterMilliseconds: Self.milliseconds) { [weak self] in self?.releaseNow(.soon) }
        case .now: queue.enqueue { [weak self] in self?.releaseNow(.now) }
        }
    }

    /// Releases the removed values on this thread; unless another thread is at it, or this one is in an outer call.
    /// That call then releases these values as well, which keeps the order.
    private func releaseNow(_ demand: ReleaseDemand) {
        if releaseBatch({ $0.beginRelease(demand) }) { releaseMore() }
    }

    /// Releases the values that others have left to this thread; in the background after some batches, so that a call
    /// returns even if others never cease.
    private func releaseMore() {
        for _ in 0..<Self.batches where !releaseBatch({ $0.continueRelease() }) { return }
        queue.enqueue { self.releaseMore() }
    }

    /// Reports and releases a batch. When it returns true, the values have been released.
    private func releaseBatch(_ take: (inout Table) -> Table.Removed?) -> Bool {
        guard let batch = table.withLock(take) else { return false }
        observers.report(batch)
        return true
    }

    /// Reports and releases what waits for the queue. For tests.
    func releaseWaiting() {
        observers.report(table.withLock { $0.takeForRelease() })
    }
}

/// Those who want to hear of removed values.
struct RemovalObservers<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    let observer: (@Sendable (MemoryObservation<Key>) -> Void)?
    let onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: RemovalCause) -> Void)?

    func report(_ batch: MemoryTable<Key, Value>.Removed) {
        if observer == nil && onRemove == nil { return }
        for all in batch.cleared {
            report(all.removedBefore)
            observer?(.cleared(all.count, all.cause))
            if let onRemove {
                all.slots.forEach { entry in
                    if let value = entry.value { onRemove(entry.key, value, all.cause) }
                }
            }
        }
        report(batch.removed)
    }

    private func report(_ removals: ContiguousArray<MemoryRemoval<Key, Value>>) {
        for removal in removals {
            guard let key = removal.key, let value = removal.value else { continue }
            observer?(.left(key, removal.cause))
            onRemove?(key, value, removal.cause)
        }
    }
}
