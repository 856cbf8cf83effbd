import LarderFiles

/// One of the parts into which keys fall by their hash: its rows, and what is still to be done for it.
struct Shard: Sendable {
    /// A file that no row mentions, to be unlinked behind; with the hash of its key, so that removing the key finds it.
    struct Doomed: Hashable, Sendable {
        let file: UInt64
        let hash: UInt64
    }

    var manifest = Manifest()
    var doomed: [Doomed] = []
    /// The tombstones of keys that are gone: files of the key below the number are dead. Kept while there are files
    /// that nobody has read, which may be such files.
    private(set) var tombstones: [Key: UInt64] = [:]
    private var keepsTombstones = true
    /// Files that lines of the index mention and no row has any more. Only while the index is read.
    private(set) var superseded: [UInt64] = []
    var hits = 0
    var misses = 0
    var stores = 0

    /// Does again what a record says was done, as far as the row does not say more. Idempotent. Clears go to all
    /// shards.
    ///
    /// Files that are thereby superseded are none of its business: after a clean close there are none, after another
    /// the reconciling finds them.
    mutating func replay(_ record: Record, of key: Key) {
        switch record {
        case .set(let row):
            if let loser = manifest.load(row, for: key) { superseded.append(loser) }
        case .remove(_, let number):
            keepDead(key, below: number)
            if let row = manifest.row(key), row.file < number { drop(row, key) }
        case .obsolete(let file, _):
            superseded.append(file)
            if let row = manifest.row(key), row.file == file { manifest.remove(key) }
        case .life(_, let file, let change, let life, let update):
            guard let row = manifest.row(key), row.file == file, row.change < change else { return }
            manifest.setLife(life, change: change, update, for: key)
        case .used(_, let file, let change, let time, let expires):
            guard let row = manifest.row(key), row.file == file else { return }
            // A life that was set since says itself when it ends.
            manifest.setUse(at: time, expires: row.change == change ? expires : row.life.expires, for: key)
        case .header, .clear, .closed, .unknown:
            return
        }
    }

    private mutating func drop(_ row: Row, _ key: Key) {
        superseded.append(row.file)
        manifest.remove(key)
    }

    /// Takes a row out for good; files of the key below `number` are dead.
    @discardableResult
    mutating func remove(_ key: Key, below number: UInt64) -> Row? {
        keepDead(key, below: number)
        return manifest.remove(key)
    }

    /// Takes out up to `limit` rows that have expired at `now`; their files are doomed.
    mutating func purge(at now: Timestamp, limit: Int, sparing spared: Set<UInt64>) -> [Row] {
        doomed(manifest.purge(at: now, limit: limit, sparing: spared))
    }

    /// The same at the end of loading, for all rows. Those that were `cleared` are forgotten, and what they had
    /// replaced stays dead: it may have had other tags.
    mutating func finishLoading(at now: Timestamp, cleared: ClearMarks) -> [Row] {
        let gone = manifest.finishLoading(at: now, cleared: cleared)
        for row in gone.cleared {
            superseded.append(row.file)
            keepDead(row.name, below: row.file + 1)
        }
        return doomed(gone.expired)
    }

    /// The same for a row that had expired before it was put in.
    mutating func dismiss(_ row: Row, _ key: Key, isCleared: Bool) {
        keepDead(key, below: row.file + 1)
        if isCleared { superseded.append(row.file) } else { doom(row.file, of: key) }
    }

    /// Dooms the files of rows that a clearing has left, after looking at up to `limit` of all; false when there are
    /// no more.
    mutating func doomCleared(limit: Int) -> Bool {
        guard let rows = manifest.takeCleared(limit: limit) else { return false }
        _ = doomed(rows)
        return true
    }

    private mutating func doomed(_ rows: [Row]) -> [Row] {
        for row in rows {
            let key = row.name
            keepDead(key, below: row.file + 1)
            doom(row.file, of: key)
        }
        return rows
    }

    private mutating func keepDead(_ key: Key, below number: UInt64) {
        if keepsTombstones { tombstones[key] = max(number, tombstones[key] ?? 0) }
    }

    /// Notes that every file has been read.
    mutating func forgetTombstones() {
        keepsTombstones = false
        tombstones = [:]
    }

    mutating func forgetSuperseded() {
        superseded = []
    }

    mutating func doom(_ file: UInt64, of key: Key) {
        doomed.append(Doomed(file: file, hash: key.hash))
    }

    /// The same for a file whose key nobody knows.
    mutating func doom(_ file: UInt64) {
        doomed.append(Doomed(file: file, hash: 0))
    }
}

extension Shard {
    /// The judgement on an entry that was found by its file.
    enum Verdict {
        /// It is the one that the row tells of.
        case known
        /// A newer one of its key is known, or the key is gone.
        case dead
        /// It was cleared or has expired, and with it all older ones of its key.
        case over
        /// Nothing newer is known of its key.
        case adopt
    }

    func verdict(on found: Row, _ key: Key, clearedBelow: UInt64, at now: Timestamp) -> Verdict {
        let known = manifest.row(key)?.file ?? 0
        if known == found.file { return .known }
        if known > found.file || found.file < tombstones[key] ?? 0 { return .dead }
        return clearedBelow > found.file || found.isOver(at: now) ? .over : .adopt
    }
}
