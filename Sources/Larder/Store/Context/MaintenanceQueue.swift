import Dispatch
import LarderFiles

/// Runs slow work in slices on one utility queue: deleting, sweeping, reconciling, evicting, emptying the trash.
///
/// Work that is requested again before it has begun is not queued twice.
final class MaintenanceQueue: Sendable {
    enum Kind: UInt16 {
        case delete, sweep, reconcile, emptyTrash, evict, clear, expire, bound, load, leftFiles, clean, verify

        fileprivate var bit: UInt16 { 1 << rawValue }
    }

    private struct State {
        /// A bit for each kind.
        var waiting: UInt16 = 0
        var running: [Int: (kind: Kind?, group: any WorkGroup)] = [:]
        var next = 0
    }

    private let scheduler: any Scheduler
    private let queue: any WorkQueue
    private let state = Lock(State())
    private let lifetime: StoreLifetime

    init(_ lifetime: StoreLifetime, _ scheduler: any Scheduler) {
        self.lifetime = lifetime
        self.scheduler = scheduler
        queue = scheduler.queue("larder.maintenance", .utility)
    }

    /// Runs `slice` on the queue until it returns false or the store is deallocated. Other work may run between two
    /// slices. Work without a kind is never merged.
    func begin(_ kind: Kind?, _ slice: @escaping @Sendable () -> Bool) {
        let begun = state.withLock { state -> (id: Int, group: any WorkGroup)? in
            if let kind {
                if state.waiting & kind.bit != 0 { return nil }
                state.waiting |= kind.bit
            }
            state.next += 1
            let group = scheduler.group()
            group.enter()
            state.running[state.next] = (kind, group)
            return (state.next, group)
        }
        guard let (id, group) = begun else { return }
        queue.enqueue {
            if let kind { self.state.withLock { $0.waiting &= ~kind.bit } }
            self.run(slice, id, group)
        }
    }

    private func run(_ slice: @escaping @Sendable () -> Bool, _ id: Int, _ group: any WorkGroup) {
        if lifetime.whileAlive(slice) ?? false {
            queue.enqueue { self.run(slice, id, group) }
            return
        }
        _ = state.withLock { $0.running.removeValue(forKey: id) }
        group.leave()
    }

    /// True when work of a kind has been requested and has not begun.
    func isWaiting(_ kind: Kind) -> Bool {
        state.withLock { $0.waiting & kind.bit != 0 }
    }

    /// True when work of a kind has been requested and is not done.
    func isUnderWay(_ kind: Kind) -> Bool {
        state.withLock { $0.running.values.contains { $0.kind == kind } }
    }

    /// Returns when all work requested before this call is done. Never call it on the queue.
    func wait() {
        for group in groups({ _ in true }) { group.wait() }
    }

    /// The same for work of one kind.
    func wait(for kind: Kind) {
        for group in groups({ $0 == kind }) { group.wait() }
    }

    /// In the order of the requests.
    private func groups(_ isWanted: (Kind?) -> Bool) -> [any WorkGroup] {
        state.withLock { state in
            state.running.filter { isWanted($0.value.kind) }.inOrder { $0.key }.map(\.value).map { $0.group }
        }
    }

    /// Runs `body` between two slices, and waits for it.
    func alone<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try queue.run(body)
    }
}

/// Keeps the store alive, and with it the lock of its directory, while a piece of background work runs.
final class StoreLifetime: Sendable {
    /// Set once, before any work begins.
    nonisolated(unsafe) private weak var store: (any AnyObject & Sendable)?

    func begin(_ store: any AnyObject & Sendable) {
        self.store = store
    }

    /// Returns nil when the store has been deallocated.
    func whileAlive<Result>(_ body: () -> Result) -> Result? {
        guard let store else { return nil }
        return withExtendedLifetime(store, body)
    }
}

extension MaintenanceQueue {
    /// Returns when every file has been checked. Never call it on this queue, or in a block of the disk queue.
    func awaitScan(_ provisional: ProvisionalState) {
        // More than once: another scan may have begun meanwhile.
        for _ in 0..<3 where provisional.isReconciling || provisional.hasLeftovers { wait(for: .reconcile) }
    }
}
