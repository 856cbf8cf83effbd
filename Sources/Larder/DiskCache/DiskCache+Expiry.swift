import LarderFiles

/// Expiring entries before their time, as opposed to removing them. An entry that is kept beyond its expiry can still
/// be revalidated, and be the answer when the source fails; a fetch keeps it, or `Cache.setValue` with `keepStale`.
extension DiskCache {
    /// Expires an entry now. O(1).
    ///
    /// Plain reads miss from here on. An entry that a fetch keeps beyond its expiry, or a call with `keepStale` such as
    /// ``Cache/setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``, is kept as long from now on; any other is
    /// removed. An entry that has expired already keeps its end, and setting the clock back does not make it fresh
    /// again. A fetch that is under way for the key answers its callers, but stores nothing.
    ///
    /// While a lost index is being rebuilt, the call waits for it if the entry has not been found yet.
    ///
    /// - Parameter key: Any string.
    /// - Returns: Whether there was a fresh value.
    /// - Throws: `.noSpace`, `.io`, `.closed`. The entry then remains as it was. With `.powerSafe` also when an entry
    ///   that is not kept was removed but the removal could not be synced: a power cut may bring it back.
    @discardableResult
    public func expireValue(forKey key: String) throws(CacheError) -> Bool {
        try openStore.expire(self.key(key), at: now)
    }

    /// Expires everything that this handle stands for now, as ``removeAll(progress:)`` removes it; see
    /// ``expireValue(forKey:)``. O(1), plus O(fetches in progress), for each namespace; on a large cache, the first
    /// such call may have to load the index: O(n).
    ///
    /// In the background, entries that are not kept beyond their expiry are removed, and the end of the others is
    /// written to their files; counts include all of them until then. Memory tiers of what expires are emptied.
    ///
    /// All namespaces expire one after the other. While a lost index is being rebuilt, that waits until every file has
    /// been read; one that cannot be read then is spared, if its namespace has no other entry.
    ///
    /// On a full disk there is no room to record the expiry at once. The call then does the background's work until
    /// there is, O(entries) at most: it removes the entries that are not kept, and writes the end of the others to
    /// their files, which needs no room. While files are unread after a crash, it waits for them first.
    ///
    /// - Throws: `.tooLarge` for a namespace with a name of more than 64 KiB; `.noSpace` when files that cannot be read
    ///   or deleted leave no other way on a full disk; `.io`, `.closed`. Everything then remains as it was, except that
    ///   some namespaces may have expired already, and that on a full disk some entries may have been removed, or
    ///   expire once the index is rebuilt. With `.powerSafe` also when everything was expired but that could not be
    ///   synced: a power cut may undo it. The loss of the index may undo it where a tombstone could not be completed;
    ///   the error then says so.
    public func expireAll() throws(CacheError) {
        // The name of the namespace has the same limit as a key.
        _ = try checked("")
        try openStore.expireAll(of: scope, at: now)
    }

    /// Expires every entry of this namespace (or without one) that was stored with a tag; see ``expireAll()``. O(1),
    /// plus O(fetches in progress).
    ///
    /// - Parameter tag: Compared by its UTF-8 bytes.
    /// - Throws: `.tooLarge` for a tag of more than 64 KiB; and the errors of ``expireAll()``.
    public func expireAll(tagged tag: String) throws(CacheError) {
        try openStore.expireAll(of: .tag(checked(tag)), at: now)
    }
}
