import LarderFiles

/// One of the parts into which keys are divided by their hash: its entries, and the work still to be done for it.
struct Shard: Sendable {
    var table = EntryTable()
    /// The files that no entry mentions.
    var debts = Debts()
    /// The tombstones of removed keys: files of the key below the number are dead. They are kept while there are unread
    /// files, which may be among these.
    private(set) var tombstones: [Key: UInt64] = [:]
    private var keepsTombstones = true
    /// The removals that late changes of other processes must lose to.
    var graves = Graves()
    /// Files that lines of the index mention but no entry uses. Filled only while the index is read.
    private(set) var superseded: [Debts.File] = []
    var hits = 0
    var misses = 0
    var stores = 0

    /// Applies a change of a key that the index on disk tells, or another process. Returns whether the entry is another
    /// one, or has another life. Clears concern all shards.
    ///
    /// Idempotent; it may come after a change with a higher number. The file with the highest number counts, unless it is
    /// dead, and of its lives that with the highest change; of its uses the last.
    ///
    /// While the index is read, files that are superseded are only noted: after a clean close there are none on disk,
    /// and otherwise reconciliation deletes them. Later, the process that has superseded them deletes them.
    mutating func apply(_ record: Record, of key: Key) -> Bool {
        switch record {
        case .set(let entry): return apply(entry, key)
        case .remove(_, let number):
            keepDead(key, below: number)
            guard let file = table.place(key), file < number else { return false }
            supersede(file, of: key)
            table.remove(key)
        case .obsolete(let file, _):
            supersede(file, of: key)
            guard table.place(key) == file else { return false }
            table.remove(key)
        case .life(_, let file, let change, let life, let update):
            guard let entry = table.entry(key), entry.file == file, entry.change < change else { return false }
            table.setLife(life, change: change, update, for: key)
        case .used(_, let file, let change, let time, let decision, let expires):
            guard let entry = table.entry(key), entry.file == file else { return false }
            // A life that was set later has its own expiry.
            let expires = entry.change == change ? expires : entry.life.expires
            table.setUse(at: time, decision?.rank, expires: expires, for: key)
            return false
        case .header, .clear, .expire, .closed, .groups, .unknown:
            return false
        }
        return true
    }

    private mutating func apply(_ entry: IndexEntry, _ key: Key) -> Bool {
        if graves.cover(entry, key) {
            lose(entry, key)
            return false
        }
        switch table.apply(graves.marked(entry), for: key) {
        case .inserted:
            // Another process has taken back what had replaced the entry here.
            if debts.count > 0 { debts.removeAll { $0.file == entry.file } }
        case .replaced(let file): supersede(file, of: key)
        case .known(let dead):
            if let dead { supersede(dead, of: key) }
            return false
        case .older:
            lose(entry, key)
            return false
        }
        return true
    }

    /// Disposes of an entry that had been replaced or removed before it came. The process that has stored it may not
    /// know.
    private mutating func lose(_ entry: IndexEntry, _ key: Key) {
        if table.isLoading { return supersede(entry.file, of: key) }
        removeOlder(entry, key)
        markObsolete(entry.file, of: key, isLast: table.file(key) == 0)
    }

    private mutating func supersede(_ file: FileID, of key: Key) {
        if table.isLoading { superseded.append(Debts.File(file: file, hash: key.hash)) }
    }

    /// Removes an entry for good; files of the key below `number` are dead.
    ///
    /// `mayComeLater`: another process may still publish a change with a lower number.
    @discardableResult
    mutating func remove(_ key: Key, below number: UInt64, mayComeLater: Bool = true) -> IndexEntry? {
        keepDead(key, below: number, mayComeLater: mayComeLater)
        return table.remove(key, below: number)
    }

    /// Removes an entry; its file is obsolete.
    mutating func removeWithFile(_ entry: IndexEntry) {
        let key = entry.key
        remove(key, below: entry.file.number + 1)
        markObsolete(entry.file, of: key, isLast: true)
    }

    /// Removes up to `limit` entries that have expired at `now`; their files are obsolete.
    mutating func removeExpired(
        at now: Timestamp, limit: Int, sparing spared: Set<FileID>,
        where mayRemove: (IndexEntry) -> Bool = { _ in true }
    ) -> [IndexEntry] {
        obsolete(table.removeExpired(at: now, limit: limit, sparing: spared, where: mayRemove))
    }

    /// The same at the end of loading, for all entries. The `cleared` entries are forgotten, and the older files of
    /// their keys stay dead: they may have had other tags.
    mutating func finishLoading(
        at now: Timestamp, cleared: ClearMarks, marks: ExpiryMarks = ExpiryMarks()
    ) -> [IndexEntry] {
        let gone = table.finishLoading(at: now, cleared: cleared, marks: marks)
        for entry in gone.cleared {
            superseded.append(Debts.File(file: entry.file, hash: entry.key.hash))
            keepDead(entry.key, below: entry.file.number + 1)
        }
        return obsolete(gone.expired)
    }

    /// The same for an entry that expired before it was added.
    mutating func dismiss(_ entry: IndexEntry, _ key: Key, isCleared: Bool) {
        keepDead(key, below: entry.file.number + 1)
        if isCleared { supersede(entry.file, of: key) } else { markObsolete(entry.file, of: key, isLast: true) }
    }

    /// Marks the files of cleared entries as obsolete, after looking at up to `limit` slots; false when there are no
    /// more.
    mutating func markClearedObsolete(limit: Int) -> Bool {
        guard let entries = table.takeCleared(limit: limit) else { return false }
        _ = obsolete(entries)
        return true
    }

    private mutating func obsolete(_ entries: [IndexEntry]) -> [IndexEntry] {
        for entry in entries {
            let key = entry.key
            keepDead(key, below: entry.file.number + 1)
            markObsolete(entry.file, of: key, isLast: true)
        }
        return entries
    }

    private mutating func keepDead(_ key: Key, below number: UInt64, mayComeLater: Bool = true) {
        if keepsTombstones { tombstones[key] = max(number, tombstones[key] ?? 0) }
        if mayComeLater { graves.add(key, below: number) }
    }

    /// Notes that every file has been read.
    mutating func forgetTombstones() {
        keepsTombstones = false
        tombstones = [:]
    }

    /// Keeps tombstones again: there are files that have not been read.
    mutating func rememberTombstones() {
        keepsTombstones = true
    }

    /// Adds the entries and the tombstones of a group that was loaded. Returns the sums over the entries that were not
    /// superseded.
    mutating func add(_ group: [IndexEntry], _ dead: [Key: UInt64], at opening: Timestamp) -> SavedTotals {
        var added = SavedTotals()
        for entry in group {
            let key = entry.key
            if graves.cover(entry, key) {
                // It was removed by another process before its group was loaded.
                markObsolete(entry.file, of: key, isLast: true)
            } else if let loser = table.add(graves.marked(entry), for: key, at: opening) {
                markObsolete(loser, of: key)
            } else {
                added.add(entry)
            }
        }
        for (key, number) in dead { keepDead(key, below: number) }
        return added
    }

    /// The files that lines mention and no entry uses, the oldest first. Where several processes have the directory,
    /// another may have removed their keys.
    func unusedFiles(areOfSeveral: Bool) -> [Debts.File] {
        if superseded.isEmpty { return [] }
        let used = Set(table.entries.lazy.map(\.file))
        // The old place of a value that was moved has its number.
        let numbers = areOfSeveral ? Set(used.lazy.map(\.number)) : []
        return superseded.filter { !used.contains($0.file) }.sorted { $0.file < $1.file }.map { file in
            let isLast = areOfSeveral && !numbers.contains(file.file.number)
            return Debts.File(file: file.file, hash: file.hash, last: isLast ? .ofUnknown : nil)
        }
    }

    /// An entry may use a file that had been replaced: the replacement was taken back.
    mutating func markSupersededObsolete() {
        for file in unusedFiles(areOfSeveral: true) { debts.add(file) }
    }

    /// Publishes the copy of a value, which has waited to be deleted; the old one is obsolete. Unless another process has
    /// replaced or removed the value.
    mutating func move(_ copy: IndexEntry, from old: FileID, of key: Key) {
        guard table.entry(key)?.file == old,
            debts.files.contains(where: { $0.file == copy.file && $0.hash == key.hash })
        else { return }
        table.move(copy, of: key)
        debts.removeAll { $0.file == copy.file && $0.hash == key.hash }
        markObsolete(old, of: key)
    }

    mutating func forgetSuperseded() {
        superseded = []
    }

    /// `isLast`: no later file of the key hides older ones.
    mutating func markObsolete(_ file: FileID, of key: Key, isLast: Bool = false) {
        debts.add(isLast ? .last(file, of: key) : Debts.File(file: file, hash: key.hash))
    }

    /// The same for a file of an unknown key.
    mutating func markObsolete(_ file: FileID) {
        debts.add(Debts.File(file: file, hash: 0))
    }
}

extension Shard {
    /// The verdict on an entry that was found by its file.
    enum Verdict {
        /// It is the known entry.
        case known
        /// A newer entry of its key is known, or the key was removed.
        case dead
        /// The value is known in another place: it was moved, and one of both is left over.
        case copy(of: IndexEntry)
        /// It was cleared or has expired, and so have all older entries of its key.
        case over
        /// Nothing newer is known of its key.
        case adopt
    }

    func verdict(on found: IndexEntry, _ key: Key, clearedBelow: UInt64, at now: Timestamp) -> Verdict {
        let entry = table.entry(key)
        let known = entry?.file ?? FileID(0)
        if found.life == .over, known.number == found.file.number { return .over }
        if found.file == known { return .known }
        if let entry, known.number == found.file.number { return .copy(of: entry) }
        if known.number > found.file || found.file < tombstones[key] ?? 0 { return .dead }
        return clearedBelow > found.file || found.isOver(at: now) ? .over : .adopt
    }
}
