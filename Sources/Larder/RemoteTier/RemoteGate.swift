import LarderFiles

/// One caller that waits, for a limited time.
final class RemoteGate: Sendable {
    private struct State {
        var isOpen = false
        var continuation: CheckedContinuation<Void, Never>?
    }

    private let state = Lock(State())

    var isOpen: Bool { state.withLock { $0.isOpen } }

    func open() {
        let continuation = state.withLock { state in
            state.isOpen = true
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume()
    }

    /// Returns when the gate is open or `limit` has passed, or the task is cancelled.
    func wait(_ limit: Duration, _ clock: any Clock) async {
        let timer = clock.schedule(after: limit) { self.open() }
        await wait()
        timer.cancel()
    }

    /// Returns when the gate is open, or the task is cancelled.
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if !state.isOpen { state.continuation = continuation }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        } onCancel: {
            open()
        }
    }
}
