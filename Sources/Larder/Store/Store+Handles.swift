import LarderFiles

extension Store {
    /// An open handle: where it was opened, and its listener.
    struct Handle: Sendable {
        fileprivate let number: Int
        fileprivate let listener: Int?
    }

    struct Handles {
        fileprivate var last = 0
        /// By handle.
        fileprivate(set) var paths: [Int: String] = [:]
    }

    /// Counts a handle in, with its listener.
    func join(at path: String, _ onEvent: EventCenter.Handler?) -> Handle {
        let number = handles.withLock { handles in
            handles.last += 1
            handles.paths[handles.last] = path
            return handles.last
        }
        return Handle(number: number, listener: onEvent.map { events.add($0) })
    }

    /// Counts a handle out; true for the last one.
    func leave(_ handle: Handle) -> Bool {
        if let listener = handle.listener { events.remove(listener) }
        return handles.withLock { handles in
            handles.paths[handle.number] = nil
            return handles.paths.isEmpty
        }
    }

    /// Returns a part of every fresh entry of a namespace. O(n).
    func freshEntries<Part>(of namespace: Namespace, at now: Timestamp, _ part: (IndexEntry) -> Part) -> [Part] {
        awaitReconciliation()
        // What could not be read may have replaced or removed what is below.
        let horizon = reconciliation.withLock { $0.horizon }
        var parts: [Part] = []
        for shard in 0..<Index.shardCount {
            for entry in snapshot(shard)
            where entry.file > horizon && entry.namespace == namespace && entry.isFresh(at: now) {
                parts.append(part(entry))
            }
        }
        return parts
    }
}
