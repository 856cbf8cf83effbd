import Foundation
import LarderFiles

extension DiskCache {
    /// Tells whether there is a fresh value. Does not read it and does not count as a use. O(1).
    public func hasValue(forKey key: String) -> Bool {
        readableStore?.freshEntry(self.key(key), at: now) != nil
    }

    /// Returns what is known about a fresh entry; nil for a miss. Does not count as a use. O(1).
    public func entry(forKey key: String) -> CacheEntry? {
        let now = now
        return readableStore?.freshEntry(self.key(key), at: now).map { CacheEntry($0, at: now) }
    }

    /// Returns the keys of all fresh entries, in no order; of this namespace, or of none. O(n).
    public func keys() -> [String] {
        let now = now
        return readableStore?.freshEntries(of: space, at: now) { $0.keyText } ?? []
    }

    /// Returns all fresh entries, in no order; of this namespace, or of none. O(n).
    public func entries() -> [CacheEntry] {
        let now = now
        return readableStore?.freshEntries(of: space, at: now) { CacheEntry($0, at: now) } ?? []
    }

    /// The number of entries in the directory, or in this namespace; expired ones that have not been swept yet
    /// included. O(1).
    public var count: Int { totals.count }

    /// Payload bytes of all entries in the directory, or in this namespace; expired ones that have not been swept yet
    /// included. O(1).
    public var size: Int { totals.size }

    private var totals: EntryTable.Totals {
        guard let store = readableStore else { return EntryTable.Totals() }
        return space == .none ? store.index.totals : store.index.totals(of: space)
    }

    /// Gives a fresh entry a new life, from now on, without rewriting its value. O(1).
    ///
    /// - Parameters:
    ///   - ttl: Zero or less removes the entry.
    ///   - key: Any string.
    /// - Returns: False when there is no fresh entry.
    /// - Throws: `.noSpace`, `.io`, `.closed`. The old life is then still in force.
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
