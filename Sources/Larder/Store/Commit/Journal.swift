import LarderFiles

/// The open journal and what is known of all journals on disk. Used on the info queue alone.
final class Journal {
    private let fileSystem: any FileSystem
    private let isPowerSafe: Bool
    /// The directory of the journals; nil once released. They stay with it when the store moves on.
    private var directory: SharedDescriptor?
    var root: SharedDescriptor {
        get throws(Errno) {
            guard let directory else { throw .badDescriptor }
            return directory
        }
    }

    /// The journal that is open for appending; opened by the first change, so that reading writes nothing.
    private var file: SharedDescriptor?
    private(set) var sync: GroupSync?
    /// The highest generation on disk; 0: none.
    private(set) var generation: UInt64
    /// All generations on disk.
    private(set) var generations: [UInt64]
    /// The last good byte of the current journal.
    private var length: Int
    /// True when the current journal cannot be continued: the next record begins a new one.
    private var isBroken: Bool

    /// The generation of the saved manifest; 0: none.
    private(set) var savedGeneration: UInt64
    /// True when the current journal was begun for a save that has not come about.
    private var isBegunForSave = false
    /// Records since the saved manifest.
    private(set) var records: Int
    /// True when the last record says that the session ended in order.
    private(set) var endsClosed: Bool
    /// Bytes of the record that says so.
    private let closedLength: Int
    /// How often it was found that the journal does not tell what the index knows: the manifest has to be rewritten.
    private(set) var demands: Int
    /// The formats in which there is a manifest on disk.
    private(set) var manifests: [ManifestFormat]
    var debouncer = SaveDebouncer()

    init(_ loaded: LoadedJournals, of place: StoreDirectory, isPowerSafe: Bool) {
        fileSystem = place.fileSystem
        directory = place.root
        self.isPowerSafe = isPowerSafe
        generations = loaded.generations
        // Above the manifest's too: a lower one would not be read.
        generation = max(loaded.generations.last ?? 0, loaded.savedGeneration)
        length = loaded.length
        closedLength = loaded.closedLength
        isBroken = loaded.isBroken
        savedGeneration = loaded.savedGeneration
        records = loaded.records
        manifests = loaded.manifests
        endsClosed = loaded.endsClosed
        demands = loaded.isDamaged || loaded.isIncomplete ? 1 : 0
    }

    /// True when the manifest has to be rewritten however little changed.
    var mustSave: Bool { demands > 0 }
    /// True when the manifest on disk is missing something.
    var isDirty: Bool { records > 0 || mustSave }

    func demandSave() {
        demands += 1
    }

    /// Takes the record of the last session's end away, or begins the first journal, before anything else is done to
    /// the directory: were the process killed between a file and its record, the next opening would believe it.
    /// Truncating needs no room on the disk.
    func removeShutdownMarker(last: UInt64) throws(Errno) {
        if generation == 0 {
            // The first journal before the first file: it is the proof that the directory is ours. On a full disk the
            // change itself decides.
            return (try? begin(last: last)) ?? ()
        }
        guard endsClosed else { return }
        if try resume(), let file {
            try fileSystem.truncate(file.file, to: length - closedLength)
            length -= closedLength
            endsClosed = false
            // However durable the changes are to be: were one of them kept by a power cut and this not, the next
            // opening would believe an index that does not know of it. Once in a session.
            do {
                try fileSystem.sync(file.file)
            } catch {
                isBroken = true
                throw error
            }
        } else {
            try begin(last: last)
            try syncBegun()
        }
        endsClosed = false
    }

    /// Syncs the journal that was begun last, and its name.
    func syncBegun() throws(Errno) {
        if let file { try fileSystem.sync(file.file) }
        try fileSystem.sync(try root.file)
    }

    /// Appends lines, each beginning with its line feed. After an error none of them is there.
    func append(_ lines: UnsafeRawBufferPointer, count: Int, last: UInt64) throws(Errno) {
        let file = try current(last: last)
        do {
            try fileSystem.write(lines, .none, to: file.file, at: length)
        } catch {
            undo(file, last: last)
            throw error
        }
        length += lines.count
        records += count
        endsClosed = false
    }

    func append(_ lines: [UInt8], count: Int = 1, last: UInt64) throws(Errno) {
        try lines.withBytes { bytes throws(Errno) in try append(bytes, count: count, last: last) }
    }

    /// Appends the record that makes the next opening a quick one.
    func close(last: UInt64) throws(Errno) {
        if endsClosed { return }
        try append(JournalFormat.lines(.closed(number: last)), count: 0, last: last)
        if isPowerSafe, let file { try fileSystem.sync(file.file) }
        endsClosed = true
    }

    /// Begins the journal that goes with the next manifest, unless the last attempt has done so; returns its
    /// generation.
    func beginSave(last: UInt64) throws(Errno) -> UInt64 {
        if endsClosed { try removeShutdownMarker(last: last) }
        if !isBegunForSave || isBroken { try begin(last: last) }
        isBegunForSave = true
        return generation
    }

    /// Notes that the manifest of `generation` is on disk, which tells `recordsSaved` records and answers `demandsMet`
    /// demands.
    func saved(_ generation: UInt64, recordsSaved: Int, demandsMet: Int) {
        savedGeneration = generation
        isBegunForSave = false
        records -= recordsSaved
        demands -= demandsMet
    }

    /// Notes that there is a manifest in a format; returns the others, which are older.
    func wrote(_ format: ManifestFormat) -> [ManifestFormat] {
        defer { manifests = [format] }
        return manifests.filter { $0 != format }
    }

    /// Notes that an older journal has been deleted.
    func forget(_ old: UInt64) {
        generations.removeAll { $0 == old }
    }

    /// Closes what is open: the session has ended.
    func release() {
        directory = nil
        file = nil
        sync = nil
    }

    /// Gives the current journal up after a failed sync: what it holds on disk is no longer known.
    func abandon() {
        isBroken = true
    }

    private func current(last: UInt64) throws(Errno) -> SharedDescriptor {
        if let file, !isBroken { return file }
        if !isBroken, generation > 0, try resume(), let file { return file }
        try begin(last: last)
        return file!
    }

    /// Opens the last session's journal for appending; false when it cannot be continued.
    private func resume() throws(Errno) -> Bool {
        do {
            let name = DirectoryLayout.journal(generation).name
            guard let (file, size) = try fileSystem.openRegular(name, in: try root.file, for: .updating), size == length
            else {
                return false
            }
            use(file)
            return true
        } catch .noEntry {
            return false
        }
    }

    private func begin(last: UInt64) throws(Errno) {
        let (file, next) = try createAbove()
        let header = JournalFormat.header(generation: generation + 1, last: last)
        do {
            try fileSystem.write(header, to: file.file, at: 0)
            // The first journal is the proof that the directory is ours. A power cut must not take it and leave torn
            // entries.
            if isPowerSafe || generation == 0 {
                try fileSystem.sync(file.file)
                try fileSystem.sync(try root.file)
            }
        } catch {
            if let directory { try? fileSystem.remove(next, in: directory.file, directory: false) }
            throw error
        }
        generation += 1
        generations.append(generation)
        length = header.count
        isBroken = false
        endsClosed = false
        use(file)
    }

    /// Creates the next journal. Where something foreign has its name, or what a failed attempt could not remove: above
    /// that.
    private func createAbove() throws(Errno) -> (file: SharedDescriptor, name: FileName) {
        while true {
            let name = DirectoryLayout.journal(generation + 1).name
            do {
                return (SharedDescriptor(try fileSystem.open(name, in: try root.file, for: .creating)), name)
            } catch .exists {
                generation += 1
            }
        }
    }

    private func use(_ file: SharedDescriptor) {
        self.file = file
        sync = GroupSync(file, of: fileSystem)
    }

    /// Takes back what a failed append may have left: a shorter line over a longer torn one would be spoilt by its
    /// tail.
    private func undo(_ file: SharedDescriptor, last: UInt64) {
        do {
            try fileSystem.truncate(file.file, to: length)
        } catch {
            isBroken = true
            // Best effort: the next record tries again.
            try? begin(last: last)
        }
    }
}

/// When the manifest is saved: a delay after the *first* change, so that a stream of changes cannot put it off for ever.
struct SaveDebouncer {
    /// Manifests with at most this many entries are rewritten whatever changed.
    static let cheapCount = 1_000

    private var isScheduled = false

    /// Notes a change; true when a save has to be scheduled for it.
    mutating func changed() -> Bool {
        defer { isScheduled = true }
        return !isScheduled
    }

    /// Notes that the scheduled time has come: the next change schedules anew.
    mutating func due() {
        isScheduled = false
    }

    /// True when rewriting the manifest is cheap beside what changed: it keeps the cost per change constant.
    static func isWorthSaving(records: Int, entries: Int) -> Bool {
        records > 0 && (entries <= cheapCount || records >= entries / 4)
    }
}
