import LarderFiles

extension Store {
    /// Removes an entry: its files first, then the record. Returns whether there was a fresh one.
    ///
    /// The file is deleted first: that works even on a full disk, and nothing can bring the value back, as an entry
    /// without a file is removed. If the file cannot be deleted, the value stays. While older files of the key may be
    /// unknown, a tombstone keeps them dead.
    @discardableResult
    func remove(_ key: Key, at now: Timestamp, permit: (any WritePermit)? = nil) throws(CacheError) -> Bool {
        let removed = try retryingReopened(key) { () throws(CacheError) in
            try recovery.retryingAfterScan { () throws(CacheError) in try removeOnce(key, at: now, permit) }
        }
        guard let removed else { return false }
        if let event = permit.map({ $0.event }) ?? .removed {
            reporter.report(CacheEvent(event, of: key)) { if event == .removed { $0.removals += 1 } }
        }
        return removed.isFresh(at: now)
    }

    private func removeOnce(
        _ key: Key, at now: Timestamp, _ permit: (any WritePermit)?
    ) throws(CacheError) -> IndexEntry? {
        try disk.run(changing: key) { directory throws(CacheError) in
            if let permit, !permit.isValid(for: key) { return nil }
            // Afterwards: a fetch that begins earlier may still receive the removed value.
            defer { observer.didChange(key, with: permit) }
            index.load(key)
            if !provisional.mayLackFiles { return try removeFiles(of: key, in: directory) }
            let isBelieved = recovery.settle(key, at: now, checkingFile: true, in: directory, holdsStripe: true)
            let entry = try removeFiles(of: key, in: directory)
            return isBelieved ? entry : nil
        }
    }

    /// Returns the entry that was removed.
    func removeFiles(of key: Key, in directory: StoreDirectory) throws(CacheError) -> IndexEntry? {
        let mayBeUnknown = provisional.mayHaveUnread
        let (entry, obsolete) = index.withShard(of: key) { shard in
            (shard.table.entry(key), shard.obsoleteFiles(of: key))
        }
        if entry == nil, obsolete.isEmpty {
            // Nothing of the key was stored after its tombstone. That of a killed session may not be on stable storage.
            if !mayBeUnknown || !settings.isPowerSafe && reaper.hasTombstone(of: key) {
                index.invalidate(key)
                try tellOthers(ofRemoved: key)
                try reaper.syncDeletions(of: key, in: directory)
                return nil
            }
        }
        try info.removeShutdownMarker()
        let tombstone =
            mayBeUnknown
            ? try reaper.placeTombstone(of: .key(key), in: directory, isAlone: !disk.isShared) : nil
        if tombstone != nil, reconciler.hasTooManyTombstones { reconciler.boundTombstonesInBackground() }
        if disk.isShared { return try removeBesideOthers(key, entry, obsolete, tombstone, in: directory) }
        do throws(CacheError) {
            try deleteFiles(of: key, entry, obsolete, in: directory)
        } catch {
            // The value stays, even after the next opening.
            if let tombstone { reaper.takeBackTombstone(tombstone, in: directory) }
            throw error
        }
        let number = if let tombstone { tombstone } else { try info.takeNumber(.key(key)) }
        let ticket = info.commitBestEffort(.remove(key: key, number: number)) {
            index.change(key, .removed) { shard in
                shard.remove(key, below: number)
                if !obsolete.isEmpty { shard.obsolete.removeAll { obsolete.contains($0) } }
            }
        }
        if settings.isPowerSafe {
            try translating("sync the directory", at: path) { () throws(Errno) in try directory.syncNames() }
        }
        try info.wait(for: ticket)
        return entry
    }

    /// The same in a shared directory: the record first, or another process would miss the value while a third one
    /// still returns it from memory.
    ///
    /// Without a tombstone the removal has no number of its own: one that was taken now would cover a value that
    /// another process is storing, and that this call has not seen.
    private func removeBesideOthers(
        _ key: Key, _ entry: IndexEntry?, _ obsolete: [Shard.ObsoleteFile], _ tombstone: UInt64?,
        in directory: StoreDirectory
    ) throws(CacheError) -> IndexEntry? {
        // A process that joins later takes higher numbers.
        let isAlone = disk.isAlone
        let number = tombstone ?? entry.map { $0.file.number + 1 }
        let ticket: CommitQueue.Ticket?
        do throws(CacheError) {
            if let number {
                ticket = try info.commitRemoval(.remove(key: key, number: number)) { () throws(CacheError) in
                    if let tombstone { try reaper.finishTombstone(tombstone, of: .key(key), in: directory) }
                    try deleteFiles(of: key, entry, obsolete, in: directory)
                } publish: {
                    index.change(key, .removed) { _ = $0.remove(key, below: number, mayComeLater: !isAlone) }
                }
            } else {
                ticket = nil
                index.invalidate(key)
                try tellOthers(ofRemoved: key)
            }
        } catch {
            if let tombstone { reaper.takeBackTombstone(tombstone, in: directory) }
            throw error
        }
        if let tombstone {
            _ = reporter.attempt { () throws(CacheError) in
                try reaper.finishTombstone(tombstone, of: .key(key), in: directory)
            }
        }
        do throws(CacheError) {
            try deleteFiles(of: key, entry, obsolete, in: directory)
            if !obsolete.isEmpty { index.withShard(of: key) { $0.forgetObsolete(obsolete) } }
        } catch {
            if number == nil { throw error }
            // It is removed all the same, and deleted later.
            reporter.report(error, of: key)
            if let entry { index.withShard(of: key) { $0.markObsolete(entry.file, of: key) } }
        }
        if settings.isPowerSafe {
            try translating("sync the directory", at: path) { () throws(Errno) in try directory.syncNames() }
        }
        try info.wait(for: ticket)
        return entry
    }

    /// Tells other processes of the removal of a key that has no entry: a fetch of theirs must not store what it has
    /// found before.
    private func tellOthers(ofRemoved key: Key) throws(CacheError) {
        if !disk.isAlone { _ = try info.commitRemoval(.remove(key: key, number: 1)) {} }
    }

    /// Deletes the files of a key, the oldest first.
    private func deleteFiles(
        of key: Key, _ entry: IndexEntry?, _ obsolete: [Shard.ObsoleteFile], in directory: StoreDirectory
    ) throws(CacheError) {
        for file in obsolete { try delete(file.file, of: key, in: directory) }
        if let entry { try delete(entry.file, of: key, in: directory) }
    }

    private func delete(_ file: FileID, of key: Key, in directory: StoreDirectory) throws(CacheError) {
        do throws(Errno) {
            try directory.delete(file, ofKey: key.hash, isPowerSafe: settings.isPowerSafe)
        } catch {
            throw CacheError(error, doing: "remove an entry", path: directory.path(of: file))
        }
    }

    /// Removes every entry in a scope. O(1) in system calls; entries and files are removed in the background.
    func removeAll(of scope: ClearScope, progress: Clearer.Progress?) throws(CacheError) {
        let summary = try retryingReopened(nil) { () throws(CacheError) in
            if scope == .everything {
                if let summary = try clearer.replaceEverything() { return summary }
                // A namespace may only be in files that have not been read.
                recovery.awaitScan()
                return try clearer.clearEveryNamespace()
            }
            return try recovery.retryingAfterScan { () throws(CacheError) in try clearer.clear(scope) }
        }
        reporter.report(CacheEvent(.cleared, of: scope, count: summary.count)) { $0.removals += summary.count }
        let total: Int? = if case .tag = scope { nil } else { summary.count }
        if summary.files == .trashed {
            trash.emptyInBackground(progress: progress)
        } else {
            clearer.removeClearedInBackground(total: total, progress)
            if summary.files == .obsolete { reaper.deleteAllInBackground() }
        }
        guard let failure = summary.failure else { return }
        reporter.report(failure)
        throw failure
    }
}
