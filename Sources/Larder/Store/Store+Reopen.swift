import LarderFiles

/// Directories that are deleted while they are open.
///
/// A handle belongs to the directory that it opened, wherever its path leads later: renaming the directory or switching
/// a symbolic link changes nothing. The store moves only when the directory itself has been deleted, and only if the
/// paths of all its handles lead to the same new directory.
extension Store {
    /// Runs a change; if it fails because the directory was deleted, opens the new directory at the path and runs the
    /// change once more.
    func retryingReopened<Result>(
        _ key: Key?, _ change: () throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        do {
            return try change()
        } catch {
            try reopen(after: error, key)
        }
        return try change()
    }

    /// Returns if the failed change should be retried, because the directory was deleted and has been reopened.
    /// Otherwise reports and throws the error.
    func reopen(after error: CacheError, _ key: Key?) throws(CacheError) {
        guard error.errno == Errno.noEntry.rawValue, reopenIfDeleted() || isWhole else {
            reporter.report(error, of: key)
            throw error
        }
    }

    /// True when there is nothing to reopen: another thread has already done it.
    private var isWhole: Bool { disk.runAnyway { $0?.isWhole ?? false } }

    /// Reopens the directory when it or its entries were deleted; true when it did. With `only`, only if the store then
    /// moves to that directory.
    ///
    /// Never call it on the maintenance queue, or while the gate of a directory is held.
    @discardableResult
    func reopenIfDeleted(only wanted: FileIdentity? = nil) -> Bool {
        // A forked child has neither the locks of its parent nor its page.
        if disk.isForked { return false }
        let now = clock.now
        guard let (directory, lease) = disk.runAnyway({ $0.flatMap { directory in lease.map { (directory, $0) } } }),
            !directory.isWhole
        else { return false }
        var found: LoadedStore.Found?
        do throws(CacheError) {
            if disk.runAlone({ directory.isDeleted }) {
                guard let (root, identity) = try successor(of: directory, only: wanted) else { return false }
                let location = DirectoryRegistry<Store>.Location(
                    identity: identity, root: root, fileSystem: fileSystem, path: path, isShared: settings.isShared
                ) { [fileSystem, path] () throws(CacheError) in
                    try Opener.requireCache(root, in: fileSystem, path: path)
                }
                try lease.move(to: location, of: self) { next, lock throws(CacheError) in
                    // Only a store that was opened to read does nothing else.
                    guard !lock.isForReading else { return false }
                    found = try reopen(root, identity, next, lock.membership(identity, path), replacing: lease, at: now)
                    return found != nil
                }
            } else if disk.others.object.membership.mayBeJoined {
                found = try replaceEntries(of: directory)
            } else {
                let alone = try Membership(aloneIn: directory.identity, fileSystem, path: path)
                found = try reopen(directory.root, directory.identity, lease, alone, replacing: lease, at: now)
            }
        } catch {
            reporter.report(error)
            return false
        }
        guard let found else { return false }
        reporter.report(CacheEvent(.reopened)) { _ in }
        begin(found)
        return true
    }

    /// Opens the directory to which the paths of all handles lead now; creates a missing one, on the same disk. Nil
    /// when they lead to different directories.
    private func successor(
        of directory: StoreDirectory, only wanted: FileIdentity?
    ) throws(CacheError) -> (root: OwnedDescriptor, identity: FileIdentity)? {
        let paths = handles.paths.sorted()
        let there = paths.compactMap {
            try? fileSystem.openDirectory(path: $0, creation: .never).identity(in: fileSystem)
        }
        if let first = there.first {
            guard there.count == paths.count, there.allSatisfy({ $0 == first }), wanted ?? first == first,
                first.device == directory.identity.device
            else { return nil }
        } else {
            // Unmounting leaves an empty directory on the disk below; nothing is created there.
            guard wanted == nil, let path = paths.first(where: { directory.isOnSameDisk($0) }) else { return nil }
            _ = try Store.openRoot(path, in: fileSystem, settings.durability)
            if let defaultSize { DefaultSizeLimit(path: path, fileSystem).restore(defaultSize) }
        }
        var found: (root: OwnedDescriptor, identity: FileIdentity)?
        for path in paths {
            let next = try Store.openRoot(path, in: fileSystem, nil)
            if let found, found.identity != next.identity { return nil }
            found = next
        }
        guard let found,
            try Opener.access(
                to: found.root, in: fileSystem.forCallers, asOwner: settings.writesAsOwner, path: path
            ).userID == fileSystem.userID
        else { return nil }
        return found
    }

    /// Returns nil when it was reopened or closed meanwhile.
    private func reopen(
        _ root: OwnedDescriptor, _ identity: FileIdentity, _ lease: DirectoryRegistry<Store>.Lease,
        _ membership: Membership, replacing old: DirectoryRegistry<Store>.Lease, at now: Timestamp
    ) throws(CacheError) -> LoadedStore.Found? {
        try disk.runAlone { () throws(CacheError) -> LoadedStore.Found? in
            guard let directory = disk.directory, self.lease === old, !isClosing, !directory.isWhole else { return nil }
            let loaded = try Opener(
                fileSystem: fileSystem, path: path, identity: identity, root: root, now: now,
                isPowerSafe: settings.isPowerSafe, mayLoadLater: settings.manifestFormat == .json,
                membership: membership
            ).load()
            // Values of the old directory may still be on their way into a memory tier.
            membership.page.raiseNumbers(to: info.lastTaken)
            info.replaceJournal(loaded.journals, of: loaded.directory, membership)
            // Before any entry is visible: look-ups in the index do not run in blocks of this queue.
            provisional.replace(with: loaded.reconciliation, hasLeftovers: loaded.hasLeftovers)
            index.replace(with: loaded.shards, loaded.groups, isSameDirectory: false, at: now)
            trash.replaceDirectory()
            reaper.replaceTombstones(loaded.tombstones)
            reporter.count {
                $0.damagedLines += loaded.damagedLines
                $0.adoptions += loaded.found.adopted.count
            }
            disk.replace(loaded.directory)
            disk.others.object.stop()
            disk.follow(through: follower(membership, loaded))
            self.lease = lease
            reconciler.begin()
            reconciler.finishJoining(verifying: loaded.isOfDead)
            return loaded.found
        }
    }

    /// Creates the directory of the entries again, beside other processes that have lost it, too. The index stays: each
    /// entry is found lost when it is read.
    private func replaceEntries(of directory: StoreDirectory) throws(CacheError) -> LoadedStore.Found? {
        try disk.runAlone { () throws(CacheError) -> LoadedStore.Found? in
            guard disk.directory === directory, !isClosing, !directory.isWhole else { return nil }
            let entries = try translating("make the entries directory", at: path) { () throws(Errno) in
                let name = DirectoryLayout.entries.name
                do throws(Errno) {
                    try fileSystem.makeDirectory(name, in: directory.root.file)
                } catch {
                    if error != .exists { throw error }
                }
                return OwnedDescriptor(try fileSystem.open(name, in: directory.root.file, for: .directory))
            }
            disk.replace(directory.with(entries: entries))
            return LoadedStore.Found()
        }
    }
}

extension FileDescriptor {
    fileprivate consuming func identity(in fileSystem: any FileSystem) throws(Errno) -> FileIdentity {
        try fileSystem.status(of: self).identity
    }
}

extension StoreDirectory {
    /// True when the directory itself was deleted: nothing can be created in it, whatever path leads to it. Call it in
    /// a barrier, so no other thread sees the probe.
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

    /// True when a path leads to the disk of this directory, or would if it were created.
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
