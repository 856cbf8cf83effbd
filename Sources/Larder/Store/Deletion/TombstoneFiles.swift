import LarderFiles

/// The tombstones among the entry files: at most two for each key, namespace or tag.
struct TombstoneFiles {
    /// Their numbers.
    private(set) var numbers: Set<UInt64> = []
    private var newest: [EntryFile.Removal: Newest] = [:]

    /// The newest tombstone of a kind. The one before it stays until the next: the newest may be taken back.
    private struct Newest {
        var number: UInt64
        var previous: UInt64?
    }

    init(_ found: [(number: UInt64, removal: EntryFile.Removal)] = []) {
        for (number, removal) in found.sorted(by: { $0.number < $1.number }) { _ = insert(number, of: removal) }
    }

    var isEmpty: Bool { numbers.isEmpty }
    var count: Int { numbers.count }

    func hasTombstone(of key: Key) -> Bool { newest[.key(key)] != nil }

    /// Adds a tombstone; returns an older one of the same kind that is not needed any more, because the one between
    /// them was not taken back.
    mutating func insert(_ number: UInt64, of removal: EntryFile.Removal) -> UInt64? {
        numbers.insert(number)
        guard let known = newest[removal] else {
            newest[removal] = Newest(number: number)
            return nil
        }
        // One that could not be read before may be older.
        if number < known.number {
            newest[removal]?.previous = max(known.previous ?? 0, number)
            return nil
        }
        newest[removal] = Newest(number: number, previous: known.number)
        return known.previous
    }

    /// Adds an unread tombstone that need not be read.
    mutating func insert(unread number: UInt64) {
        numbers.insert(number)
    }

    /// The expiries that entries need whose ended lives are not on disk: of each scope the one with the time of the
    /// end, or the next. O(tombstones) for each entry.
    func expiries(neededBy entries: [IndexEntry]) -> Set<UInt64> {
        var needed: Set<UInt64> = []
        for entry in entries {
            var first: [ClearScope: (time: Timestamp, number: UInt64)] = [:]
            for (removal, found) in newest where removal.covers(entry) {
                guard case .expiry(let scope, let time) = removal, time >= entry.life.expires else { continue }
                if let known = first[scope], known.time <= time { continue }
                first[scope] = (time, found.number)
            }
            needed.formUnion(first.values.map(\.number))
        }
        return needed
    }

    /// The expiries that are followed by another of the same scope.
    var outdatedExpiries: Set<UInt64> {
        var last: [ClearScope: UInt64] = [:]
        var outdated: Set<UInt64> = []
        for (removal, found) in newest {
            guard case .expiry(let scope, _) = removal else { continue }
            let number = found.number
            if let known = last[scope] { outdated.insert(min(known, number)) }
            last[scope] = max(number, last[scope] ?? 0)
        }
        return outdated
    }

    /// Removes a tombstone that a newer one has replaced.
    mutating func remove(replaced number: UInt64) {
        numbers.remove(number)
    }

    /// Removes several. O(tombstones).
    mutating func remove(_ gone: Set<UInt64>) {
        numbers.subtract(gone)
        newest = newest.compactMapValues { found in
            let previous = found.previous.flatMap { gone.contains($0) ? nil : $0 }
            if !gone.contains(found.number) { return Newest(number: found.number, previous: previous) }
            return previous.map { Newest(number: $0) }
        }
    }
}

/// The tombstones that an opening found by their names.
struct FoundTombstones {
    var valid: [(number: UInt64, removal: EntryFile.Removal)] = []
    /// The names of unfinished tombstones, whose call never returned, and of damaged ones.
    var torn: [UInt64] = []
    /// The numbers of tombstones that cannot be read or have a newer format.
    var unread: [UInt64] = []
}
