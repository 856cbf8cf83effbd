import Larder

/// Removing. A removal that the disk refuses holds all the same: until it succeeds, nothing that is stored for the URL
/// is an answer (RFC 9111, section 4.4, requires that of an invalidation).
extension ResponseStore {
    /// Removes an entry of a URL.
    func remove(_ entry: String, of key: CacheKey) async {
        do {
            try await cache.removeValue(forKey: entry)
        } catch {
            failedRemovals.note(key.url)
        }
    }

    /// Removes every response that a request selects: one for each list of names in the note of the URL.
    func removeSelected(_ key: CacheKey, for request: HTTPRequestHead) async {
        guard let base = await load(key.base, .none) else { return }
        let keys = VaryNote(metadata: base.metadata)?.keys(key, for: request) ?? [key.base]
        for entry in keys { await remove(entry, of: key) }
    }

    /// Removes every variant of a URL, in every partition.
    func removeAll(_ key: CacheKey) async throws(CacheError) {
        do throws(CacheError) {
            try await cache.removeAll(tagged: key.url)
            failedRemovals.resolve(key.url)
        } catch {
            failedRemovals.note(key.url)
            throw error
        }
    }

    /// Removes the responses of all URLs.
    func removeEverything() async throws(CacheError) {
        try await cache.removeAll()
        failedRemovals.resolveAll()
    }

    /// Returns whether what is stored for a URL may be an answer. Tries again to remove what should have been removed.
    func isTrusted(_ key: CacheKey) async -> Bool {
        guard failedRemovals.contains(key.url) else { return true }
        try? await removeAll(key)
        return !failedRemovals.contains(key.url)
    }
}
