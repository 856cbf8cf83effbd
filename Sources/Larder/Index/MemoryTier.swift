/// Values in memory that must never outlive those on disk. Its methods are called with a shard's lock held, so they
/// release no values and call no other code.
protocol MemoryTier: AnyObject, Sendable {
    var namespace: Namespace { get }

    /// Drops the value of a key.
    func invalidate(_ key: String, _ cause: RemovalCause)

    /// Drops all values.
    func invalidateAll()

    /// Drops all values that are on disk, and of the others those with the tag.
    func invalidateAll(tagged tag: Key)

    /// Drops all values that are on disk, and expires the others: those with the tag, or all.
    func expireAll(tagged tag: Key?)
}

/// A value that enters a memory tier at the moment when it becomes visible on disk.
struct Promotion {
    let tier: any MemoryTier
    /// Called with the entry of the value, under the same rules as the tier's own methods.
    let insert: (IndexEntry) -> Void
    /// Called after `insert` when the value has been stored, as opposed to read.
    var published: () -> Void = {}
}
