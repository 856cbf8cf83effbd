import LarderFiles

/// The *info* queue: owns the journal, and with it the order in which changes are committed.
///
/// A change is committed by appending its lines; publishing it in the index is part of the same block, so no other
/// commit intervenes. Callers block, so the queue is a lock. It is taken inside a block of the disk queue and inside a
/// stripe; only the locks of the index and of the sequence number are taken inside it.
final class CommitQueue: Sendable {
    /// Called once a save is due, a delay after the first change since the last one. On the clock's thread.
    let saveDue = Hook()
    private let saveTimer = OwnedTimer()

    private let fileSystem: any FileSystem
    private let queue = SerialQueue()
    private let path: String
    /// The version of the format.
    private let version: UInt64
    private let isPowerSafe: Bool
    private let saveDelay: Duration
    private let entriesPerGroup: Int
    private let clock: any Clock
    private let reporter: Reporter
    /// Whether the journal may have a clean-shutdown marker, or be missing, or be of an older version. The first change
    /// must remove the marker or create the journal.
    private let hasShutdownMarker = Flag(true)
    private let provisional: ProvisionalState
    private let others: ReplaceableReference<Follower>
    private let staged = Lock(Staged())

    /// Files with old numbers or none, which other processes must not take for left by a dead one.
    private struct Staged {
        /// The numbers of copies that are being made.
        var copies: Set<UInt64> = []
        /// The lowest number of the values that are being moved.
        var moved: UInt64?

        /// 0: none.
        var lowest: UInt64 {
            guard let copy = copies.min() else { return moved ?? 0 }
            return min(copy, moved ?? copy)
        }
    }

    /// Used in blocks of the queue only.
    @exclusivity(unchecked) nonisolated(unsafe) private var journal: Journal

    init(
        _ loaded: LoadedJournals, of directory: StoreDirectory, _ membership: Membership, _ context: StoreContext
    ) {
        fileSystem = context.fileSystem
        path = context.path
        version = context.settings.inlineThreshold > 0 ? Record.segmentsVersion : Record.plainVersion
        isPowerSafe = context.settings.isPowerSafe
        saveDelay = context.settings.saveDelay
        entriesPerGroup = context.settings.entriesPerGroup
        clock = context.clock
        reporter = context.reporter
        others = context.disk.others
        provisional = context.provisional
        journal = Journal(loaded, of: directory, version: version, isPowerSafe: isPowerSafe, membership) {
            [provisional] in provisional.isSettled
        }
    }

    /// Replaces the journal by that of another directory. Call it in a barrier of the disk queue.
    func replaceJournal(_ loaded: LoadedJournals, of directory: StoreDirectory, _ membership: Membership) {
        let fresh = Journal(loaded, of: directory, version: version, isPowerSafe: isPowerSafe, membership) {
            [provisional] in provisional.isSettled
        }
        queue.run { journal = fresh }
        hasShutdownMarker.set()
    }

    /// The last number from before the session. Where others may join, every change up to it is published or has
    /// failed.
    var lastNumberBefore: UInt64 {
        // Values that are being moved are older than their moves.
        others.object.lastNumberBefore(staged.withLock { $0.copies.min() } ?? .max)
    }
}

extension CommitQueue {
    /// Runs `body` as a block of the queue. For tests.
    func run<Result>(_ body: () throws -> Result) rethrows -> Result { try queue.run(body) }
}

/// Sequence numbers.
extension CommitQueue {
    /// The keys that a change concerns, all of whose other changes wait for it or know of it.
    enum Extent {
        /// The stripe of the key is held.
        case key(Key)
        /// In a barrier.
        case all
        /// The number is not one of a change.
        case none
    }

    /// Takes the next sequence number.
    ///
    /// Numbers without a line pile up when changes fail. Before one is taken that an opening after a kill would not
    /// reach, the header of the journal asks for a listing.
    func takeNumber(_ extent: Extent) throws(CacheError) -> UInt64 {
        let (number, isBeyondReach) = others.use { others in
            let number =
                switch extent {
                // Nobody waits for the stripe while nobody is there.
                case .key(let key):
                    others.page.beginChange(
                        stripe: others.isAlone ? nil : key.stripe, slot: key.shard, of: others.lane)
                case .all: others.page.beginChange(stripe: nil, slot: Index.shardCount, of: others.lane)
                case .none: others.page.takeNumber()
                }
            return (number, others.isBeyondReach(number))
        }
        if isBeyondReach {
            try queue.run { () throws(CacheError) in
                try translating("write the journal", at: path) { () throws(Errno) in
                    try journal.noteTaken(number)
                }
            }
        }
        return try checked(number)
    }

    /// Takes a number for a copy that is no entry yet. Until `endStaging`, other processes take its file for in use.
    func takeStagingNumber() throws(CacheError) -> UInt64 {
        try staged.withLock { staged throws(CacheError) in
            let others = others.object
            // First, so that a process that takes a higher number finds it.
            if staged.lowest == 0 { others.noteStaged(others.page.lastNumber + 1) }
            let number = try takeNumber(.none)
            staged.copies.insert(number)
            others.noteStaged(staged.lowest)
            return number
        }
    }

    func endStaging(_ number: UInt64) {
        changeStaged { _ = $0.copies.remove(number) }
    }

    /// Announces that values with this number, or a higher one, are being moved. Until `endMove`, other processes keep
    /// what covers them.
    func beginMove(from number: UInt64) { changeStaged { $0.moved = number } }

    func endMove() { changeStaged { $0.moved = nil } }

    private func changeStaged(_ change: (inout Staged) -> Void) {
        staged.withLock { staged in
            change(&staged)
            others.object.noteStaged(staged.lowest)
        }
    }

    private func checked(_ number: UInt64) throws(CacheError) -> UInt64 {
        guard number <= Record.lastNumber else {
            throw CacheError(
                code: .io, message: "The directory claims that all sequence numbers are used up.", path: path)
        }
        return number
    }

    /// The last number taken. A header records it, so that no number is taken twice.
    var lastTaken: UInt64 {
        others.use { $0.page.lastNumber }
    }

    /// Skips some numbers, which may be in use. Half of all numbers are never skipped, so they cannot run out by this.
    func skipNumbers(_ count: UInt64) {
        if lastTaken <= Record.lastNumber / 2 { others.object.page.skipNumbers(count) }
    }

    func raiseNumbers(to number: UInt64) { others.object.page.raiseNumbers(to: number) }
}

/// Commits.
extension CommitQueue {
    /// A record on its way to stable storage.
    struct Ticket {
        private let sync: GroupSync
        /// Before and after the write.
        private let first: Int
        private var last: Int

        /// Takes a ticket for a record that is about to be written, or has been.
        fileprivate init(_ sync: GroupSync) {
            self.sync = sync
            first = sync.note()
            last = first
        }

        /// Notes that the record is written; to another journal if that had to be.
        fileprivate func written(to journal: GroupSync?) -> Ticket? {
            guard journal === sync else { return journal.map { Ticket($0) } }
            var ticket = self
            ticket.last = sync.note()
            return ticket
        }

        func wait() throws(Errno) {
            try sync.sync(through: last, since: first)
        }
    }

    /// Removes the clean-shutdown marker, so that a kill from here on is noticed. Call it before a session's first
    /// change to the directory, in a block of the disk queue.
    func removeShutdownMarker() throws(CacheError) {
        guard hasShutdownMarker.isSet else { return }
        try queue.run { () throws(CacheError) in
            try translating("reopen the journal", at: path) { () throws(Errno) in
                try journal.removeShutdownMarker()
            }
        }
        hasShutdownMarker.set(false)
    }

    /// Appends the lines of a change to the journal, and publishes it: from then on it is committed. Call it in a block
    /// of the disk queue.
    ///
    /// A process killed before the append has changed nothing; one killed after it finds the change again. `number` is
    /// the highest one that was taken for the lines. The journal has some room for removals, even when the disk is
    /// full.
    ///
    /// - Returns: In power-safe caches, or with `mustSync`, a ticket to wait for.
    func commit(
        _ lines: UnsafeRawBufferPointer, count: Int = 1, number: UInt64 = 0, isRemoval: Bool = false,
        mustSync: Bool = false, publish: () -> Void
    ) throws(CacheError) -> Ticket? {
        queue.enter()
        defer { queue.leave() }
        // Until the files are among the debts.
        if isRemoval { beginRemoving() }
        defer { if isRemoval { endRemoving() } }
        let begun = isPowerSafe || mustSync ? journal.sync.map { Ticket($0) } : nil
        do throws(Errno) {
            try journal.append(lines, count: count, isRemoval: isRemoval)
        } catch {
            // Numbers were taken without a line. The next opening might not find the files under these numbers.
            try? journal.unsettle()
            throw CacheError(error, doing: "write the journal", path: path)
        }
        if journal.debouncer.changed() { scheduleSave() }
        let ticket = begun?.written(to: journal.sync)
        publish()
        others.use { others in
            others.noteRecorded(number)
            others.noteOwnCommit(journal.epoch)
        }
        return ticket
    }

    func beginRemoving() { others.use { $0.page.beginRemoving(of: $0.lane) } }

    func endRemoving() { others.use { $0.page.endRemoving(of: $0.lane) } }

    /// The same for printed changes. `deleteFiles` is called first where they are published without their lines because
    /// nobody else is there.
    func commit(
        _ changes: borrowing Changes, orElse fallback: Changes.Fallback = .none, mustSync: Bool = false,
        deleteFiles: () throws(CacheError) -> Void = {}, publish: () -> Void
    ) throws(CacheError) -> Ticket? {
        let (count, number, areRemovals) = (changes.count, changes.number, changes.areRemovals)
        do throws(CacheError) {
            return try changes.lines.withBytes { lines throws(CacheError) in
                try commit(
                    lines, count: count, number: number, isRemoval: areRemovals, mustSync: mustSync, publish: publish)
            }
        } catch {
            switch fallback {
            case .none: throw error
            case .publishing: publishUnrecorded(error, publish)
            case .publishingAlone:
                try others.object.membership.whileNobodyJoins { isAlone throws(CacheError) in
                    guard isAlone else { throw error }
                    try deleteFiles()
                    publishUnrecorded(error, publish)
                }
            }
            return nil
        }
    }

    /// Tells other processes that all namespaces are about to change, also those without entries: their fetches must
    /// not store what they have found before, and their memory tiers begin anew. The record removes nothing.
    func announceClear() throws(CacheError) {
        _ = try commit(Changes(.clear(.everything, number: 1)), orElse: .publishingAlone) {}
    }

    /// The same for changes that the files tell, too: they do not fail.
    @discardableResult
    func commitIfPossible(_ changes: borrowing Changes, publish: () -> Void) -> Ticket? {
        try? commit(changes, orElse: .publishing, publish: publish)
    }

    private func publishUnrecorded(_ error: CacheError, _ publish: () -> Void) {
        reporter.report(error)
        queue.run {
            publish()
            journal.demandSave()
            scheduleSaveOnce()
        }
        if others.object.noteUnrecorded() { provisional.noteUnrecorded() }
    }

    /// Waits until a record is on stable storage. After a failed sync the journal is abandoned: its content on disk is
    /// unknown.
    func wait(for ticket: Ticket?) throws(CacheError) {
        guard let ticket else { return }
        do throws(Errno) {
            try ticket.wait()
        } catch {
            queue.run {
                journal.abandon()
                journal.demandSave()
            }
            throw CacheError(error, doing: "sync the journal", path: path)
        }
    }

    /// Waits until records, and the names of their journals, are on stable storage, whatever the durability of changes.
    /// A save may have begun another journal since.
    func wait(for tickets: [Ticket]) throws(CacheError) {
        if tickets.isEmpty { return }
        for ticket in tickets { try wait(for: ticket) }
        try translating("sync the directory", at: path) { () throws(Errno) in
            let unnamed = try queue.run { () throws(Errno) in try journal.unsyncedName }
            guard let (root, generation) = unnamed else { return }
            // Outside of the queue, so no change waits for it.
            try fileSystem.sync(root.file)
            queue.run { journal.noteSyncedName(of: generation) }
        }
    }

    /// The same for all records so far of the current journal.
    func syncJournal() throws(CacheError) {
        let ticket = queue.run { journal.sync.map { Ticket($0) } }
        try wait(for: ticket.map { [$0] } ?? [])
    }

    /// Undoes a change that has failed after its commit: commits `changes`, which revert it. `afterFailedSync`: to
    /// another journal.
    ///
    /// Returns false, and leaves the new state, when other processes may have seen that and cannot be told of the old
    /// one.
    func takeBack(_ changes: borrowing Changes, afterFailedSync: Bool = false, publish: () -> Void) -> Bool {
        if afterFailedSync { queue.run { journal.abandon() } }
        do throws(CacheError) {
            let ticket = try commit(changes, publish: publish)
            try? wait(for: ticket)
        } catch {
            guard others.use({ $0.isAlone }) else {
                demandSave()
                return false
            }
            publishUnrecorded(error, publish)
        }
        return true
    }
}

/// Saves, as the manifest writer requests them.
extension CommitQueue {
    /// A running save: the generation that it writes, and the content of the journals when it began.
    struct Save {
        let generation: UInt64
        let root: OwnedDescriptor
        /// The older journals that others have in use, and the parts of them that the save covers.
        var journals: [JournalPart] = []
        /// Every change up to this number is published, or has failed, before the index is copied.
        var settled: UInt64
        /// No file is unread that may have what the index does not.
        var isProof = true
        fileprivate let records: Int
        fileprivate let demands: Int
        fileprivate let doubts: Int
        /// The directory may be replaced meanwhile, and the journal with it.
        fileprivate let journal: ObjectIdentifier
    }

    /// The journal does not record everything that the index has.
    var mustSave: Bool { queue.run { journal.mustSave } }

    /// Notes that the next opening must list the files, unless the session ends in order.
    func markUnsettled() {
        queue.run { try? journal.unsettle() }
    }

    func demandSave() {
        queue.run { journal.demandSave() }
    }

    /// Schedules a save if there is anything to save.
    func scheduleSaveIfDirty() {
        queue.run { if journal.isDirty { scheduleSaveOnce() } }
    }

    private func scheduleSaveOnce() {
        if journal.debouncer.changed() { scheduleSave() }
    }

    private func scheduleSave() {
        saveTimer.set(clock.schedule(after: saveDelay) { [weak self] in self?.saveDue() })
    }

    /// Notes that a scheduled save begins: the next change schedules another.
    func noteScheduledSave() {
        queue.run { journal.debouncer.due() }
    }

    /// Begins a save and its journal, if rewriting a manifest of this many entries is worth it, or `always` if there
    /// are changes; otherwise returns nil.
    func beginSave(entries: Int, always: Bool) throws(CacheError) -> Save? {
        try queue.run { () throws(CacheError) in
            journal.noteDeletions()
            let isWorthIt = SaveDebouncer.isWorthSaving(
                records: journal.records, entries: entries, perGroup: entriesPerGroup)
            guard journal.mustSave || isWorthIt || (always && journal.isDirty) else { return nil }
            return try translating("begin a journal", at: path) { () throws(Errno) in
                // Read before the journal begins: a change that is open now may get into a journal that the save does
                // not replace, and come after all later ones there.
                let settled = others.object.page.lowestOpen - 1
                return Save(
                    generation: try journal.beginSave(), root: try journal.root, settled: settled,
                    records: journal.records, demands: journal.demands, doubts: journal.doubts,
                    journal: ObjectIdentifier(journal))
            }
        }
    }

    /// Returns when a commit that is under way has been published in the index.
    func awaitCommit() {
        queue.run {}
    }

    /// Appends lines to the journal of a save that repeat what other journals say.
    func repeatLines(_ lines: [UInt8], of save: Save) throws(Errno) {
        try queue.run { () throws(Errno) in
            if ObjectIdentifier(journal) == save.journal { try journal.append(lines, count: 0) }
        }
    }

    /// Notes that the manifest of a save is in place, and is about to replace journals. Returns the manifests that it
    /// replaces, too; nil where the directory was replaced meanwhile.
    func finish(
        _ save: Save, _ format: ManifestFormat, replacing journals: [UInt64]
    ) throws(Errno) -> [ManifestFormat]? {
        try queue.run { () throws(Errno) in
            guard ObjectIdentifier(journal) == save.journal else { return nil }
            journal.saved(
                save.generation, isProof: save.isProof, recordsSaved: save.records, demandsMet: save.demands,
                doubtsMet: save.doubts)
            let manifests = journal.wrote(format)
            // The first journal proves that the directory is ours: the next one must be on disk before it is deleted.
            if journals.contains(1), !isPowerSafe { try journal.syncBegun() }
            return manifests
        }
    }

    /// Ends the session and closes the journal's files; when entries and files agree, with the clean-shutdown marker.
    /// Call it in a barrier of the disk queue.
    func endSession(
        isConsistent: Bool, _ totals: SavedTotals?, _ directory: StoreDirectory
    ) throws(CacheError) {
        let (membership, page) = (others.object.membership, others.object.page)
        // Beside others there is no marker: they may still change something.
        try membership.whileNobodyJoins { isAlone throws(CacheError) in
            let isLast = isAlone && page.deaths == page.cleanedDeaths && hasOtherJournals == false
            // The index of a process that joined after a removal without a record still has the entry.
            let isWhole = isConsistent && page.unrecorded == 0
            try endSessionAlone(isConsistent: isWhole && isLast, totals, directory)
        }
    }

    /// True when there are journals besides that of this process; nil: not known.
    var hasOtherJournals: Bool? {
        queue.run {
            guard let root = try? journal.root, let found = try? RootJournals(in: root, journal.fileSystem) else {
                return nil
            }
            return found.journals.contains { $0 != journal.ownGeneration }
        }
    }

    private func endSessionAlone(
        isConsistent: Bool, _ totals: SavedTotals?, _ directory: StoreDirectory
    ) throws(CacheError) {
        queue.enter()
        defer { queue.leave() }
        // The handle may live longer, but its directory must not stay open.
        defer { journal.release() }
        guard isConsistent, !journal.mustSave, !journal.endsClosed, directory.isWhole else { return }
        // The marker promises that names and index agree, after a power cut too: the names must reach the disk first.
        // Some file systems cannot sync a directory; the next opening then lists it.
        do throws(Errno) {
            try directory.syncNames(andRoot: isPowerSafe)
        } catch {
            let failure = CacheError(error, doing: "sync the directory", path: path)
            if isPowerSafe { throw failure }
            return reporter.report(failure)
        }
        try translating("close the journal", at: path) { () throws(Errno) in try journal.close(totals)
        }
    }
}
