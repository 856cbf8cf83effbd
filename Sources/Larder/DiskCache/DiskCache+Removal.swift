import LarderFiles

extension DiskCache {
    /// Removes an entry; its file is deleted when the call returns. O(1).
    ///
    /// - Returns: Whether there was a fresh one. While a lost index is being rebuilt, an entry that has not been found
    ///   yet is removed as well, but not reported.
    /// - Throws: `.io` or `.noSpace` when the removal cannot be recorded, and its file cannot be deleted instead; the
    ///   value then remains. Also when it is removed, but its file can be neither deleted nor marked: the loss of the
    ///   index would bring it back. With `.powerSafe` also when the removal could not be synced: a power cut may bring
    ///   it back. `.closed`.
    @discardableResult
    public func removeValue(forKey key: String) throws(CacheError) -> Bool {
        try withOpenStore { store throws(CacheError) in try store.remove(self.key(key), at: now) }
    }

    /// Removes several entries; see ``removeValue(forKey:)``. O(1) for each.
    ///
    /// - Parameter keys: Any strings; each is removed once.
    /// - Returns: The number of fresh entries that were removed.
    /// - Throws: The errors of ``removeValue(forKey:)``, for the first key that cannot be removed. Its `keys` are
    ///   that key and those after it.
    @discardableResult
    public func removeValues(forKeys keys: some Sequence<String>) throws(CacheError) -> Int {
        let store = try openStore
        var rest = Array(keys)[...]
        var removed = 0
        while let next = rest.first {
            do throws(CacheError) {
                if try store.remove(key(next), at: now) { removed += 1 }
            } catch {
                throw error.leaving(Array(rest))
            }
            rest = rest.dropFirst()
        }
        return removed
    }

    /// Removes everything that this handle stands for; the files are deleted in the background. O(1).
    ///
    /// - On the handle that opened the directory: every entry of the directory, in all namespaces. Two renames.
    /// - On a ``namespace(_:)``: its entries. Other namespaces keep theirs, also those inside this one. `namespace("")`
    ///   of the handle that opened the directory are the entries without a namespace. On a large cache, the first such
    ///   call may have to load the index: O(n).
    ///
    /// Beside other processes, everything is removed one namespace after the other: O(namespaces).
    ///
    /// - Parameter progress: Called from time to time, on a queue of its own, with the number of deleted files and
    ///   their total.
    /// - Throws: `.tooLarge` for a namespace with a name of more than 64 KiB; `.noSpace`, `.io`, `.closed`. Everything
    ///   then remains, except files that were deleted to make room on a full disk; beside other processes, some
    ///   namespaces may be empty already. With `.powerSafe` also when
    ///   everything was removed but the removal could not be synced: a power cut may bring it back. The loss
    ///   of the index may bring it back where a tombstone could not be completed; the error then says so.
    public func removeAll(progress: (@Sendable (_ removed: Int, _ total: Int) -> Void)? = nil) throws(CacheError) {
        // The name of the namespace has the same limit as a key.
        _ = try checked("")
        try openStore.removeAll(of: scope, progress: progress)
    }

    /// Removes every entry of this namespace (or without one) that was stored with a tag. O(1), plus O(fetches in
    /// progress); on a large cache, the first such call may have to load the index: O(n). Entries and files are removed
    /// in the background, and are included in counts until then.
    ///
    /// Memory tiers of the namespace are emptied: values that are still valid are read from the disk again when they
    /// are asked for.
    ///
    /// - Parameters:
    ///   - tag: Compared by its UTF-8 bytes.
    ///   - progress: Called from time to time, on a queue of its own, with the number of entries removed so far, given
    ///     as the total as well: the total is not known in advance.
    /// - Throws: `.tooLarge` for a tag of more than 64 KiB; and the errors of ``removeAll(progress:)``. Everything then
    ///   remains, except for files that were deleted to make room on a full disk.
    public func removeAll(
        tagged tag: String, progress: (@Sendable (_ removed: Int, _ total: Int) -> Void)? = nil
    ) throws(CacheError) {
        try openStore.removeAll(of: .tag(checked(tag)), progress: progress)
    }

    /// Removes the expired entries of all namespaces without waiting for the sweep; their files are deleted in the
    /// background. O(1) per expired entry. An entry that a fetch keeps beyond its expiry remains until that time is
    /// over.
    ///
    /// - Returns: The number of entries removed.
    @discardableResult
    public func removeExpired() -> Int {
        guard let store = readableStore else { return 0 }
        return store.removeExpired(at: now)
    }
}

/// Trimming, of the whole directory with all its namespaces. After every write that exceeds a configured limit, the
/// cache does the same in the background.
///
/// In a cache without limits, the first call also costs O(n log n), to determine the order of use.
extension DiskCache {
    /// Evicts entries until at most `count` are left in the directory, in the order of ``Configuration/eviction``. O(1)
    /// per evicted entry.
    ///
    /// Expired entries are evicted first. When the call returns, the files are deleted; failures are reported as
    /// events.
    public func trim(toCount count: Int) {
        readableStore?.trim(.count) { .entries($0.count - max(0, count)) }
    }

    /// Evicts entries until their payloads take up at most `size` bytes. See `trim(toCount:)`.
    public func trim(toSize size: Int) {
        readableStore?.trim(.size) { .overSize(max(0, size), lowWaterMark: max(0, size), of: $0) }
    }

    /// Evicts the entries that have not been stored or read for longer than `age`. See `trim(toCount:)`.
    public func trim(toAge age: Duration) {
        let now = now
        let time = now.advanced(byMilliseconds: -max(0, age.milliseconds))
        readableStore?.trim(.age) { _ in .unusedSince(time, now: now) }
    }

    /// Evicts entries until `bytes` are free on the disk, as far as this cache can achieve that: it frees at most what
    /// is missing when the call begins. See `trim(toCount:)`.
    public func trim(toFreeSpace bytes: Int) {
        readableStore?.trim(toFreeSpace: max(0, bytes))
    }
}
