import Dispatch
import LarderFiles

extension Store {
    private static let slice = 256

    /// Removes every entry of a namespace, or with a tag. O(1); entries and files go behind.
    ///
    /// A tombstone among the files says so until the last of them is gone: killed at any moment, with the index lost or
    /// not, the process leaves nothing that could bring one back. Like that of a remove, the record is only a help.
    func removeAll(of scope: ClearScope, progress: Progress?) throws(CacheError) {
        let removed = try retryingReopened(nil) { () throws(CacheError) in
            try disk.runAlone { () throws(CacheError) in
                guard let volume else { throw CacheError.closed(path) }
                // Afterwards: what begins before may still be given a value that goes.
                defer { tellObserver(of: scope) }
                return try removeAll(of: scope, in: volume)
            }
        }
        report(CacheEvent(.cleared, of: scope, count: removed.count)) { $0.removals += removed.count }
        let total: Int? = if case .tag = scope { nil } else { removed.count }
        takeClearedBehind(total, progress)
        guard let failure = removed.failure else { return }
        report(failure)
        throw failure
    }

    private func tellObserver(of scope: ClearScope) {
        observer.didClear(scope) { key in
            guard case .tag(let tag) = scope else { return true }
            return index.withShard(of: key) { $0.table.isTagged(key, tag) }
        }
    }

    /// Returns the number of entries, and, where all is done but a power cut may undo it, why.
    private func removeAll(
        of scope: ClearScope, in volume: StoreDirectory
    ) throws(CacheError) -> (count: Int, failure: CacheError?) {
        let space = scope.space ?? .none
        let there = space == .none ? index.totals : index.totals(of: space)
        let isEmpty = there.count == 0 && index.obsoleteCount == 0
        if isEmpty, reconciliation.withLock({ $0.isConsistent }) { return (0, nil) }
        try clearShutdownMarker()
        let number = try placeTombstone(of: scope, in: volume)
        let gone = Lock(EntryTable.Totals())
        // Where files are still unknown: they must not be adopted.
        reconciliation.withLock { if !$0.isConsistent { $0.clear(scope, below: number) } }
        let ticket = commitBestEffort(.clear(scope, number: number), in: volume) { index in
            gone.withLock { $0 = index.clear(scope, below: number) }
        }
        let count = gone.withLock { $0.count }
        do throws(CacheError) {
            try wait(for: ticket)
        } catch {
            return (count, error)
        }
        return (count, nil)
    }

    private func placeTombstone(of scope: ClearScope, in volume: StoreDirectory) throws(CacheError) -> UInt64 {
        var inTheWay: [UInt64]?
        while true {
            let number = try takeNumber()
            do throws(Errno) {
                try writeTombstone(number, of: .scope(scope), in: volume)
                return number
            } catch .exists {
                continue
            } catch {
                let name = DirectoryLayout.tombstoneNumber(number)
                let error = CacheError(error, doing: "remove all of a kind", path: volume.path(of: name))
                guard error.code == .noSpace else { throw error }
                // A full disk can always be emptied: some of the files make room, and when all are gone none has to be
                // buried.
                if deleteObsolete(in: volume) > 0 { continue }
                let waiting = inTheWay ?? files(of: scope)
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

    /// Places the tombstone of a key, of which older files may not have been found yet; returns its number.
    func placeTombstone(of key: Key, in volume: StoreDirectory) throws(CacheError) -> UInt64 {
        while true {
            let number = try takeNumber()
            do throws(Errno) {
                try writeTombstone(number, of: .key(key), in: volume)
                return number
            } catch .exists {
                continue
            } catch {
                let name = DirectoryLayout.tombstoneNumber(number)
                throw CacheError(error, doing: "remove an entry", path: volume.path(of: name))
            }
        }
    }

    /// Takes the tombstone of a removal back that could not be done.
    func discardTombstone(_ number: UInt64, in volume: StoreDirectory) {
        let name = DirectoryLayout.tombstoneNumber(number)
        tombstones.withLock { $0.remove([number]) }
        if let file = try? fileSystem.open(.number(name), in: volume.entries.file, for: .updating) {
            // Without its footer it says nothing.
            try? fileSystem.truncate(file, to: 0)
        }
        unlinkTombstone(number, in: volume)
    }

    /// Unlinks a tombstone that says nothing; one that stays goes with the others.
    private func unlinkTombstone(_ number: UInt64, in volume: StoreDirectory) {
        do {
            try volume.unlink(DirectoryLayout.tombstoneNumber(number))
        } catch {
            tombstones.withLock { $0.insert(unread: number) }
        }
    }

    private func writeTombstone(
        _ number: UInt64, of removal: EntryFile.Removal, in volume: StoreDirectory
    ) throws(Errno) {
        let name = DirectoryLayout.tombstoneNumber(number)
        let file = try fileSystem.open(.number(name), in: volume.entries.file, for: .creating)
        do throws(Errno) {
            try fileSystem.write(EntryFile.tombstone(of: removal, number: number), to: file, at: 0)
            if isPowerSafe {
                try fileSystem.sync(file)
                try volume.entriesSync.sync(through: volume.entriesSync.note())
            }
        } catch {
            // Without its footer it says nothing.
            try? fileSystem.truncate(file, to: 0)
            unlinkTombstone(number, in: volume)
            throw error
        }
        if let replaced = tombstones.withLock({ $0.insert(number, of: removal) }) {
            // It says nothing that the new one does not say.
            tombstones.withLock { $0.remove(replaced: replaced) }
            unlinkTombstone(replaced, in: volume)
        }
    }

    private func files(of scope: ClearScope) -> [UInt64] {
        (0..<Index.shardCount).flatMap { snapshot($0) }.filter { entry in
            switch scope {
            case .everything: true
            case .namespace(let space): entry.namespace == space
            case .tag(let tag): entry.tags.contains(tag)
            }
        }.map(\.file).sorted()
    }

    /// Takes the entries of what was cleared out and deletes their files, behind; then the tombstones.
    private func takeClearedBehind(_ total: Int?, _ progress: Progress?) {
        let state = Lock((shard: 0, gone: 0))
        // One that has somebody to tell is never taken for another.
        maintenance.begin(progress == nil ? .clear : nil) { [weak self] in
            guard let self else { return false }
            let shard = state.withLock { $0.shard }
            if shard == Index.shardCount {
                unlinkTombstones()
                let all = total ?? state.withLock { $0.gone }
                if let progress { events.run { progress(all, all) } }
                return false
            }
            guard let part = clearSome(of: shard) else { return false }
            let gone = state.withLock { state in
                state.gone += total == nil ? part.removed : part.unlinked
                if !part.more { state.shard += 1 }
                return state.gone
            }
            if let progress, part.more, let total, gone < total { events.run { progress(gone, total) } }
            if let progress, part.removed > 0, total == nil { events.run { progress(gone, gone) } }
            return true
        }
    }

    /// Takes a slice of entries that were cleared out of a shard, and deletes files that wait; nil once closed. Those of a
    /// namespace have been counted as removed before.
    private func clearSome(of shard: Int) -> (more: Bool, removed: Int, unlinked: Int)? {
        try? onDisk { volume throws(CacheError) in
            let (more, tagged) = index.withShard(at: shard) { shard in
                let before = shard.table.count
                return (shard.markClearedObsolete(limit: Self.slice), before - shard.table.count)
            }
            tally.withLock { $0.removals += tagged }
            return (more, tagged, more ? deleteObsolete(in: volume, shard: shard) : 0)
        }
    }

    /// Takes entries of cleared tags out before limits are looked at, as they are still counted; false when there are
    /// none.
    func clearSome() -> Bool {
        for shard in 0..<Index.shardCount where index.withShard(at: shard, { $0.table.hasCleared }) {
            return clearSome(of: shard) != nil
        }
        return false
    }

    /// Deletes the tombstones that have nothing left to tell of. On the maintenance queue.
    ///
    /// In one block of `disk`: a namespace that is cleared, or another directory that is opened, comes before it or
    /// after it. And not before the journal or the manifest tells of the clearing too: entries without files would be
    /// reported as lost.
    func unlinkTombstones() {
        if tombstones.withLock({ $0.isEmpty }) { return }
        _ = attempting { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                let mayBeNeeded = provisional.isSet && reconciliation.withLock { !$0.hasScanned || $0.hasUnread }
                guard !mayBeNeeded, !info.run({ journal.mustSave }) else { return }
                var oldest = UInt64.max
                index.forEachShard { shard in
                    if shard.table.hasCleared { oldest = 0 }
                    oldest = shard.obsolete.reduce(oldest) { min($0, $1.file) }
                }
                var gone: Set<UInt64> = []
                defer { tombstones.withLock { [gone] in $0.remove(gone) } }
                for number in tombstones.withLock({ $0.numbers.filter { $0 < oldest } }) {
                    let name = DirectoryLayout.tombstoneNumber(number)
                    try translating("delete a tombstone", at: volume.path(of: name)) { () throws(Errno) in
                        if isPowerSafe, gone.isEmpty { try fileSystem.sync(volume.entries.file) }
                        try volume.unlink(name)
                    }
                    gone.insert(number)
                }
            }
        }
    }
}
