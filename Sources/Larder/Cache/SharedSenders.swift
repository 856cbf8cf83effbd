/// The callers that wait until changes are sent, each for its own kind: a clear that has been sent lets nobody go on
/// who waits for everything.
struct SharedSenders: Sendable {
    enum Awaited { case changes(of: Key), clears, everything }

    private var keys: [Key: [SharedGate]] = [:]
    private var clears: [SharedGate] = []
    private var everything: [SharedGate] = []

    /// The callers. For tests.
    var count: Int { keys.values.reduce(clears.count + everything.count) { $0 + $1.count } }

    /// Adds a caller; nil when nothing waits that it could wait for.
    mutating func gate(_ awaited: Awaited, _ queue: SharedQueue) -> SharedGate? {
        guard Self.isWaiting(awaited, queue) else { return nil }
        let gate = SharedGate()
        switch awaited {
        case .changes(let key): keys[key, default: []].append(gate)
        case .clears: clears.append(gate)
        case .everything: everything.append(gate)
        }
        return gate
    }

    private static func isWaiting(_ awaited: Awaited, _ queue: SharedQueue) -> Bool {
        switch awaited {
        case .changes(let key): queue.pending(key) != nil
        case .clears: !queue.clears.isEmpty
        case .everything: queue.count > 0
        }
    }

    /// Takes the gates of those that wait no longer, after a change of a key or a clear was sent, or has failed.
    mutating func takeFinished(_ key: Key?, failed: Bool = false, _ queue: SharedQueue) -> [SharedGate] {
        var gates: [SharedGate] = []
        // Without a key it is a clear, which takes the place of changes that it covers.
        for key in key.map({ [$0] }) ?? Array(keys.keys) where failed || !Self.isWaiting(.changes(of: key), queue) {
            gates += keys.removeValue(forKey: key) ?? []
        }
        if !Self.isWaiting(.clears, queue) {
            gates += clears
            clears = []
        }
        if !Self.isWaiting(.everything, queue) {
            gates += everything
            everything = []
        }
        return gates
    }

    mutating func takeAll() -> [SharedGate] {
        defer { self = SharedSenders() }
        return keys.values.flatMap { $0 } + clears + everything
    }
}
