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
    /// yet. Exact while nothing changes: the parts of the index are counted one after the other. O(1); after a kill,
    /// the first call loads the entries that changed since the last save.
    public var count: Int { totals.count }

    /// The payload bytes of all entries of this namespace (or without one), including expired ones that the sweep has
    /// not removed yet. It costs as much as ``count``.
    public var payloadSize: Int { totals.size }

    /// The bytes that these entries take on disk, estimated as for ``CacheEntry/allocatedSize``. It costs as much as
    /// ``count``.
    public var allocatedSize: Int { totals.allocatedSize }

    /// Returns what each namespace of the directory takes, whatever the namespace of this handle: the part without one
    /// first, then those that have entries, by the bytes of their names. O(n); the first call loads the index.
    public func namespaces() -> [NamespaceUsage] {
        guard let index = readableStore?.scannedIndex else { return [] }
        let names = index.loadedNamespaces().sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        return names.map { NamespaceUsage($0, index.totals(of: $0)) }.filter { $0.count > 0 || $0.namespace == nil }
    }

    private var totals: EntryTable.Totals {
        readableStore?.index.totals(of: keyNamespace) ?? EntryTable.Totals()
    }

    /// Gives a fresh entry a new life, starting now, without rewriting its value. O(1).
    ///
    /// - Parameters:
    ///   - ttl: How long the entry is kept. Zero or less removes it, also one that has expired and is still kept.
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

    /// Gives a fresh entry a new life and other metadata without rewriting its value. O(1).
    ///
    /// The new metadata are in journal and manifest only: where both are lost, the old ones come back. So this suits
    /// metadata whose loss does no harm.
    ///
    /// - Parameters:
    ///   - key: Any string.
    ///   - ttl: How long the entry is kept from now on, more than zero.
    ///   - old: The metadata that the entry has to have.
    ///   - new: The metadata that it gets.
    /// - Returns: False when there is no fresh entry with the old metadata.
    /// - Throws: `.tooLarge`, `.noSpace`, `.io`, `.closed`. The old life and metadata then remain.
    package func renewValue(
        forKey key: String, ttl: TimeToLive, replacing old: [String: String], by new: [String: String]
    ) throws(CacheError) -> Bool {
        let store = try openStore
        let now = now
        let key = self.key(key)
        guard let life = ttl.life(from: now, default: configuration.defaultTTL),
            let entry = store.freshEntry(key, at: now), entry.metadata == old
        else { return false }
        var update = entry.update
        update.metadata = new
        return try store.renew(entry, key, .init(life: life, update: update), with: Unconditional())
    }
}

/// The permit of a change that only depends on the entry.
private struct Unconditional: WritePermit {
    func isValid(for key: Key) -> Bool { true }
}
