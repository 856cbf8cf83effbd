import LarderFiles

extension DiskCache {
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
        store.awaitReconciliation()
        return store.removeExpired(at: now)
    }
}

/// Eviction by hand. The limits of the configuration do the same behind every write that crosses one.
///
/// The first call in a cache without limits also costs O(n log n): it has to find out the order of use.
extension DiskCache {
    /// Evicts entries until there are at most `count`, the least recently used first. O(1) for each.
    ///
    /// What has expired goes before. The files are deleted when this returns; what fails is reported as an event.
    public func trim(toCount count: Int) {
        guard let store = readableStore else { return }
        store.trim(.count) { .entries(store.index.totals.count - max(0, count)) }
    }

    /// Evicts entries until their payloads have at most `size` bytes. See `trim(toCount:)`.
    public func trim(toSize size: Int) {
        guard let store = readableStore else { return }
        store.trim(.size) { .overSize(max(0, size), lowWaterMark: max(0, size), of: store.index.totals) }
    }

    /// Evicts the entries that have not been used, read or stored, for longer than `age`. See `trim(toCount:)`.
    public func trim(toAge age: Duration) {
        let now = now
        let time = now.advanced(byMilliseconds: -max(0, age.milliseconds))
        readableStore?.trim(.age) { .unusedSince(time, now: now) }
    }

    /// Evicts entries until `bytes` are free on the disk, as far as this cache can give: at most what is lacking when the call
    /// begins. See `trim(toCount:)`.
    public func trim(toFreeSpace bytes: Int) {
        readableStore?.trim(toFreeSpace: max(0, bytes))
    }
}
