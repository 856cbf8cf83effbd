/// What opening a directory brought to light.
struct LoadedStore {
    let volume: Volume
    var shards: [Shard]
    var lastNumber: UInt64
    var journals: LoadedJournals
    var reconciliation: Reconciliation
    var damagedLines: Int
    /// Entries that had expired before the directory was opened.
    var expired: Int
    var hasTrash: Bool
    /// Files that a save that was killed has left.
    var leftovers: [DirectoryLayout]
    /// The numbers of those that still have something to tell of.
    var tombstones: Set<UInt64>
}
