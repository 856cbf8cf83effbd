/// The outcome of reading a directory.
struct LoadedStore {
    let directory: StoreDirectory
    var shards: [Shard]
    var lastNumber: UInt64
    var journals: LoadedJournals
    var reconciliation: Reconciliation
    var damagedLines: Int
    /// Those that may still cover files.
    var tombstones: TombstoneFiles
    var found: Found

    /// Findings that are reported, or dealt with in the background.
    struct Found {
        /// Entries that had expired before the directory was opened.
        var expired = 0
        /// Entries that were found by their files before the first answer.
        var adopted: [Key] = []
        /// Files that could not be read.
        var failures: [CacheError] = []
        var hasTrash = false
        /// Files that a save that was killed has left.
        var leftovers: [DirectoryLayout] = []
    }
}
