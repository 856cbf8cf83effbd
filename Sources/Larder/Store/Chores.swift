import Dispatch
import LarderFiles

/// The slow work: unlinking, sweeping, saving, reconciling, emptying the trash; on one utility queue, in slices.
///
/// A chore that is asked for again before it has begun is not queued twice.
final class Chores: Sendable {
    enum Kind: Hashable {
        case unlink, sweep, save, reconcile, emptyTrash, tidy, evict, clear
    }

    private struct State {
        var waiting: Set<Kind> = []
        var running: [Int: DispatchGroup] = [:]
        var next = 0
    }

    private let queue = DispatchQueue(label: "larder.chores", qos: .utility)
    private let state = Lock(State())

    /// Runs `slice` on the queue until it answers false. Other chores may come in between two slices.
    /// Without a kind it is like no other.
    func begin(_ kind: Kind?, _ slice: @escaping @Sendable () -> Bool) {
        let begun = state.withLock { state -> (id: Int, group: DispatchGroup)? in
            if let kind, !state.waiting.insert(kind).inserted { return nil }
            state.next += 1
            let group = DispatchGroup()
            group.enter()
            state.running[state.next] = group
            return (state.next, group)
        }
        guard let (id, group) = begun else { return }
        queue.async {
            if let kind { _ = self.state.withLock { $0.waiting.remove(kind) } }
            self.run(slice, id, group)
        }
    }

    private func run(_ slice: @escaping @Sendable () -> Bool, _ id: Int, _ group: DispatchGroup) {
        if slice() {
            queue.async { self.run(slice, id, group) }
            return
        }
        _ = state.withLock { $0.running.removeValue(forKey: id) }
        group.leave()
    }

    /// Returns when every chore begun before this call is done. Never call it from a chore.
    func wait() {
        let groups = state.withLock { Array($0.running.values) }
        for group in groups { group.wait() }
    }

    /// Runs `body` between two slices, and waits for it.
    func alone<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try queue.run(body)
    }
}
