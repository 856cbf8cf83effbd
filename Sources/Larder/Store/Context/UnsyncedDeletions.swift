import LarderFiles

/// The keys whose files were deleted since the names were last synced.
///
/// A power cut may undo such a deletion, but keep a later one. If the file of the older value of a key came back without
/// that of the newer, and the index were lost, the older value would be adopted.
final class UnsyncedDeletions: Sendable {
    /// Above this number, every deletion waits for the next sync. It bounds the memory.
    private static let most = 1024

    private struct State {
        var count: UInt64 = 1
        /// By the hash of the key: the number of its last deletion.
        var last: [UInt64: UInt64] = [:]
        /// The number of the last deletion of a file whose key is not known. Those of a killed session count as one.
        var lastUnknown: UInt64 = 1
    }

    private let state = Lock(State())

    /// True when a power cut may undo a deletion of a key, or with nil of any: no newer file of the key may be deleted
    /// before a sync.
    func mayHold(_ hash: UInt64?) -> Bool {
        state.withLock { state in
            if state.lastUnknown > 0 || state.last.count > Self.most { return true }
            return if let hash { state.last[hash] != nil } else { !state.last.isEmpty }
        }
    }

    /// Notes a deletion. Call it before and after: a sync may be under way.
    func note(_ hash: UInt64?) {
        state.withLock { state in
            state.count += 1
            if let hash { state.last[hash] = state.count } else { state.lastUnknown = state.count }
        }
    }

    /// Runs a sync, and forgets the deletions noted before it.
    func syncing(_ sync: () throws(Errno) -> Void) throws(Errno) {
        let count = state.withLock { $0.count }
        try sync()
        state.withLock { state in
            if state.lastUnknown <= count { state.lastUnknown = 0 }
            if !state.last.isEmpty { state.last = state.last.filter { $0.value > count } }
        }
    }
}
