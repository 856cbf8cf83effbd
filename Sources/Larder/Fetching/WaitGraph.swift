import LarderFiles

/// The flights whose fetches wait for other flights, in all caches of the process.
///
/// A fetch that waited for its own flight, directly or through others, would wait forever. A fetch that uses no cache
/// never comes here.
final class WaitGraph: Sendable {
    static let shared = WaitGraph()

    private struct Edge {
        let end: Flight
        /// The waits along it.
        var count: Int
    }

    /// The flights that a flight waits for.
    private let edges = Lock<[ObjectIdentifier: [ObjectIdentifier: Edge]]>([:])

    /// Notes that the fetch of a flight waits for others. Returns false, and notes nothing, when one of these waits for
    /// it already.
    ///
    /// O(waits that lead on from `others`).
    func add(from flight: Flight, to others: [Flight]) -> Bool {
        edges.withLock { edges in
            var seen: Set<ObjectIdentifier> = []
            var ahead = others
            while let next = ahead.popLast() {
                if next === flight { return false }
                // An unstructured task of a fetch may outlive it; nobody waits for that task.
                guard seen.insert(ObjectIdentifier(next)).inserted, next.mayWait else { continue }
                if let ends = edges[ObjectIdentifier(next)] { ahead += ends.values.map(\.end) }
            }
            for other in others { Self.change(by: 1, flight, other, &edges) }
            return true
        }
    }

    /// Takes `add` back. The caller holds the flights, so that none is released under the lock.
    func remove(from flight: Flight, to others: [Flight]) {
        edges.withLock { edges in
            for other in others { Self.change(by: -1, flight, other, &edges) }
        }
    }

    private static func change(
        by difference: Int, _ flight: Flight, _ other: Flight,
        _ edges: inout [ObjectIdentifier: [ObjectIdentifier: Edge]]
    ) {
        let (start, end) = (ObjectIdentifier(flight), ObjectIdentifier(other))
        edges[start, default: [:]][end, default: Edge(end: other, count: 0)].count += difference
        if edges[start]?[end]?.count == 0 { edges[start]?[end] = nil }
        if edges[start]?.isEmpty == true { edges[start] = nil }
    }

    /// The flights that wait. For tests.
    var count: Int { edges.withLock { $0.count } }
}
