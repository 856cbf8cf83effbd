import LarderFiles

/// Soft invalidation: values that are known to be outdated, but still better than none when their source fails.
extension Cache {
    /// Ends the life of a value now: reads miss, and the next call that fetches brings a new one.
    ///
    /// The value is kept for its stale window, which begins now, as after any expiry: a policy such as
    /// `staleIfError` may still return it, and a fetch may revalidate it. A value without such a window is removed. A
    /// fetch that is under way for the key stores nothing. O(1).
    ///
    /// - Returns: Whether there was a fresh value.
    /// - Throws: The errors of ``DiskCache/expireValue(forKey:)``. The value is then still fresh.
    @discardableResult
    public func expireValue(forKey key: String) async throws(CacheError) -> Bool {
        try await backend.expire(key)
    }

    /// Ends the lives of all values of this cache now: of everything in the directory that it has opened, or of its
    /// namespace, as for ``removeAll()``. O(1) for each namespace; without a disk tier, or with values that the disk
    /// could not store, O(values in memory). See ``expireValue(forKey:)``.
    ///
    /// - Throws: The errors of ``DiskCache/expireAll()``. All values are then still fresh, except that some namespaces
    ///   may have expired already.
    public func expireAll() async throws(CacheError) {
        try await backend.expireAll()
    }

    /// Ends the lives of all values with a tag now. O(1); without a disk tier O(values with attributes); with values
    /// that the disk could not store O(values in memory). See ``expireValue(forKey:)``.
    ///
    /// - Throws: The errors of ``DiskCache/expireAll(tagged:)``. All values are then still fresh.
    public func expireAll(tagged tag: String) async throws(CacheError) {
        try await backend.expireAll(tagged: tag)
    }
}
