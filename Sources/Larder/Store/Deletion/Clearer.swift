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

    /// Where the files of removed entries are.
    enum Files {
        /// In the index, until a background run takes the entries out.
        case cleared
        /// Among the obsolete files.
        case obsolete
        case trashed
    }

    /// The summary of a clear.
    struct Summary {
        /// Entries that were removed; for a tag 0, as its entries are counted later.
        let count: Int
        var files = Files.cleared
        /// The reason why a power cut may undo the clear, which is otherwise done.
        var failure: CacheError?
    }
}

/// Clearing everything.
extension Clearer {
    /// Removes every entry: renames the directory of the files into the trash, and an empty one into its place. O(1) in
    /// system calls; `Trash` deletes the files.
    ///
    /// After a kill between the two renamings, the next opening finds no `entries` and restores the old directory.
    /// After a later kill, it finds the new one and forgets the entries. As for a removal, the record only saves it
    /// work.
    ///
    /// Nil beside other processes, which may be storing files; and when the disk has no room for two directories, or
    /// cannot rename this one because it belongs to a lower layer. Freeing needs no room: the files are then deleted
    /// where they are.
    func replaceEverything() throws(CacheError) -> Summary? {
        try disk.runAlone { () throws(CacheError) in
            guard let directory = disk.directory else { throw CacheError.closed(path) }
            return try disk.whileNobodyJoins { isAlone throws(CacheError) -> Summary? in
                guard isAlone else { return nil }
                try disk.followOrThrow()
                do throws(CacheError) {
                    return try replaceEntries(of: directory)
                } catch {
                    guard error.code == .noSpace || error.errno == Errno.crossDevice.rawValue else { throw error }
                    return nil
                }
            }
        }
    }

    /// Replaces the entries in a barrier.
    private func replaceEntries(of old: StoreDirectory) throws(CacheError) -> Summary {
        try info.removeShutdownMarker()
        defer { observer.didClear(.everything) }
        let number = try info.takeNumber(.all)
        // Higher than the new directory's number: an opening restores the directory with the highest number in the
        // trash.
        let trashNumber = try info.takeNumber(.all)
        let fresh = try translating("remove all entries", at: path) { () throws(Errno) in
            try replaceEntries(of: old, with: number, trashedAs: trashNumber)
        }
        var summary = Summary(count: index.totals.count, files: .trashed)
        disk.replace(fresh)
        reaper.replaceTombstones()
        // Before the record: that may sync a new journal and with it the names in the root, but not the trash.
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
        let ticket = info.commitIfPossible(Changes(.clear(.everything, number: trashNumber))) {
            index.removeAll(at: clock.now)
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
        // Something else may have the name by now.
        guard old.isWhole else { throw .noEntry }
        do {
            try fileSystem.makeDirectory(DirectoryLayout.trash.name, in: root.file)
        } catch .exists {}
        let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
        try fileSystem.makeDirectory(.number(number), in: trash)
        let fresh = OwnedDescriptor(try fileSystem.open(.number(number), in: trash, for: .directory))
        do {
            try fileSystem.rename(entries, in: root.file, to: .number(trashNumber), in: trash)
        } catch {
            try? fileSystem.remove(.number(number), in: trash, directory: true)
            throw error
        }
        do {
            try fileSystem.rename(.number(number), in: trash, to: entries, in: root.file)
        } catch {
            do {
                try fileSystem.rename(.number(trashNumber), in: trash, to: entries, in: root.file)
                try? fileSystem.remove(.number(number), in: trash, directory: true)
            } catch {
                // The files are used from the trash, until a later change or opening can move them back.
                self.trash.keepEverything()
            }
            throw error
        }
        return old.with(entries: fresh)
    }
}

/// Clearing namespaces and tags.
extension Clearer {
    /// Removes every entry of a namespace or of none, or with a tag. O(1) once the index is loaded;
    /// `removeClearedInBackground` removes entries and files.
    ///
    /// A tombstone outlives the last of the removed files, so none of them comes back after a kill at any moment, even
    /// with the index lost. As for a removal, the record only saves the next opening work.
    func clear(_ scope: ClearScope) throws(CacheError) -> Summary {
        while true {
            index.loadAll(for: scope)
            if let summary = try clearLoaded(scope) { return summary }
        }
    }

    /// Removes every entry that is known, in the place of `replaceEverything`. O(n). After an error some namespaces may
    /// be empty.
    func clearEveryNamespace() throws(CacheError) -> Summary {
        try disk.followOrThrow()
        // First: fetches and values in memory alone may be in namespaces without entries.
        if !disk.isAlone { try info.announceClear() }
        index.invalidateAll(in: .everything)
        observer.didClear(.everything)
        var all = Summary(count: 0, files: .obsolete)
        do throws(CacheError) {
            for namespace in index.loadedNamespaces() {
                let part = try clear(.namespace(namespace))
                all = Summary(
                    count: all.count + part.count, files: .obsolete, failure: all.failure ?? part.failure)
            }
        } catch {
            reporter.count { [all] in $0.removals += all.count }
            removeClearedInBackground(total: nil, nil)
            reaper.deleteAllInBackground()
            throw error
        }
        return all
    }

    /// Returns nil when entries in the scope must be loaded first.
    private func clearLoaded(_ scope: ClearScope) throws(CacheError) -> Summary? {
        try disk.runAlone { () throws(CacheError) in
            guard let directory = disk.directory else { throw CacheError.closed(path) }
            return try disk.whileNobodyJoins { isAlone throws(CacheError) in
                try clearLoaded(scope, in: directory, isAlone: isAlone)
            }
        }
    }

    private func clearLoaded(
        _ scope: ClearScope, in directory: StoreDirectory, isAlone: Bool
    ) throws(CacheError) -> Summary? {
        // First: it may replace the index.
        try disk.followOrThrow()
        // Another directory may have been opened meanwhile.
        if index.mustLoad(for: scope) { return nil }
        // Afterwards: a fetch that begins earlier may still receive a removed value.
        defer { observer.didClear(scope, in: index) }
        let isEmpty = index.totals(of: scope.namespace ?? .none).count == 0 && index.obsoleteCount == 0
        // Other processes may have values in memory alone, or be fetching some.
        if isEmpty, provisional.isSettled, isAlone, !disk.hasLeftFiles {
            index.invalidateAll(in: scope)
            try reaper.syncDeletions(of: nil, in: directory)
            return Summary(count: 0)
        }
        try info.removeShutdownMarker()
        let number = try reaper.placeTombstone(of: .scope(scope), in: directory)
        // A change with a lower number that is published later has replaced what the clear leaves.
        _ = disk.others.object.membership.awaitChanges(below: number, stripe: nil, .round(4))
        var removed = EntryTotals()
        let failure = try reaper.commit(.scope(scope), number: number, in: directory, isAlone: isAlone) {
            removed =
                isAlone
                ? index.clear(scope, below: number) : index.clearOlder(scope, below: number, deletesFiles: true)
        }
        // Unknown files of the scope must not be adopted.
        provisional.clear(scope, below: number)
        let files: Files = isAlone ? .cleared : .obsolete
        guard case .tag = scope else { return Summary(count: removed.count, files: files, failure: failure) }
        reporter.count { [removed] in $0.removals += removed.count }
        return Summary(count: 0, files: files, failure: failure)
    }

    /// Takes cleared entries out of the index and deletes their files, then the tombstones. `total` is the number of
    /// entries, if known.
    func removeClearedInBackground(total: Int?, _ progress: Progress?) {
        let state = Lock((shard: 0, removed: 0))
        // A run with a progress handler is never merged with another.
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

    /// Takes a slice of cleared entries out of the index, because those of a tag still count toward the limits. False
    /// when there are none.
    func removeSomeCleared() -> Bool {
        for shard in 0..<Index.shardCount where index.withShard(at: shard, { $0.table.hasCleared }) {
            return removeSomeCleared(of: shard) != nil
        }
        return false
    }
}
