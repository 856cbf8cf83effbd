import LarderFiles
import LarderFoundation

extension DiskCache {
    /// Returns whether there is a fresh value. This does not read it and does not count as a use. O(1).
    public func hasValue(forKey key: String) -> Bool {
        readableStore?.freshEntry(self.key(key), at: now) != nil
    }

    /// Returns the description of a fresh entry; nil for a miss. This does not count as a use. O(1).
    public func entry(forKey key: String) -> CacheEntry? {
        let now = now
        return readableStore?.freshEntry(self.key(key), at: now).map { CacheEntry($0, at: now) }
    }

    /// Returns the keys of all fresh entries of this namespace (or without one), in no particular order. O(n).
    public func keys() -> [String] {
        let now = now
        return readableStore?.freshEntries(of: keyNamespace, at: now) { $0.keyText } ?? []
    }

    /// Returns all fresh entries of this namespace (or without one), in no particular order. O(n).
    public func entries() -> [CacheEntry] {
        let now = now
        return readableStore?.freshEntries(of: keyNamespace, at: now) { CacheEntry($0, at: now) } ?? []
    }

    /// The number of entries of this namespace (or without one), including expired ones that the sweep has not removed
    /// yet. O(1); after a kill, the first call loads the entries that changed since the last save.
    public var count: Int { totals.count }

    /// The payload bytes of all entries of this namespace (or without one), including expired ones that the sweep has
    /// not removed yet. It costs as much as ``count``.
    public var size: Int { totals.size }

    private var totals: EntryTable.Totals {
        readableStore?.index.totals(of: keyNamespace) ?? EntryTable.Totals()
    }

    /// Gives a fresh entry a new life, starting now, without rewriting its value. O(1).
    ///
    /// - Parameters:
    ///   - ttl: How long the entry is kept. Zero or less removes it.
    ///   - key: Any string.
    /// - Returns: False when there is no fresh entry.
    /// - Throws: `.noSpace`, `.io`, `.closed`. The old life then remains in force.
    @discardableResult
    public func setTimeToLive(_ ttl: TimeToLive, forKey key: String) throws(CacheError) -> Bool {
        let store = try openStore
        let now = now
        let key = self.key(key)
        guard let life = ttl.life(from: now, default: configuration.defaultTTL) else {
            return try store.remove(key, at: now)
        }
        return try store.setLife(life, of: key, at: now)
    }
}
