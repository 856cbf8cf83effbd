import Dispatch
import LarderFiles

/// Files copied in and out. Large files are read and written outside of the disk queue, so no barrier waits for them,
/// and no call waits for such a barrier.
extension Store {
    /// The largest file that is read and stored like any value, in bytes. The system clones or copies a larger one.
    static let smallFile = 256 << 10

    /// Stores a copy of an open file. False when the condition does not hold.
    func setCopy(of source: OwnedDescriptor, size: Int, _ request: SetRequest) throws(CacheError) -> Bool {
        try checkSize(size, of: request.key)
        guard size <= Self.smallFile else { return try setLargeCopy(of: source, size: size, request) }
        var bytes = [UInt8](repeating: 0, count: size)
        let count = try translating("read the file", at: path) { () throws(Errno) in
            try fileSystem.read(source.file, at: 0, into: &bytes)
        }
        return try bytes.withBytes { bytes throws(CacheError) in try set(bytes.part(0..<count), request, asFile: true) }
    }

    private func setLargeCopy(
        of source: OwnedDescriptor, size: Int, _ request: SetRequest
    ) throws(CacheError) -> Bool {
        try disk.run { _ throws(CacheError) in
            if isClosing { throw CacheError.closed(path) }
            copies.enter()
        }
        defer { copies.leave() }
        let outcome = try retryingReopened(request.key) { () throws(CacheError) in
            try makingRoom(for: size) { () throws(CacheError) in try copyIn(source, size: size, request) }
        }
        return finish(outcome, request.key)
    }

    private func copyIn(
        _ source: OwnedDescriptor, size: Int, _ request: SetRequest
    ) throws(CacheError) -> InsertOutcome {
        let key = request.key
        var slowRounds = 0
        while true {
            var entry = request.entry(size: size, checksum: 0)
            let staged = try writer.stage(source, as: &entry, key)
            var isStored = false
            defer {
                if !isStored { reaper.deleteUncommitted(FileID(staged.number), of: key, in: staged.directory) }
                writer.endStaging(staged)
            }
            let outcome = try disk.run { directory throws(CacheError) -> InsertOutcome? in
                // The cache was cleared or reopened meanwhile: the file is copied again, into the current
                // directory.
                guard directory.entries === staged.directory.entries else { return nil }
                return try insert(.staged(staged), entry, request, after: slowRounds, in: directory)
            }
            guard let outcome else { continue }
            if case .blocked(let isSlow) = outcome {
                awaitOthers(key)
                if isSlow { slowRounds += 1 }
                continue
            }
            if case .stored = outcome { isStored = true }
            return outcome
        }
    }

    /// Opens the payload of a fresh entry, and verifies it unless `isVerified`; nil for a miss, or where it is damaged or
    /// cannot be read.
    func open(
        _ key: Key, at now: Timestamp, unless isVerified: (IndexEntry, FileStatus) -> Bool
    ) -> (entry: IndexEntry, source: StoreDirectory.Source, status: FileStatus)? {
        let opened = read(key, at: now) { directory, entry in
            directory.source(of: entry).then { .value((entry: entry, source: $0)) }
        }
        guard let (entry, source) = opened else { return nil }
        do {
            // First: a change that comes while the file is read shows in the next one.
            let status = try fileSystem.status(of: source.file.file)
            if source.bytes != nil || isVerified(entry, status) { return (entry, source, status) }
            let checksum = try fileSystem.checksum(of: source.file.file, size: entry.size)
            if checksum == entry.checksum { return (entry, source, status) }
            recovery.removeUnreadable(entry, key, as: .corrupt)
        } catch {
            reporter.report(CacheError(error, doing: "read a value", path: path), of: key)
        }
        takeBackHit(key, asMiss: true)
        return nil
    }

    /// The file that an export writes.
    struct ExportTarget {
        let name: FileName
        let directory: OwnedDescriptor
        /// For messages only.
        let path: String
        let access: FileAccess
    }

    /// Copies a fresh entry's payload to a file, which appears complete and verified or not at all. Returns the entry;
    /// nil for a miss.
    func export(_ key: Key, to target: ExportTarget, at now: Timestamp) throws(CacheError) -> IndexEntry? {
        let opened = read(key, at: now) { directory, entry in
            directory.source(of: entry).then { .value((entry: entry, source: $0)) }
        }
        guard let opened else { return nil }
        do {
            if try export(opened.entry, from: opened.source, to: target) { return opened.entry }
        } catch {
            takeBackHit(key, asMiss: false)
            let error = CacheError(error, doing: "export a value", path: target.path)
            reporter.report(error, of: key)
            throw error
        }
        takeBackHit(key, asMiss: true)
        recovery.removeUnreadable(opened.entry, key, as: .corrupt)
        return nil
    }

    /// Returns false when the entry is damaged.
    private func export(
        _ entry: IndexEntry, from source: StoreDirectory.Source, to target: ExportTarget
    ) throws(Errno) -> Bool {
        // Beside its target, where a rename is atomic.
        let temporary = FileName.text(".larder-\(FileName.number(Simulation.randomNumber() % Record.lastNumber))")
        let directory = target.directory
        let file = source.file
        let fileSystem = fileSystem.forCallers
        let copy = try fileSystem.copy(
            file.file, size: source.bytes == nil ? entry.size : 0, as: temporary, in: directory.file,
            access: target.access)
        do throws(Errno) {
            if let bytes = source.bytes {
                try bytes.withBytes { bytes throws(Errno) in try fileSystem.write(bytes, .none, to: copy, at: 0) }
            }
            if try fileSystem.checksum(of: copy, size: entry.size) == entry.checksum {
                try fileSystem.rename(temporary, in: directory.file, to: target.name, in: directory.file)
                return true
            }
            // Either the entry or its copy is damaged.
            if source.bytes != nil { throw .io }
            if try fileSystem.checksum(of: file.file, size: entry.size) == entry.checksum { throw .io }
        } catch {
            try? fileSystem.remove(temporary, in: directory.file, directory: false)
            throw error
        }
        try? fileSystem.remove(temporary, in: directory.file, directory: false)
        return false
    }
}
