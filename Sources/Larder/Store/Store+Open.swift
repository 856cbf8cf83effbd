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
        for store in StoreRegistry.shared.stores(onDevice: identity.device) {
            // The paths first: a store that has nothing to do with this directory is not to be waited for.
            guard store.hasPath(to: identity), store.identity != identity else { continue }
            store.reopenIfDeleted(only: identity)
        }
        var handle: Handle?
        let store = try open(
            path: path, settings: settings, fileSystem: fileSystem, clock: clock, root: root, identity: identity
        ) { handle = $0.join(at: path, onEvent) }
        return (store, handle!)
    }

    private func hasPath(to identity: FileIdentity) -> Bool {
        handles.withLock { Set($0.paths.values) }.contains { path in
            guard let directory = try? fileSystem.openDirectory(path: path, creation: .never) else { return false }
            return (try? fileSystem.status(of: directory).identity) == identity
        }
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
        let store = try StoreRegistry.shared.store(of: identity, root: root, in: fileSystem, path: path) {
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
            begin = { store in
                store.begin(found)
                store.scheduleSweep()
            }
            let store = Store(loaded, path: path, clock: clock, settings: settings)
            // Before anybody can see it, and wait for that.
            store.reconcileBehind()
            return store
        }
        begin?(store)
        return store
    }

    /// Opens a directory; makes it where it is missing, unless there is no durability given.
    static func openRoot(
        _ path: String, in fileSystem: any FileSystem, _ durability: Durability?
    ) throws(CacheError) -> (root: SharedDescriptor, identity: FileIdentity) {
        do {
            let root = try fileSystem.openDirectory(
                path: path, creation: durability.map { $0 == .powerSafe ? .durable : .plain } ?? .never)
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
    func begin(_ found: LoadedStore.Found) {
        if found.expired > 0 {
            report(CacheEvent(.expired, count: found.expired)) { $0.expirations += found.expired }
        }
        for key in found.adopted { events.post(CacheEvent(.adopted, of: key)) }
        for failure in found.failures { report(failure) }
        unlinkAnyBehind()
        if found.hasTrash { emptyTrash() }
        deleteBehind(found.leftovers)
        enforceBehind()
    }

    /// Returns when the manifest is saved and every chore begun before is done.
    func flush() throws(CacheError) {
        maintenance.wait()
        reconcileAgain()
        unlinkAnyBehind()
        maintenance.wait()
        try maintenance.alone { () throws(CacheError) in try save(always: true) }
        maintenance.wait()
    }

    /// Ends the session in order: what comes after reads and writes nothing.
    ///
    /// Only the last handle's closing does it; `isLast` is asked while nobody can open another.
    func close(isLast: () -> Bool) throws(CacheError) {
        var isCurrent = false
        while !isCurrent {
            guard let lease = disk.run({ lease }) else { return }
            // The store may have moved since, and its gate is another then. It does not while its gate is held.
            try lease.end {
                isCurrent = disk.run { self.lease } === lease
                return isCurrent && isLast()
            } close: { () throws(CacheError) in
                try closeLast()
            }
        }
    }

    private func closeLast() throws(CacheError) {
        disk.runAlone { isClosing = true }
        copies.wait()
        maintenance.wait()
        unlinkAnyBehind()
        maintenance.wait()
        saveUses(isClosing: true)
        let saving = Result { () throws(CacheError) in
            try maintenance.alone { () throws(CacheError) in try save(always: false) }
        }
        // Between two maintenance: a save that is under way must not outlive the lock of the directory.
        try maintenance.alone { () throws(CacheError) in
            try disk.runAlone { () throws(CacheError) in try endSession() }
        }
        try saving.get()
    }

    private func endSession() throws(CacheError) {
        guard let volume else { return }
        self.volume = nil
        // The handle may live on; the directory must not stay open for it.
        defer { info.run { journal.release() } }
        let isSettled =
            index.obsoleteCount == 0 && tombstones.withLock { $0.isEmpty }
            && reconciliation.withLock { $0.isConsistent }
        try info.run { () throws(CacheError) in
            guard isSettled, !journal.mustSave, !journal.endsClosed else { return }
            // `closed` promises that names and index agree, after a power cut too: it must not reach the disk before the
            // names. Some file systems cannot sync a directory; then the next opening lists it.
            do throws(Errno) {
                try volume.entriesSync.sync(through: volume.entriesSync.note())
            } catch {
                let failure = CacheError(error, doing: "sync the directory", path: path)
                if isPowerSafe { throw failure }
                return report(failure)
            }
            try translating("close the journal", at: path) { () throws(Errno) in try journal.close(last: lastTaken) }
        }
    }
}
