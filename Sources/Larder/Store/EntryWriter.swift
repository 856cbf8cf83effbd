import LarderFiles

/// Writes entry files, each in one call. A long payload, or a copy of another file, is staged under a name that no
/// entry has, and renamed when it is complete.
final class EntryWriter: Sendable {
    private let fileSystem: any FileSystem
    private let isPowerSafe: Bool
    private let disk: DiskQueue
    private let info: CommitQueue
    private let reaper: FileReaper

    init(_ context: StoreContext, info: CommitQueue, reaper: FileReaper) {
        fileSystem = context.fileSystem
        isPowerSafe = context.settings.isPowerSafe
        disk = context.disk
        self.info = info
        self.reaper = reaper
    }

    /// The bytes of a value to be stored.
    enum Payload {
        case bytes(UnsafeRawBufferPointer)
        case staged(StagedFile)
    }

    /// A copy that does not have its final name and its footer yet.
    struct StagedFile {
        let number: UInt64
        let file: SharedDescriptor
        let directory: StoreDirectory
    }
}

/// Whole files.
extension EntryWriter {
    /// Gives an entry its number, unless that has been taken, and creates its file, which no record mentions yet.
    func create(
        _ content: Payload, _ entry: IndexEntry, _ key: Key, number: UInt64? = nil, in directory: StoreDirectory
    ) throws(CacheError) -> NewEntry {
        var taken = number
        // A staged file has already been retried.
        var mayRetry = if case .bytes = content { true } else { false }
        while true {
            let number = if let taken { taken } else { try info.takeNumber(.key(key)) }
            taken = nil
            let new = NewEntry(entry, number: number)
            try Self.checkRecord(new.lineLength)
            do {
                try write(content, new, key, in: directory)
                return new
            } catch .exists {
                continue
            } catch {
                // Obsolete files may occupy the space that is needed.
                if mayRetry, error == .noSpace || error == .overQuota, reaper.deleteObsolete(in: directory) > 0 {
                    mayRetry = false
                    // The same number: a condition has been checked with it.
                    taken = number
                    continue
                }
                throw CacheError(error, doing: "store a value", path: directory.path(of: new.entry.file))
            }
        }
    }

    /// Refuses a record that may become too long in the manifest, which adds the number of a renewal and the time of a
    /// use.
    static func checkRecord(_ length: Int) throws(CacheError) {
        guard length <= LineReader.longestRecord - 128 else {
            throw CacheError(code: .tooLarge, message: "Key, metadata and tags make a record of more than 1 MiB.")
        }
    }

    /// In bytes. A longer payload is staged: systems write at most some thousand megabytes per call, so a payload could
    /// be crafted to end, when a kill cuts it there, in the footer of another entry.
    private static let longestInPlace = 16 << 20

    private func write(
        _ content: Payload, _ new: borrowing NewEntry, _ key: Key, in directory: StoreDirectory
    ) throws(Errno) {
        let file = new.entry.file
        switch content {
        case .bytes(let payload) where payload.count > Self.longestInPlace:
            let staged = DirectoryLayout.stagedNumber(file)
            let opened = try fileSystem.open(.number(staged), in: directory.entries.file, for: .creating)
            do throws(Errno) {
                try fileSystem.write(payload, .none, to: opened, at: 0)
                let copy = StagedFile(number: staged, file: SharedDescriptor(opened), directory: directory)
                try write(copy, new, key)
            } catch {
                reaper.deleteUncommitted(staged, of: key, in: directory)
                throw error
            }
        case .bytes(let payload):
            let opened = try fileSystem.open(.number(file), in: directory.entries.file, for: .creating)
            do {
                try fileSystem.write(payload, new.footer, to: opened, at: 0)
                if isPowerSafe {
                    try fileSystem.sync(opened)
                    try directory.syncNames()
                }
            } catch {
                reaper.deleteUncommitted(file, of: key, in: directory)
                throw error
            }
        case .staged(let staged):
            try write(staged, new, key)
        }
    }

    /// Completes a staged file with its footer, and renames it to its number.
    private func write(_ staged: StagedFile, _ new: borrowing NewEntry, _ key: Key) throws(Errno) {
        let (directory, file) = (staged.directory, new.entry.file)
        try requireFree(.number(file), in: directory)
        do {
            // The footer first: under its present name the file is no entry, whatever the copy ends with.
            try fileSystem.write(new.footer, .none, to: staged.file.file, at: new.entry.size)
            if isPowerSafe { try fileSystem.sync(staged.file.file) }
            try directory.rename(staged.number, to: file)
            if isPowerSafe { try directory.syncNames() }
        } catch {
            reaper.deleteUncommitted(file, of: key, in: directory)
            throw error
        }
    }

    /// Sequence numbers are never reused, so an existing file with this name is not ours, and renaming would replace
    /// it.
    private func requireFree(_ name: FileName, in directory: StoreDirectory) throws(Errno) {
        do {
            _ = try fileSystem.status(of: name, in: directory.entries.file)
        } catch .noEntry {
            return
        }
        throw .exists
    }
}

/// Copies, made outside of the disk queue.
extension EntryWriter {
    /// Copies a file into the directory of the entries, and sets size and checksum from the copy: the original may
    /// change.
    ///
    /// Its name is not an entry's, whatever its content. After a kill the next opening deletes it.
    func stage(_ source: SharedDescriptor, as entry: inout IndexEntry, _ key: Key) throws(CacheError)
        -> StagedFile
    {
        var mayRetry = true
        while true {
            let directory = try disk.run { directory throws(CacheError) in
                try info.removeShutdownMarker()
                return directory
            }
            let taken = try info.takeStagingNumber()
            let number = DirectoryLayout.stagedNumber(taken)
            do throws(Errno) {
                return try stage(source, as: &entry, number, in: directory)
            } catch .exists {
                info.endStaging(taken)
                continue
            } catch {
                reaper.deleteUncommitted(number, of: key, in: directory)
                info.endStaging(taken)
                // The cache was cleared or reopened, and the directory deleted, during the copy.
                if try disk.run({ current throws(CacheError) in current.entries !== directory.entries }) { continue }
                if mayRetry, error == .noSpace || error == .overQuota, try makeRoom() {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "copy a file", path: directory.path(of: number))
            }
        }
    }

    /// Notes that a copy is an entry, or has been deleted.
    func endStaging(_ staged: StagedFile) {
        if let number = DirectoryLayout.number(ofStaged: staged.number) { info.endStaging(number) }
    }

    private func stage(
        _ source: SharedDescriptor, as entry: inout IndexEntry, _ number: UInt64, in directory: StoreDirectory
    ) throws(Errno) -> StagedFile {
        let copy = try fileSystem.copy(
            source.file, size: entry.size, as: .number(number), in: directory.entries.file, access: .owner)
        let file = SharedDescriptor(copy)
        entry.size = try fileSystem.status(of: file.file).size
        guard let checksum = try fileSystem.checksum(of: file.file, size: entry.size) else { throw .io }
        entry.checksum = checksum
        // Outside of the disk queue, so no barrier waits for the sync.
        if isPowerSafe { try fileSystem.sync(file.file) }
        return StagedFile(number: number, file: file, directory: directory)
    }

    /// Deletes obsolete files; true when there were any.
    private func makeRoom() throws(CacheError) -> Bool {
        try disk.run { directory in reaper.deleteObsolete(in: directory) > 0 }
    }
}
