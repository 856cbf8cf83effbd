extension EntryTable {
    /// What there is.
    struct Totals: Hashable, Sendable {
        /// Entries.
        var count = 0
        /// Payload bytes.
        var size = 0
        /// Bytes on disk, nearly.
        var allocatedSize = 0

        mutating func add(_ entry: IndexEntry) {
            count += 1
            size += entry.size
            allocatedSize += entry.allocatedSize
        }

        mutating func add(_ other: Totals, times factor: Int = 1) {
            count += other.count * factor
            size += other.size * factor
            allocatedSize += other.allocatedSize * factor
        }
    }
}
