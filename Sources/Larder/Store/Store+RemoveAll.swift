import Dispatch
import LarderFiles

extension Store {
    typealias Progress = @Sendable (_ removed: Int, _ total: Int) -> Void

    /// Removes every entry: renames the directory of the files into the trash and puts an empty one in its place. O(1) in
    /// system calls; the files are deleted behind.
    ///
    /// Killed between the renaming and the record, the next opening finds no `entries` and brings the old one back, or finds
    /// the new one empty; both are whole.
    func removeAll(progress: Progress?) throws(CacheError) {
        let count: Int
        do {
            count = try disk.run(flags: .barrier) { () throws(CacheError) in
                guard let volume else { throw CacheError.closed(path) }
                return try removeAll(in: volume)
            }
        } catch {
            report(error)
            throw error
        }
        report(CacheEvent(.cleared, count: count)) { $0.removals += count }
        emptyTrash(progress: progress)
    }

    private func removeAll(in old: Volume) throws(CacheError) -> Int {
        let number = try takeNumber()
        let fresh = try translating("remove all entries", at: path) { () throws(Errno) in
            try replaceEntries(of: old, number)
        }
        let count = index.count
        do {
            let ticket = try commit(JournalFormat.lines(.clear(number: number)), in: old) { index in
                index.replace(with: (0..<Index.shardCount).map { _ in Shard() })
            }.ticket
            volume = fresh
            reconciliation.withLock { $0 = Reconciliation(cleared: number) }
            if let ticket { try translating("sync the journal", at: path) { () throws(Errno) in try ticket.wait() } }
        } catch {
            if volume?.entries === old.entries { bringBackEntries(of: old, number) }
            throw error
        }
        return count
    }

    private func replaceEntries(of old: Volume, _ number: UInt64) throws(Errno) -> Volume {
        let (root, entries) = (old.root, DirectoryLayout.entries.name)
        do {
            try fileSystem.makeDirectory(DirectoryLayout.trash.name, in: root.file)
        } catch .exists {}
        let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
        try fileSystem.rename(entries, in: root.file, to: .number(number), in: trash)
        do {
            try fileSystem.makeDirectory(entries, in: root.file)
            let fresh = SharedDescriptor(try fileSystem.open(entries, in: root.file, for: .directory))
            if isPowerSafe { try fileSystem.sync(root.file) }
            return old.with(entries: fresh)
        } catch {
            bringBackEntries(of: old, number)
            throw error
        }
    }

    private func bringBackEntries(of old: Volume, _ number: UInt64) {
        let (root, entries) = (old.root, DirectoryLayout.entries.name)
        do {
            let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
            try? fileSystem.remove(entries, in: root.file, directory: true)
            try fileSystem.rename(.number(number), in: trash, to: entries, in: root.file)
        } catch {
            report(CacheError(error, doing: "bring back the entries", path: path))
        }
    }

    /// Deletes behind what lies in the trash.
    func emptyTrash(progress: Progress? = nil) {
        guard let root = (disk.sync { volume })?.root else { return }
        let trash = Lock(Trash(fileSystem: fileSystem, root: root))
        chores.begin(.emptyTrash) { [weak self] in
            guard let self else { return false }
            do throws(Errno) {
                let more = try trash.withLock { trash throws(Errno) in try trash.deleteSome() }
                let (removed, total) = trash.withLock { ($0.removed, $0.total) }
                if let progress { events.run { progress(removed, total) } }
                return more
            } catch {
                report(CacheError(error, doing: "empty the trash", path: path))
                return false
            }
        }
    }
}
