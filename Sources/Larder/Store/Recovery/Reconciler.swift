import LarderFiles

/// The only repair. After an unclean close, or without an index, it makes entries and files agree in the background: it
/// *adopts* a file that no line of the index mentions, *removes* an entry without a file, and *deletes* a file that is
/// superseded or no entry.
final class Reconciler: StoreOwner {
    private static let steps = 64

    let context: StoreContext
    let info: CommitQueue
    let reaper: FileReaper
    private let expirer: Expirer
    let evictor: Evictor
    private let sweeper: Sweeper
    let recovery: Recovery
    /// Called to save, and to let other processes join then.
    let mustSave = Hook()
    /// The comparison that is under way.
    private let leftoverSearch = Lock<LeftoverSearch?>(nil)

    struct Verification {
        /// Counts the indexes that have been verified: a store may move to another directory meanwhile.
        var run = 0
        /// The next group; nil when all are verified.
        var next: Int?
    }

    /// How far the groups that dead processes have left are verified.
    let verification = Lock(Verification())

    init(
        _ context: StoreContext, _ info: CommitQueue, _ reaper: FileReaper, _ expirer: Expirer, _ evictor: Evictor,
        _ sweeper: Sweeper, _ recovery: Recovery
    ) {
        self.context = context
        self.info = info
        self.reaper = reaper
        self.expirer = expirer
        self.evictor = evictor
        self.sweeper = sweeper
        self.recovery = recovery
    }

    /// Reconciles files and index in the background, if there is anything to reconcile.
    func begin() {
        if provisional.isSettled { return }
        let isReconciled = Flag()
        maintenance.begin(.reconcile) { [weak self] in
            guard let self else { return false }
            let hasMore = reconcile(isReconciled)
            if !hasMore { finishJoining() }
            return hasMore
        }
    }

    /// Lets other processes join once entries and files agree, and the index on disk says so.
    func finishJoining() {
        guard verification.withLock({ $0.next == nil }), provisional.isSettled,
            case let membership = disk.others.object.membership, membership.keepsOut
        else { return }
        if info.mustSave { return mustSave() }
        membership.letJoin()
    }

    /// Does a step; false when there is nothing left to do.
    private func reconcile(_ isReconciled: Flag) -> Bool {
        if provisional.distrusted != nil { return listFiles() }
        if isReconciled.isSet || !provisional.hasSteps {
            let hasMore = leftoverSearch.withLock { findLeftovers(&$0) }
            // The findings are reconciled next.
            if provisional.isReconciling { isReconciled.set(false) }
            return hasMore
        }
        switch try? disk.run({ directory in reconcileSome(in: directory) }) {
        case true?: return true
        case false?: beginDeferredWork()
        case nil: return false
        }
        isReconciled.set()
        return provisional.hasLeftovers
    }

    /// Examines the few files of changes that were running when the last session was killed, before the first answer.
    func examineSuspects() {
        guard provisional.hasLeftovers, provisional.hasSteps else { return }
        // Alone: it may find damage, and the background work that begins then examines files as well.
        maintenance.alone {
            var hasMore: Bool? = true
            while hasMore == true, provisional.distrusted == nil {
                hasMore = try? disk.run { directory in reconcileSome(in: directory) }
            }
        }
        // The next opening may not find these files by their numbers.
        if !provisional.isConsistent { info.markUnsettled() }
    }

    /// Retries everything that could not be read; false when there is nothing.
    @discardableResult
    func retry() -> Bool {
        if provisional.distrusted != nil {
            begin()
            return true
        }
        // The comparison is over if the files could not be listed.
        if provisional.hasLeftovers { begin() }
        guard provisional.isSet, provisional.update({ $0.retry() }) else { return false }
        begin()
        return true
    }

    /// Returns false when every file has been checked.
    private func reconcileSome(in directory: StoreDirectory) -> Bool {
        for _ in 0..<Self.steps {
            // Damage was found meanwhile: the files are listed first.
            if provisional.distrusted != nil { return true }
            switch provisional.update({ $0.next() }) {
            case .record(let tombstone):
                let record = tombstone.removal.record(number: tombstone.number)
                let ticket = info.commitIfPossible(Changes(record)) {}
                _ = reporter.attempt { () throws(CacheError) in try info.wait(for: ticket) }
            case .examine(let files):
                examine(files, in: directory)
                return true
            case .verify(let entry):
                verify(entry, in: directory)
            case .readTombstone(let number):
                readTombstone(number, in: directory)
            case .resolve(let file):
                resolve(aside: file, in: directory)
            case .delete(let file, let key):
                delete(file, of: key, in: directory)
            case .check(let entry):
                check(entry, in: directory)
            case .finish:
                noteScanned()
                return false
            }
        }
        return true
    }

    /// Notes that every file has been checked. Runs in the same block of the disk queue as the step that found this
    /// out: a directory opened in between would have its own reconciliation.
    private func noteScanned() {
        // Files were adopted newest first; nothing is evicted before they are in order.
        if reporter.statistics.adoptions > 0 { index.orderAnew(at: clock.now) }
        let wasDoubtful = provisional.isDoubtful
        if !provisional.noteScanned(), !provisional.hasLeftovers { forgetTombstones() }
        // The saved index says that it cannot be trusted.
        if wasDoubtful, !provisional.isDoubtful { info.demandSave() }
    }

    /// Forgets the tombstones in memory, unless damage is found meanwhile: new ones are needed then.
    func forgetTombstones() {
        index.forEachShard { if provisional.distrusted == nil { $0.forgetTombstones() } }
    }

    /// Begins the work that had to wait.
    private func beginDeferredWork() {
        expirer.applyInBackground(retrying: true)
        _ = sweeper.removeExpired(at: clock.now)
        reaper.deleteAllInBackground()
        reaper.deleteNeedlessTombstones()
        // Not while some were unknown.
        evictor.leftFiles.deleteInBackground()
        evictor.enforceInBackground()
        info.scheduleSaveIfDirty()
    }
}

/// The steps, each in a block of the disk queue.
extension Reconciler {
    /// Adopts the life of an entry from its file. If the footer is damaged, the payload may still be intact, and the
    /// index has everything else.
    private func verify(_ entry: Reconciliation.Entry, in directory: StoreDirectory) {
        let (key, file) = entry
        do {
            switch try directory.footer(of: file) {
            case .last?:
                removeLost(entry)
                provisional.update { $0.addOrphan(file, of: key) }
            case .valid(let found)?:
                if let known = index.entry(key), known.file == file, !found.isEntry(known, of: key) {
                    // The line describes another file with the same number: the index comes from another directory or
                    // an old copy.
                    removeLost(entry)
                    consider([found], in: directory)
                } else {
                    disk.withStripe(key.shard) { recovery.takeOverLife(of: found, key) }
                }
            case .invalid?, .longer?, .newer?, nil: break
            }
        } catch .noEntry {
            removeLost(entry)
        } catch {
            provisional.update { $0.couldNotVerify(entry) }
            let path = directory.path(of: file)
            return reporter.report(CacheError(error, doing: "check an entry", path: path), of: key)
        }
        provisional.update { $0.verified(entry) }
    }

    private func delete(_ file: FileID, of key: Key?, in directory: StoreDirectory) {
        do {
            if let key, file.place.isInSegment { try keepLife(of: file, key, in: directory) }
            try directory.delete(file, ofKey: key?.hash, isPowerSafe: settings.isPowerSafe)
            reporter.count { $0.orphansDeleted += 1 }
        } catch {
            // No newer file of the key may be deleted before this one: with the index lost, it would be adopted.
            if let key = key ?? knownKey(of: file, in: directory) {
                index.withShard(of: key) { $0.markObsolete(file, of: key, isLast: true) }
            } else {
                index.withShard(at: 0) { $0.markObsolete(file) }
            }
            reporter.report(CacheError(error, doing: "delete an orphan", path: directory.path(of: file)))
        }
    }

    /// Writes the life of a value to the copy that stays: only this one, which is about to be deleted, may have it.
    private func keepLife(of file: FileID, _ key: Key, in directory: StoreDirectory) throws(Errno) {
        try disk.withStripe(key.shard) { () throws(Errno) in
            guard let kept = index.entry(key), kept.file.number == file.number, kept.file != file else { return }
            do throws(Errno) {
                _ = try directory.writeSlot(kept.life, kept.change, of: kept, isPowerSafe: settings.isPowerSafe)
            } catch {
                if error != .noEntry { throw error }
            }
        }
    }

    private func knownKey(of file: FileID, in directory: StoreDirectory) -> Key? {
        (try? directory.footer(of: file))??.entry?.key
    }

    /// Removes an entry whose file was not in the directory, if it is still missing.
    private func check(_ entry: Reconciliation.Entry, in directory: StoreDirectory) {
        guard let known = index.entry(entry.key), known.file == entry.file else { return }
        do {
            try directory.requireFile(of: known)
        } catch .noEntry {
            removeLost(entry)
        } catch {
            // The entry stays; the next read finds out.
            let path = directory.path(of: entry.file)
            reporter.report(CacheError(error, doing: "find an entry's file", path: path), of: entry.key)
        }
    }

    private func removeLost(_ entry: Reconciliation.Entry) {
        let (key, file) = entry
        let isRemoved = disk.withStripe(key.shard) {
            guard index.entry(key)?.file == file else { return false }
            let number = file.number + 1
            info.commitIfPossible(Changes(.remove(key: key, number: number))) {
                index.change(key, .evictedOnDisk) { _ = $0.remove(key, below: number) }
            }
            return true
        }
        if isRemoved { reporter.report(CacheEvent(.lost, of: key)) { $0.losses += 1 } }
    }
}

/// Files and tombstones that could not be read.
extension Reconciler {
    /// Reads a tombstone that could not be read before, and applies it.
    private func readTombstone(_ number: UInt64, in directory: StoreDirectory) {
        let name = DirectoryLayout.tombstoneNumber(number)
        let found: EntryFile.Tombstone?
        do {
            found = try directory.tombstone(number)
        } catch .noEntry {
            found = nil
        } catch {
            return reporter.report(CacheError(error, doing: "read a tombstone", path: directory.path(of: FileID(name))))
        }
        switch found {
        case .newer: return
        case .valid(let removal):
            remove(removal, below: number)
            reaper.noteTombstone(number, of: removal)
        case .invalid: provisional.update { $0.addOrphan(FileID(name), of: nil) }
        case nil: break
        }
        provisional.update { $0.readTombstone(number) }
    }

    private func remove(_ removal: EntryFile.Removal, below number: UInt64) {
        switch removal {
        case .key(let key):
            // An older file of the key that is found later is dead.
            index.load(key)
            let known = index.withShard(of: key) { shard in
                if shard.table.entry(key) == nil { shard.remove(key, below: number) }
                return shard.table.entry(key)
            }
            if let known, known.file < number { removeCovered(known) }
            return
        case .scope(let scope): provisional.update { $0.clear(scope, below: number) }
        case .expiry(let scope, let time):
            let mark = ExpiryMarks.Mark(number: number, time: time)
            provisional.update { $0.expire(scope, mark) }
            // A mark of an earlier session: it covers only what has a lower number.
            info.commitIfPossible(Changes(removal.record(number: number))) { index.expire(scope, mark) }
            return
        }
        index.loadAll()
        for shard in 0..<Index.shardCount {
            for entry in index.snapshot(shard) where entry.file < number && removal.covers(entry) {
                removeCovered(entry)
            }
        }
    }

    /// Removes an entry that a tombstone covers, unless there is another one by now.
    private func removeCovered(_ entry: IndexEntry) {
        let key = entry.key
        disk.withStripe(key.shard) {
            _ = info.commitIfPossible(Changes(removing: [entry])) {
                index.change(key, .cleared) { shard in
                    guard shard.table.entry(key)?.file == entry.file else { return }
                    shard.remove(key, below: entry.file.number + 1)
                    // An orphan rather than obsolete: it goes before the file that covers it.
                    provisional.update { $0.addOrphan(entry.file, of: key) }
                }
            }
        }
    }

    /// Retries a file that was set aside: if it is readable by now, it is dead, and so are the older files of its key.
    private func resolve(aside file: UInt64, in directory: StoreDirectory) {
        let name = DirectoryLayout.asideNumber(file)
        do {
            switch try directory.footer(of: FileID(file), in: name) {
            case .valid(let found), .last(let found): removeAll(of: found.key, through: file)
            case .invalid, .longer:
                // It may have given up its payload, or be a segment.
                if case .valid(.key(let key))? = try directory.tombstone(file + 1, in: name) {
                    removeAll(of: key, through: file)
                    break
                }
                try directory.segments.forEachEntry(setAside: name) { remove(.key($0.key), below: $0.file.number + 1) }
                provisional.update { $0.addOrphan(FileID(name), of: nil) }
            case .newer, nil: return
            }
        } catch .noEntry {
        } catch {
            return
        }
        provisional.update { $0.resolved(aside: file) }
    }

    /// Removes what a file that was set aside covers. It is no orphan: it goes when nobody has an older file that is
    /// not read or cannot be deleted.
    private func removeAll(of key: Key, through file: UInt64) {
        remove(.key(key), below: file + 1)
        let last = Debts.File.last(FileID(file), of: key)
        index.withShard(of: key) { $0.debts.settle([], hiding: [last]) }
    }

    var hasTooManyTombstones: Bool {
        max(index.tombstoneCount, reaper.tombstoneCount) > settings.mostTombstones
    }

    func boundTombstonesInBackground() {
        maintenance.begin(.bound) { [weak self] in
            self?.boundTombstones()
            return false
        }
    }

    /// Bounds the tombstones that are kept because of unreadable files: beyond the bound, an unreadable file is set
    /// aside. It is never adopted, and entries below its number are not returned. Call it on the maintenance queue.
    func boundTombstones() {
        guard provisional.isSet, !provisional.isReconciling, hasTooManyTombstones else { return }
        _ = reporter.attempt { () throws(CacheError) in
            try disk.run { directory in
                for file in provisional.update({ $0.unreadable }).sorted() { setAside(file, in: directory) }
                if !provisional.update({ $0.hasUnread }) { noteScanned() }
            }
        }
        if !retry() { beginDeferredWork() }
    }

    private func setAside(_ file: FileID, in directory: StoreDirectory) {
        do {
            // A file that can be read by now is left to the examination.
            if file.place.isWholeSegment {
                var listing = SegmentTable.Listing()
                try directory.segments.list(file.place.segment, into: &listing)
            } else {
                _ = try directory.footer(of: file)
            }
        } catch .noEntry, .tooManyOpenFiles {
        } catch {
            let name = DirectoryLayout.asideNumber(file.number)
            let failure = CacheError(
                error, doing: "read a file while \(settings.mostTombstones) entries were removed; it is set aside",
                path: directory.path(of: FileID(name)))
            do {
                guard provisional.update({ $0.setAside(file) }) else { return }
                if file.place.isWholeSegment {
                    try directory.segments.setAside(file.place.segment, as: name)
                } else {
                    try directory.rename(file.number, to: name)
                }
                reporter.report(failure)
            } catch {
                // In this session it counts as set aside all the same.
                reporter.report(CacheError(error, doing: "set a file aside", path: directory.path(of: file)))
            }
        }
    }
}
