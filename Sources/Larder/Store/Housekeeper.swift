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
    private let sweepTimer = OwnedTimer()

    init(
        _ context: StoreContext, _ info: CommitQueue, _ frozen: ManifestWriter, _ reaper: FileReaper,
        _ expirer: Expirer, _ sweeper: Sweeper, _ evictor: Evictor, _ reconciler: Reconciler
    ) {
        self.context = context
        self.info = info
        self.frozen = frozen
        self.reaper = reaper
        self.expirer = expirer
        self.sweeper = sweeper
        self.evictor = evictor
        self.reconciler = reconciler
        info.saveDue.install { [weak self] in self?.saveInBackground() }
        evictor.willEvict.install { [weak reconciler] in reconciler?.boundTombstones() }
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
        _ = sweeper.removeExpired(at: clock.now)
        sweeper.saveUses(isClosing: false)
        reaper.deleteAllInBackground()
        evictor.enforceInBackground()
    }

    private func saveInBackground() {
        frozen.async { [weak self] in
            guard let self else { return }
            info.noteScheduledSave()
            reconciler.boundTombstonesInBackground()
            reaper.deleteAllInBackground()
            _ = reporter.attempt { () throws(CacheError) in try saveOnQueue(always: false) }
        }
    }

    /// Saves the manifest if that is cheap relative to the changes, or with `always` if there are any changes. Then
    /// requests the deletion of tombstones that were waiting for a manifest.
    func save(always: Bool) throws(CacheError) {
        try frozen.run { () throws(CacheError) in try saveOnQueue(always: always) }
    }

    private func saveOnQueue(always: Bool) throws(CacheError) {
        // The next opening would trust a manifest written during the scan, and not look for the files that are still
        // unknown. The reconciler requests a save when it has finished.
        if disk.isClosed || provisional.isReconciling { return }
        if index.takeUnrecorded() { info.demandSave() }
        try frozen.save(always: always)
        reaper.deleteAllInBackground()
    }

    /// Returns when the manifest is saved and all background work begun before is done.
    func flush() throws(CacheError) {
        maintenance.wait()
        reconciler.retry()
        expirer.applyInBackground(retrying: true)
        reaper.deleteAllInBackground()
        maintenance.wait()
        try save(always: true)
        maintenance.wait()
    }

    /// Finishes the work that the end of a session waits for, and saves. Returns an error instead of throwing it,
    /// because the session ends all the same.
    func finish() -> CacheError? {
        context.isEnding.set()
        maintenance.wait()
        reaper.deleteAllInBackground()
        maintenance.wait()
        sweeper.saveUses(isClosing: true)
        do {
            try save(always: false)
            maintenance.wait()
            return nil
        } catch {
            return error
        }
    }

    /// Runs `body` while neither queue runs a job.
    func alone(_ body: () throws(CacheError) -> Void) throws(CacheError) {
        try maintenance.alone { () throws(CacheError) in try frozen.run(body) }
    }
}
