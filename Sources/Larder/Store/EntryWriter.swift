import LarderFiles

/// Writes entry files, each in one call. A long payload, or a copy of another file, is staged under a name that no
/// entry has, and renamed when it is complete.
final class EntryWriter: Sendable {
    private let fileSystem: any FileSystem
    private let isPowerSafe: Bool
    /// Bytes.
    private let inlineThreshold: Int
    /// Bytes.
    private let segmentLength: Int
    private let index: Index
    private let disk: DiskQueue
    private let info: CommitQueue
    private let reaper: FileReaper

    init(_ context: StoreContext, info: CommitQueue, reaper: FileReaper) {
        fileSystem = context.fileSystem
        isPowerSafe = context.settings.isPowerSafe
        inlineThreshold = context.settings.inlineThreshold
        segmentLength = context.settings.segmentLength
        index = context.index
        disk = context.disk
        self.info = info
        self.reaper = reaper
    }

    /// The bytes of a value to be stored.
    enum Payload {
        case bytes(UnsafeRawBufferPointer)
        /// Of a file that was copied in: they get a file of their own, however few they are.
        case copied(UnsafeRawBufferPointer)
        case staged(StagedFile)
    }

    /// A copy that does not have its final name and its footer yet.
    struct StagedFile {
        let number: UInt64
        let file: OwnedDescriptor
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
        var mayRetry = if case .staged = content { false } else { true }
        while true {
            let number = if let taken { taken } else { try info.takeNumber(.key(key)) }
            taken = nil
            if inlineThreshold > 0, case .bytes(let payload) = content, payload.count <= inlineThreshold,
                let new = try append(payload, entry, key, number: number, &mayRetry, in: directory)
            {
                return new
            }
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
        case .bytes(let payload) where payload.count > Self.longestInPlace,
            .copied(let payload) where payload.count > Self.longestInPlace:
            let staged = DirectoryLayout.stagedNumber(file.number)
            let opened = try fileSystem.open(.number(staged), in: directory.entries.file, for: .creating)
            do throws(Errno) {
                try fileSystem.write(payload, .none, to: opened, at: 0)
                let copy = StagedFile(number: staged, file: OwnedDescriptor(opened), directory: directory)
                try write(copy, new, key)
            } catch {
                reaper.deleteUncommitted(FileID(staged), of: key, in: directory)
                throw error
            }
        case .bytes(let payload), .copied(let payload):
            let opened = try fileSystem.open(.number(file.number), in: directory.entries.file, for: .creating)
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
        try requireFree(.number(file.number), in: directory)
        do {
            // The footer first: under its present name the file is no entry, whatever the copy ends with.
            try fileSystem.write(new.footer, .none, to: staged.file.file, at: new.entry.size)
            if isPowerSafe { try fileSystem.sync(staged.file.file) }
            try directory.rename(staged.number, to: file.number)
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

/// Entries in segments.
extension EntryWriter {
    /// Appends an entry to a segment; nil when it has to get a file of its own.
    private func append(
        _ payload: UnsafeRawBufferPointer, _ entry: IndexEntry, _ key: Key, number: UInt64, _ mayRetry: inout Bool,
        in directory: StoreDirectory
    ) throws(CacheError) -> NewEntry? {
        let writer = directory.segmentWriter
        while true {
            var reservation: SegmentWriter.Reservation?
            do throws(SegmentError<CacheError>) {
                let new = try NewEntry(entry, number: number, payload) { span throws(SegmentError<CacheError>) in
                    reservation = try writer.reserve(span, length: lengthOfSegments) { () throws(CacheError) in
                        try info.takeNumber(.none)
                    }
                    return reservation.map { ($0.place, salt: $0.salt) }
                }
                guard let new, let reservation else { return nil }
                do throws(CacheError) {
                    try Self.checkRecord(new.lineLength)
                } catch {
                    writer.end(reservation.place, unwritten: reservation.span)
                    throw .other(error)
                }
                do throws(Errno) {
                    let file = reservation.segment.file
                    let begun = isPowerSafe ? reservation.segment.noteWrite() : 0
                    try fileSystem.write(new.bytesInSegment, .none, to: file.file, at: reservation.place.offset)
                    // Where the directory was deleted, making another segment says so.
                    if try !reservation.segment.isLinked() {
                        writer.end(reservation.place)
                        writer.giveUp(reservation.segment)
                        try? directory.segments.closeDeleted()
                        continue
                    }
                    if isPowerSafe { try directory.sync(reservation.segment, since: begun) }
                    return new
                } catch {
                    // While its mark is owed, the place is not used again: the mark would meet another entry.
                    let isDeleted = reaper.deleteUncommitted(new.entry.file, of: key, in: directory)
                    writer.end(reservation.place, unwritten: isDeleted ? reservation.span : nil)
                    throw .io(error)
                }
            } catch {
                switch error {
                case .other(let error): throw error
                case .io(let error):
                    // Obsolete files may occupy the space that is needed.
                    if mayRetry, error == .noSpace || error == .overQuota, reaper.deleteObsolete(in: directory) > 0 {
                        mayRetry = false
                        continue
                    }
                    throw CacheError(error, doing: "store a value", path: directory.path)
                }
            }
        }
    }

    /// Appends a copy of an entry to a segment with a higher number than its own; nil when there can be none.
    ///
    /// The same value in two places is in the later one, whatever the order in which processes learn of the move.
    /// `begun`: the ticket of its segment from before it was written.
    func copy(
        _ entry: IndexEntry, _ payload: UnsafeRawBufferPointer, in directory: StoreDirectory
    ) throws(CacheError) -> (entry: IndexEntry, begun: Int)? {
        let writer = directory.movedWriter
        var reservation: SegmentWriter.Reservation?
        do throws(SegmentError<CacheError>) {
            let new = try NewEntry(entry, number: nil, payload) { span throws(SegmentError<CacheError>) in
                reservation = try writer.reserve(
                    span, after: entry.file.place.segment, length: lengthOfSegments
                ) { () throws(CacheError) in try info.takeNumber(.none) }
                return reservation.map { ($0.place, salt: $0.salt) }
            }
            guard let new, let reservation else { return nil }
            let begun = reservation.segment.noteWrite()
            do throws(Errno) {
                let file = reservation.segment.file
                try fileSystem.write(new.bytesInSegment, .none, to: file.file, at: reservation.place.offset)
                // The original must not be deleted for a copy that is gone. The next attempt makes another segment.
                if try !reservation.segment.isLinked() {
                    writer.giveUp(reservation.segment)
                    throw .noEntry
                }
            } catch {
                reaper.deleteUncommitted(new.entry.file, of: new.entry.key, in: directory)
                writer.end(reservation.place)
                throw .io(error)
            }
            return (new.entry, begun)
        } catch {
            switch error {
            case .other(let error): throw error
            case .io(let error): throw CacheError(error, doing: "move a value", path: directory.path)
            }
        }
    }

    /// Bytes.
    private static let shortSegment = 4 << 20

    /// The length of a new segment, in bytes. In a small cache segments are short, so that less of the disk is dead at
    /// times.
    private var lengthOfSegments: Int { min(segmentLength, max(index.totals.size / 8, Self.shortSegment)) }

    /// Notes that the change of a new entry is committed, or has failed.
    func end(_ new: borrowing NewEntry, in directory: StoreDirectory) {
        let place = new.entry.file.place
        if place.isInSegment { directory.segmentWriter.end(place) }
    }
}

/// Copies, made outside of the disk queue.
extension EntryWriter {
    /// Copies a file into the directory of the entries, and sets size and checksum from the copy: the original may
    /// change.
    ///
    /// Its name is not an entry's, whatever its content. After a kill the next opening deletes it.
    func stage(_ source: OwnedDescriptor, as entry: inout IndexEntry, _ key: Key) throws(CacheError)
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
                reaper.deleteUncommitted(FileID(number), of: key, in: directory)
                info.endStaging(taken)
                // The cache was cleared or reopened, and the directory deleted, during the copy.
                if try disk.run({ current throws(CacheError) in current.entries !== directory.entries }) { continue }
                if mayRetry, error == .noSpace || error == .overQuota, try makeRoom() {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "copy a file", path: directory.path(of: FileID(number)))
            }
        }
    }

    /// Notes that a copy is an entry, or has been deleted.
    func endStaging(_ staged: StagedFile) {
        if let number = DirectoryLayout.number(ofStaged: staged.number) { info.endStaging(number) }
    }

    private func stage(
        _ source: OwnedDescriptor, as entry: inout IndexEntry, _ number: UInt64, in directory: StoreDirectory
    ) throws(Errno) -> StagedFile {
        let copy = try fileSystem.copy(
            source.file, size: entry.size, as: .number(number), in: directory.entries.file, access: .owner)
        let file = OwnedDescriptor(copy)
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
