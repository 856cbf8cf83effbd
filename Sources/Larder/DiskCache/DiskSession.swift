import LarderFiles

/// The use of a store by one handle and by the handles of its namespaces.
final class DiskSession: Sendable {
    let store: Store
    let unretainedStore: UnretainedReference<Store>
    private let handle: Store.Handle
    private let state = Lock(State())
    /// Set while `state` is locked.
    private let closed = Flag()

    private struct State {
        /// What the first listener is to hear.
        var news: (@Sendable () -> Void)?
        var last = 0
        /// Functions to call when the session ends, by number.
        var endings: [Int: @Sendable () -> Void] = [:]
    }

    init(_ store: Store, _ handle: Store.Handle) {
        self.store = store
        unretainedStore = UnretainedReference(store)
        self.handle = handle
    }

    deinit {
        if end() { _ = store.leave(handle) }
    }

    var isClosed: Bool { closed.isSet }

    func close() throws(CacheError) {
        // In a forked child it is the parent's session.
        if store.disk.isForked { throw CacheError.forked(store.path) }
        guard end() else { return }
        let (store, handle) = (store, handle)
        try store.close { store.leave(handle) }
    }

    /// Calls `news` once there is a listener.
    func whenObserved(_ news: @escaping @Sendable () -> Void) { state.withLock { $0.news = news } }

    func noteObserved() {
        let news = state.withLock { state in
            defer { state.news = nil }
            return state.news
        }
        news?()
    }

    /// Calls `ending` once: when the session ends, at once if it has ended, or when the returned function is called.
    func atEnd(_ ending: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let number = state.withLock { state -> Int? in
            if closed.isSet { return nil }
            state.last += 1
            state.endings[state.last] = ending
            return state.last
        }
        guard let number else {
            ending()
            return {}
        }
        return { [weak self] in
            let ending = self?.state.withLock { $0.endings.removeValue(forKey: number) }
            (ending ?? nil)?()
        }
    }

    /// True the first time.
    private func end() -> Bool {
        let endings = state.withLock { state -> [Int: @Sendable () -> Void]? in
            if closed.isSet { return nil }
            closed.set()
            defer { state.endings = [:] }
            return state.endings
        }
        guard let endings else { return false }
        for ending in endings.inOrder(of: { $0.key }).map(\.value) { ending() }
        return true
    }
}
