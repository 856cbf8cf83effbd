import LarderFiles

extension DiskCache {
    /// What happens from now on, as ``Configuration/onEvent`` is told; of this namespace, or of the whole directory.
    ///
    /// Each stream keeps at most 1,000 events that have not been read, the newest, and ends when the handle is closed or goes. Without
    /// anybody who listens, an event costs next to nothing.
    public var events: AsyncStream<CacheEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CacheEvent.self, bufferingPolicy: .bufferingNewest(EventCenter.bound))
        let events = store.events
        let stop = observe({ continuation.yield($0) }, finally: { events.run { continuation.finish() } })
        continuation.onTermination = { _ in stop() }
        return stream
    }

    /// Tells a handler of the events of this namespace, or of the whole directory, until the session ends or the answer is called.
    func observe(
        _ handler: @escaping EventCenter.Handler, finally: @escaping @Sendable () -> Void = {}
    ) -> @Sendable () -> Void {
        let (events, name) = (store.events, space == .none ? nil : space.name)
        let listener = events.add { event in
            // What is not about keys of a namespace is about all of them.
            let isAboutAll = event.namespace == nil && event.tag == nil && event.keys.isEmpty
            if name == nil || isAboutAll { return handler(event) }
            if let namespace = event.namespace, let name, namespace.hasSameBytes(as: name) { handler(event) }
        }
        return session.atEnd {
            events.remove(listener)
            finally()
        }
    }

    /// Has a memory tier told of every change, until the session ends or the answer is called; then it is empty.
    func attach(_ tier: any MemoryTier) -> @Sendable () -> Void {
        let index = store.index
        index.attach(tier)
        return session.atEnd {
            index.detach(tier)
            tier.invalidateAll()
        }
    }
}
