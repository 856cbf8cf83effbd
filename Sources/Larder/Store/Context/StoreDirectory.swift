import LarderFiles
import LarderFoundation

/// The open directory of a cache: its root, and the directory of the entry files. The registry holds its lock through a
/// separate descriptor.
final class StoreDirectory: Sendable {
    let fileSystem: any FileSystem
    let path: String
    let identity: FileIdentity
    let root: OwnedDescriptor
    let entries: OwnedDescriptor
    let segments: SegmentTable
    let segmentWriter: SegmentWriter
    /// Writes what is left of segments that are cleaned.
    let movedWriter: SegmentWriter
    private let entriesSync: GroupSync
    private let deletions = UnsyncedDeletions()
    private let isRootSynced = Flag()

    init(
        fileSystem: any FileSystem, path: String, identity: FileIdentity, root: OwnedDescriptor,
        entries: OwnedDescriptor
    ) {
        self.fileSystem = fileSystem
        self.path = path
        self.identity = identity
        self.root = root
        self.entries = entries
        segments = SegmentTable(of: entries, in: fileSystem)
        segmentWriter = SegmentWriter(segments, continuesOthers: true)
        movedWriter = SegmentWriter(segments, continuesOthers: false)
        entriesSync = GroupSync(entries, of: fileSystem)
    }

    /// Gives up the segments of this process, at the end of the session.
    func stopSegments() {
        segmentWriter.stop()
        movedWriter.stop()
        segments.noteDeadBytes()
    }

    func with(entries: OwnedDescriptor) -> StoreDirectory {
        StoreDirectory(fileSystem: fileSystem, path: path, identity: identity, root: root, entries: entries)
    }

    /// The path of an entry file, for messages only.
    func path(of file: FileID) -> String {
        let entries = "\(path)/\(DirectoryLayout.entries.name)"
        return file.place.isInSegment
            ? path(ofSegment: file.place.segment) : "\(entries)/\(FileName.number(file.number))"
    }

    func path(ofSegment number: UInt64) -> String {
        "\(path)/\(DirectoryLayout.entries.name)/\(SegmentTable.name)/\(FileName.number(number))"
    }
}

extension StoreDirectory {
    /// The outcome of reading an entry.
    enum Reading<Value> {
        case value(Value)
        /// The file does not exist.
        case gone
        /// The file is too short, or its bytes differ from the stored ones.
        case damaged
        case failed(CacheError)

        /// Continues with the value, if there is one.
        func then<Other>(_ next: (Value) -> Reading<Other>) -> Reading<Other> {
            switch self {
            case .value(let value): next(value)
            case .gone: .gone
            case .damaged: .damaged
            case .failed(let error): .failed(error)
            }
        }
    }

    /// Opens the file of an entry that has its own.
    func open(_ entry: IndexEntry) -> Reading<OwnedDescriptor> {
        do {
            guard let (file, size) = try fileSystem.openRegular(.number(entry.file.number), in: entries.file) else {
                return .failed(notOurs(entry.file))
            }
            return size >= entry.size ? .value(file) : .damaged
        } catch {
            return reading(error, of: entry.file)
        }
    }

    /// Where to copy the payload of an entry from.
    struct Source {
        let file: OwnedDescriptor
        /// The verified payload, of an entry that shares its file with others; nil: it is at the beginning of the file.
        var bytes: [UInt8]?
    }

    /// Opens the file of an entry, or reads its payload from a segment.
    func source(of entry: IndexEntry) -> Reading<Source> {
        guard entry.file.place.isInSegment else { return open(entry).then { .value(Source(file: $0)) } }
        return payload(of: entry).then { payload in
            do throws(Errno) {
                let segment = try segments.segment(entry.file.place.segment)
                return .value(Source(file: segment.file, bytes: Array(payload)))
            } catch {
                return reading(error, of: entry.file)
            }
        }
    }

    /// Reads the payload of an entry and verifies it. The size of the file is queried only for large and empty
    /// payloads.
    func payload(of entry: IndexEntry) -> Reading<Data> {
        // Zero bytes can be read from any file, and a record may claim a tebibyte, for which there is no memory.
        if entry.file.place.isInSegment {
            return entry.size > Self.large || entry.size == 0
                ? checkedPayload(of: entry) : readPayload(of: entry, in: nil)
        }
        if entry.size == 0 || entry.size > Self.large { return open(entry).then { readPayload(of: entry, in: $0) } }
        return readPayload(of: entry, in: nil)
    }

    /// Bytes.
    private static let large = 1 << 20

    /// The same for an entry in a segment of which no byte may be there.
    private func checkedPayload(of entry: IndexEntry) -> Reading<Data> {
        do {
            switch try segments.footer(of: entry.file) {
            case .valid(let found)? where found.isSameValue(as: entry): break
            case .last?: return .gone
            default: return .damaged
            }
        } catch {
            return reading(error, of: entry.file)
        }
        return readPayload(of: entry, in: nil)
    }

    /// Opens the file, unless it is already open.
    private func readPayload(of entry: IndexEntry, in opened: OwnedDescriptor?) -> Reading<Data> {
        // Not `Data(count:)`, which would fill the memory with zeros first.
        guard let start = malloc(max(entry.size, 1)) else {
            return .failed(CacheError(code: .tooLarge, message: "There is no memory for \(entry.size) bytes."))
        }
        do {
            if try read(entry, in: opened, into: UnsafeMutableRawBufferPointer(start: start, count: entry.size)) {
                // Created last: `Data` copies a few bytes into itself and frees the memory at once.
                return .value(Data(bytesNoCopy: start, count: entry.size, deallocator: .free))
            }
        } catch {
            free(start)
            return reading(error, of: entry.file)
        }
        free(start)
        return .damaged
    }

    /// False when the bytes differ from the stored ones.
    private func read(
        _ entry: IndexEntry, in opened: OwnedDescriptor?, into bytes: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Bool {
        let count: Int
        if let opened {
            count = try fileSystem.read(opened.file, at: 0, into: bytes)
        } else if entry.file.place.isInSegment {
            count = try segments.read(entry.file.place, into: bytes)
        } else {
            let file = try fileSystem.open(.number(entry.file.number), in: entries.file, for: .reading)
            count = try fileSystem.read(file, at: 0, into: bytes)
        }
        return count == entry.size && XXH64.hash(UnsafeRawBufferPointer(bytes)) == entry.checksum
    }

    /// Reads a footer; nil when the name is not a regular file's. Pass `name` if it differs from the number. O(length
    /// of the record).
    func footer(of file: FileID, in name: UInt64? = nil) throws(Errno) -> EntryFile.Footer? {
        if file.place.isInSegment { return try segments.footer(of: file) }
        let number = file.number
        guard let (file, size) = try fileSystem.openRegular(.number(name ?? number), in: entries.file) else {
            return nil
        }
        var length = min(size, 1 << 10)
        while true {
            var tail = [UInt8](repeating: 0, count: length)
            if try fileSystem.read(file.file, at: size - length, into: &tail) < length { return .invalid }
            let footer = tail.withBytes { EntryFile.footer(of: number, tail: $0, fileSize: size) }
            guard case .longer(let needed) = footer, needed > length,
                needed <= LineReader.longestRecord + EntryFile.trailerLength
            else {
                return footer
            }
            length = needed
        }
    }

    private func reading<Value>(_ error: Errno, of file: FileID) -> Reading<Value> {
        switch error {
        case .noEntry: .gone
        case .notRegular: .failed(notOurs(file))
        default: .failed(CacheError(error, doing: "read an entry", path: path(of: file)))
        }
    }

    func notOurs(_ file: FileID) -> CacheError {
        CacheError(
            code: .io,
            message: "An entry's name belongs to something that is not a regular file; it is left alone.",
            path: path(of: file))
    }

    /// Reads a tombstone; nil when the name is not a regular file's. Pass `name` if it is not that of a tombstone.
    func tombstone(_ number: UInt64, in name: UInt64? = nil) throws(Errno) -> EntryFile.Tombstone? {
        let name = FileName.number(name ?? DirectoryLayout.tombstoneNumber(number))
        guard let (file, size) = try fileSystem.openRegular(name, in: entries.file) else { return nil }
        var bytes = [UInt8](repeating: 0, count: min(size, LineReader.longestRecord + EntryFile.trailerLength))
        bytes.removeLast(bytes.count - (try fileSystem.read(file.file, at: 0, into: &bytes)))
        return bytes.withBytes { EntryFile.tombstone(number, $0) }
    }

    /// All files, and the content of the segments.
    struct Listing {
        let names: [UInt64]
        let segments: SegmentTable.Listing

        /// Files that may be entries' own, and the entries in segments, in no particular order.
        var entries: [FileID] {
            names.lazy.filter { $0 > 0 && $0 <= Record.lastNumber }.map { FileID($0) } + segments.entries
        }
    }

    /// O(files, and bytes in segments). In a block of the disk queue, a barrier would wait for it, and then all others.
    ///
    /// `goesOn`: asked from time to time; once it returns false the listing is nil.
    func list(while goesOn: () -> Bool) throws(Errno) -> Listing? {
        let names = try fileSystem.numbers(.regular, in: entries.file)
        return try segments.list(while: goesOn).map { Listing(names: names, segments: $0) }
    }

    func list() throws(Errno) -> Listing {
        try list { true } ?? Listing(names: [], segments: .init())
    }

    func rename(_ file: UInt64, to name: UInt64) throws(Errno) {
        try fileSystem.rename(.number(file), in: entries.file, to: .number(name), in: entries.file)
    }

    /// Throws `.noEntry` when an entry has no file, or its part of a segment is dead or damaged. Where only its header
    /// is damaged, the payload decides.
    func requireFile(of entry: IndexEntry) throws(Errno) {
        guard entry.file.place.isInSegment else {
            _ = try fileSystem.status(of: .number(entry.file.number), in: entries.file)
            return
        }
        switch try segments.condition(at: entry.file.place) {
        case .live: return
        case .dead: throw .noEntry
        case .unknown: if !isIntact(entry) { throw .noEntry }
        }
    }

    /// False when there is certainly no such file, or no such entry in a segment.
    func mayExist(_ file: FileID) -> Bool {
        do throws(Errno) {
            if file.place.isInSegment { return try segments.condition(at: file.place) != .dead }
            _ = try fileSystem.status(of: .number(file.number), in: entries.file)
            return true
        } catch {
            return error != .noEntry
        }
    }

    private func isIntact(_ entry: IndexEntry) -> Bool {
        guard mayExist(entry.file), case .value = payload(of: entry) else { return false }
        return true
    }

    /// The copy of a value that stays: the first one, unless only the second is intact. A power cut may have torn a
    /// copy, or left the place of which it was made without its bytes.
    func intact(_ first: IndexEntry, or second: IndexEntry) -> FileID {
        isIntact(first) || !isIntact(second) ? first.file : second.file
    }

    /// Deletes an entry file, or marks the entry in its segment as dead. A missing one is no error; anything but a
    /// regular file is left alone.
    ///
    /// `isOwed`: by an earlier session, so the place in a segment may belong to another entry by now.
    func delete(_ file: FileID, isOwed: Bool = false) throws(Errno) {
        if file.place.isInSegment { return try segments.mark(file.place, ifItIs: isOwed ? file.number : nil) }
        do {
            if try fileSystem.status(of: .number(file.number), in: entries.file).kind == .regular {
                try fileSystem.remove(.number(file.number), in: entries.file, directory: false)
            }
        } catch .noEntry {}
    }

    /// Deletes the file of a key. With power-safe changes it does so after the deletions of older ones are on stable
    /// storage.
    ///
    /// `hash`: that of the key; nil when the key is not known and the file was dead already.
    func delete(_ file: FileID, ofKey hash: UInt64?, isPowerSafe: Bool) throws(Errno) {
        try afterOlder(ofKey: hash, isPowerSafe) { () throws(Errno) in try delete(file, isOwed: hash == nil) }
    }

    private func afterOlder<Result>(
        ofKey hash: UInt64?, _ isPowerSafe: Bool, _ delete: () throws(Errno) -> Result
    ) throws(Errno) -> Result {
        guard isPowerSafe else { return try delete() }
        if let hash { try syncDeletions(ofKey: hash) }
        deletions.note(hash)
        defer { deletions.note(hash) }
        return try delete()
    }

    /// Sets the last file of a removed key aside: a short tombstone with another name says from now on that this file
    /// and all older ones of the key are dead; in a segment, another mark. Where there is no room for it, the file
    /// itself gets the name, or else its life ends before all others. Returns the bytes that it keeps; nil when there
    /// is no such file.
    ///
    /// Never in place: whoever has opened the value still reads it.
    func setAside(_ file: Debts.File, isPowerSafe: Bool) throws(Errno) -> Int? {
        try afterOlder(ofKey: file.hash, isPowerSafe) { () throws(Errno) in
            do throws(Errno) {
                let place = file.file.place
                if place.isInSegment, try segments.markLast(file.file) { return 0 }
                let size = place.isInSegment ? 0 : try sizeOfRegular(file.file)
                guard let size else { return nil }
                if let key = file.last?.key ?? (try? footer(of: file.file))??.entry?.key,
                    (try? placeAside(file.file.number, of: key, isPowerSafe)) == true
                {
                    try delete(file.file)
                    return min(size, Self.block)
                }
                if place.isInSegment { try delete(file.file) } else { try hide(file.file, isPowerSafe) }
                return size
            } catch {
                if error == .noEntry { return nil }
                throw error
            }
        }
    }

    /// Bytes.
    private static let block = 4096

    private func sizeOfRegular(_ file: FileID) throws(Errno) -> Int? {
        let status = try fileSystem.status(of: .number(file.number), in: entries.file)
        return status.kind == .regular ? status.size : nil
    }

    /// Creates the tombstone of a key that is set aside. False where there is a file with its name.
    func placeAside(_ number: UInt64, of key: Key, _ isPowerSafe: Bool) throws(Errno) -> Bool {
        let name = FileName.number(DirectoryLayout.asideNumber(number))
        let file: FileDescriptor
        do throws(Errno) {
            file = try fileSystem.open(name, in: entries.file, for: .creating)
        } catch {
            if error == .exists { return false }
            throw error
        }
        do throws(Errno) {
            try fileSystem.write(EntryFile.tombstone(of: .key(key), number: number + 1), to: file, at: 0)
            if isPowerSafe {
                try fileSystem.sync(file)
                try syncNames()
            }
        } catch {
            try? fileSystem.remove(name, in: entries.file, directory: false)
            throw error
        }
        return true
    }

    /// Gives a file the name of one that is set aside, which needs no room.
    private func hide(_ file: FileID, _ isPowerSafe: Bool) throws(Errno) {
        do throws(Errno) {
            try rename(file.number, to: DirectoryLayout.asideNumber(file.number))
        } catch {
            guard error != .noEntry, case .valid(let entry)? = try? footer(of: file),
                try writeSlot(.over, entry.change + 1, of: entry, isPowerSafe: isPowerSafe) == true
            else { throw error }
        }
    }

    /// Deletes a file that was set aside.
    func deleteAside(_ file: FileID, ofKey hash: UInt64, isPowerSafe: Bool) throws(Errno) {
        try delete(FileID(DirectoryLayout.asideNumber(file.number)), ofKey: hash, isPowerSafe: isPowerSafe)
        try delete(file, ofKey: hash, isPowerSafe: isPowerSafe)
    }

    /// Returns when no power cut can undo a deletion of a file of a key, or with nil of any.
    func syncDeletions(ofKey hash: UInt64?) throws(Errno) {
        if deletions.mayHold(hash) { try syncNames() }
    }

    /// Returns when the names of the entry files, and the marks of dead entries, are on stable storage. With `andRoot`,
    /// the name of their directory, too: a session that was killed may have replaced it. `ofAll`: other processes may
    /// have marked entries.
    func syncNames(andRoot: Bool = true, ofAll: Bool = false) throws(Errno) {
        if andRoot { try syncRoot() }
        try deletions.syncing { () throws(Errno) in
            try segments.sync(ofAll: ofAll)
            let ticket = entriesSync.note()
            try entriesSync.sync(through: ticket, since: ticket)
        }
    }

    private func syncRoot() throws(Errno) {
        if isRootSynced.isSet { return }
        try fileSystem.sync(root.file)
        isRootSynced.set()
    }

    /// Returns when everything written to a segment is on stable storage, and all names that lead to it. `first`: the
    /// ticket from before the first write.
    func sync(_ segment: Segment, since first: Int) throws(Errno) {
        try syncRoot()
        try segments.syncWithName(segment, since: first)
    }

    /// Overwrites the life slot in the trailer of an entry file. Returns nil when the name is not a regular file's, and
    /// false when the trailer is damaged; it is then left alone, because a rebuild ignores such a trailer either way.
    func writeSlot(_ life: Life, _ change: UInt64, of entry: IndexEntry, isPowerSafe: Bool) throws(Errno) -> Bool? {
        if entry.file.place.isInSegment {
            return try segments.writeSlot(life, change, at: entry.file.place, isPowerSafe: isPowerSafe)
        }
        guard
            let (file, size) = try fileSystem.openRegular(.number(entry.file.number), in: entries.file, for: .updating)
        else { return nil }
        let position = size - EntryFile.trailerLength
        guard position >= entry.size else { return false }
        var trailer = [UInt8](repeating: 0, count: EntryFile.trailerLength)
        let count = try fileSystem.read(file.file, at: position, into: &trailer)
        guard count == trailer.count, let check = trailer.withBytes({ EntryFile.recordCheck(inTrailer: $0) }) else {
            return false
        }
        try fileSystem.write(
            EntryFile.slot(life: life, change: change, recordCheck: check), to: file.file, at: position)
        if isPowerSafe { try fileSystem.sync(file.file) }
        return true
    }

    /// True while the directory still contains the open `entries`, whatever path leads to it now.
    var isWhole: Bool {
        guard let inside = try? fileSystem.status(of: DirectoryLayout.entries.name, in: root.file),
            let open = try? fileSystem.status(of: entries.file)
        else { return false }
        return inside.identity == open.identity
    }
}

extension FileSystem {
    /// Returns the XXH64 of the first `size` bytes of a file, read in pieces; nil when there are fewer. O(size).
    func checksum(of file: borrowing FileDescriptor, size: Int) throws(Errno) -> UInt64? {
        var stream = XXH64.Stream()
        var piece = [UInt8](repeating: 0, count: min(max(size, 1), 1 << 20))
        var done = 0
        while size - done > piece.count {
            guard try read(file, at: done, into: &piece) == piece.count else { return nil }
            piece.withBytes { stream.add($0) }
            done += piece.count
        }
        guard try read(file, at: done, into: &piece) >= size - done else { return nil }
        return piece.withBytes { stream.finish($0.part(0..<size - done)) }
    }
}
