/// The tombstones among the entry files: one for each key, namespace or tag.
struct TombstoneFiles {
    /// Their numbers.
    private(set) var numbers: Set<UInt64> = []
    private var newest: [EntryFile.Removal: UInt64] = [:]

    init(_ found: [(number: UInt64, removal: EntryFile.Removal)] = []) {
        for (number, removal) in found.sorted(by: { $0.number < $1.number }) { _ = insert(number, of: removal) }
    }

    var isEmpty: Bool { numbers.isEmpty }
    var count: Int { numbers.count }

    func hasTombstone(of key: Key) -> Bool { newest[.key(key)] != nil }

    /// Adds a tombstone; returns an older one of the same kind, which says nothing more.
    mutating func insert(_ number: UInt64, of removal: EntryFile.Removal) -> UInt64? {
        numbers.insert(number)
        defer { newest[removal] = number }
        return newest[removal]
    }

    /// Adds a tombstone that could not be read, and need not be.
    mutating func insert(unread number: UInt64) {
        numbers.insert(number)
    }

    /// Removes one that a newer one has replaced.
    mutating func remove(replaced number: UInt64) {
        numbers.remove(number)
    }

    /// Removes several. O(tombstones).
    mutating func remove(_ gone: Set<UInt64>) {
        numbers.subtract(gone)
        newest = newest.filter { !gone.contains($0.value) }
    }
}

/// The tombstones that an opening found by their names.
struct FoundTombstones {
    var valid: [(number: UInt64, removal: EntryFile.Removal)] = []
    /// The names of those that were not finished, so their call has not returned, or that the disk has damaged.
    var torn: [UInt64] = []
    /// The numbers of those that cannot be read, or are of a newer format.
    var unread: [UInt64] = []
}
