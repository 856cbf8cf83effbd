import Dispatch
import LarderFiles

extension DirectoryRegistry<Store> {
    /// Returns a handle on a directory and its store, which may already be open in this process.
    ///
    /// `defaultSize`: the limit of a first opener that does not ask for one; a later one then takes the limit in force.
    func open(
        path: String, settings: StoreSettings, defaultSize: Int?, fileSystem: any FileSystem, clock: any Clock,
        onEvent: EventCenter.Handler?
    ) throws(CacheError) -> (Store, Store.Handle) {
        let (root, identity) = try Store.openRoot(path, in: fileSystem, settings.durability)
        // A store whose directory was deleted moves to this one, and is then the store of this directory.
        for store in occupants(onDevice: identity.device) {
            // The paths first: a store of another directory is not worth waiting for.
            guard store.hasPath(to: identity), store.identity != identity else { continue }
            store.reopenIfDeleted(only: identity)
        }
        let fileSystem = try Opener.access(
            to: root, in: fileSystem, asOwner: settings.writesAsOwner, path: path)
        let location = Location(
            identity: identity, root: root, fileSystem: fileSystem, path: path, isShared: settings.isShared
        ) { () throws(CacheError) in
            try Opener.requireCache(root, in: fileSystem, path: path)
        }
        let now = clock.now
        var handle: Store.Handle?
        var found: LoadedStore.Found?
        var leftJournals = 0
        let store = try occupant(of: location) { store throws(CacheError) in
            var asked = settings
            if defaultSize != nil { asked.limits.size = store.limits.current.size }
            guard store.settingsInForce == asked else {
                throw CacheError(
                    code: .differentConfiguration, message: "The directory is already open with other settings.",
                    path: path)
            }
            // Before any other thread can close the store.
            handle = store.join(at: path, onEvent)
        } open: { lease, lock throws(CacheError) in
            let membership = try lock.membership(identity, path)
            let loaded = try Opener(
                fileSystem: lock.fileSystem, path: path, identity: identity, root: root, now: now,
                isPowerSafe: settings.isPowerSafe, mayLoadLater: settings.manifestFormat == .json,
                membership: membership
            ).load()
            found = loaded.found
            leftJournals = loaded.journals.generations.count - membership.page.alive.nonzeroBitCount
            let isOfDead = loaded.isOfDead
            var settings = settings
            if let defaultSize { settings.limits.size = defaultSize }
            let store = Store(loaded, clock: clock, settings: settings, defaultSize: defaultSize, membership)
            store.lease = lease
            handle = store.join(at: path, onEvent)
            store.reconciler.examineSuspects()
            // Before any other thread can see the store and wait for the scan.
            store.reconciler.begin()
            store.reconciler.finishJoining(verifying: isOfDead)
            return store
        }
        if let found {
            store.begin(found)
            store.housekeeper.scheduleSweep()
            if leftJournals > Store.mostLeftJournals || found.lacksRecords { store.foldJournals(found) }
        }
        return (store, handle!)
    }
}

/// Opening and closing.
extension Store {
    typealias Handle = HandleTable.Handle

    /// Adds a handle.
    fileprivate func join(at path: String, _ onEvent: EventCenter.Handler?) -> Handle {
        handles.join(at: path, onEvent, events)
    }

    /// Removes a handle; true for the last one.
    func leave(_ handle: Handle) -> Bool {
        handles.leave(handle, events)
    }

    fileprivate func hasPath(to identity: FileIdentity) -> Bool {
        handles.paths.contains { path in
            guard let directory = try? fileSystem.openDirectory(path: path, creation: .never) else { return false }
            return (try? fileSystem.status(of: directory).identity) == identity
        }
    }

    /// The open directory; nil once closed.
    fileprivate var identity: FileIdentity? { disk.runAnyway { $0?.identity } }

    /// Opens a directory; creates a missing one, unless no durability is given.
    static func openRoot(
        _ path: String, in fileSystem: any FileSystem, _ durability: Durability?
    ) throws(CacheError) -> (root: OwnedDescriptor, identity: FileIdentity) {
        do {
            let root = try fileSystem.openDirectory(
                path: path, creation: durability.map { $0 == .powerSafe ? .durable : .plain } ?? .never)
            let identity = try fileSystem.status(of: root).identity
            return (OwnedDescriptor(root), identity)
        } catch .notDirectory {
            throw CacheError(
                code: .notACache, message: "Not a directory.", path: path,
                errno: Errno.notDirectory.rawValue)
        } catch {
            throw CacheError(error, doing: "open the directory", path: path)
        }
    }

    /// Reports the findings of an opening, and starts the work in the background.
    func begin(_ found: LoadedStore.Found) {
        if found.expired > 0 {
            reporter.report(CacheEvent(.expired, count: found.expired)) { $0.expirations += found.expired }
        }
        for key in found.adopted { events.post(CacheEvent(.adopted, of: key)) }
        for failure in found.failures { reporter.report(failure) }
        reaper.deleteAllInBackground()
        if found.hasTrash { trash.emptyInBackground() }
        if let root = disk.runAnyway({ $0 })?.root { frozen.deleteInBackground(found.leftovers, in: root) }
        expirer.applyInBackground()
        if index.hasUnloaded.isSet { sweeper.removeUnloadedInBackground() }
        evictor.enforceInBackground()
    }

    /// More journals of earlier processes are folded into the manifest by an opening: programs that end before the
    /// first save, and do not close the cache, leave one each.
    fileprivate static let mostLeftJournals = 6

    /// Saves, which deletes the journals of processes that are dead, and then the files that they have left. O(files
    /// and entries).
    fileprivate func foldJournals(_ found: LoadedStore.Found) {
        let page = disk.others.object.page
        let (unrecorded, saved) = (page.unrecorded, page.savedGeneration)
        recovery.awaitScan()
        info.demandSave()
        _ = reporter.attempt { () throws(CacheError) in try housekeeper.save(always: true) }
        if found.lacksRecords, page.savedGeneration > saved { page.noteRecorded(unrecorded) }
        housekeeper.deleteLeftFiles()
    }

    /// Ends the session: from here on, reads miss and writes throw.
    ///
    /// Only closing the last handle ends it. `isLast` is called while no other handle can be opened.
    func close(isLast: () -> Bool) throws(CacheError) {
        var isCurrent = false
        while !isCurrent {
            guard let lease = disk.runAnyway({ _ in lease }) else { return }
            // The store may have moved and then has another gate, but it does not move while its gate is held.
            try lease.end {
                isCurrent = disk.runAnyway { _ in self.lease } === lease
                return isCurrent && isLast()
            } close: { () throws(CacheError) in
                try closeLast()
            }
        }
    }

    private func closeLast() throws(CacheError) {
        disk.runAlone { isClosing = true }
        copies.wait()
        let failure = housekeeper.finish()
        // No work may outlive the lock of the directory.
        try housekeeper.alone { () throws(CacheError) in
            try disk.runAlone { () throws(CacheError) in try endSession() }
        }
        if let failure { throw failure }
    }

    private func endSession() throws(CacheError) {
        guard let directory = disk.directory else { return }
        disk.replace(nil)
        directory.stopSegments()
        if index.hasDebts { disk.others.object.membership.owesFiles.set() }
        defer { disk.others.object.stop() }
        // First: a reader may be loading a group.
        let totals = index.forgetUnloaded()
        let isConsistent =
            !index.hasDebts && !reaper.hasTombstones && provisional.isSettled && !index.takeUnrecorded()
        try info.endSession(isConsistent: isConsistent, totals, directory)
    }
}

/// Work that a caller asks for.
extension Store {
    /// Removes expired entries. Returns their number.
    func removeExpired(at now: Timestamp) -> Int {
        // First: it may find damage.
        index.loadExpired(at: now)
        recovery.awaitScan()
        return expirer.applyAll(retrying: true) + sweeper.removeExpired(at: now)
    }

    func trim(_ limit: CacheLimit, _ need: Evictor.Need) {
        index.loadAll()
        recovery.awaitScan()
        evictor.trim(limit, need)
    }

    /// Bytes.
    func trim(toFreeSpace target: Int) {
        index.loadAll()
        recovery.awaitScan()
        evictor.trim(toFreeSpace: target)
    }

    /// The index, once every file has been found.
    var scannedIndex: Index {
        recovery.awaitScan()
        return index
    }

    /// The settings with which another handle must be opened.
    fileprivate var settingsInForce: StoreSettings {
        var settings = settings
        settings.limits = limits.current
        return settings
    }

    /// Replaces the limits, and enforces them in the background.
    func setLimits(_ limits: StoreSettings.Limits) {
        self.limits.set(limits)
        evictor.limitsChanged()
    }

    func verify(progress: Verifier.Progress?) throws(CacheError) -> VerificationReport {
        try Verifier(context: context, recovery: recovery).verify(progress: progress)
    }

    /// Counts and reports a failure.
    func report(_ error: CacheError, of key: Key? = nil) {
        reporter.report(error, of: key)
    }
}
