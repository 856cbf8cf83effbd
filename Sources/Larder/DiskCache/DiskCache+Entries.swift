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

    /// Removes an entry; its file is gone when the call returns. O(1).
    ///
    /// - Returns: Whether there was a fresh one. While a lost index is rebuilt, one that has not been found yet is
    ///   removed as well, but not reported.
    /// - Throws: `.io` when its file cannot be deleted: the value is then still there. With `.powerSafe` also when it
    ///   is gone but that could not be synced: a power cut may bring it back. `.closed`.
    @discardableResult
    public func removeValue(forKey key: String) throws(CacheError) -> Bool {
        try openStore.remove(self.key(key), at: now)
    }

    /// Removes every entry in the directory, or in this namespace. O(1); the files are deleted behind.
    ///
    /// - Parameter progress: Told, from time to time and on a queue of its own, how many files of how many have been
    ///   deleted.
    /// - Throws: `.noSpace`, `.io`, `.closed`. Everything is then still there, but for what of a namespace had to make
    ///   room on a full disk. With `.powerSafe` also when everything is gone but that could not be synced: a power cut
    ///   may bring it back.
    public func removeAll(progress: (@Sendable (_ removed: Int, _ total: Int) -> Void)? = nil) throws(CacheError) {
        if space == .none { return try openStore.removeAll(progress: progress) }
        try openStore.removeAll(of: .namespace(space), progress: progress)
    }

    /// Removes every entry of this namespace, or of none, that was stored with a tag. O(1), and O(fetches under way);
    /// entries and files go behind, and are counted until then.
    ///
    /// Memory tiers of the namespace are emptied: what is still right comes back from the disk when it is asked for.
    ///
    /// - Parameters:
    ///   - tag: Compared by its UTF-8 bytes.
    ///   - progress: Told, from time to time and on a queue of its own, how many entries have been taken out, of as
    ///     many: their number
    ///     is not known before.
    /// - Throws: `.tooLarge` for a tag of more than 64 KiB; and what ``removeAll(progress:)`` throws. Everything is
    ///   then still there, but for what had to make room on a full disk.
    public func removeAll(
        tagged tag: String, progress: (@Sendable (_ removed: Int, _ total: Int) -> Void)? = nil
    ) throws(CacheError) {
        try openStore.removeAll(of: .tag(checked(tag)), progress: progress)
    }

    /// Drops what has expired, without waiting for the sweep; the files are deleted behind. O(1) for each expired
    /// entry. What a fetch keeps beyond its expiry stays until that is over.
    ///
    /// - Returns: The number of entries dropped.
    @discardableResult
    public func removeExpired() -> Int {
        guard let store = readableStore else { return 0 }
        return store.removeExpired(at: now)
    }
}
