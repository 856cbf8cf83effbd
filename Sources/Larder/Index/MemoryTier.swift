/// Values in memory that must never outlive those on disk. Called with the lock of a shard held: it releases nothing there and
/// calls nobody.
protocol MemoryTier: AnyObject, Sendable {
    var namespace: Namespace { get }

    /// Drops the value of a key.
    func invalidate(_ key: String)

    /// Drops all values.
    func invalidateAll()
}
