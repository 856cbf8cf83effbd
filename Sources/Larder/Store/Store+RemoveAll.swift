import Dispatch
import LarderFiles

extension Store {
    typealias Progress = @Sendable (_ removed: Int, _ total: Int) -> Void

    /// Removes every entry: renames the directory of the files into the trash and puts an empty one in its place. O(1)
    /// in system calls; the files are deleted behind.
    ///
    /// Killed between the two renamings, the next opening finds no `entries` and brings the old one back; killed after
    /// them, it finds the new one and forgets the entries. Like that of a remove, the record is only a help.
    func removeAll(progress: Progress?) throws(CacheError) {
        let removed = try retryingReopened(nil) { () throws(CacheError) in
            try disk.runAlone { () throws(CacheError) in
                guard let volume else { throw CacheError.closed(path) }
                try clearShutdownMarker()
                defer { observer.didClear(.everything) }
                return try removeAll(in: volume)
            }
        }
        report(CacheEvent(.cleared, count: removed.count)) { $0.removals += removed.count }
        emptyTrash(progress: progress)
        guard let failure = removed.failure else { return }
        report(failure)
        throw failure
    }

    /// Returns the number of entries, and, where all is done but a power cut may undo it, why.
    private func removeAll(in old: StoreDirectory) throws(CacheError) -> (count: Int, failure: CacheError?) {
        let number = try takeNumber()
        // Above the new directory's: the highest number in the trash is what an opening brings back.
        let trashNumber = try takeNumber()
        let fresh = try translating("remove all entries", at: path) { () throws(Errno) in
            try replaceEntries(of: old, with: number, trashedAs: trashNumber)
        }
        let count = index.totals.count
        volume = fresh
        tombstones.withLock { $0 = TombstoneFiles() }
        var cleared = ClearMarks()
        cleared.add(.everything, below: trashNumber)
        reconciliation.withLock { [cleared] in $0 = Reconciliation(cleared: cleared) }
        provisional.set(false)
        let ticket = commitBestEffort(.clear(.everything, number: trashNumber), in: fresh) { index in
            index.removeAll(at: clock.now)
        }
        do throws(CacheError) {
            if isPowerSafe { try syncDirectories(of: fresh) }
            try wait(for: ticket)
        } catch {
            return (count, error)
        }
        return (count, nil)
    }

    private func syncDirectories(of volume: StoreDirectory) throws(CacheError) {
        try translating("sync the directory", at: path) { () throws(Errno) in
            let trash = try fileSystem.open(DirectoryLayout.trash.name, in: volume.root.file, for: .directory)
            try fileSystem.sync(trash)
            try fileSystem.sync(volume.root.file)
        }
    }

    private func replaceEntries(
        of old: StoreDirectory, with number: UInt64, trashedAs trashNumber: UInt64
    ) throws(Errno) -> StoreDirectory {
        let (root, entries) = (old.root, DirectoryLayout.entries.name)
        do {
            try fileSystem.makeDirectory(DirectoryLayout.trash.name, in: root.file)
        } catch .exists {}
        let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
        try fileSystem.makeDirectory(.number(number), in: trash)
        let fresh = SharedDescriptor(try fileSystem.open(.number(number), in: trash, for: .directory))
        try fileSystem.rename(entries, in: root.file, to: .number(trashNumber), in: trash)
        do {
            try fileSystem.rename(.number(number), in: trash, to: entries, in: root.file)
        } catch {
            do {
                try fileSystem.rename(.number(trashNumber), in: trash, to: entries, in: root.file)
            } catch {
                // The files are read and written where they are; the next change or opening that can brings them back.
                isTrashLive = true
            }
            throw error
        }
        return old.with(entries: fresh)
    }

    /// Deletes behind what lies in the trash. In blocks of `disk`: while `removeAll` moves directories about, nothing
    /// looks in.
    func emptyTrash(progress: Progress? = nil) {
        let trash = Lock(Trash())
        // One that has somebody to tell is never taken for another.
        maintenance.begin(progress == nil ? .emptyTrash : nil) { [weak self] in
            guard let self else { return false }
            let more = attempting { () throws(CacheError) in
                try onDisk { volume throws(CacheError) in
                    if isTrashLive { return false }
                    return try translating("empty the trash", at: path) { () throws(Errno) in
                        try trash.withLock { trash throws(Errno) in try trash.deleteSome(of: volume) }
                    }
                }
            }
            guard let more else { return false }
            let (removed, total) = trash.withLock { ($0.removed, $0.total) }
            if let progress { events.run { progress(removed, total) } }
            return more
        }
    }
}
