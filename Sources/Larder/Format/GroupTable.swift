import LarderFiles

/// The last record of a manifest: where each group of its entries begins, and what is in it.
///
///     {"o":"groups","g":2,"sd":"8d1f…","at":50,"gr":[[87040,512,524288,2097152,1763719200000,null,"26c7…"],…],
///      "nt":[["images",100,102400,409600],…],"c":"…"}
///
/// The high bits of a key's hash, seeded with `sd`, are its group. The groups follow one another from the offset `at`
/// on. `gr` states for each group: its length in bytes, its entries, their payload bytes, their approximate bytes on
/// disk, the time when the first of them ceases to be kept (null: never), the latest expiry (null: never), and the
/// XXH64 of its lines. `nt` states the totals of each namespace; it is absent when there are too many.
///
/// `jr` is there when other processes had older journals in use: for each of them its generation, and how many bytes of
/// it the manifest covers. All others of a lower generation are covered.
///
/// `n`: every change up to this number is in the manifest, or had failed. Absent in older manifests, and when it is 0.
struct GroupTable: Sendable, Equatable {
    /// The average number of entries in a group, at most. Reading so many takes some 0.2 ms.
    static let entriesPerGroup = 512
    /// More would make the record too long.
    static let mostGroups = 8192

    /// One for each process, at most.
    static let mostJournals = 64

    /// Offsets and sums are below this number, so adding them up does not overflow.
    private static let largest: Int64 = 1 << 48

    struct Group: Sendable, Equatable {
        /// Bytes.
        var length = 0
        var totals = EntryTotals()
        /// The time when the first entry ceases to be kept; nil: all are kept forever.
        var earliest: Timestamp?
        /// The latest expiry; nil: some entry never expires, or there is none.
        var latest: Timestamp?
        var check: UInt64 = 0

        /// True when a search for expired entries may find some.
        func mayHaveExpired(at now: Timestamp) -> Bool { earliest.map { $0 <= now } ?? false }

        /// True when no entry is fresh.
        func isOver(at now: Timestamp) -> Bool { latest.map { $0 <= now } ?? (totals.count == 0) }
    }

    var generation: UInt64
    var seed: UInt64
    /// The offset of the first group. Bytes.
    var start: Int
    /// Their number is a power of two.
    var groups: [Group]
    /// Of the namespaces with a name; nil: there were too many.
    var namespaces: [Namespace: EntryTotals]?
    /// The older journals that are still in use.
    var journals: [JournalPart] = []
    /// Every change up to this number is in the manifest, or had failed.
    var settled: UInt64 = 0

    var hash: GroupHash { GroupHash(seed: seed, count: groups.count) }

    var totals: SavedTotals {
        var totals = SavedTotals(namespaces: namespaces)
        for group in groups { totals.whole.add(group.totals) }
        return totals
    }

    /// The offset after the last group. Bytes.
    var end: Int { groups.reduce(start) { $0 + $1.length } }

    /// The number of groups for a number of entries.
    static func groupCount(for entries: Int, perGroup: Int) -> Int {
        var count = 1
        while count < mostGroups, entries > count * perGroup { count *= 2 }
        return count
    }

    /// True when the number is plausible as an offset or a sum.
    static func isPlausible(_ number: Int64) -> Bool { number >= 0 && number < largest }
}

/// A journal, and the length of a part at its beginning. Bytes.
struct JournalPart: Equatable, Sendable {
    var generation: UInt64
    var length: Int
}

/// Finds the group of a key. Unlike `Key.hash`, its hash is the same in every process.
struct GroupHash: Sendable, Equatable {
    let seed: UInt64
    /// A power of two.
    let count: Int

    /// O(its length).
    func group(of key: Key) -> Int {
        var text = key.text
        let seed = seed(of: key.namespace)
        return text.withUTF8 { group(of: UnsafeRawBufferPointer($0), seed: seed) }
    }

    func group(of entry: IndexEntry) -> Int {
        var text = entry.keyText
        let seed = seed(of: entry.namespace)
        return text.withUTF8 { group(of: UnsafeRawBufferPointer($0), seed: seed) }
    }

    /// The same for the bytes of a key and of the name of its namespace.
    func group(of text: UnsafeRawBufferPointer, in namespace: UnsafeRawBufferPointer) -> Int {
        group(of: text, seed: namespace.isEmpty ? seed : XXH64.hash(namespace, seed: seed))
    }

    private func seed(of namespace: Namespace) -> UInt64 {
        if namespace.isNone { return seed }
        var name = namespace.name
        return name.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: seed) }
    }

    private func group(of text: UnsafeRawBufferPointer, seed: UInt64) -> Int {
        // A shift by 64 gives 0: one group.
        Int(XXH64.hash(text, seed: seed) >> UInt64(64 - count.trailingZeroBitCount))
    }
}
