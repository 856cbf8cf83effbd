import LarderFiles

/// Validations in the background, one per entry at a time.
final class Revalidations: Sendable {
    private struct State {
        var tasks: [String: Task<Void, Never>] = [:]
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
        var last = 0
        var isClosed = false
    }

    private let state = Lock(State())

    /// Begins one unless the entry is being validated, or `close` was called.
    func begin(_ key: String, _ work: @escaping @Sendable () async -> Void) {
        state.withLock { state in
            guard state.tasks[key] == nil, !state.isClosed else { return }
            state.tasks[key] = SystemClock().beginDetached { [self] in
                await work()
                finish(key)
            }
        }
    }

    private func finish(_ key: String) {
        let waiters = state.withLock { state in
            state.tasks[key] = nil
            guard state.tasks.isEmpty else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when none is under way, or the waiting task is cancelled.
    func wait() async {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.tasks.isEmpty || Task.isCancelled { return true }
                    state.waiters[number] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume()
        }
    }

    /// Returns when none is under way, at the latest after `limit`.
    func wait(atMost limit: Duration, _ clock: any LarderFiles.Clock) async {
        guard limit > .zero else { return }
        let waiting = clock.begin(nil) { [self] in await wait() }
        let timer = clock.schedule(after: limit) { waiting.cancel() }
        await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
        timer.cancel()
    }

    /// Lets none begin any more.
    func close() {
        state.withLock { $0.isClosed = true }
    }

    /// Cancels those that are under way.
    func cancel() {
        for task in state.withLock({ Array($0.tasks.values) }) { task.cancel() }
    }
}
