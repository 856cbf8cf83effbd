import Dispatch
import LarderFiles

/// Files copied in and out. Many bytes are read and written outside of the disk queue, so that no barrier has to wait
/// for them, and nobody for the barrier.
extension Store {
    /// Up to here a file is read and stored like any value; bytes. Beyond, it is cloned or copied by the system.
    static let smallFile = 256 << 10

    /// Stores a copy of an open file. False when the condition does not hold.
    func setCopy(of source: SharedDescriptor, size: Int, _ request: SetRequest) throws(CacheError) -> Bool {
        try checkSize(size, of: request.key)
        guard size <= Self.smallFile else { return try setLargeCopy(of: source, size: size, request) }
        var bytes = [UInt8](repeating: 0, count: size)
        let count = try translating("read the file", at: path) { () throws(Errno) in
            try fileSystem.read(source.file, at: 0, into: &bytes)
        }
        return try bytes.withBytes { bytes throws(CacheError) in try set(bytes.part(0..<count), request) }
    }

    private func setLargeCopy(
        of source: SharedDescriptor, size: Int, _ request: SetRequest
    ) throws(CacheError) -> Bool {
        try disk.run { _ throws(CacheError) in
            if isClosing { throw CacheError.closed(path) }
            copies.enter()
        }
        defer { copies.leave() }
        let key = request.key
        let outcome = try retryingReopened(key) { () throws(CacheError) in
            while true {
                var entry = request.entry(size: size, checksum: 0)
                let staged = try stage(source, as: &entry, key)
                var isStored = false
                defer { if !isStored { reaper.deleteUncommitted(staged.number, of: key, in: staged.directory) } }
                let outcome = try disk.run { directory throws(CacheError) -> InsertOutcome? in
                    // Cleared or reopened meanwhile: once more, to where the entries are now.
                    guard directory.entries === staged.directory.entries else { return nil }
                    return try insert(.staged(staged), entry, request, in: directory)
                }
                guard let outcome else { continue }
                if case .stored = outcome { isStored = true }
                return outcome
            }
        }
        return finish(outcome, key)
    }

    /// A copy that has neither its name nor a footer yet.
    struct StagedFile {
        let number: UInt64
        let file: SharedDescriptor
        let directory: StoreDirectory
    }

    /// Copies a file into the directory of the entries, and takes size and checksum of the copy: the original may
    /// change.
    ///
    /// Its name is not an entry's, whatever its content. After a kill the next opening deletes it.
    private func stage(_ source: SharedDescriptor, as entry: inout IndexEntry, _ key: Key) throws(CacheError)
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
        if settings.isPowerSafe { try fileSystem.sync(file.file) }
        return StagedFile(number: number, file: file, directory: directory)
    }

    /// Deletes obsolete files; true when there were any.
    private func makeRoom() throws(CacheError) -> Bool {
        try disk.run { directory in reaper.deleteObsolete(in: directory) > 0 }
    }

    /// The file that an export writes.
    struct ExportTarget {
        let name: FileName
        let directory: SharedDescriptor
        /// For messages alone.
        let path: String
    }

    /// Copies a fresh entry's payload to a file, which appears whole and verified or not at all. Returns false for a
    /// miss.
    func export(_ key: Key, to target: ExportTarget, at now: Timestamp) throws(CacheError) -> Bool {
        let opened = read(key, at: now) { directory, entry in
            directory.open(entry).then { .value((entry: entry, file: $0)) }
        }
        guard let opened else { return false }
        do {
            if try export(opened.entry, from: opened.file, to: target) { return true }
        } catch {
            takeBackHit(key, asMiss: false)
            let error = CacheError(error, doing: "export a value", path: target.path)
            reporter.report(error, of: key)
            throw error
        }
        takeBackHit(key, asMiss: true)
        recovery.removeUnreadable(opened.entry, key, as: .corrupt)
        return false
    }

    /// Returns false when the entry is damaged.
    private func export(_ entry: IndexEntry, from file: SharedDescriptor, to target: ExportTarget) throws(Errno) -> Bool
    {
        // Beside its target: only there a rename is one step.
        let temporary = FileName.text(".larder-\(FileName.number(.random(in: 0...Record.lastNumber)))")
        let directory = target.directory
        let copy = try fileSystem.copy(
            file.file, size: entry.size, as: temporary, in: directory.file, access: .everybody)
        do throws(Errno) {
            if try fileSystem.checksum(of: copy, size: entry.size) == entry.checksum {
                try fileSystem.rename(temporary, in: directory.file, to: target.name, in: directory.file)
                return true
            }
            // Either the entry is wrong or its copy.
            if try fileSystem.checksum(of: file.file, size: entry.size) == entry.checksum { throw .io }
        } catch {
            try? fileSystem.remove(temporary, in: directory.file, directory: false)
            throw error
        }
        try? fileSystem.remove(temporary, in: directory.file, directory: false)
        return false
    }
}
