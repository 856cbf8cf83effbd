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
        var row = Row(
            key: key.text, file: 0, change: 0, stored: now, life: life, used: now, size: size, checksum: 0,
            attachments: attachments)
        guard size <= Self.smallFile else { return try setLargeCopy(of: source, row, key, condition) }
        var bytes = [UInt8](repeating: 0, count: size)
        row.size = try translating("read the file", at: path) { () throws(Errno) in
            try fileSystem.read(source.file, at: 0, into: &bytes)
        }
        return try bytes.withBytes { bytes throws(CacheError) in
            let payload = bytes.part(0..<row.size)
            row.checksum = XXH64.hash(payload)
            return try set(payload, row, key, condition)
        }
    }

    private func setLargeCopy(
        of source: SharedDescriptor, _ row: Row, _ key: Key, _ condition: Condition
    ) throws(CacheError) -> Bool {
        try onDisk { _ throws(CacheError) in
            if isClosing { throw CacheError.closed(path) }
            copies.enter()
        }
        defer { copies.leave() }
        let outcome = try retryingReopened(key) { () throws(CacheError) in
            while true {
                var row = row
                let staged = try stage(source, as: &row, key)
                var isStored = false
                defer { if !isStored { discard(staged.number, of: key, in: staged.volume) } }
                let outcome = try onDisk { volume throws(CacheError) -> Outcome? in
                    // Cleared or reopened meanwhile: once more, to where the entries are now.
                    guard volume.entries === staged.volume.entries else { return nil }
                    return try store(.staged(staged), row, key, condition, in: volume)
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
        let volume: Volume
    }

    /// Copies a file into the directory of the entries, and takes size and checksum of the copy: the original may
    /// change.
    ///
    /// Its name is none of an entry's, whatever it holds. Killed here, the process leaves it to the next opening to
    /// delete.
    private func stage(_ source: SharedDescriptor, as row: inout Row, _ key: Key) throws(CacheError) -> StagedFile {
        var mayRetry = true
        while true {
            let volume = try onDisk { volume throws(CacheError) in
                try unseal()
                return volume
            }
            let number = DirectoryLayout.stagedNumber(try takeNumber())
            do throws(Errno) {
                return try stage(source, as: &row, number, in: volume)
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
        _ source: SharedDescriptor, as row: inout Row, _ number: UInt64, in volume: Volume
    ) throws(Errno) -> StagedFile {
        let copy = try fileSystem.copy(
            source.file, size: row.size, as: .number(number), in: volume.entries.file, access: .owner)
        let file = SharedDescriptor(copy)
        row.size = try fileSystem.status(of: file.file).size
        guard let checksum = try fileSystem.checksum(of: file.file, size: row.size) else { throw .io }
        row.checksum = checksum
        // Here, where nobody has to wait for it.
        if isPowerSafe { try fileSystem.sync(file.file) }
        return StagedFile(number: number, file: file, volume: volume)
    }

    /// Deletes what waits for it; true when there was something.
    private func makeRoom() throws(CacheError) -> Bool {
        try onDisk { volume throws(CacheError) in unlinkDoomed(in: volume) > 0 }
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
        let opened = read(key, at: now) { volume, row in volume.open(row).then { .value((row: row, file: $0)) } }
        guard let opened else { return false }
        do {
            if try export(opened.row, from: opened.file, to: target) { return true }
        } catch {
            takeBackHit(key, asMiss: false)
            let error = CacheError(error, doing: "export a value", path: target.path)
            report(error, of: key)
            throw error
        }
        takeBackHit(key, asMiss: true)
        forget(opened.row, key, as: .corrupt)
        return false
    }

    /// Returns false when the entry is damaged.
    private func export(_ row: Row, from entry: SharedDescriptor, to target: ExportTarget) throws(Errno) -> Bool {
        // Beside its target, for only there it can take that name in one step.
        let temporary = FileName.text(".larder-\(FileName.number(.random(in: 0...Record.lastNumber)))")
        let directory = target.directory
        let copy = try fileSystem.copy(
            entry.file, size: row.size, as: temporary, in: directory.file, access: .everybody)
        do throws(Errno) {
            if try fileSystem.checksum(of: copy, size: row.size) == row.checksum {
                try fileSystem.rename(temporary, in: directory.file, to: target.name, in: directory.file)
                return true
            }
            // Either the entry is wrong or its copy.
            if try fileSystem.checksum(of: entry.file, size: row.size) == row.checksum { throw .io }
        } catch {
            try? fileSystem.remove(temporary, in: directory.file, directory: false)
            throw error
        }
        try? fileSystem.remove(temporary, in: directory.file, directory: false)
        return false
    }
}
