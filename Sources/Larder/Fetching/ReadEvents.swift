import LarderFiles

/// Reports the reads of one cache to its own listeners, and to nobody else on the directory.
struct ReadEvents: Sendable {
    let center: EventCenter
    let reader: ReadReporting
    let namespace: Namespace

    func post(_ kind: CacheEvent.Kind, _ key: Key, source: ValueSource? = nil) {
        center.post(CacheEvent(kind, key, in: namespace, source: source, reader: reader))
    }

    /// Posts a hit, or a stale answer.
    func postHit<Value>(_ key: Key, _ found: Lookup<Value>) {
        post(found.isStale ? .answeredStale : .hit, key, source: found.source)
    }
}

extension CacheEvent {
    fileprivate init(_ kind: Kind, _ key: Key, in namespace: Namespace, source: ValueSource?, reader: ReadReporting) {
        self.init(kind, keys: [key.text], namespace: namespace == .none ? nil : namespace.name)
        self.source = source
        self.reader = reader
    }
}
