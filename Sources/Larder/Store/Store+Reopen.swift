import Dispatch
import LarderFiles

extension Store {
    /// Runs a change; when it fails because the directory was deleted or replaced, opens what is there now and runs it again,
    /// once.
    func retryingReopened<Result>(
        _ key: Key, _ change: () throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        do {
            return try change()
        } catch {
            guard error.errno == Errno.noEntry.rawValue, reopenIfReplaced() else {
                report(error, of: key)
                throw error
            }
        }
        return try change()
    }

    /// Opens the directory again when its path no longer leads to it, or its entries are gone; true when it did.
    @discardableResult
    func reopenIfReplaced() -> Bool {
        let now = clock.now
        guard let (volume, old) = disk.run({ volume.flatMap { volume in lease.map { (volume, $0) } } }),
            !volume.isInPlace
        else { return false }
        do throws(CacheError) {
            let (root, identity) = try Store.openRoot(path, in: fileSystem, settings.durability)
            // The gate of the new place is asked for before any barrier: a closing holds its gate and waits for barriers.
            let lease = identity == volume.identity ? old : try old.moved(to: identity, root: root, of: self)
            do throws(CacheError) {
                guard try reopen(root, identity, lease, replacing: old, at: now) else {
                    if lease !== old { lease.release() }
                    return false
                }
            } catch {
                if lease !== old { lease.release() }
                throw error
            }
            // Elsewhere: a closing may hold the old gate and wait for the chore that runs this.
            if lease !== old { DispatchQueue.global(qos: .utility).async { old.release() } }
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

    private func reopen(
        _ root: SharedDescriptor, _ identity: FileIdentity, _ lease: Lease, replacing old: Lease, at now: Timestamp
    ) throws(CacheError) -> Bool {
        try disk.runAlone { () throws(CacheError) in
            guard let volume, self.lease === old, !isClosing, !volume.isInPlace else { return false }
            let loaded = try Opener(
                fileSystem: fileSystem, path: path, identity: identity, root: root, now: now, isPowerSafe: isPowerSafe
            ).load()
            let fresh = Journal(loaded.journals, of: loaded.volume, durability: settings.durability)
            info.run { journal = fresh }
            seal(loaded.journals.isSealed)
            raiseNumbers(to: loaded.lastNumber)
            index.replace(with: loaded.shards)
            reconciliation.withLock { $0 = loaded.reconciliation }
            isTrashLive = false
            tombstones.withLock { $0 = loaded.tombstones }
            self.volume = loaded.volume
            self.lease = lease
            return true
        }
    }
}
