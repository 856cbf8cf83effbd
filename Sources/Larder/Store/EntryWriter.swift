import LarderFiles

/// Writes entry files. A whole file is written in one call; a copy of another file is staged under a name that is not
/// an entry's, and renamed when it is complete.
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

    /// The bytes of a value that is stored.
    enum Payload {
        case bytes(UnsafeRawBufferPointer)
        case staged(StagedFile)
    }

    /// A copy that has neither its name nor a footer yet.
    struct StagedFile {
        let number: UInt64
        let file: SharedDescriptor
        let directory: StoreDirectory
    }
}

/// Whole files.
extension EntryWriter {
    /// Gives an entry its number and creates its file, which no record mentions yet.
    func create(
        _ content: Payload, _ entry: IndexEntry, _ key: Key, in directory: StoreDirectory
    ) throws(CacheError) -> NewEntry {
        // A staged file was tried again when it was staged.
        var mayRetry = if case .bytes = content { true } else { false }
        while true {
            let new = NewEntry(entry, number: try info.takeNumber())
            // An entry may grow in the manifest, by the number of a renewal and the time of a use.
            try Self.checkRecord(new.lineLength)
            do {
                try write(content, new, key, in: directory)
                return new
            } catch .exists {
                continue
            } catch {
                // Obsolete files may take just the room that is needed.
                if mayRetry, error == .noSpace || error == .overQuota, reaper.deleteObsolete(in: directory) > 0 {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "store a value", path: directory.path(of: new.entry.file))
            }
        }
    }

    static func checkRecord(_ length: Int) throws(CacheError) {
        guard length <= LineReader.longestRecord - 128 else {
            throw CacheError(code: .tooLarge, message: "Key, metadata and tags make a record of more than 1 MiB.")
        }
    }

    /// Bytes. A longer payload is written under a name that is no entry's, and renamed when it is whole. Systems write
    /// some thousand megabytes at a time at most: a payload might be made so that, cut there by a kill, it ends in the
    /// footer of another entry.
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

    /// Completes a staged file by its footer, and renames it to its number.
    private func write(_ staged: StagedFile, _ new: borrowing NewEntry, _ key: Key) throws(Errno) {
        let (directory, file) = (staged.directory, new.entry.file)
        try requireFree(.number(file), in: directory)
        do {
            // The footer first: whatever the copy ends with, it counts for nothing under the name that it has.
            try fileSystem.write(new.footer, .none, to: staged.file.file, at: new.entry.size)
            if isPowerSafe { try fileSystem.sync(staged.file.file) }
            try directory.rename(staged.number, to: file)
            if isPowerSafe { try directory.syncNames() }
        } catch {
            reaper.deleteUncommitted(file, of: key, in: directory)
            throw error
        }
    }

    /// Numbers are new, so a file of the name is not ours; renaming would replace it.
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
    /// Copies a file into the directory of the entries, and takes size and checksum of the copy: the original may
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
            let number = DirectoryLayout.stagedNumber(try info.takeNumber())
            do throws(Errno) {
                return try stage(source, as: &entry, number, in: directory)
            } catch .exists {
                continue
            } catch {
                reaper.deleteUncommitted(number, of: key, in: directory)
                // Cleared or reopened meanwhile, and the directory deleted under the copy.
                if try disk.run({ current throws(CacheError) in current.entries !== directory.entries }) { continue }
                if mayRetry, error == .noSpace || error == .overQuota, try makeRoom() {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "copy a file", path: directory.path(of: number))
            }
        }
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
        // Here nobody has to wait for it.
        if isPowerSafe { try fileSystem.sync(file.file) }
        return StagedFile(number: number, file: file, directory: directory)
    }

    /// Deletes obsolete files; true when there were any.
    private func makeRoom() throws(CacheError) -> Bool {
        try disk.run { directory in reaper.deleteObsolete(in: directory) > 0 }
    }
}
