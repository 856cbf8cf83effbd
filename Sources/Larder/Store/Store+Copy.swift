import Dispatch
import LarderFiles

/// Files copied in and out. Many bytes are read and written outside of `disk`, so that no barrier has to wait for them,
/// and behind it everybody else.
extension Store {
    /// Up to here a file is read and stored like any value; bytes. Beyond, it is cloned or copied by the system.
    static let smallFile = 256 << 10

    /// Stores a copy of an open file. False when the condition does not hold.
    func setCopy(
        of source: SharedDescriptor, size: Int, for key: Key, life: Life, attachments: Attachments?,
        _ condition: Condition,
        at now: Timestamp
    ) throws(CacheError) -> Bool {
        try checkSize(size, of: key)
        var entry = IndexEntry(
            keyText: key.text, file: 0, change: 0, stored: now, life: life, used: now, size: size, checksum: 0,
            attachments: attachments)
        guard size <= Self.smallFile else { return try setLargeCopy(of: source, entry, key, condition) }
        var bytes = [UInt8](repeating: 0, count: size)
        entry.size = try translating("read the file", at: path) { () throws(Errno) in
            try fileSystem.read(source.file, at: 0, into: &bytes)
        }
        return try bytes.withBytes { bytes throws(CacheError) in
            let payload = bytes.part(0..<entry.size)
            entry.checksum = XXH64.hash(payload)
            return try set(payload, entry, key, condition)
        }
    }

    private func setLargeCopy(
        of source: SharedDescriptor, _ entry: IndexEntry, _ key: Key, _ condition: Condition
    ) throws(CacheError) -> Bool {
        try onDisk { _ throws(CacheError) in
            if isClosing { throw CacheError.closed(path) }
            copies.enter()
        }
        defer { copies.leave() }
        let outcome = try retryingReopened(key) { () throws(CacheError) in
            while true {
                var entry = entry
                let staged = try stage(source, as: &entry, key)
                var isStored = false
                defer { if !isStored { discard(staged.number, of: key, in: staged.volume) } }
                let outcome = try onDisk { volume throws(CacheError) -> Outcome? in
                    // Cleared or reopened meanwhile: once more, to where the entries are now.
                    guard volume.entries === staged.volume.entries else { return nil }
                    return try store(.staged(staged), entry, key, condition, in: volume)
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
        let volume: StoreDirectory
    }

    /// Copies a file into the directory of the entries, and takes size and checksum of the copy: the original may
    /// change.
    ///
    /// Its name is none of an entry's, whatever it holds. Killed here, the process leaves it to the next opening to
    /// delete.
    private func stage(_ source: SharedDescriptor, as entry: inout IndexEntry, _ key: Key) throws(CacheError)
        -> StagedFile
    {
        var mayRetry = true
        while true {
            let volume = try onDisk { volume throws(CacheError) in
                try clearShutdownMarker()
                return volume
            }
            let number = DirectoryLayout.stagedNumber(try takeNumber())
            do throws(Errno) {
                return try stage(source, as: &entry, number, in: volume)
            } catch .exists {
                continue
            } catch {
                discard(number, of: key, in: volume)
                // Cleared or reopened meanwhile, and the directory deleted under the copy.
                if try onDisk({ current throws(CacheError) in current.entries !== volume.entries }) { continue }
                if mayRetry, error == .noSpace || error == .overQuota, try makeRoom() {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "copy a file", path: volume.path(of: number))
            }
        }
    }

    private func stage(
        _ source: SharedDescriptor, as entry: inout IndexEntry, _ number: UInt64, in volume: StoreDirectory
    ) throws(Errno) -> StagedFile {
        let copy = try fileSystem.copy(
            source.file, size: entry.size, as: .number(number), in: volume.entries.file, access: .owner)
        let file = SharedDescriptor(copy)
        entry.size = try fileSystem.status(of: file.file).size
        guard let checksum = try fileSystem.checksum(of: file.file, size: entry.size) else { throw .io }
        entry.checksum = checksum
        // Here, where nobody has to wait for it.
        if isPowerSafe { try fileSystem.sync(file.file) }
        return StagedFile(number: number, file: file, volume: volume)
    }

    /// Deletes what waits for it; true when there was something.
    private func makeRoom() throws(CacheError) -> Bool {
        try onDisk { volume throws(CacheError) in deleteObsolete(in: volume) > 0 }
    }

    /// Where an export goes.
    struct ExportTarget {
        let name: FileName
        let directory: SharedDescriptor
        /// For messages alone.
        let path: String
    }

    /// Copies a fresh entry's payload to a file, which appears whole and verified or not at all. Returns false for a
    /// miss.
    func export(_ key: Key, to target: ExportTarget, at now: Timestamp) throws(CacheError) -> Bool {
        let opened = read(key, at: now) { volume, entry in volume.open(entry).then { .value((entry: entry, file: $0)) }
        }
        guard let opened else { return false }
        do {
            if try export(opened.entry, from: opened.file, to: target) { return true }
        } catch {
            takeBackHit(key, asMiss: false)
            let error = CacheError(error, doing: "export a value", path: target.path)
            report(error, of: key)
            throw error
        }
        takeBackHit(key, asMiss: true)
        forget(opened.entry, key, as: .corrupt)
        return false
    }

    /// Returns false when the entry is damaged.
    private func export(_ entry: IndexEntry, from file: SharedDescriptor, to target: ExportTarget) throws(Errno) -> Bool
    {
        // Beside its target, for only there it can take that name in one step.
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
