import LarderFiles

/// The entries on disk that a cache could not decode: values of another type, or of an older version of its own. Bounded:
/// beyond a thousand it forgets one, which is then reported again.
final class UndecodableEntries: Sendable {
    private static let most = 1_000

    private let hasAny = Flag()
    private let entries = Lock<[Key: IndexEntry]>([:])

    func has(_ entry: IndexEntry, _ key: Key) -> Bool {
        hasAny.isSet && entries.withLock { $0[key]?.isSameValue(as: entry) ?? false }
    }

    func forget(_ key: Key) {
        if hasAny.isSet { entries.withLock { $0[key] = nil } }
    }

    /// False when it is noted already.
    func note(_ entry: IndexEntry, _ key: Key) -> Bool {
        hasAny.set()
        return entries.withLock { entries in
            if entries[key]?.isSameValue(as: entry) == true { return false }
            if entries.count >= Self.most { entries.remove(at: entries.startIndex) }
            entries[key] = entry
            return true
        }
    }
}
