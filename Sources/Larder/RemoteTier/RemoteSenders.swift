import LarderFiles

/// Callers waiting for changes to be sent, by kind: finishing a clear does not release a caller that waits for
/// everything.
struct RemoteSenders: Sendable {
    enum Awaited: Equatable {
        case changes(of: Key)
        case clears
        case everything
        /// Everything, be the server there or not.
        case end
    }

    private var keys: [Key: [RemoteGate]] = [:]
    private var others: [(awaited: Awaited, gate: RemoteGate)] = []
    /// Those that wait until the queue has a place, or half of them; the first first.
    private var rooms: ArraySlice<RemoteGate> = []
    private var halves: ArraySlice<RemoteGate> = []

    /// The callers. For tests.
    var count: Int { keys.values.reduce(others.count + rooms.count + halves.count) { $0 + $1.count } }

    /// Adds a caller; nil when nothing waits that it could wait for.
    mutating func gate(_ awaited: Awaited, _ queue: RemoteQueue) -> RemoteGate? {
        guard Self.isWaiting(awaited, queue) else { return nil }
        let gate = RemoteGate()
        if case .changes(let key) = awaited {
            keys[key, default: []].append(gate)
        } else {
            others.append((awaited, gate))
        }
        return gate
    }

    private static func isWaiting(_ awaited: Awaited, _ queue: RemoteQueue) -> Bool {
        switch awaited {
        case .changes(let key): queue.pending(key) != nil
        case .clears: !queue.clears.isEmpty
        case .everything, .end: queue.count > 0
        }
    }

    /// Takes the gates of those that wait no longer, after a change of a key or a clear was sent, or has failed.
    mutating func takeFinished(_ key: Key?, failed: Bool = false, _ queue: RemoteQueue) -> [RemoteGate] {
        var gates: [RemoteGate] = []
        // Without a key it is a clear, which takes the place of changes that it covers.
        for key in key.map({ [$0] }) ?? keys.keys.inOrder(of: { $0.hash })
        where failed || !Self.isWaiting(.changes(of: key), queue) {
            gates += keys.removeValue(forKey: key) ?? []
        }
        gates += others.filter { !Self.isWaiting($0.awaited, queue) }.map(\.gate)
        others.removeAll { !Self.isWaiting($0.awaited, queue) }
        return gates
    }

    /// Adds a caller that waits for a place in the queue. It tries again when the gate opens.
    mutating func roomGate(upToHalf: Bool) -> RemoteGate {
        let gate = RemoteGate()
        if upToHalf { halves.append(gate) } else { rooms.append(gate) }
        return gate
    }

    /// Takes the gates of as many callers as there are places.
    mutating func takeRoomGates(places: Int, half: Int) -> [RemoteGate] {
        Self.take(places, of: &rooms) + Self.take(half, of: &halves)
    }

    private static func take(_ most: Int, of gates: inout ArraySlice<RemoteGate>) -> [RemoteGate] {
        // Those whose callers have gone on for lack of time.
        while gates.first?.isOpen == true { gates.removeFirst() }
        let taken = gates.prefix(max(0, most))
        gates = gates.dropFirst(taken.count)
        return Array(taken)
    }

    /// Takes all gates, because nothing is sent for now; those that wait for the end only if that has come.
    mutating func takeAll(hasEnded: Bool) -> [RemoteGate] {
        var rest = RemoteSenders()
        if !hasEnded { rest.others = others.filter { $0.awaited == .end } }
        defer { self = rest }
        return rooms + halves + keys.values.flatMap { $0 }
            + others.filter { hasEnded || $0.awaited != .end }.map(\.gate)
    }
}
