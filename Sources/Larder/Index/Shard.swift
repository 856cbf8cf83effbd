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
    /// The last number of a key that is gone: while files and rows are not reconciled, older files of it must stay dead.
    private(set) var graves: [Key: UInt64] = [:]
    /// True until files and rows have been reconciled.
    private var keepsGraves = true
    var hits = 0
    var misses = 0
    var stores = 0

    /// Does again what a record says was done, as far as the row does not say more. Idempotent. Clears go to all shards.
    ///
    /// Files that are thereby superseded are none of its business: after a clean close there are none, after another the
    /// reconciling finds them.
    mutating func replay(_ record: Record, of key: Key) {
        switch record {
        case .set(let row):
            manifest.load(row, for: key)
        case .remove(_, let number):
            bury(key, number)
            if let row = manifest.row(key), row.file < number { manifest.remove(key) }
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

    /// Takes a row out for good.
    @discardableResult
    mutating func remove(_ key: Key, number: UInt64) -> Row? {
        bury(key, number)
        return manifest.remove(key)
    }

    /// Takes out up to `limit` rows that have expired at `now`; their files are doomed.
    mutating func purge(at now: Timestamp, limit: Int) -> [Row] {
        doomed(manifest.purge(at: now, limit: limit))
    }

    /// The same at the end of loading, for all rows. Those that were `cleared` are forgotten, and what they had replaced stays dead:
    /// it may have had other tags.
    mutating func finishLoading(at now: Timestamp, cleared: Clearings) -> [Row] {
        let gone = manifest.finishLoading(at: now, cleared: cleared)
        for row in gone.cleared { bury(row.name, row.file) }
        return doomed(gone.expired)
    }

    /// The same for a row that had expired before it was put in.
    mutating func dismiss(_ row: Row, _ key: Key, isCleared: Bool) {
        bury(key, row.file)
        if !isCleared { doom(row.file, of: key) }
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
            bury(key, row.file)
            doom(row.file, of: key)
        }
        return rows
    }

    /// Notes that every file of a key up to a number is dead.
    mutating func bury(_ key: Key, _ number: UInt64) {
        if keepsGraves { graves[key] = max(number, graves[key] ?? 0) }
    }

    /// Notes that rows and files agree.
    mutating func forgetGraves() {
        keepsGraves = false
        graves = [:]
    }

    mutating func doom(_ file: UInt64, of key: Key) {
        doomed.append(Doomed(file: file, hash: key.hash))
    }
}
