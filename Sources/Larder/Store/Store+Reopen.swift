import Dispatch
import LarderFiles

/// Directories that are deleted while they are open.
///
/// A handle belongs to the directory that it opened, whatever its path leads to later: one that is renamed, or whose
/// link is switched, stays. Only when the directory itself is gone does the store move, to the directory that has taken
/// its place, and only when that is where the paths of all its handles lead.
extension Store {
    /// Runs a change; when it fails because the directory was deleted, opens what is there now and runs it again, once.
    func retryingReopened<Result>(
        _ key: Key?, _ change: () throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        do {
            return try change()
        } catch {
            guard error.errno == Errno.noEntry.rawValue, reopenIfDeleted() else {
                report(error, of: key)
                throw error
            }
        }
        return try change()
    }

    /// Opens the directory again when it was deleted, or its entries were; true when it did.
    ///
    /// Never call it from a chore, or where the gate of a directory is held.
    @discardableResult
    func reopenIfDeleted() -> Bool {
        let now = clock.now
        guard let (volume, old) = disk.run({ volume.flatMap { volume in lease.map { (volume, $0) } } }), !volume.isWhole
        else { return false }
        do throws(CacheError) {
            let isDeleted = volume.isDeleted
            let place = isDeleted ? try successor(of: volume) : (root: volume.root, identity: volume.identity)
            guard let (root, identity) = place else { return false }
            let lease = isDeleted ? try old.moved(to: identity, root: root, of: self) : old
            guard let lease else { return false }
            do throws(CacheError) {
                guard try reopen(root, identity, lease, replacing: old, at: now) else {
                    if isDeleted { lease.release() }
                    return false
                }
            } catch {
                if isDeleted { lease.release() }
                throw error
            }
            // Elsewhere: a closing may hold the old gate and wait for this call.
            if isDeleted { DispatchQueue.global(qos: .utility).async { old.release() } }
        } catch {
            report(error)
            return false
        }
        report(CacheEvent(.reopened)) { _ in }
        unlinkAnyBehind()
        reconcileBehind()
        emptyTrash()
        return true
    }

    /// Opens the directory to which the paths of all handles lead now; makes it where there is none, on the same disk.
    /// Nil when they lead to different ones.
    private func successor(of volume: Volume) throws(CacheError) -> (root: SharedDescriptor, identity: FileIdentity)? {
        let paths = handles.withLock { Set($0.paths.values) }.sorted()
        var found: (root: SharedDescriptor, identity: FileIdentity)?
        for path in paths {
            // A volume that is not mounted any more leaves an empty directory on the disk below: nothing is made there.
            guard volume.isOnSameDisk(path) else { return nil }
            let next = try Store.openRoot(path, in: fileSystem, settings.durability)
            if let found, found.identity != next.identity { return nil }
            found = next
        }
        return found
    }

    private func reopen(
        _ root: SharedDescriptor, _ identity: FileIdentity, _ lease: Lease, replacing old: Lease, at now: Timestamp
    ) throws(CacheError) -> Bool {
        try disk.runAlone { () throws(CacheError) in
            guard let volume, self.lease === old, !isClosing, !volume.isWhole else { return false }
            let loaded = try Opener(
                fileSystem: fileSystem, path: path, identity: identity, root: root, now: now, isPowerSafe: isPowerSafe
            ).load()
            let fresh = Journal(loaded.journals, of: loaded.volume, durability: settings.durability)
            info.run { journal = fresh }
            seal(loaded.journals.isSealed)
            raiseNumbers(to: loaded.lastNumber)
            index.replace(with: loaded.shards, at: now)
            reconciliation.withLock { $0 = loaded.reconciliation }
            provisional.set(!loaded.reconciliation.isDone)
            isTrashLive = false
            tombstones.withLock { $0 = loaded.tombstones }
            self.volume = loaded.volume
            self.lease = lease
            return true
        }
    }
}

extension Volume {
    /// True when the directory itself is gone: nothing can be made in it, under whatever path it was found.
    fileprivate var isDeleted: Bool {
        let probe = DirectoryLayout.trash.name
        do {
            try fileSystem.makeDirectory(probe, in: root.file)
            try? fileSystem.remove(probe, in: root.file, directory: true)
            return false
        } catch {
            return error == .noEntry
        }
    }

    /// True when a path leads to the disk of this directory, or would if it were made.
    fileprivate func isOnSameDisk(_ path: String) -> Bool {
        var path = path
        while true {
            do throws(Errno) {
                let directory = try fileSystem.openDirectory(path: path, creation: .never)
                return try fileSystem.status(of: directory).identity.device == identity.device
            } catch {
                guard error == .noEntry, let slash = path.lastIndex(of: "/"), path != "/" else { return false }
                path = slash == path.startIndex ? "/" : String(path[..<slash])
            }
        }
    }
}
