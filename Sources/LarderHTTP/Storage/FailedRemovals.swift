import LarderFiles

/// The URLs whose responses should have been removed, but could not be, because the disk failed.
final class FailedRemovals: Sendable {
    /// Beyond that nothing is an answer any more, until everything has been removed.
    private static let most = 1000

    private struct State {
        var urls: Set<String> = []
        var isFull = false
    }

    private let state = Lock(State())

    func note(_ url: String) {
        state.withLock { state in
            state.urls.insert(url)
            if state.urls.count > Self.most { (state.urls, state.isFull) = ([], true) }
        }
    }

    func contains(_ url: String) -> Bool { state.withLock { $0.isFull || $0.urls.contains(url) } }

    func resolve(_ url: String) {
        _ = state.withLock { $0.urls.remove(url) }
    }

    func resolveAll() {
        state.withLock { $0 = State() }
    }
}
