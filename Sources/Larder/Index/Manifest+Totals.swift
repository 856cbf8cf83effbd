extension Manifest {
    /// What there is.
    struct Totals: Hashable, Sendable {
        /// Entries.
        var count = 0
        /// Payload bytes.
        var size = 0
        /// Bytes on disk, nearly.
        var space = 0

        mutating func add(_ row: Row) {
            count += 1
            size += row.size
            space += row.space
        }

        mutating func add(_ other: Totals, times factor: Int = 1) {
            count += other.count * factor
            size += other.size * factor
            space += other.space * factor
        }
    }
}
