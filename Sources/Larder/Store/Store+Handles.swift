import LarderFiles

extension Store {
    /// Counts a handle in, with its listener.
    func join(_ onEvent: EventCenter.Handler?) -> Int? {
        handles.withLock { $0 += 1 }
        return onEvent.map { events.add($0) }
    }

    /// Counts a handle out; true for the last one.
    func leave(_ listener: Int?) -> Bool {
        if let listener { events.remove(listener) }
        return handles.withLock { count in
            count -= 1
            return count == 0
        }
    }

    /// Returns a part of every fresh row of a namespace. O(n).
    func freshRows<Part>(of namespace: Namespace, at now: Timestamp, _ part: (Row) -> Part) -> [Part] {
        var parts: [Part] = []
        for shard in 0..<Index.shardCount {
            for row in snapshot(shard)
            where row.file != 0 && row.namespace == namespace && row.isFresh(at: now) {
                parts.append(part(row))
            }
        }
        return parts
    }
}
