import Dispatch
import LarderFiles

extension Store {
    /// Returns the store of a directory, the one that is open in this process or a new one, and a handle on it.
    static func open(
        path: String, settings: StoreSettings, fileSystem: any FileSystem, clock: any Clock,
        onEvent: EventCenter.Handler?
    ) throws(CacheError) -> (Store, Handle) {
        let (root, identity) = try openRoot(path, in: fileSystem, settings.durability)
        // A store whose directory was deleted moves to this one, and is then the one of this directory.
        for store in Registry.shared.stores(at: path, device: identity.device) where store.identity != identity {
            store.reopenIfDeleted()
        }
        var handle: Handle?
        let store = try open(
            path: path, settings: settings, fileSystem: fileSystem, clock: clock, root: root, identity: identity
        ) { handle = $0.join(at: path, onEvent) }
        return (store, handle!)
    }

    /// The directory that is open; nil once closed.
    private var identity: FileIdentity? { disk.run { volume?.identity } }

    /// `join` is called with the store before anybody can close it.
    private static func open(
        path: String, settings: StoreSettings, fileSystem: any FileSystem, clock: any Clock, root: SharedDescriptor,
        identity: FileIdentity, join: (Store) -> Void
    ) throws(CacheError) -> Store {
        let now = clock.now
        var begin: ((Store) -> Void)?
        let store = try Registry.shared.store(of: identity, root: root, in: fileSystem, path: path) {
            store throws(CacheError) in
            guard store.settings == settings else {
                throw CacheError(
                    code: .differentConfiguration, message: "The directory is already open here with other settings.",
                    path: path)
            }
            join(store)
        } open: { () throws(CacheError) in
            let loaded = try Opener(
                fileSystem: fileSystem, path: path, identity: identity, root: root, now: now,
                isPowerSafe: settings.durability == .powerSafe
            ).load()
            let found = loaded.found
            begin = { $0.begin(found) }
            return Store(loaded, path: path, clock: clock, settings: settings)
        }
        begin?(store)
        return store
    }

    static func openRoot(
        _ path: String, in fileSystem: any FileSystem, _ durability: Durability
    ) throws(CacheError) -> (root: SharedDescriptor, identity: FileIdentity) {
        do {
            let root = try fileSystem.openDirectory(
                path: path, creation: durability == .powerSafe ? .durable : .plain)
            let identity = try fileSystem.status(of: root).identity
            return (SharedDescriptor(root), identity)
        } catch .notDirectory {
            throw CacheError(
                code: .notACache, message: "Not a directory.", path: path,
                errno: Errno.notDirectory.rawValue)
        } catch {
            throw CacheError(error, doing: "open the directory", path: path)
        }
    }

    /// Reports what the opening found, and starts the work in the background.
    private func begin(_ found: LoadedStore.Found) {
        if found.expired > 0 {
            report(CacheEvent(.expired, count: found.expired)) { $0.expirations += found.expired }
        }
        for key in found.adopted { events.post(CacheEvent(.adopted, of: key)) }
        for failure in found.failures { report(failure) }
        unlinkAnyBehind()
        reconcileBehind()
        if found.hasTrash { emptyTrash() }
        deleteBehind(found.leftovers)
        enforceBehind()
        scheduleSweep()
    }

    /// Returns when the manifest is saved and every chore begun before is done.
    func flush() throws(CacheError) {
        chores.wait()
        reconcileAgain()
        unlinkAnyBehind()
        chores.wait()
        try chores.alone { () throws(CacheError) in try save(always: true) }
        chores.wait()
    }

    /// Ends the session in order: what comes after reads and writes nothing.
    ///
    /// Only the last handle's closing does it; `isLast` is asked while nobody can open another.
    func close(isLast: () -> Bool) throws(CacheError) {
        guard let lease = disk.run({ lease }) else { return }
        try lease.end(when: isLast) { () throws(CacheError) in
            // From here on the directory is not opened anew; if it has just been, the new lease ends as well.
            let current = disk.runAlone {
                isClosing = true
                return self.lease
            }
            defer { if current !== lease { current?.release() } }
            copies.wait()
            chores.wait()
            unlinkAnyBehind()
            chores.wait()
            saveUses(isClosing: true)
            let saving = Result { () throws(CacheError) in
                try chores.alone { () throws(CacheError) in try save(always: false) }
            }
            // Between two chores: a save that is under way must not outlive the lock of the directory.
            try chores.alone { () throws(CacheError) in
                try disk.runAlone { () throws(CacheError) in try endSession() }
            }
            try saving.get()
        }
    }

    private func endSession() throws(CacheError) {
        guard let volume else { return }
        self.volume = nil
        let isSettled =
            index.doomedCount == 0 && tombstones.withLock { $0.isEmpty } && reconciliation.withLock { $0.isDone }
        try info.run { () throws(CacheError) in
            guard isSettled, !journal.mustSave else { return }
            try translating("close the journal", at: path) { () throws(Errno) in
                // `closed` promises that names and index agree, after a power cut too: it must not reach the disk
                // before the names.
                if !journal.endsClosed { try volume.entriesSync.sync(through: volume.entriesSync.note()) }
                try journal.close(last: lastTaken)
            }
        }
    }
}
