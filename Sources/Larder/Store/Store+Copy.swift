import LarderFiles

/// Files copied in and out.
extension Store {
    /// Up to here a file is read and stored like any value; bytes. Beyond, it is cloned or copied by the system.
    private static let smallFile = 256 << 10

    /// Stores a copy of an open file. Unless `mayReplace`, a fresh entry is left alone; false then.
    func setCopy(
        of source: SharedDescriptor, size: Int, for key: Key, life: Life, attachments: Attachments?, mayReplace: Bool,
        at now: Timestamp
    ) throws(CacheError) -> Bool {
        try checkSize(size, of: key)
        var row = Row(
            key: key.text, file: 0, change: 0, stored: now, life: life, used: now, size: size, checksum: 0,
            attachments: attachments)
        if size <= Self.smallFile {
            let bytes = try content(of: source, size: size)
            row.size = bytes.count
            row.checksum = bytes.withBytes { XXH64.hash($0) }
            return try bytes.withBytes { bytes throws(CacheError) in
                try set(.bytes(bytes), row, key, mayReplace: mayReplace)
            }
        }
        return try set(.copy(of: source), row, key, mayReplace: mayReplace)
    }

    private func content(of source: SharedDescriptor, size: Int) throws(CacheError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: size)
        let count = try translating("read the file", at: path) { () throws(Errno) in
            try fileSystem.read(source.file, at: 0, into: &bytes)
        }
        return Array(bytes.prefix(count))
    }

    /// A copy that has a name among the entries, and no footer yet.
    struct StagedFile {
        let number: UInt64
        let file: SharedDescriptor
    }

    /// Copies a file into the directory of the entries, and takes size and checksum of the copy: the original may change.
    ///
    /// Under a number of its own, so that writers of other keys are not kept waiting by a large file. Killed here, the process
    /// leaves a file without a footer, which the next opening deletes.
    func stage(_ source: SharedDescriptor, as row: inout Row, in volume: Volume) throws(CacheError) -> StagedFile {
        var mayRetry = true
        while true {
            let number = try takeNumber()
            do throws(Errno) {
                return StagedFile(number: number, file: try copy(source, as: number, &row, in: volume))
            } catch .exists {
                continue
            } catch {
                if mayRetry, error == .noSpace || error == .overQuota, unlinkDoomed(in: volume) > 0 {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "copy a file", path: volume.path(of: number))
            }
        }
    }

    private func copy(
        _ source: SharedDescriptor, as number: UInt64, _ row: inout Row, in volume: Volume
    ) throws(Errno) -> SharedDescriptor {
        let copy = try fileSystem.copy(
            source.file, size: row.size, as: .number(number), in: volume.entries.file, access: .owner)
        let file = SharedDescriptor(copy)
        do throws(Errno) {
            row.size = try fileSystem.status(of: file.file).size
            guard let checksum = try fileSystem.checksum(of: file.file, size: row.size) else { throw .io }
            row.checksum = checksum
            return file
        } catch {
            discard(number, of: Key(row.key), in: volume)
            throw error
        }
    }

    /// Copies a fresh entry's payload to a file, which appears whole and verified or not at all. Returns false for a miss.
    func export(_ key: Key, as name: FileName, in directory: SharedDescriptor, at now: Timestamp) throws(CacheError)
        -> Bool
    {
        let outcome = read(key, at: now) { volume, row in
            export(row, as: name, in: directory, from: volume)
        }
        guard let outcome else { return false }
        try outcome.get()
        return true
    }

    private func export(
        _ row: Row, as name: FileName, in directory: SharedDescriptor, from volume: Volume
    ) -> Volume.Reading<Result<Void, CacheError>> {
        let entry: SharedDescriptor
        switch volume.open(row) {
        case .value(let file): entry = file
        case .gone: return .gone
        case .damaged: return .damaged
        case .failed(let error): return .failed(error)
        }
        // Beside its target, for only there it can take that name in one step.
        let temporary = FileName.text(".larder-\(FileName.number(.random(in: 0...Record.lastNumber)))")
        do throws(Errno) {
            let copy = try fileSystem.copy(
                entry.file, size: row.size, as: temporary, in: directory.file, access: .everybody)
            do throws(Errno) {
                if try fileSystem.checksum(of: copy, size: row.size) != row.checksum {
                    let isDamaged = try fileSystem.checksum(of: entry.file, size: row.size) != row.checksum
                    try? fileSystem.remove(temporary, in: directory.file, directory: false)
                    if isDamaged { return .damaged }
                    throw .io
                }
                try fileSystem.rename(temporary, in: directory.file, to: name, in: directory.file)
            } catch {
                try? fileSystem.remove(temporary, in: directory.file, directory: false)
                throw error
            }
        } catch {
            return .value(.failure(CacheError(error, doing: "export a value", path: volume.path(of: row.file))))
        }
        return .value(.success(()))
    }
}
