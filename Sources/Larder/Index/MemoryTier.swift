/// Values in memory that must never outlive those on disk. Called with the lock of a shard held: it releases nothing there and
/// calls nobody.
protocol MemoryTier: AnyObject, Sendable {
    var namespace: Namespace { get }

    /// Drops the value of a key.
    func invalidate(_ key: String, _ cause: RemovalCause)

    /// Drops all values.
    func invalidateAll()
}

/// A value that goes into a memory tier at the moment when it can be seen on disk.
struct Promotion {
    let tier: any MemoryTier
    /// Is given the entry by which the value is known; like the tier's own methods.
    let insert: (IndexEntry) -> Void
}
