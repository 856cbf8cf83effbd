import Dispatch
import LarderFiles

extension Store {
    private static let slice = 256

    /// Removes every entry of a namespace. O(1); rows and files go behind.
    ///
    /// A tombstone among the files says so until the last of them is gone: killed at any moment, with the index lost or not, the
    /// process leaves nothing that could bring one back. Like that of a remove, the record is only a help.
    func removeAll(of namespace: Namespace, progress: Progress?) throws(CacheError) {
        if !reconciliation.withLock({ $0.isFinished }) { chores.wait() }
        let removed: (count: Int, failure: CacheError?)
        do {
            removed = try disk.run(flags: .barrier) { () throws(CacheError) in
                guard let volume else { throw CacheError.closed(path) }
                return try removeAll(of: namespace, in: volume)
            }
        } catch {
            report(error)
            throw error
        }
        report(CacheEvent(.cleared, in: namespace, count: removed.count)) { $0.removals += removed.count }
        takeClearedBehind(removed.count, progress)
        guard let failure = removed.failure else { return }
        report(failure)
        throw failure
    }

    /// Returns the number of entries, and, where all is done but a power cut may undo it, why.
    private func removeAll(
        of namespace: Namespace, in volume: Volume
    ) throws(CacheError) -> (count: Int, failure: CacheError?) {
        let isEmpty = index.totals(of: namespace).count == 0 && index.doomedCount == 0
        if isEmpty, reconciliation.withLock({ $0.isDone }) { return (0, nil) }
        try unseal()
        let number = try placeTombstone(of: namespace, in: volume)
        let gone = Lock(Manifest.Totals())
        // Where files are still unknown: they must not be adopted.
        reconciliation.withLock { if !$0.isDone { $0.clear(namespace, below: number) } }
        let ticket = commitBestEffort(.clear(namespace: namespace, number: number), in: volume) { index in
            gone.withLock { $0 = index.clear(namespace, below: number) }
        }
        let count = gone.withLock { $0.count }
        do throws(CacheError) {
            try wait(for: ticket)
        } catch {
            return (count, error)
        }
        return (count, nil)
    }

    private func placeTombstone(of namespace: Namespace, in volume: Volume) throws(CacheError) -> UInt64 {
        var inTheWay: [UInt64]?
        while true {
            let number = try takeNumber()
            do throws(Errno) {
                try writeTombstone(number, of: namespace, in: volume)
                tombstones.withLock { _ = $0.insert(number) }
                return number
            } catch .exists {
                continue
            } catch {
                let name = DirectoryLayout.tombstoneNumber(number)
                let error = CacheError(error, doing: "remove a namespace", path: volume.path(of: name))
                guard error.code == .noSpace else { throw error }
                // A full disk can always be emptied: some of the files make room, and when all are gone none has to be buried.
                if unlinkDoomed(in: volume) > 0 { continue }
                let waiting = inTheWay ?? files(of: namespace)
                for file in waiting.prefix(Self.slice) {
                    try translating("remove an entry", at: volume.path(of: file)) { () throws(Errno) in
                        try volume.unlink(file)
                    }
                }
                inTheWay = Array(waiting.dropFirst(Self.slice))
                if waiting.isEmpty { return number }
            }
        }
    }

    private func writeTombstone(_ number: UInt64, of namespace: Namespace, in volume: Volume) throws(Errno) {
        let name = DirectoryLayout.tombstoneNumber(number)
        let file = try fileSystem.open(.number(name), in: volume.entries.file, for: .creating)
        do {
            try fileSystem.write(EntryFile.tombstone(of: namespace, number: number), to: file, at: 0)
            if isPowerSafe {
                try fileSystem.sync(file)
                try volume.entriesSync.sync(through: volume.entriesSync.note())
            }
        } catch {
            // Without its footer it says nothing.
            try? fileSystem.truncate(file, to: 0)
            try? volume.unlink(name)
            throw error
        }
    }

    private func files(of namespace: Namespace) -> [UInt64] {
        (0..<Index.shardCount).flatMap { snapshot($0).rows }.filter { $0.namespace == namespace }.map(\.file).sorted()
    }

    /// Takes the rows of cleared namespaces out and deletes their files, behind; then the tombstones.
    private func takeClearedBehind(_ total: Int, _ progress: Progress?) {
        let state = Lock((shard: 0, gone: 0))
        // One that has somebody to tell is never taken for another.
        chores.begin(progress == nil ? .clear : nil) { [weak self] in
            guard let self else { return false }
            let shard = state.withLock { $0.shard }
            if shard == Index.shardCount {
                unlinkTombstones()
                if let progress { events.run { progress(total, total) } }
                return false
            }
            let part = try? onDisk { volume throws(CacheError) in
                let more = index.withShard(at: shard) { $0.doomCleared(limit: Self.slice) }
                return (more: more, gone: more ? unlinkDoomed(in: volume, shard: shard) : 0)
            }
            guard let part else { return false }
            let gone = state.withLock { state in
                state.gone += part.gone
                if !part.more { state.shard += 1 }
                return state.gone
            }
            if let progress, part.more, gone < total { events.run { progress(gone, total) } }
            return true
        }
    }

    /// Deletes the tombstones that have nothing left to tell of. On the chores queue.
    ///
    /// In one block of `disk`: a namespace that is cleared, or another directory that is opened, comes before it or after it. And
    /// not before the journal or the manifest tells of the clearing too: rows without files would be reported as lost.
    func unlinkTombstones() {
        if tombstones.withLock({ $0.isEmpty }) { return }
        _ = attempting { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                guard reconciliation.withLock({ $0.isDone }), !info.run({ journal.mustSave }) else { return }
                var oldest = UInt64.max
                index.forEachShard { shard in
                    if shard.manifest.hasCleared { oldest = 0 }
                    oldest = shard.doomed.reduce(oldest) { min($0, $1.file) }
                }
                for number in tombstones.withLock({ $0.filter { $0 < oldest } }) {
                    let name = DirectoryLayout.tombstoneNumber(number)
                    try translating("delete a tombstone", at: volume.path(of: name)) { () throws(Errno) in
                        if isPowerSafe { try fileSystem.sync(volume.entries.file) }
                        try volume.unlink(name)
                    }
                    tombstones.withLock { _ = $0.remove(number) }
                }
            }
        }
    }
}
