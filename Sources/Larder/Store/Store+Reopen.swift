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
                report(error, keys: [key.text])
                throw error
            }
        }
        return try change()
    }

    /// Opens the directory again when its path no longer leads to it; true when it did.
    @discardableResult
    func reopenIfReplaced() -> Bool {
        guard let volume = disk.sync(execute: { volume }), !volume.isInPlace else { return false }
        do throws(CacheError) {
            guard let old = try reopen() else { return false }
            old.release()
        } catch {
            report(error)
            return false
        }
        report(CacheEvent(.reopened)) { _ in }
        reconcileBehind()
        emptyTrash()
        return true
    }

    /// Returns the lease of the old directory; nil when there is nothing to do.
    private func reopen() throws(CacheError) -> Lease? {
        let now = clock.now
        return try disk.run(flags: .barrier) { () throws(CacheError) in
            guard let volume, let old = self.lease, !isClosing, !volume.isInPlace else { return nil }
            let (root, identity) = try Store.openRoot(path, in: fileSystem, settings.durability)
            let lease = try old.moved(to: identity, root: root, of: self)
            let loaded: LoadedStore
            do throws(CacheError) {
                loaded = try Opener(
                    fileSystem: fileSystem, path: path, identity: identity, root: root, now: now,
                    isPowerSafe: isPowerSafe
                ).load()
            } catch {
                lease.release()
                throw error
            }
            let fresh = Journal(loaded.journals, fileSystem: fileSystem, durability: settings.durability)
            info.run { journal = fresh }
            raiseNumbers(to: loaded.lastNumber)
            index.replace(with: loaded.shards)
            reconciliation.withLock { $0 = loaded.reconciliation }
            self.volume = loaded.volume
            self.lease = lease
            return old
        }
    }
}
