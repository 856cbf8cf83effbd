import LarderFiles

extension Store {
    /// Removes an entry: the record first, or another process would miss the value while a third one still returns it from
    /// memory; then the files, the oldest first. Returns whether there was a fresh one.
    ///
    /// The journal has some room for the record on a full disk. Where it cannot be written all the same and nobody else is
    /// there, the files are deleted first, as they tell enough. While older files of the key may be unknown, a tombstone
    /// keeps them dead.
    ///
    /// `afterwards`: called once it is removed, before anybody else can change the key.
    @discardableResult
    func remove(
        _ key: Key, at now: Timestamp, permit: (any WritePermit)? = nil, afterwards: () -> Void = {}
    ) throws(CacheError) -> Bool {
        let removed = try retryingReopened(key) { () throws(CacheError) in
            try recovery.retryingAfterScan { () throws(CacheError) in try removeOnce(key, at: now, permit, afterwards) }
        }
        guard let wasFresh = removed else { return false }
        if let event = permit.map({ $0.event }) ?? .removed {
            reporter.report(CacheEvent(event, of: key)) { if event == .removed { $0.removals += 1 } }
        }
        return wasFresh
    }

    private func removeOnce(
        _ key: Key, at now: Timestamp, _ permit: (any WritePermit)?, _ afterwards: () -> Void
    ) throws(CacheError) -> Bool? {
        try disk.run(changing: key) { directory throws(CacheError) in
            if let permit, !permit.isValid(for: key) { return nil }
            // Afterwards: a fetch that begins earlier may still receive the removed value.
            defer { observer.didChange(key, with: permit) }
            index.load(key)
            let isBelieved =
                !provisional.mayLackFiles
                || recovery.settle(key, at: now, checkingFile: true, in: directory, holdsStripe: true)
            let wasFresh = try removeFiles(of: key, at: now, in: directory)
            afterwards()
            return isBelieved ? wasFresh : nil
        }
    }

    /// Returns whether the entry that was removed was fresh; nil when there was none.
    func removeFiles(
        of key: Key, at now: Timestamp, in directory: StoreDirectory
    ) throws(CacheError) -> Bool? {
        func find() -> (last: (id: FileID, isFresh: Bool)?, obsolete: [Debts.File]) {
            index.withShard(of: key) { ($0.table.file(key, at: now), $0.debts.files(of: key)) }
        }
        let mayBeUnknown = provisional.mayHaveUnread
        var (last, obsolete) = find()
        var wasFresh = last?.isFresh
        var tombstone: UInt64?
        if !mayBeUnknown, disk.hasLeftFiles {
            tombstone = placeTombstoneOverLeftFiles(of: key, in: directory)
            // A change with a lower number may have been published meanwhile. One with a higher number comes after
            // this.
            if let tombstone {
                (last, obsolete) = find()
                if let found = last, found.id >= tombstone { last = nil } else { wasFresh = last?.isFresh }
            }
        }
        if last == nil, obsolete.isEmpty, tombstone == nil {
            // Nothing of the key was stored after its tombstone. That of a killed session may not be on stable storage.
            if !mayBeUnknown || !settings.isPowerSafe && reaper.hasTombstone(of: key) {
                try tellOthers(ofRemoved: key)
                index.invalidate(key)
                try reaper.syncDeletions(of: key, in: directory)
                return nil
            }
        }
        try info.removeShutdownMarker()
        if mayBeUnknown {
            tombstone = try reaper.placeTombstone(of: .key(key), in: directory)
        }
        if tombstone != nil, reconciler.hasTooManyTombstones { reconciler.boundTombstonesInBackground() }
        try remove(key, last?.id, obsolete, tombstone, in: directory)
        return wasFresh
    }

    private static let mostOverLeftFiles = 1024

    /// A dead process may have left a file of a key that it was removing or storing when it was killed, also a newer one
    /// than that of the entry. Returns the tombstone that covers the file until it is deleted; nil where it cannot be
    /// placed.
    private func placeTombstoneOverLeftFiles(of key: Key, in directory: StoreDirectory) -> UInt64? {
        // Where a stopped process keeps others from cleaning, that is all that can be done.
        if reaper.tombstoneCount > Self.mostOverLeftFiles { return nil }
        guard (try? info.removeShutdownMarker()) != nil,
            let number = try? reaper.placeTombstone(of: .key(key), in: directory)
        else { return nil }
        // It would cover a change that is under way with a lower number, and that this call has not seen.
        let membership = disk.others.object.membership
        if membership.awaitChanges(below: number, stripe: key.stripe, .round(0)), disk.follow() { return number }
        reaper.takeBackTombstone(number, in: directory)
        return nil
    }

    /// The same for what is known of the key.
    ///
    /// Without a tombstone the removal has no number of its own: one that was taken now would cover a value that
    /// another process is storing, and that this call has not seen.
    private func remove(
        _ key: Key, _ last: FileID?, _ obsolete: [Debts.File], _ tombstone: UInt64?, in directory: StoreDirectory
    ) throws(CacheError) {
        info.beginRemoving()
        defer { info.endRemoving() }
        // A process that joins later takes higher numbers.
        let isAlone = disk.isAlone
        let number = tombstone ?? last.map { $0.number + 1 }
        let ticket: CommitQueue.Ticket?
        do throws(CacheError) {
            if let number {
                ticket = try info.commit(
                    Changes(.remove(key: key, number: number)), orElse: .publishingAlone
                ) { () throws(CacheError) in
                    if let tombstone { try reaper.finishTombstone(tombstone, of: .key(key), in: directory) }
                    try reaper.delete(obsolete, last, of: key, in: directory)
                } publish: {
                    index.change(key, .removed) { _ = $0.remove(key, below: number, mayComeLater: !isAlone) }
                }
            } else {
                ticket = nil
                try tellOthers(ofRemoved: key)
                index.invalidate(key)
            }
        } catch {
            if let tombstone { reaper.takeBackTombstone(tombstone, in: directory) }
            throw error
        }
        // From here on it is removed, come what may.
        var failure: CacheError?
        do throws(CacheError) {
            if let tombstone { try reaper.finishTombstone(tombstone, of: .key(key), in: directory) }
        } catch {
            failure = .uncovered(error)
        }
        do throws(CacheError) {
            try reaper.delete(obsolete, last, of: key, in: directory)
        } catch {
            // It is deleted later.
            reporter.report(error, of: key)
            if let last { index.withShard(of: key) { $0.markObsolete(last, of: key, isLast: true) } }
            if tombstone == nil, let newest = last ?? obsolete.map(\.file).max() {
                failure = reaper.cover(newest, of: key, in: directory) ? nil : .uncovered(error)
            }
        }
        try info.wait(for: ticket)
        if settings.isPowerSafe {
            try translating("sync the directory", at: path) { () throws(Errno) in try directory.syncNames() }
        }
        if let failure { throw failure }
    }

    /// Tells other processes of the removal of a key that has no entry: a fetch of theirs must not store what it has
    /// found before.
    private func tellOthers(ofRemoved key: Key) throws(CacheError) {
        if !disk.isAlone { _ = try info.commit(Changes(.remove(key: key, number: 1)), orElse: .publishingAlone) {} }
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
