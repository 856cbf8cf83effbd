import LarderFiles

/// The open journal, and the state of all journals on disk. Used on the info queue only.
final class Journal {
    let fileSystem: any FileSystem
    private let isPowerSafe: Bool
    private let membership: Membership
    /// The same, without reference counting.
    private let unretained: UnretainedReference<Membership>
    /// A process that has the directory alone continues the journal of the last session. Of several, each has journals
    /// of its own.
    private let mayContinue: Bool
    /// Whether entries and files agree, for the header of the next journal.
    private let isSettled: () -> Bool
    /// The directory of the journals; nil once released. The journals stay in it when the store moves to another
    /// directory.
    private var directory: OwnedDescriptor?
    var root: OwnedDescriptor {
        get throws(Errno) {
            guard let directory else { throw .badDescriptor }
            return directory
        }
    }

    /// The journal that is open for appending; opened by the first change, so that reading writes nothing.
    private var file: OwnedDescriptor?
    /// Its generation; 0: none. `generation` may be that of a journal of another process, after an attempt that failed.
    private var openGeneration: UInt64 = 0
    /// The journal whose name is on stable storage.
    private var namedGeneration: UInt64 = 0
    /// The generation of the journal of this session, or of the last session if this one has none.
    var ownGeneration: UInt64 { file == nil ? generation : openGeneration }
    private(set) var sync: GroupSync?
    /// The highest generation on disk; 0: none.
    private(set) var generation: UInt64
    /// The directory has no journal and no manifest yet.
    private var isNew: Bool
    /// The length of the good part of the current journal. Bytes.
    private var length: Int
    /// The bytes of the current journal whose blocks are allocated.
    private var allocated = 0
    /// The bytes behind the end of the journal that only removals may use: beside others, each needs a record, also on
    /// a full disk.
    private static let removalReserve = 4096
    /// True when the current journal cannot be continued: the next record begins a new one.
    private var isBroken: Bool

    /// The generation of the saved manifest; 0: none.
    private(set) var savedGeneration: UInt64
    /// True when the current journal was begun for a save that is not finished.
    private var isBegunForSave = false
    /// Records since the saved manifest.
    private(set) var records: Int
    /// True when the last record is the clean-shutdown marker.
    private(set) var endsClosed: Bool
    /// True when the clean-shutdown marker was removed, but the removal could not be synced.
    private var isMarkerUnsynced = false
    /// The length of that record. Bytes.
    private let closedLength: Int
    /// The last number taken, according to the header of the current journal.
    private var headerLast: UInt64
    /// The version of the format in its header.
    private var headerVersion: UInt64
    /// The same of a journal that is begun.
    private let version: UInt64
    /// Whether the header promises that every file which no line mentions belongs to a change that was under way at the
    /// end; nil in a journal of version 1, whose header does not say.
    private var isHeaderSettled: Bool?
    /// The header must be corrected: it may promise that, but other files may exist.
    private var mustUnsettle: Bool
    /// How often that was found.
    private(set) var doubts = 0
    /// There were entry files without an index, so journals begin at 2: journals from 1 on count as complete without a
    /// manifest.
    private let isLost: Bool
    /// How often the journal was found to lack something that the index has. If ever, the manifest must be rewritten.
    private(set) var demands: Int
    /// The directory has no `CACHEDIR.TAG`; the next journal brings it.
    private var lacksTag: Bool
    /// The formats of the manifests on disk.
    private(set) var manifests: [ManifestFormat]
    var debouncer = SaveDebouncer()
    /// A journal that is still to be begun.
    private var unbegun: (generation: UInt64, file: OwnedDescriptor)?
    /// The place in the page of the length of the current journal.
    private var publishedLength = 0
    /// The epoch of the last lines that were published.
    private(set) var epoch: UInt64 = 0
    /// The journal of an earlier session that ends with a marker, without it.
    private var oldMarker: JournalPart?

    init(
        _ loaded: LoadedJournals, of place: StoreDirectory, version: UInt64, isPowerSafe: Bool,
        _ membership: Membership, isSettled: @escaping @Sendable () -> Bool
    ) {
        self.membership = membership
        unretained = UnretainedReference(membership)
        mayContinue = !membership.mayBeJoined
        self.isSettled = isSettled
        fileSystem = place.fileSystem
        directory = place.root
        self.isPowerSafe = isPowerSafe
        isNew = loaded.generations.isEmpty && loaded.savedGeneration == 0
        // Not below the manifest's generation: an older journal would not be read.
        generation = max(loaded.generations.last ?? 0, loaded.savedGeneration)
        length = loaded.length
        closedLength = loaded.closedLength
        isLost = loaded.isLost
        isBroken = loaded.isBroken
        savedGeneration = loaded.savedGeneration
        records = loaded.records
        manifests = loaded.manifests
        lacksTag = loaded.lacksTag
        endsClosed = loaded.endsClosed
        if mayContinue { openGeneration = generation }
        if !mayContinue, loaded.endsClosed {
            oldMarker = JournalPart(generation: generation, length: loaded.length - loaded.closedLength)
        }
        self.version = version
        headerVersion = loaded.headerVersion
        headerLast = loaded.headerLast
        isHeaderSettled = mayContinue ? loaded.isHeaderSettled : nil
        mustUnsettle = loaded.isUnsettled
        demands = loaded.isDamaged || loaded.isIncomplete || loaded.lacksRemovals ? 1 : 0
    }

    /// True when the manifest must be rewritten, however little changed.
    var mustSave: Bool { demands > 0 }
    /// True when the manifest on disk lacks something.
    var isDirty: Bool { records > 0 || mustSave }

    func demandSave() {
        demands += 1
        try? unsettle()
    }

    /// Demands a save where somebody has deleted the journal or the manifest: without them, the next opening would read
    /// every file.
    func noteDeletions() {
        guard let directory else { return }
        let isJournalGone = file.map { (try? fileSystem.status(of: $0.file).isLinked) == false } ?? false
        var isManifestGone = false
        // Another process may have saved in another format.
        for format in manifests where savedGeneration > 0 && mayContinue {
            do throws(Errno) {
                _ = try fileSystem.status(of: DirectoryLayout.manifest(format).name, in: directory.file)
            } catch {
                isManifestGone = isManifestGone || error == .noEntry
            }
        }
        if isJournalGone { abandon() }
        if isJournalGone || isManifestGone { demandSave() }
    }

    /// Notes in the header that the next opening must list the files, unless the session ends in order. Written in
    /// place, it needs no space on the disk.
    func unsettle() throws(Errno) {
        mustUnsettle = true
        doubts += 1
        try setHeader(isSettled: false)
    }

    /// The last number taken, for the header of the next journal.
    private var lastTaken: UInt64 { membership.page.lastNumber }

    /// Notes that a number is about to be used that no line records yet.
    func noteTaken(_ number: UInt64) throws(Errno) {
        if number > headerLast + Reconciliation.reach { try unsettle() }
    }

    /// Rewrites the header in place, if it says something else. One that cannot be changed is left as it is: that of
    /// version 1, and of a broken journal what would settle it.
    private func setHeader(isSettled: Bool) throws(Errno) {
        guard let isHeaderSettled, isHeaderSettled != isSettled, !isBroken || !isSettled else { return }
        if file == nil, try !resume() { return }
        guard let file else { return }
        let header = JournalFormat.header(
            version: max(version, headerVersion), generation: generation, last: headerLast,
            boot: isSettled ? fileSystem.boot : 0)
        try fileSystem.write(header, to: file.file, at: 0)
        if isPowerSafe { try fileSystem.sync(file.file) }
        self.isHeaderSettled = isSettled
        if isSettled { mustUnsettle = false }
    }

    /// Corrects the header, truncates the clean-shutdown marker, or begins the first journal, before any other change
    /// to the directory: with the marker, the next opening would trust the index even if a kill came between a file and
    /// its record. Truncating needs no space on the disk.
    func removeShutdownMarker() throws(Errno) {
        if !mayContinue { return try beginOwn() }
        if generation == 0 {
            // The first journal precedes the first file: it proves that the directory is ours. On a full disk it is
            // skipped, and the change itself succeeds or fails.
            return (try? begin()) ?? ()
        }
        if mustUnsettle { try setHeader(isSettled: false) }
        guard endsClosed || isMarkerUnsynced || isOutdated else { return }
        var isResumed = false
        if endsClosed { isResumed = try resume() }
        if isResumed, let file {
            // The marker has promised the same: names and index agree.
            if !mustUnsettle { try? setHeader(isSettled: true) }
            try fileSystem.truncate(file.file, to: length - closedLength)
            length -= closedLength
            endsClosed = false
        } else {
            try begin()
        }
        isMarkerUnsynced = true
        // Synced once per session, whatever the durability: if a power cut kept a change and undid this, the next
        // opening would trust an index without that change.
        do {
            if isResumed, let file { try fileSystem.sync(file.file) } else { try syncBegun() }
        } catch {
            // The next change tries again with another journal.
            isBroken = true
            throw error
        }
        isMarkerUnsynced = false
    }

    /// The same for a session that has a journal of its own. It may be lost in a power cut, and must not leave the marker
    /// of the session before behind.
    private func beginOwn() throws(Errno) {
        let hasOwn = file != nil
        if hasOwn, !isMarkerUnsynced { return }
        let isRemoved = truncateOldMarker()
        if !hasOwn {
            do {
                try begin()
            } catch {
                // The change itself succeeds or fails. The next one begins the journal.
                if isRemoved, error == .noSpace { return }
                throw error
            }
        }
        if isRemoved { return }
        // Its journal is not the last one any more, if that is certain to stay.
        isMarkerUnsynced = true
        try syncBegun()
        isMarkerUnsynced = false
    }

    /// Returns whether the journal before this session's has no marker, come what may.
    private func truncateOldMarker() -> Bool {
        guard let marked = oldMarker else { return true }
        oldMarker = nil
        do throws(Errno) {
            let name = DirectoryLayout.journal(marked.generation).name
            guard
                let (file, size) = try fileSystem.openRegular(name, in: try root.file, for: .updating),
                size == marked.length + closedLength
            else { return false }
            membership.page.shorten(marked, from: size)
            try fileSystem.truncate(file.file, to: marked.length)
            try fileSystem.sync(file.file)
            return true
        } catch {
            return false
        }
    }

    /// The directory and the generation of the journal, if its name may not be on stable storage.
    var unsyncedName: (root: OwnedDescriptor, generation: UInt64)? {
        get throws(Errno) {
            if file == nil || namedGeneration == openGeneration { return nil }
            return (try root, openGeneration)
        }
    }

    func noteSyncedName(of generation: UInt64) {
        namedGeneration = max(namedGeneration, generation)
    }

    /// Syncs the journal that was begun last, and its name.
    func syncBegun() throws(Errno) {
        if let file { try fileSystem.sync(file.file) }
        try fileSystem.sync(try root.file)
    }

    /// Appends lines, each beginning with its line feed. After an error the journal has none of them.
    func append(
        _ lines: UnsafeRawBufferPointer, count: Int, isRemoval: Bool = false
    ) throws(Errno) {
        let file = try current(isRemoval: isRemoval)
        if !isRemoval, length + lines.count + Self.removalReserve > allocated {
            try allocate(beyond: length + lines.count, of: file)
        }
        do {
            try fileSystem.write(lines, .none, to: file.file, at: length)
        } catch {
            undo(file)
            throw error
        }
        length += lines.count
        records += count
        endsClosed = false
        epoch = unretained.use { $0.page.publish(length: length, at: publishedLength, of: $0.lane) }
    }

    /// Keeps room for removals behind an offset.
    @inline(never)
    private func allocate(beyond end: Int, of file: OwnedDescriptor) throws(Errno) {
        let size = end + 2 * Self.removalReserve
        do throws(Errno) {
            try fileSystem.allocate(max(allocated, length)..<size, for: file.file)
        } catch {
            guard error == .noSpace || error == .overQuota else { return allocated = size }
            // Alone, the files of a removal tell enough.
            if !unretained.use({ $0.isAlone }) { throw error }
            return
        }
        allocated = size
    }

    func append(_ lines: [UInt8], count: Int = 1) throws(Errno) {
        try lines.withBytes { bytes throws(Errno) in try append(bytes, count: count) }
    }

    /// Appends the clean-shutdown marker, which makes the next opening quick.
    func close(_ totals: SavedTotals?) throws(Errno) {
        if endsClosed { return }
        try append(JournalFormat.line(.closed(number: lastTaken, totals: totals?.bounded)), count: 0)
        if isPowerSafe, let file { try fileSystem.sync(file.file) }
        endsClosed = true
    }

    /// Begins the journal that belongs to the next manifest, unless the last attempt has done so; returns its
    /// generation.
    func beginSave() throws(Errno) -> UInt64 {
        if endsClosed, mayContinue { try removeShutdownMarker() }
        // Beside others always another: one that was begun since the last attempt may be older than theirs.
        if !mayContinue || !isBegunForSave || isBroken { try begin() }
        membership.page.noteBegunSave(generation)
        isBegunForSave = true
        return generation
    }

    /// Notes that the manifest of `generation` is on disk. It covers `recordsSaved` records, and meets the demands and
    /// doubts that were known when its journal began.
    ///
    /// `isProof`: every file that the index does not know is dead or younger.
    func saved(_ generation: UInt64, isProof: Bool, recordsSaved: Int, demandsMet: Int, doubtsMet: Int) {
        savedGeneration = generation
        isBegunForSave = false
        records -= recordsSaved
        demands -= demandsMet
        membership.page.noteSaved(generation)
        if isProof { membership.page.noteProved() }
        guard generation == self.generation, !mustSave, doubts == doubtsMet, isSettled() else { return }
        try? setHeader(isSettled: true)
    }

    /// Notes that there is a manifest in a format; returns the others, which are older.
    func wrote(_ format: ManifestFormat) -> [ManifestFormat] {
        defer { manifests = [format] }
        return manifests.filter { $0 != format }
    }

    /// Closes all files at the end of the session.
    func release() {
        directory = nil
        file = nil
        unbegun = nil
        sync = nil
    }

    /// Abandons the current journal after a failed sync: its content on disk is unknown.
    func abandon() {
        isBroken = true
    }

    /// An older Larder would read the current journal, but not the segments.
    private var isOutdated: Bool { version > Record.plainVersion && headerVersion < version }

    private func current(isRemoval: Bool = false) throws(Errno) -> OwnedDescriptor {
        // Another process has saved: the old journal can go once this process has left it.
        let saved = unretained.use { $0.page.savedGeneration }
        if let file, !isBroken, saved <= openGeneration { return file }
        if file == nil, !isBroken, try resume(), let file { return file }
        return try beginNext(after: saved, isRemoval: isRemoval)
    }

    /// Begins another journal. On a full disk a removal goes on in the old one, which has room: every save keeps the
    /// journals in use.
    private func beginNext(after saved: UInt64, isRemoval: Bool) throws(Errno) -> OwnedDescriptor {
        let old = isBroken ? nil : file
        if saved > openGeneration { noteSavedByAnother(saved) }
        do throws(Errno) {
            try begin()
        } catch {
            guard error == .noSpace || error == .overQuota, isRemoval, let old, !isBroken else { throw error }
            return old
        }
        return file!
    }

    /// Notes that the manifest of another process covers the changes so far.
    private func noteSavedByAnother(_ generation: UInt64) {
        savedGeneration = generation
        isNew = false
        records = 0
    }

    /// Opens the last session's journal for appending; false when it cannot be continued.
    private func resume() throws(Errno) -> Bool {
        if !mayContinue || isOutdated || generation == 0 { return false }
        do {
            let name = DirectoryLayout.journal(generation).name
            guard let (file, size) = try fileSystem.openRegular(name, in: try root.file, for: .updating), size == length
            else {
                return false
            }
            use(file)
            announce()
            return true
        } catch .noEntry {
            return false
        }
    }

    private func begin() throws(Errno) {
        let page = membership.page
        defer { page.note(nil, of: membership.lane) }
        var hasBegun = false
        repeat {
            generation = max(generation, page.lastGeneration)
            page.note(.soon, of: membership.lane)
            do throws(Errno) {
                try beginOnce()
            } catch {
                // A save that is under way takes the one that has been begun for covered.
                if hasBegun { isBroken = true }
                throw error
            }
            hasBegun = true
            announce()
            // A save that did not see the announcement takes the journal for covered, and deletes it.
        } while page.begunSave > generation
    }

    private func announce() {
        publishedLength = membership.page.announce(
            JournalPart(generation: generation, length: length), of: membership.lane)
        // Afterwards: a journal up to this generation has been announced.
        membership.page.raiseGenerations(to: generation)
    }

    private func beginOnce() throws(Errno) {
        let last = lastTaken
        if generation == 0, isLost { generation = 1 }
        let (file, next) = if let left = unbegunAbove() { left } else { try createAbove() }
        membership.page.note(.created(generation + 1), of: membership.lane)
        let isSettled = mayContinue && isSettled() && !mustSave
        let boot = !mayContinue ? Record.sharedBoot : isSettled ? fileSystem.boot : 0
        let header = JournalFormat.header(version: version, generation: generation + 1, last: last, boot: boot)
        do {
            try fileSystem.write(header, to: file.file, at: 0)
            if lacksTag { writeTag() }
            // The first journal and the tag prove that the directory is ours. A power cut must not undo both and leave
            // torn entries.
            if isPowerSafe || isNew {
                try fileSystem.sync(file.file)
                try fileSystem.sync(try root.file)
            }
        } catch {
            abandon(file, next)
            throw error
        }
        generation += 1
        isNew = false
        headerLast = last
        headerVersion = version
        isHeaderSettled = mayContinue ? isSettled : nil
        mustUnsettle = !isSettled
        length = header.count
        allocated = 0
        unbegun = nil
        isBroken = false
        endsClosed = false
        use(file)
    }

    /// Writes `CACHEDIR.TAG`, unless something has the name. Best effort: it may take the last block of the disk. It is
    /// synced: after a power cut and the loss of the index it may be the only proof that the directory is a cache.
    private func writeTag() {
        lacksTag = false
        guard let directory, let file = try? fileSystem.open(DirectoryLayout.tag, in: directory.file, for: .creating)
        else { return }
        do throws(Errno) {
            try fileSystem.write(DirectoryLayout.tagContent, to: file, at: 0)
            try fileSystem.sync(file)
        } catch {
            try? fileSystem.remove(DirectoryLayout.tag, in: directory.file, directory: false)
        }
    }

    /// Deletes a journal that could not be begun. Where others may join it stays, empty, for the next attempt: another
    /// process might give its name to a journal of its own, and a gap between the journals would count as a loss.
    private func abandon(_ file: OwnedDescriptor, _ name: FileName) {
        if !mayContinue {
            try? fileSystem.truncate(file.file, to: 0)
            unbegun = (generation + 1, file)
        } else if let directory {
            try? fileSystem.remove(name, in: directory.file, directory: false)
        }
    }

    /// The journal that the last attempt has left, if no process has begun one since: a save may have deleted it.
    private func unbegunAbove() -> (file: OwnedDescriptor, name: FileName)? {
        guard let found = unbegun, found.generation > generation else { return nil }
        generation = found.generation - 1
        return (found.file, DirectoryLayout.journal(found.generation).name)
    }

    /// Creates the next journal, above any name that belongs to a foreign file or was left by a failed attempt.
    private func createAbove() throws(Errno) -> (file: OwnedDescriptor, name: FileName) {
        while true {
            let name = DirectoryLayout.journal(generation + 1).name
            do {
                return (OwnedDescriptor(try fileSystem.open(name, in: try root.file, for: .creating)), name)
            } catch .exists {
                generation += 1
            }
        }
    }

    private func use(_ file: OwnedDescriptor) {
        self.file = file
        openGeneration = generation
        sync = GroupSync(file, of: fileSystem)
    }

    /// Truncates the remains of a failed append: a shorter line written over a longer torn one would be followed by its
    /// tail.
    private func undo(_ file: OwnedDescriptor) {
        do {
            try fileSystem.truncate(file.file, to: length)
            allocated = 0
        } catch {
            isBroken = true
            // Best effort: the next record tries again.
            try? begin()
        }
    }
}

/// Decides when the manifest is saved: a delay after the *first* change, so that changes cannot defer it forever.
struct SaveDebouncer {
    private var isScheduled = false

    /// Notes a change; true when a save has to be scheduled for it.
    mutating func changed() -> Bool {
        defer { isScheduled = true }
        return !isScheduled
    }

    /// Notes that the scheduled time has come: the next change schedules another.
    mutating func due() {
        isScheduled = false
    }

    /// True when rewriting the manifest is cheap relative to the changes, or takes at most two groups. This keeps the
    /// cost per change constant.
    static func isWorthSaving(records: Int, entries: Int, perGroup: Int = GroupTable.entriesPerGroup) -> Bool {
        records > 0 && (entries <= 2 * perGroup || records >= entries / 4)
    }
}
