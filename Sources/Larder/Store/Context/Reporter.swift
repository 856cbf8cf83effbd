import LarderFiles

/// Counts the work of a store, and reports it to listeners.
final class Reporter: Sendable {
    let events: EventCenter
    private let counts = Lock(CacheStatistics())

    init(_ scheduler: any Scheduler) {
        events = EventCenter(scheduler)
    }

    /// The counts so far, without those that the index keeps.
    var statistics: CacheStatistics {
        var statistics = counts.withLock { $0 }
        statistics.eventsDropped = events.dropped
        return statistics
    }

    func count(_ change: (inout CacheStatistics) -> Void) {
        counts.withLock(change)
    }

    /// Counts and reports an event.
    func report(_ event: @autoclosure () -> CacheEvent, _ count: (inout CacheStatistics) -> Void) {
        counts.withLock(count)
        events.post(event())
    }

    /// Counts and reports a failure.
    func report(_ error: CacheError, of key: Key? = nil) {
        counts.withLock { $0.failures += 1 }
        events.post(CacheEvent(.failed, of: key, error: error))
    }

    /// Runs work that has no caller to throw to; a failure is counted and reported. Nil after one, and once closed.
    func attempt<Result>(_ body: () throws(CacheError) -> Result) -> Result? {
        do {
            return try body()
        } catch {
            if error.code != .closed { report(error) }
            return nil
        }
    }

    /// Reports the end of many entries: an event for each namespace.
    func post(_ kind: CacheEvent.Kind, _ entries: [IndexEntry], limit: CacheLimit? = nil) {
        guard events.isListening else { return }
        for (namespace, entries) in Dictionary(grouping: entries, by: \.namespace).inOrder(of: {
            $0.key.seed
        }) {
            events.post(CacheEvent(kind, keys: entries.map(\.keyText), in: namespace, limit: limit))
        }
    }
}

extension CacheEvent {
    init(
        _ kind: Kind, keys: [String], in namespace: Namespace, limit: CacheLimit? = nil, error: CacheError? = nil
    ) {
        let name = namespace.isNone ? nil : namespace.name
        self.init(kind, keys: keys, namespace: name, limit: limit, error: error)
    }

    /// An event about one entry, or about none.
    init(_ kind: Kind, of key: Key?, error: CacheError? = nil) {
        self.init(kind, keys: key.map { [$0.text] } ?? [], in: key?.namespace ?? .none, error: error)
    }

    /// An event about everything in a scope.
    init(_ kind: Kind, of scope: ClearScope, count: Int) {
        let tag: String? = if case .tag(let tag) = scope { tag.text } else { nil }
        let namespace = scope.namespace.flatMap { $0.isNone ? nil : $0.name }
        self.init(kind, namespace: namespace, tag: tag, count: count, isOfAllNamespaces: scope == .everything)
    }
}
