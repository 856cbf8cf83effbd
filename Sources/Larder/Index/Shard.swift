import LarderFiles

/// One of the parts into which keys are divided by their hash: its entries, and the work still to be done for it.
struct Shard: Sendable {
    /// A file that no entry mentions, to be deleted in the background; with the hash of its key, so that removing the
    /// key finds it.
    struct ObsoleteFile: Hashable, Sendable {
        let file: FileID
        let hash: UInt64

        /// Nil when the key is not known.
        var keyHash: UInt64? { hash == 0 ? nil : hash }
        /// The shard of its key.
        var shard: Int { Key.shard(ofHash: hash) }
    }

    var table = EntryTable()
    var obsolete: [ObsoleteFile] = []
    /// The tombstones of removed keys: files of the key below the number are dead. They are kept while there are unread
    /// files, which may be among these.
    private(set) var tombstones: [Key: UInt64] = [:]
    private var keepsTombstones = true
    /// The removals that late changes of other processes must lose to; nil when the directory is not shared.
    var graves: Graves?
    /// Files that lines of the index mention but no entry uses. Filled only while the index is read.
    private(set) var superseded: [ObsoleteFile] = []
    var hits = 0
    var misses = 0
    var stores = 0

    /// Replays a record, unless the entry is newer. Idempotent. Clears concern all shards.
    ///
    /// Superseded files are only noted: after a clean close there are none on disk; otherwise reconciliation deletes
    /// them.
    mutating func replay(_ record: Record, of key: Key) {
        switch record {
        case .set(let entry):
            if let loser = table.load(entry, for: key) { supersede(loser, of: key) }
        case .remove(_, let number):
            keepDead(key, below: number)
            if let entry = table.entry(key), entry.file < number { drop(entry, key) }
        case .obsolete(let file, _):
            supersede(file, of: key)
            if let entry = table.entry(key), entry.file == file { table.remove(key) }
        case .life(_, let file, let change, let life, let update):
            guard let entry = table.entry(key), entry.file == file, entry.change < change else { return }
            table.setLife(life, change: change, update, for: key)
        case .used(_, let file, let change, let time, let expires):
            guard let entry = table.entry(key), entry.file == file else { return }
            // A life that was set later has its own expiry.
            table.setUse(at: time, expires: entry.change == change ? expires : entry.life.expires, for: key)
        case .header, .clear, .expire, .closed, .groups, .unknown:
            return
        }
    }

    private mutating func drop(_ entry: IndexEntry, _ key: Key) {
        supersede(entry.file, of: key)
        table.remove(key)
    }

    private mutating func supersede(_ file: FileID, of key: Key) {
        superseded.append(ObsoleteFile(file: file, hash: key.hash))
    }

    /// Removes an entry for good; files of the key below `number` are dead.
    ///
    /// `mayComeLater`: another process may still publish a change with a lower number.
    @discardableResult
    mutating func remove(_ key: Key, below number: UInt64, mayComeLater: Bool = true) -> IndexEntry? {
        keepDead(key, below: number, mayComeLater: mayComeLater)
        if graves != nil, let known = table.entry(key), known.file >= number { return nil }
        return table.remove(key)
    }

    /// The obsolete files of a key, the oldest first. O(obsolete files).
    func obsoleteFiles(of key: Key) -> [ObsoleteFile] {
        obsolete.isEmpty ? [] : obsolete.filter { $0.hash == key.hash }
    }

    /// Removes an entry; its file is obsolete.
    mutating func removeWithFile(_ entry: IndexEntry) {
        let key = entry.key
        remove(key, below: entry.file.number + 1)
        markObsolete(entry.file, of: key)
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
            supersede(entry.file, of: entry.key)
            keepDead(entry.key, below: entry.file.number + 1)
        }
        return obsolete(gone.expired)
    }

    /// The same for an entry that expired before it was added.
    mutating func dismiss(_ entry: IndexEntry, _ key: Key, isCleared: Bool) {
        keepDead(key, below: entry.file.number + 1)
        if isCleared { supersede(entry.file, of: key) } else { markObsolete(entry.file, of: key) }
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
            markObsolete(entry.file, of: key)
        }
        return entries
    }

    private mutating func keepDead(_ key: Key, below number: UInt64, mayComeLater: Bool = true) {
        if keepsTombstones { tombstones[key] = max(number, tombstones[key] ?? 0) }
        if mayComeLater { graves?.add(key, below: number) }
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
            if let graves, graves.cover(entry, key) {
                // It was removed by another process before its group was loaded.
                markObsolete(entry.file, of: key)
            } else if let loser = table.add(graves?.marked(entry) ?? entry, for: key, at: opening) {
                markObsolete(loser, of: key)
            } else {
                added.add(entry)
            }
        }
        for (key, number) in dead { keepDead(key, below: number) }
        return added
    }

    /// Notes that obsolete files have been deleted.
    mutating func forgetObsolete(_ files: [ObsoleteFile]) {
        obsolete.removeAll { files.contains($0) }
    }

    /// The same for many files, most of the time the first ones. O(obsolete files).
    mutating func forgetDeleted(_ files: [ObsoleteFile]) {
        // Without hashing.
        if obsolete.starts(with: files) { return obsolete.removeFirst(files.count) }
        let files = Set(files)
        obsolete.removeAll { files.contains($0) }
    }

    /// An entry may use a file that had been replaced: the replacement was taken back.
    mutating func markSupersededObsolete() {
        let used = Set(table.entries.lazy.map(\.file))
        obsolete += superseded.filter { !used.contains($0.file) }.sorted { $0.file < $1.file }
    }

    /// Publishes the copy of a value, which has waited to be deleted; the old one is obsolete. Unless another process has
    /// replaced or removed the value.
    mutating func move(_ copy: IndexEntry, from old: FileID, of key: Key) {
        guard table.entry(key)?.file == old,
            let position = obsolete.firstIndex(where: { $0.file == copy.file && $0.hash == key.hash })
        else { return }
        table.move(copy, of: key)
        obsolete.remove(at: position)
        markObsolete(old, of: key)
    }

    mutating func forgetSuperseded() {
        superseded = []
    }

    mutating func markObsolete(_ file: FileID, of key: Key) {
        obsolete.append(ObsoleteFile(file: file, hash: key.hash))
    }

    /// The same for a file of an unknown key.
    mutating func markObsolete(_ file: FileID) {
        obsolete.append(ObsoleteFile(file: file, hash: 0))
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
        if found.file == known { return .known }
        if let entry, known.number == found.file.number { return .copy(of: entry) }
        if known.number > found.file || found.file < tombstones[key] ?? 0 { return .dead }
        return clearedBelow > found.file || found.isOver(at: now) ? .over : .adopt
    }
}
