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

    private let queue = SerialQueue()
    private let path: String
    private let isPowerSafe: Bool
    private let saveDelay: Duration
    private let entriesPerGroup: Int
    private let clock: any Clock
    private let reporter: Reporter
    private let numbers: Lock<Numbers>
    /// Whether the journal has a clean-shutdown marker, or is missing. The first change must remove the marker or
    /// create the journal.
    private let hasShutdownMarker: Flag
    private let provisional: ProvisionalState
    /// Used in blocks of the queue only.
    @exclusivity(unchecked) nonisolated(unsafe) private var journal: Journal

    private struct Numbers {
        /// The last number taken.
        var last: UInt64
        /// The last number taken before the session.
        let before: UInt64
        /// The last number that a line records.
        var recorded: UInt64
    }

    init(_ loaded: LoadedJournals, lastNumber: UInt64, of directory: StoreDirectory, _ context: StoreContext) {
        path = context.path
        isPowerSafe = context.settings.isPowerSafe
        saveDelay = context.settings.saveDelay
        entriesPerGroup = context.settings.entriesPerGroup
        clock = context.clock
        reporter = context.reporter
        numbers = Lock(Numbers(last: lastNumber, before: lastNumber, recorded: loaded.recorded))
        hasShutdownMarker = Flag(loaded.hasShutdownMarker)
        provisional = context.provisional
        journal = Journal(loaded, of: directory, isPowerSafe: isPowerSafe) { [provisional] in provisional.isSettled }
    }

    /// Replaces the journal by that of another directory. Call it in a barrier of the disk queue.
    func replaceJournal(_ loaded: LoadedJournals, lastNumber: UInt64, of directory: StoreDirectory) {
        let fresh = Journal(loaded, of: directory, isPowerSafe: isPowerSafe) { [provisional] in provisional.isSettled }
        queue.run { journal = fresh }
        hasShutdownMarker.set(loaded.hasShutdownMarker)
        numbers.withLock { numbers in
            numbers = Numbers(last: max(numbers.last, lastNumber), before: lastNumber, recorded: loaded.recorded)
        }
    }

    /// The last number that was taken before the session.
    var lastNumberBefore: UInt64 { numbers.withLock { $0.before } }
}

extension CommitQueue {
    /// Runs `body` as a block of the queue. For tests.
    func run<Result>(_ body: () throws -> Result) rethrows -> Result { try queue.run(body) }
}

/// Sequence numbers.
extension CommitQueue {
    /// Takes the next sequence number.
    ///
    /// Numbers without a line pile up when changes fail. Before one is taken that an opening after a kill would not
    /// reach, the header of the journal asks for a listing.
    func takeNumber() throws(CacheError) -> UInt64 {
        let (number, isBeyondReach) = numbers.withLock { numbers in
            numbers.last += 1
            return (numbers.last, numbers.last - min(numbers.recorded, numbers.last) > Reconciliation.reach)
        }
        if isBeyondReach {
            try queue.run { () throws(CacheError) in
                try translating("write the journal", at: path) { () throws(Errno) in
                    try journal.noteTaken(number)
                }
            }
        }
        guard number <= Record.lastNumber else {
            throw CacheError(
                code: .io, message: "The directory claims that all sequence numbers are used up.", path: path)
        }
        return number
    }

    /// The last number taken. A header records it, so that no number is taken twice.
    var lastTaken: UInt64 { numbers.withLock { $0.last } }

    /// Skips some numbers, which may be in use. Half of all numbers are never skipped, so they cannot run out by this.
    func skipNumbers(_ count: UInt64) {
        numbers.withLock { numbers in
            if numbers.last <= Record.lastNumber / 2 { numbers.last += count }
        }
    }

    func raiseNumbers(to number: UInt64) {
        numbers.withLock { $0.last = max($0.last, number) }
    }
}

/// Commits.
extension CommitQueue {
    /// A record on its way to stable storage.
    struct Ticket {
        fileprivate let sync: GroupSync
        fileprivate let number: Int

        func wait() throws(Errno) {
            try sync.sync(through: number)
        }
    }

    /// Removes the clean-shutdown marker, so that a kill from here on is noticed. Call it before a session's first
    /// change to the directory, in a block of the disk queue.
    func removeShutdownMarker() throws(CacheError) {
        guard hasShutdownMarker.isSet else { return }
        try queue.run { () throws(CacheError) in
            try translating("reopen the journal", at: path) { () throws(Errno) in
                try journal.removeShutdownMarker(last: lastTaken)
            }
        }
        hasShutdownMarker.set(false)
    }

    /// Appends the lines of a change to the journal, and publishes it: from then on it is committed. Call it in a block
    /// of the disk queue.
    ///
    /// A process killed before the append has changed nothing; one killed after it finds the change again. `number` is
    /// the highest one that was taken for the lines.
    ///
    /// - Returns: In power-safe caches, a ticket to wait for.
    func commit(
        _ lines: UnsafeRawBufferPointer, count: Int = 1, number: UInt64 = 0, publish: () -> Void
    ) throws(CacheError) -> Ticket? {
        queue.enter()
        defer { queue.leave() }
        do throws(Errno) {
            try journal.append(lines, count: count, last: lastTaken)
        } catch {
            // Numbers were taken without a line. The next opening might not find the files under these numbers.
            try? journal.unsettle()
            throw CacheError(error, doing: "write the journal", path: path)
        }
        if number > 0 { numbers.withLock { $0.recorded = max($0.recorded, number) } }
        if journal.debouncer.changed() { scheduleSave() }
        let ticket = isPowerSafe ? journal.sync.map { Ticket(sync: $0, number: $0.note()) } : nil
        publish()
        return ticket
    }

    /// The same for one record.
    func commit(_ record: Record, publish: () -> Void) throws(CacheError) -> Ticket? {
        try JournalFormat.lines(record).withBytes { bytes throws(CacheError) in
            try commit(bytes, number: record.highestNumber, publish: publish)
        }
    }

    /// Publishes a change whose record only saves the next opening work, and writes the record if possible.
    @inline(__always)
    func commitBestEffort(_ record: Record, publish: () -> Void) -> Ticket? {
        var printer = RecordPrinter()
        JournalFormat.append(record, to: &printer)
        return commitBestEffort(printer, count: 1, number: record.highestNumber, publish: publish)
    }

    /// The same for several records, each after its line feed.
    func commitBestEffort(
        _ lines: borrowing RecordPrinter, count: Int, number: UInt64 = 0, publish: () -> Void
    ) -> Ticket? {
        do {
            return try lines.withBytes { lines throws(CacheError) in
                try commit(lines, count: count, number: number, publish: publish)
            }
        } catch {
            reporter.report(error)
            queue.run {
                publish()
                journal.demandSave()
                scheduleSaveOnce()
            }
            return nil
        }
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

    /// Undoes a change whose sync has failed: begins another journal with `lines`, which revert the change, and
    /// publishes the old state.
    func takeBack(_ lines: [UInt8], count: Int, publish: () -> Void) {
        queue.run {
            journal.abandon()
            do {
                try journal.append(lines, count: count, last: lastTaken)
                if let sync = journal.sync { try sync.sync(through: sync.note()) }
            } catch {
                journal.demandSave()
            }
            publish()
        }
    }
}

/// Saves, as the manifest writer requests them.
extension CommitQueue {
    /// A running save: the generation that it writes, and the content of the journals when it began.
    struct Save {
        let generation: UInt64
        let root: SharedDescriptor
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
            let isWorthIt = SaveDebouncer.isWorthSaving(
                records: journal.records, entries: entries, perGroup: entriesPerGroup)
            guard journal.mustSave || isWorthIt || (always && journal.isDirty) else { return nil }
            return try translating("begin a journal", at: path) { () throws(Errno) in
                Save(
                    generation: try journal.beginSave(last: lastTaken), root: try journal.root,
                    records: journal.records, demands: journal.demands, doubts: journal.doubts,
                    journal: ObjectIdentifier(journal))
            }
        }
    }

    /// Notes that the manifest of a save is in place. Returns the journals and manifests that it replaces.
    func finish(
        _ save: Save, _ format: ManifestFormat
    ) throws(Errno) -> (journals: [UInt64], manifests: [ManifestFormat]) {
        try queue.run { () throws(Errno) in
            guard ObjectIdentifier(journal) == save.journal else { return ([], []) }
            journal.saved(
                save.generation, recordsSaved: save.records, demandsMet: save.demands, doubtsMet: save.doubts)
            let journals = journal.generations.filter { $0 < save.generation }
            let manifests = journal.wrote(format)
            // The first journal proves that the directory is ours: the next one must be on disk before it is deleted.
            if journals.contains(1), !isPowerSafe { try journal.syncBegun() }
            return (journals, manifests)
        }
    }

    /// Notes that a journal which a save has replaced is deleted.
    func noteDeleted(_ generation: UInt64, by save: Save) {
        queue.run { if ObjectIdentifier(journal) == save.journal { journal.forget(generation) } }
    }

    /// Ends the session and closes the journal's files; when entries and files agree, with the clean-shutdown marker.
    /// Call it in a barrier of the disk queue.
    func endSession(
        isConsistent: Bool, _ totals: SavedTotals?, _ directory: StoreDirectory
    ) throws(CacheError) {
        queue.enter()
        defer { queue.leave() }
        // The handle may live longer, but its directory must not stay open.
        defer { journal.release() }
        guard isConsistent, !journal.mustSave, !journal.endsClosed else { return }
        // The marker promises that names and index agree, after a power cut too: the names must reach the disk first.
        // Some file systems cannot sync a directory; the next opening then lists it.
        do throws(Errno) {
            try directory.syncNames()
        } catch {
            let failure = CacheError(error, doing: "sync the directory", path: path)
            if isPowerSafe { throw failure }
            return reporter.report(failure)
        }
        try translating("close the journal", at: path) { () throws(Errno) in try journal.close(last: lastTaken, totals)
        }
    }
}
