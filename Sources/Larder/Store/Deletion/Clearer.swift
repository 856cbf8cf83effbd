import Dispatch
import LarderFiles

/// Removes many entries at once: all of them, those of a namespace or of none, or those with a tag.
final class Clearer: StoreOwner {
    typealias Progress = @Sendable (_ removed: Int, _ total: Int) -> Void

    private static let slice = 256

    let context: StoreContext
    private let info: CommitQueue
    private let reaper: FileReaper
    private let trash: Trash
    private let observer: ChangeObserverSlot

    init(
        _ context: StoreContext, info: CommitQueue, reaper: FileReaper, trash: Trash, observer: ChangeObserverSlot
    ) {
        self.context = context
        self.info = info
        self.reaper = reaper
        self.trash = trash
        self.observer = observer
    }

    /// The summary of a clear.
    struct Summary {
        /// Entries that were removed; for a tag 0, as its entries are counted later.
        let count: Int
        /// Their files are in the trash, rather than obsolete.
        var isInTrash = false
        /// Everything is done, but a power cut may undo it, and why.
        var failure: CacheError?
    }
}

/// Everything.
extension Clearer {
    /// Removes every entry: renames the directory of the files into the trash, and an empty one into its place. O(1) in
    /// system calls; `Trash` deletes the files.
    ///
    /// After a kill between the two renamings, the next opening finds no `entries` and brings the old one back; after a
    /// later one, it finds the new one and forgets the entries. Like a removal's, the record only spares it work.
    func clearEverything() throws(CacheError) -> Summary {
        try disk.runAlone { () throws(CacheError) in
            guard let directory = disk.directory else { throw CacheError.closed(path) }
            return try replaceEntries(of: directory, clearing: .everything)
        }
    }

    /// The same in a barrier. `scope` is everything, or has every entry in it; flights and memory tiers outside of it
    /// are spared.
    private func replaceEntries(of old: StoreDirectory, clearing scope: ClearScope) throws(CacheError) -> Summary {
        try info.removeShutdownMarker()
        defer { observer.didClear(scope) }
        let number = try info.takeNumber()
        // Above the new directory's: an opening brings back the highest number in the trash.
        let trashNumber = try info.takeNumber()
        let fresh = try translating("remove all entries", at: path) { () throws(Errno) in
            try replaceEntries(of: old, with: number, trashedAs: trashNumber)
        }
        var summary = Summary(count: index.totals.count, isInTrash: true)
        disk.replace(fresh)
        reaper.replaceTombstones()
        // Before the record, which may sync a new journal and with it the names, but not the trash.
        if settings.isPowerSafe {
            do {
                try syncDirectories(of: fresh)
            } catch {
                summary.failure = error
            }
        }
        var cleared = ClearMarks()
        cleared.add(.everything, below: trashNumber)
        provisional.replace(with: Reconciliation(cleared: cleared))
        let ticket = info.commitBestEffort(.clear(.everything, number: trashNumber)) {
            index.removeAll(telling: scope, at: clock.now)
        }
        do throws(CacheError) {
            try info.wait(for: ticket)
        } catch {
            summary.failure = error
        }
        return summary
    }

    private func syncDirectories(of directory: StoreDirectory) throws(CacheError) {
        try translating("sync the directory", at: path) { () throws(Errno) in
            let trash = try fileSystem.open(DirectoryLayout.trash.name, in: directory.root.file, for: .directory)
            try fileSystem.sync(trash)
            try fileSystem.sync(directory.root.file)
        }
    }

    private func replaceEntries(
        of old: StoreDirectory, with number: UInt64, trashedAs trashNumber: UInt64
    ) throws(Errno) -> StoreDirectory {
        let (root, entries) = (old.root, DirectoryLayout.entries.name)
        do {
            try fileSystem.makeDirectory(DirectoryLayout.trash.name, in: root.file)
        } catch .exists {}
        let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
        try fileSystem.makeDirectory(.number(number), in: trash)
        let fresh = SharedDescriptor(try fileSystem.open(.number(number), in: trash, for: .directory))
        try fileSystem.rename(entries, in: root.file, to: .number(trashNumber), in: trash)
        do {
            try fileSystem.rename(.number(number), in: trash, to: entries, in: root.file)
        } catch {
            do {
                try fileSystem.rename(.number(trashNumber), in: trash, to: entries, in: root.file)
            } catch {
                // The files are used where they are; the next change or opening that can brings them back.
                self.trash.keepEverything()
            }
            throw error
        }
        return old.with(entries: fresh)
    }
}

/// Namespaces and tags.
extension Clearer {
    /// Removes every entry of a namespace or of none, or with a tag. O(1); `removeClearedInBackground` removes entries
    /// and files.
    ///
    /// Where nothing is in a namespace, the part without one is everything. That is decided in the barrier, and only
    /// while index and files agree: an unread file may be in a namespace.
    ///
    /// A tombstone among the files outlives the last of them: killed at any moment, with the index lost or not, the
    /// process leaves nothing that could bring one back. Like a removal's, the record only spares the next opening
    /// work.
    func clear(_ scope: ClearScope) throws(CacheError) -> Summary {
        try disk.runAlone { () throws(CacheError) in
            guard let directory = disk.directory else { throw CacheError.closed(path) }
            if scope == .namespace(.none), provisional.isConsistent, !index.hasNamespaces {
                return try replaceEntries(of: directory, clearing: scope)
            }
            // Afterwards: a fetch that begins earlier may still receive a removed value.
            defer { tellObserver(of: scope) }
            let isEmpty = index.totals(of: scope.namespace ?? .none).count == 0 && index.obsoleteCount == 0
            if isEmpty, provisional.isConsistent {
                index.invalidateAll(in: scope)
                return Summary(count: 0)
            }
            try info.removeShutdownMarker()
            let number = try reaper.placeTombstone(of: .scope(scope), in: directory)
            // Unknown files of the scope must not be adopted.
            provisional.update { if !$0.isConsistent { $0.clear(scope, below: number) } }
            var removed = EntryTable.Totals()
            let ticket = info.commitBestEffort(.clear(scope, number: number)) {
                removed = index.clear(scope, below: number)
            }
            do throws(CacheError) {
                try info.wait(for: ticket)
            } catch {
                return Summary(count: removed.count, failure: error)
            }
            return Summary(count: removed.count)
        }
    }

    private func tellObserver(of scope: ClearScope) {
        observer.didClear(scope) { key in
            guard case .tag(let tag) = scope else { return true }
            return index.withShard(of: key) { $0.table.isTagged(key, tag) }
        }
    }

    /// Takes cleared entries out of the index and deletes their files, then the tombstones. `total` is the number of
    /// entries where it is known.
    func removeClearedInBackground(total: Int?, _ progress: Progress?) {
        let state = Lock((shard: 0, removed: 0))
        // A run that reports to somebody is never merged with another.
        maintenance.begin(progress == nil ? .clear : nil) { [weak self] in
            guard let self else { return false }
            let shard = state.withLock { $0.shard }
            if shard == Index.shardCount {
                reaper.deleteNeedlessTombstones()
                let all = total ?? state.withLock { $0.removed }
                if let progress { reporter.events.run { progress(all, all) } }
                return false
            }
            guard let part = removeSomeCleared(of: shard) else { return false }
            let removed = state.withLock { state in
                state.removed += total == nil ? part.removed : part.deleted
                if !part.hasMore { state.shard += 1 }
                return state.removed
            }
            guard let progress else { return true }
            if let total {
                if part.hasMore, removed < total { reporter.events.run { progress(removed, total) } }
            } else if part.removed > 0 {
                reporter.events.run { progress(removed, removed) }
            }
            return true
        }
    }

    /// Takes a slice of cleared entries out of a shard, and deletes obsolete files; nil once closed. Entries of a
    /// namespace were counted as removed when it was cleared.
    private func removeSomeCleared(of shard: Int) -> (hasMore: Bool, removed: Int, deleted: Int)? {
        try? disk.run { directory throws(CacheError) in
            let (hasMore, tagged) = index.withShard(at: shard) { shard in
                let before = shard.table.count
                return (shard.markClearedObsolete(limit: Self.slice), before - shard.table.count)
            }
            reporter.count { $0.removals += tagged }
            return (hasMore, tagged, hasMore ? reaper.deleteObsolete(in: directory, shard: shard) : 0)
        }
    }

    /// Takes a slice of cleared entries out of the index: those of a tag still count against the limits. False when
    /// there are none.
    func removeSomeCleared() -> Bool {
        for shard in 0..<Index.shardCount where index.withShard(at: shard, { $0.table.hasCleared }) {
            return removeSomeCleared(of: shard) != nil
        }
        return false
    }
}
