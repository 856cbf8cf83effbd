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
    /// Until files and rows have been reconciled: the number of the last remove of a key. Older files of it stay dead.
    var graves: [Key: UInt64] = [:]
    var hits = 0
    var misses = 0

    /// Does again what a record says was done, as far as the row does not say more. Idempotent. Clears go to all shards.
    mutating func replay(_ record: Record, of key: Key) {
        let row = manifest.row(key)
        switch record {
        case .set(let new):
            if let row, row.file > new.file { return }
            if let old = manifest.publish(new, for: key), old.file != new.file { doom(old.file, of: key) }
        case .remove(_, let number):
            graves[key] = max(number, graves[key] ?? 0)
            guard let row, row.file < number else { return }
            manifest.remove(key)
            doom(row.file, of: key)
        case .life(_, let file, let change, let life):
            guard let row, row.file == file, row.change < change else { return }
            manifest.setLife(life, change: change, for: key)
        case .used(_, let file, let time, let expires):
            guard row?.file == file else { return }
            manifest.setUse(at: time, expires: expires, for: key)
        case .header, .clear, .closed, .unknown:
            return
        }
    }

    mutating func doom(_ file: UInt64, of key: Key) {
        doomed.append(Doomed(file: file, hash: key.hash))
    }
}
