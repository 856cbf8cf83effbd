import LarderFiles

/// Sweeps periodically, and saves a delay after the first change.
final class Housekeeper: StoreOwner {
    let context: StoreContext
    private let info: CommitQueue
    private let frozen: ManifestWriter
    private let reaper: FileReaper
    private let expirer: Expirer
    private let sweeper: Sweeper
    private let evictor: Evictor
    private let reconciler: Reconciler
    private let leftFiles: LeftFiles
    private let cleaner: SegmentCleaner
    private let sweepTimer = OwnedTimer()
    private let deletionTimer = OwnedTimer()
    /// The delay after which obsolete files are deleted next; nil: nobody waits for that.
    private let deletionDelay = Lock<Duration?>(nil)

    init(
        _ context: StoreContext, _ info: CommitQueue, _ frozen: ManifestWriter, _ reaper: FileReaper,
        _ expirer: Expirer, _ sweeper: Sweeper, _ evictor: Evictor, _ reconciler: Reconciler, _ cleaner: SegmentCleaner
    ) {
        self.context = context
        self.info = info
        self.frozen = frozen
        self.reaper = reaper
        self.expirer = expirer
        self.sweeper = sweeper
        self.evictor = evictor
        self.reconciler = reconciler
        self.cleaner = cleaner
        leftFiles = evictor.leftFiles
        info.saveDue.install { [weak self] in self?.saveInBackground() }
        evictor.willEvict.install { [weak reconciler] in reconciler?.boundTombstones() }
        reaper.hidesMany.install { [weak leftFiles] in leftFiles?.deleteForRoomInBackground() }
        reaper.othersWait.install { [weak self] in self?.deleteSoon(after: Self.patience) }
        reaper.othersOwe.install { [weak self] in self?.deleteSoon(after: Self.retryDelay) }
        reconciler.mustSave.install { [weak self] in self?.saveForOthers() }
    }

    /// How long others may have to set files aside because of a few that this process has to delete.
    private static let patience = Duration.milliseconds(100)
    /// Until a process looks again whether others have deleted what it waits for.
    private static let retryDelay = Duration.seconds(10)

    private func deleteSoon(after delay: Duration) {
        deletionDelay.withLock { known in
            if let known, known <= delay { return }
            known = delay
            let timer = clock.schedule(after: delay) { [weak self] in
                guard let self else { return }
                deletionDelay.withLock { $0 = nil }
                reaper.deleteAllInBackground()
            }
            deletionTimer.set(timer)
        }
    }

    /// Sweeps after each interval while the store is alive.
    func scheduleSweep() {
        guard let sweepInterval = settings.sweepInterval else { return }
        let timer = clock.schedule(after: max(sweepInterval, .milliseconds(1))) { [weak self] in
            guard let self else { return }
            maintenance.begin(.sweep) { [weak self] in
                self?.sweep()
                return false
            }
            scheduleSweep()
        }
        sweepTimer.set(timer)
    }

    private func sweep() {
        reconciler.retry()
        reconciler.boundTombstones()
        _ = expirer.applyAll(retrying: true)
        let others = disk.others.object
        // First: others must know what this process keeps alive.
        sweeper.saveUses(isClosing: false)
        others.membership.buryTheDead()
        if others.follow() {
            _ = others.membership.perform(.sweep) { sweeper.removeExpired(at: clock.now) }
        } else {
            reconciler.distrustIndex()
        }
        leftFiles.deleteInBackground()
        reaper.deleteAllInBackground()
        _ = reporter.attempt { () throws(CacheError) in try cleaner.closeDeleted() }
        cleaner.cleanInBackground()
        evictor.enforceInBackground()
    }

    private func saveInBackground() {
        frozen.async { [weak self] in
            guard let self else { return }
            info.noteScheduledSave()
            reconciler.boundTombstonesInBackground()
            leftFiles.deleteInBackground()
            reaper.deleteAllInBackground()
            _ = reporter.attempt { () throws(CacheError) in try saveOnQueue(always: false) }
        }
    }

    /// Lets other processes join after a save. If it fails they do not read what is left of the index, and say so.
    private func saveForOthers() {
        frozen.async { [weak self] in
            guard let self else { return }
            _ = reporter.attempt { () throws(CacheError) in try saveOnQueue(always: true) }
            disk.others.object.membership.letJoin()
        }
    }

    /// Saves the manifest if that is cheap relative to the changes, or with `always` if there are any changes. Then
    /// requests the deletion of tombstones that were waiting for a manifest. On a full disk, a cache with limits
    /// evicts values for it.
    func save(always: Bool) throws(CacheError) {
        // Once: each attempt may begin a journal.
        try evictor.makingRoom(for: index.totals.count * Self.recordSize, atMost: 1) { () throws(CacheError) in
            try frozen.run { () throws(CacheError) in try saveOnQueue(always: always) }
        }
    }

    /// About the size of a record in the manifest. Bytes.
    private static let recordSize = 128

    private func saveOnQueue(always: Bool) throws(CacheError) {
        // The next opening would trust a manifest written during the scan, and not look for the files that are still
        // unknown. The reconciler requests a save when it has finished.
        if disk.isClosed || provisional.isReconciling || context.fileSystem.isReadOnly { return }
        if index.takeUnrecorded() { info.demandSave() }
        try frozen.save(always: always)
        reaper.deleteAllInBackground()
        cleaner.cleanInBackground()
    }

    /// Returns when the manifest is saved and all background work begun before is done.
    func flush() throws(CacheError) {
        maintenance.wait()
        // Another process may ask for a save, or have replaced the index: groups that lines wait for say which files are
        // obsolete.
        try disk.followOrThrow()
        if index.mayOweFiles { index.loadChanged() }
        reconciler.retry()
        expirer.applyInBackground(retrying: true)
        disk.others.object.membership.buryTheDead()
        leftFiles.deleteInBackground()
        reaper.deleteAllInBackground()
        maintenance.wait()
        cleaner.finish()
        try save(always: true)
        // A dead process may have left its own, without a record that needs a save.
        if leavesOtherJournals {
            info.demandSave()
            _ = reporter.attempt { () throws(CacheError) in try save(always: true) }
        }
        cleaner.finish()
        maintenance.wait()
    }

    /// True when the last process would leave more than one journal.
    private var leavesOtherJournals: Bool {
        disk.isAlone && info.hasOtherJournals == true
    }

    /// Finishes the work that the end of a session waits for, and saves. Returns an error instead of throwing it,
    /// because the session ends all the same.
    func finish() -> CacheError? {
        deleteLeftFiles()
        context.isEnding.set()
        // The next opening repairs the index.
        if !disk.follow() { reconciler.distrustIndex() }
        maintenance.wait()
        reaper.deleteAllInBackground()
        maintenance.wait()
        sweeper.saveUses(isClosing: true)
        evictor.saveRegrets()
        if leavesOtherJournals { info.demandSave() }
        do {
            try save(always: false)
            maintenance.wait()
            return nil
        } catch {
            // Where the directory was deleted there is nothing to save.
            let isDeleted = error.errno == Errno.noEntry.rawValue && !disk.runAnyway { $0?.isWhole ?? false }
            if !isDeleted { return error }
            reporter.report(error)
            return nil
        }
    }

    /// Deletes what dead processes have left. The next opening does not list the files after a clean close, and they
    /// would count if the index were lost later. O(files and entries) after a death.
    func deleteLeftFiles() {
        let others = disk.others.object
        others.membership.buryTheDead()
        guard others.page.hasUncleanedDeaths else { return }
        leftFiles.deleteInBackground()
        maintenance.wait()
    }

    /// Runs `body` while neither queue runs a job.
    func alone(_ body: () throws(CacheError) -> Void) throws(CacheError) {
        try maintenance.alone { () throws(CacheError) in try frozen.run(body) }
    }
}
