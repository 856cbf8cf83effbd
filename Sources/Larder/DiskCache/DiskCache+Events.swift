import LarderFiles

extension DiskCache {
    /// The events from now on, as ``Configuration/onEvent`` receives them; of this namespace or of the whole directory.
    ///
    /// Each stream buffers at most 1,000 unread events, the newest ones, and ends when the handle is closed or
    /// destroyed. An event that nobody observes costs almost nothing.
    public var events: AsyncStream<CacheEvent> { events(reader: nil) }

    /// The same with the reads of one cache.
    func events(reader: ReadReporting?) -> AsyncStream<CacheEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CacheEvent.self, bufferingPolicy: .bufferingNewest(EventCenter.bound))
        let events = store.events
        let stop = observe(
            { continuation.yield($0) }, reader: reader, finally: { events.run { continuation.finish() } })
        continuation.onTermination = { _ in stop() }
        return stream
    }

    /// Calls a handler with the events of this namespace or of the whole directory, until the session ends or the
    /// returned function is called; those of reads only of one cache.
    func observe(
        _ handler: @escaping EventCenter.Handler, reader: ReadReporting? = nil,
        finally: @escaping @Sendable () -> Void = {}
    ) -> @Sendable () -> Void {
        let (events, name) = (store.events, keyNamespace == .none ? nil : keyNamespace.name)
        let listener = events.add { event in
            if let own = event.reader, own !== reader { return }
            // A failure or a reopening that concerns no key concerns all.
            let isAboutAll =
                event.isOfAllNamespaces
                || event.namespace == nil && event.keys.isEmpty && event.kind != .cleared && event.kind != .invalidated
            if name == nil || isAboutAll { return handler(event) }
            if let namespace = event.namespace, let name, namespace.hasSameBytes(as: name) { handler(event) }
        }
        session.noteObserved()
        return session.atEnd {
            events.remove(listener)
            finally()
        }
    }

    /// Notifies a memory tier of every change until the session ends or the returned function is called, and then
    /// empties it.
    func attach(_ tier: any MemoryTier) -> @Sendable () -> Void {
        let index = store.index
        index.attach(tier)
        return session.atEnd {
            index.detach(tier)
            tier.invalidateAll()
        }
    }
}
