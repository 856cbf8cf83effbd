import LarderFiles

/// Brings the changes of other processes in, while somebody waits for them.
final class ChangePoll: Sendable {
    private static let interval = Duration.milliseconds(100)

    private let clock: any Clock
    /// Returns false once the store is gone.
    private let follow: @Sendable () async -> Bool
    private let state = Lock(State())

    private struct State {
        var waiting = 0
        var isScheduled = false
    }

    init(_ store: Store) {
        clock = store.clock
        follow = { [weak store] in
            guard let store else { return false }
            if store.disk.others.use({ $0.isBehind }) { await store.io.run { _ = store.follow() } }
            return true
        }
    }

    func begin() {
        let isFirst = state.withLock { state in
            state.waiting += 1
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule() }
    }

    func end() {
        state.withLock { $0.waiting -= 1 }
    }

    private func schedule() {
        clock.schedule(after: Self.interval) { [weak self] in self?.poll() }
    }

    private func poll() {
        let isWanted = state.withLock { state in
            state.isScheduled = state.waiting > 0
            return state.isScheduled
        }
        guard isWanted else { return }
        // The next one after this one is done: they do not pile up.
        clock.begin(.utility) { [weak self, follow] in
            if await follow() { self?.schedule() }
        }
    }
}
