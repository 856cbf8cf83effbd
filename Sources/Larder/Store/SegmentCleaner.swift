import LarderFiles

/// Frees the space of dead entries in segments: moves what is left of a segment to another one, then deletes it.
///
/// A moved value keeps its number, so whatever covers the value covers both copies. The copy is on stable storage before
/// the record that mentions it, and that record before the first copy is deleted.
final class SegmentCleaner: StoreOwner {
    /// Bytes that are read in one step, at the end of which two files are synced.
    private static let slice = 16 << 20
    /// How many segments may stay as they are before the others wait, too.
    private static let mostTried = 16

    let context: StoreContext
    let info: CommitQueue
    let writer: EntryWriter
    let reaper: FileReaper
    let pace: CleaningPace
    private let state = Lock(State())

    private struct State {
        var work: Work?
        /// Segments that could not be cleaned this time.
        var tried: Set<UInt64> = []
        /// The records of moves may not be on stable storage: the old copies stay until a save.
        var mustSave = false
        /// There is no room for copies: segments are chosen by what their entries are worth, and these are evicted.
        var isFull = false
    }

    /// A segment that is being cleaned. Its lock is held.
    struct Work {
        let segment: Segment
        let directory: StoreDirectory
        /// The number of times that the index had been replaced at the beginning.
        let replacements: Int
        var offset = SegmentFormat.start
        /// All entries so far have been moved.
        var isComplete = true
        /// There may be entries that only the index knows.
        var hasGaps = false
        /// Values whose bytes are damaged.
        var damaged: Set<FileID> = []
    }

    init(_ context: StoreContext, _ info: CommitQueue, _ writer: EntryWriter, _ reaper: FileReaper) {
        self.context = context
        self.info = info
        self.writer = writer
        self.reaper = reaper
        pace = CleaningPace(context.clock)
    }

    /// Cleans segments in the background, as long as there are any of which more than a third is dead. Looks for them at
    /// the beginning of a session, and when enough has been deleted since.
    ///
    /// `isShort`: of disk space. Then it looks for them in any case.
    func cleanInBackground(isShort: Bool = false) {
        // A job that is under way begins the next one.
        if isShort, maintenance.isUnderWay(.clean) { return }
        guard !provisional.isReconciling, let segments = disk.runAnyway({ $0 })?.segments,
            segments.dead.mayBeDirty(after: isShort ? 0 : enoughDead)
        else { return }
        begin()
    }

    private func begin() {
        maintenance.begin(.clean) { [weak self] in self?.cleanSome() ?? false }
    }

    /// Returns when the segments that are dirty now have been cleaned, as far as they can be: writers may make others
    /// dirty without end.
    func finish() {
        let segments = disk.runAnyway { $0?.segments }
        var left = (try? segments?.dirty(slack: settings.segmentLength).count) ?? 0
        cleanInBackground()
        repeat {
            maintenance.wait(for: .clean)
            left -= 1
        } while left > 0 && maintenance.isUnderWay(.clean)
    }

    /// Bytes after whose deletion it is worth looking for something to clean.
    private var enoughDead: Int { settings.segmentLength / 16 }

    /// Closes segments that other processes have deleted.
    func closeDeleted() throws(CacheError) {
        try disk.run { directory throws(CacheError) in
            try translating("look for deleted segments", at: path) { () throws(Errno) in
                try directory.segments.closeDeleted()
            }
        }
    }

    /// Waits a moment if more of the disk is dead than may be: writers must not be faster than the cleaner for long. Call
    /// it outside of all locks.
    func awaitIfBehind() {
        if mustPace { pace.wait(after: settings.inlineThreshold) }
    }

    /// The same for an async caller, which blocks no thread.
    func pauseIfBehind() async {
        if mustPace { await pace.pause(after: settings.inlineThreshold) }
    }

    private var mustPace: Bool {
        guard settings.inlineThreshold > 0, let segments = disk.runAnyway({ $0?.segments }),
            segments.dead.isBehind.isSet, !provisional.isReconciling, pace.isWorthwhile
        else { return false }
        cleanInBackground(isShort: true)
        return true
    }

    private enum Progress {
        case some
        /// There is nothing left to do, or nothing that can be done for now.
        case none
        case byAnotherProcess
    }

    /// Does a part of the work; false at the end of a segment, or when there is nothing left to do. Each segment is work
    /// of its own: whoever waits for work that has begun does not wait for what writers make dirty meanwhile.
    private func cleanSome() -> Bool {
        var progress = Progress.none
        do throws(CacheError) {
            if mayClean() { progress = try cleanInTurn() }
        } catch {
            reporter.report(error)
            // Another segment may do better.
            if giveUp() { progress = .some }
        }
        if progress == .some {
            if state.withLock({ $0.work != nil }) { return true }
            begin()
            return false
        }
        release()
        state.withLock { ($0.tried, $0.isFull) = ([], false) }
        if progress == .byAnotherProcess { return false }
        // Writers do not wait for what cannot be cleaned for now.
        disk.runAnyway { [enoughDead] in $0?.segments.dead.raiseAllowance(to: enoughDead) }
        pace.step()
        return false
    }

    private func mayClean() -> Bool {
        // While entries may be unknown, or cleared ones wait for their removal, nobody knows what a segment contains.
        if context.isEnding.isSet || provisional.isReconciling || provisional.hasLeftovers || index.hasCleared {
            return false
        }
        guard state.withLock({ $0.mustSave }) else { return true }
        if info.mustSave { return false }
        state.withLock { $0.mustSave = false }
        disk.runAnyway { $0?.segments.letGo() }
        return true
    }

    private func cleanInTurn() throws(CacheError) -> Progress {
        // Another process may delete files that no entry mentions, as copies are for a moment.
        let hasCleaned = try disk.others.object.membership.perform(.clean) { () throws(CacheError) in
            try clean(next())
        }
        if let hasCleaned { return hasCleaned ? .some : .none }
        try disk.run { directory throws(CacheError) in
            try translating("look at segments", at: path) { () throws(Errno) in
                // The other one may end before it comes to all of them.
                let isDirty = try !directory.segments.dirty(slack: settings.segmentLength).isEmpty
                if isDirty { directory.segments.dead.lookAgain() }
            }
        }
        return .byAnotherProcess
    }

    private func release() {
        let ended = state.withLock { $0.work.take() }
        if let ended { ended.directory.segments.release(ended.segment) }
    }

    /// Leaves a segment as it is for now; false when there is none, or were too many.
    private func giveUp() -> Bool {
        let mayGoOn = state.withLock { state in
            guard let work = state.work else { return false }
            state.tried.insert(work.segment.number)
            return state.tried.count < Self.mostTried
        }
        release()
        return mayGoOn
    }

    /// The segment that is being cleaned, or the next one.
    private func next() throws(CacheError) -> Work? {
        let (current, tried, isFull) = state.withLock { ($0.work, $0.tried, $0.isFull) }
        if let current { return current }
        return try disk.run { directory throws(CacheError) in
            guard let replacements = index.replacements else { return nil }
            lazy var worths = worths
            let segment = try translating("look for a segment to clean", at: path) { () throws(Errno) in
                try directory.segments.claimDirty(slack: settings.segmentLength) { segment in
                    isFull ? (worths[segment.number] ?? 0) / Double(segment.size) : segment.live
                } where: { number in
                    !tried.contains(number) && !provisional.update { $0.hasUnread(in: number) }
                }
            }
            let next = segment.map { Work(segment: $0, directory: directory, replacements: replacements) }
            state.withLock { $0.work = next }
            return next
        }
    }

    /// True as long as the content of a segment is what was found there.
    func isCurrent(_ work: Work, _ directory: StoreDirectory) -> Bool {
        directory === work.directory && !provisional.isReconciling && index.replacements == work.replacements
    }

    /// Notes that a power cut may undo moves.
    func noteUnsyncedMoves() {
        info.demandSave()
        state.withLock { $0.mustSave = true }
    }

    /// Cleans a part of a segment; false when there is none, or the session ends.
    private func clean(_ work: Work?) throws(CacheError) -> Bool {
        guard var work else { return false }
        var found: [IndexEntry] = []
        let end = try translating("read a segment", at: path) { () throws(Errno) in
            try work.segment.forEachEntry(from: work.offset, limit: Self.slice) { _, reading in
                switch reading {
                case .entry(let entry, _): found.append(entry)
                case .dead: break
                case .torn, .none: work.hasGaps = true
                }
            }
        }
        guard try moveOrEvict(found, of: &work) else { return true }
        if context.isEnding.isSet { return false }
        if let end {
            work.offset = end
            state.withLock { [work] in $0.work = work }
            return true
        }
        if work.hasGaps, work.isComplete, try !moveOrEvict(known(in: work), of: &work) { return true }
        guard work.isComplete, try delete(work) else { return giveUp() }
        release()
        return true
    }

    /// Moves entries to another segment; where the disk has no room for copies, evicts them. False when another segment
    /// may be worth less: it is chosen next.
    private func moveOrEvict(_ found: [IndexEntry], of work: inout Work) throws(CacheError) -> Bool {
        do throws(CacheError) {
            try move(found, of: &work)
        } catch {
            guard error.code == .noSpace else { throw error }
            if state.withLock({ $0.isFull }) {
                try evict(found, of: &work)
                return true
            }
            release()
            work.directory.segments.forgetDirty()
            state.withLock { $0.isFull = true }
            return false
        }
        return true
    }

    /// The sum of the worths of the entries in each segment. O(entries).
    private var worths: [UInt64: Double] {
        index.loadAll()
        var worths: [UInt64: Double] = [:]
        index.forEachShard { shard in
            for entry in shard.table.entries where entry.file.place.isInSegment {
                worths[entry.file.place.segment, default: 0] += Double(entry.rank.worth)
            }
        }
        return worths
    }

    /// The entries in a segment that the index knows, except for damaged ones. O(entries).
    private func known(in work: Work) -> [IndexEntry] {
        index.loadAll()
        let number = work.segment.number
        return (0..<Index.shardCount).flatMap { shard in
            index.snapshot(shard).filter { $0.file.place.segment == number && !work.damaged.contains($0.file) }
        }
    }

    /// True when a file that cannot be deleted is dead only because of a value in the segment: if the index were lost, it
    /// would be adopted.
    private func isNeeded(_ work: Work, for stuck: Set<Debts.File>) -> Bool {
        stuck.contains { newer in
            newer.file.place.segment == work.segment.number
                && stuck.contains { older in
                    older.file.number < newer.file.number && older.file.place.segment != work.segment.number
                        && (older.keyHash == nil || newer.keyHash == nil || older.hash == newer.hash)
                } && isLast(newer.file, in: work.directory)
        }
    }

    /// False when the key of a value has a newer one, or the value is dead.
    private func isLast(_ file: FileID, in directory: StoreDirectory) -> Bool {
        do throws(Errno) {
            guard let found = try directory.footer(of: file)?.entry else { return false }
            return index.entry(found.key).map { $0.file.number < file.number } ?? true
        } catch {
            return error != .noEntry
        }
    }

    /// How long to wait for changes of other processes. Milliseconds.
    private static let patience = 100

    /// Returns when no change of another process that began before can restore a value to its place in the segment;
    /// false when one takes too long, or has restored one.
    private func isUnused(_ work: Work) throws(CacheError) -> Bool {
        let others = disk.others.object
        let last = others.page.lastNumber
        // Changes with higher numbers know of the moves.
        guard Backoff.wait(milliseconds: Self.patience, until: { others.page.lowestOpen > last }) else {
            // Only the deletion is left.
            work.directory.segments.dead.lookAgain()
            return false
        }
        try disk.followOrThrow()
        var isUnused = true
        var lowest = others.page.lowestDebt(but: others.lane)
        index.forEachShard { if $0.debts.lowest > 0 { lowest = min(lowest, $0.debts.lowest) } }
        try translating("read a segment", at: path) { () throws(Errno) in
            _ = try work.segment.forEachEntry { _, reading in
                guard case .entry(let entry, _) = reading, !work.damaged.contains(entry.file) else { return }
                // The last one of a key hides the older files that others have.
                if index.isCurrentFile(entry, entry.key) || entry.file > lowest && index.entry(entry.key) == nil {
                    isUnused = false
                }
            }
        }
        return isUnused
    }

    /// Deletes a segment from which everything was moved; false when that is not safe for now.
    private func delete(_ work: Work) throws(CacheError) -> Bool {
        // Older files of keys whose newer values are in the segment go first. A change that may still be taken back needs
        // what it has replaced.
        disk.runAlone {}
        var older: Set<Debts.File> = []
        index.forEachShard { older.formUnion($0.debts.files) }
        reaper.deleteAllObsolete()
        var stuck: Set<Debts.File> = []
        index.forEachShard { stuck.formUnion(older.intersection($0.debts.files)) }
        if isNeeded(work, for: stuck) { return false }
        // Newer values of the keys must not be lost with the old ones.
        try info.syncJournal()
        guard try isUnused(work) else { return false }
        return try disk.run { directory throws(CacheError) in
            guard isCurrent(work, directory), !index.hasCleared else { return false }
            if work.hasGaps, !known(in: work).isEmpty || !isCurrent(work, directory) { return false }
            try translating("delete a segment", at: path) { () throws(Errno) in
                if settings.isPowerSafe { try directory.syncNames(ofAll: true) }
                try directory.segments.remove(work.segment)
            }
            reporter.count { $0.segments.cleaned += 1 }
            pace.step()
            return true
        }
    }
}
