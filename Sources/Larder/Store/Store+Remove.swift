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
        var (entry, obsolete) = index.withShard(of: key) { shard in
            (shard.table.entry(key), shard.debts.files(of: key))
        }
        var tombstone: UInt64?
        // The entry that is removed, if a later change has replaced it meanwhile.
        var replaced: IndexEntry?
        if !mayBeUnknown, disk.hasLeftFiles {
            tombstone = placeTombstoneOverLeftFiles(of: key, in: directory)
            // A change with a lower number may have been published meanwhile. One with a higher number comes after
            // this.
            if let tombstone {
                let before = entry
                (entry, obsolete) = index.withShard(of: key) { ($0.table.entry(key), $0.debts.files(of: key)) }
                if let found = entry, found.file >= tombstone { (entry, replaced) = (nil, before) }
            }
        }
        if entry == nil, obsolete.isEmpty, tombstone == nil {
            // Nothing of the key was stored after its tombstone. That of a killed session may not be on stable storage.
            if !mayBeUnknown || !settings.isPowerSafe && reaper.hasTombstone(of: key) {
                index.invalidate(key)
                try tellOthers(ofRemoved: key)
                try reaper.syncDeletions(of: key, in: directory)
                return nil
            }
        }
        try info.removeShutdownMarker()
        if mayBeUnknown {
            tombstone = try reaper.placeTombstone(of: .key(key), in: directory, isAlone: !disk.isShared)
        }
        if tombstone != nil, reconciler.hasTooManyTombstones { reconciler.boundTombstonesInBackground() }
        if disk.isShared {
            return try removeBesideOthers(key, entry, obsolete, tombstone, in: directory) ?? replaced
        }
        do throws(CacheError) {
            try reaper.delete(obsolete, entry?.file, of: key, in: directory)
        } catch {
            // The value stays, even after the next opening.
            if let tombstone { reaper.takeBackTombstone(tombstone, in: directory) }
            throw error
        }
        let number = if let tombstone { tombstone } else { try info.takeNumber(.key(key)) }
        let ticket = info.commitBestEffort(.remove(key: key, number: number)) {
            index.change(key, .removed) { _ = $0.remove(key, below: number) }
        }
        if settings.isPowerSafe {
            try translating("sync the directory", at: path) { () throws(Errno) in try directory.syncNames() }
        }
        try info.wait(for: ticket)
        return entry
    }

    private static let mostOverLeftFiles = 1024

    /// A dead process may have left a file of a key that it was removing or storing when it was killed, also a newer one
    /// than that of the entry. Returns the tombstone that covers the file until it is deleted; nil where it cannot be
    /// placed.
    private func placeTombstoneOverLeftFiles(of key: Key, in directory: StoreDirectory) -> UInt64? {
        // Where a stopped process keeps others from cleaning, that is all that can be done.
        if reaper.tombstoneCount > Self.mostOverLeftFiles { return nil }
        guard let membership = disk.others.object?.membership, (try? info.removeShutdownMarker()) != nil,
            let number = try? reaper.placeTombstone(of: .key(key), in: directory, isAlone: false)
        else { return nil }
        // It would cover a change that is under way with a lower number, and that this call has not seen.
        if membership.awaitChanges(below: number, stripe: key.stripe, .round(0)), disk.follow() { return number }
        reaper.takeBackTombstone(number, in: directory)
        return nil
    }

    /// The same in a shared directory: the record first, or another process would miss the value while a third one
    /// still returns it from memory.
    ///
    /// Without a tombstone the removal has no number of its own: one that was taken now would cover a value that
    /// another process is storing, and that this call has not seen.
    private func removeBesideOthers(
        _ key: Key, _ entry: IndexEntry?, _ obsolete: [Debts.File], _ tombstone: UInt64?,
        in directory: StoreDirectory
    ) throws(CacheError) -> IndexEntry? {
        info.beginRemoving()
        defer { info.endRemoving() }
        // A process that joins later takes higher numbers.
        let isAlone = disk.isAlone
        let number = tombstone ?? entry.map { $0.file.number + 1 }
        let ticket: CommitQueue.Ticket?
        do throws(CacheError) {
            if let number {
                ticket = try info.commitRemoval(.remove(key: key, number: number)) { () throws(CacheError) in
                    if let tombstone { try reaper.finishTombstone(tombstone, of: .key(key), in: directory) }
                    try reaper.delete(obsolete, entry?.file, of: key, in: directory)
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
            try reaper.delete(obsolete, entry?.file, of: key, in: directory)
        } catch {
            if number == nil { throw error }
            // It is removed all the same, and deleted later.
            reporter.report(error, of: key)
            if let entry { index.withShard(of: key) { $0.markObsolete(entry.file, of: key, isLast: true) } }
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
