import LarderFiles

/// A value to be stored, without its bytes.
struct SetRequest {
    let key: Key
    let life: Life
    let attachments: Attachments?
    let now: Timestamp
    /// When the value was stored elsewhere; nil: it is stored now.
    var stored: Timestamp?
    var condition = Condition.none
    var promotion: Promotion?

    enum Condition {
        case none
        /// There is no fresh value.
        case ifNotFresh
        /// The permit is valid.
        case ifPermitted(any WritePermit)
    }

    /// The entry, which has no file yet.
    func entry(size: Int, checksum: UInt64) -> IndexEntry {
        IndexEntry(
            keyText: key.text, file: FileID(0), change: 0, stored: stored ?? now, life: life, used: now, size: size,
            checksum: checksum, attachments: attachments)
    }
}

extension Store {
    /// Stores a payload: its file, its record, its entry. The replaced file is deleted in the background. Returns
    /// whether the condition held. `asFile`: it gets a file of its own, however short it is.
    ///
    /// A process killed before the journal has the record leaves a file that the next opening adopts or deletes. Once
    /// the journal has the record, the value is stored.
    @discardableResult
    func set(
        _ payload: UnsafeRawBufferPointer, _ request: SetRequest, asFile: Bool = false
    ) throws(CacheError) -> Bool {
        try checkSize(payload.count, of: request.key)
        let entry = request.entry(size: payload.count, checksum: XXH64.hash(payload))
        let content: EntryWriter.Payload = asFile ? .copied(payload) : .bytes(payload)
        let outcome = try retryingReopened(request.key) { () throws(CacheError) in
            try makingRoom(for: payload.count) { () throws(CacheError) in try insert(content, entry, request) }
        }
        return finish(outcome, request.key, isAbsent: request.attachments?.traits.isAbsent == true)
    }

    /// Stores a value of some bytes, and evicts others where the disk has no room for it.
    func makingRoom<Result>(
        for size: Int, _ store: () throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        do throws(CacheError) {
            return try evictor.makingRoom(for: size, store)
        } catch {
            if error.code == .noSpace { cleaner.cleanInBackground(isShort: true) }
            throw error
        }
    }

    private func insert(
        _ payload: EntryWriter.Payload, _ entry: IndexEntry, _ request: SetRequest
    ) throws(CacheError) -> InsertOutcome {
        var slowRounds = 0
        while true {
            let outcome = try disk.run { directory throws(CacheError) in
                try info.removeShutdownMarker()
                return try insert(payload, entry, request, after: slowRounds, in: directory)
            }
            guard case .blocked(let isSlow) = outcome else { return outcome }
            awaitOthers(request.key)
            if isSlow { slowRounds += 1 }
        }
    }

    enum InsertOutcome {
        case stored(isNew: Bool, file: FileID)
        /// The condition did not hold.
        case refused
        /// Other processes are changing the key, or one with the same stripe. `isSlow`: for some time.
        case blocked(isSlow: Bool)
    }

    /// Enforces the limits and reports the change; true when the value was stored.
    func finish(_ outcome: InsertOutcome, _ key: Key, isAbsent: Bool = false) -> Bool {
        guard case .stored(let isNew, _) = outcome else { return false }
        evictor.enforceAfterStoring()
        if !isNew { reaper.deleteReplaced(shard: key.shard) }
        if !isNew || !isAbsent { events.post(CacheEvent(isNew ? .stored : .replaced, of: key)) }
        return true
    }

    /// Refuses a value larger than the size limit, which would evict all others and then itself, or larger than a
    /// record can state.
    func checkSize(_ size: Int, of key: Key) throws(CacheError) {
        if size <= Fields.largestSize, !hasLimits.use({ $0.isSet }) { return }
        let limit = min(limits.current.size ?? .max, Fields.largestSize)
        if size <= limit { return }
        let error = CacheError(
            code: .tooLarge, message: "A value of \(size) bytes is larger than the cache may be, \(limit) bytes.",
            path: path)
        reporter.report(error, of: key)
        throw error
    }

    /// Creates the file, commits the record and publishes the entry. Call it in a block of the disk queue, without a
    /// clean-shutdown marker.
    ///
    /// `slowRounds`: how often changes of other processes have taken longer than it waits.
    func insert(
        _ payload: EntryWriter.Payload, _ entry: IndexEntry, _ request: SetRequest, after slowRounds: Int,
        in directory: StoreDirectory
    ) throws(CacheError) -> InsertOutcome {
        let key = request.key
        disk.lockStripe(key.shard)
        defer { disk.unlockStripe(key.shard) }
        // First: a damaged group makes the index provisional.
        index.load(key)
        return try disk.others.unretained.use { others throws(CacheError) in
            let outcome = try insert(payload, entry, request, after: slowRounds, in: directory, beside: others)
            // Of several processes, the one that publishes last disposes of the older value.
            if others.isBehind, case .stored(_, let file) = outcome, others.follow() {
                disposeIfSuperseded(file, key)
            }
            return outcome
        }
    }

    /// A condition is checked with the number taken, and after all changes of the key with lower numbers: one that came
    /// later would not have been seen, and would lose.
    private func insert(
        _ payload: EntryWriter.Payload, _ entry: IndexEntry, _ request: SetRequest, after slowRounds: Int,
        in directory: StoreDirectory, beside others: Follower
    ) throws(CacheError) -> InsertOutcome {
        // First, here and below: a change that is added from here on may have a higher number.
        var additions = others.additions
        if case .none = request.condition {
            return try insertChecked(payload, entry, request, in: directory, beside: (others, additions))
        }
        let (membership, key) = (others.membership, request.key)
        // Before a number is taken: those without a line make the next opening list the files.
        try disk.followOrThrow()
        guard holds(request, in: directory) else { return .refused }
        guard membership.tryLock(key) else { return .blocked(isSlow: false) }
        defer { membership.unlock(key) }
        for _ in 0..<Self.attempts {
            let number = try info.takeNumber(.key(key))
            let isFree = membership.awaitChanges(below: number, stripe: key.stripe, .round(slowRounds))
            guard isFree else { return .blocked(isSlow: true) }
            try disk.followOrThrow()
            guard holds(request, in: directory) else { return .refused }
            var numbered = entry
            (numbered.file, numbered.change) = (FileID(number), number)
            if index.withShard(of: key, { !$0.isOvertaken(numbered, key) }) {
                return try insertChecked(
                    payload, entry, request, number: number, in: directory, beside: (others, additions))
            }
            // A clear with a higher number may have made the condition hold. This change must follow it.
            additions = others.additions
        }
        throw CacheError(
            code: .io, message: "Other processes remove the value of the key again and again.", path: path)
    }

    /// How often a conditional set takes a number.
    private static let attempts = 100

    /// Returns when other processes have finished the changes that blocked a set. Call it outside of a block of the
    /// disk queue: one of them may be stopped.
    func awaitOthers(_ key: Key) {
        let others = disk.others.object
        others.membership.await(stripe: key.stripe)
        _ = others.membership.awaitChanges(below: others.page.lastNumber + 1, stripe: key.stripe, .endless)
    }

    /// Marks the file of a value that another process has replaced or removed meanwhile.
    private func disposeIfSuperseded(_ file: FileID, _ key: Key) {
        index.withShard(of: key) { shard in
            let known = shard.table.entry(key)?.file
            if known != file { shard.markObsolete(file, of: key, isLast: known == nil) }
        }
    }

    /// The same once the condition holds.
    private func insertChecked(
        _ payload: EntryWriter.Payload, _ entry: IndexEntry, _ request: SetRequest, number: UInt64? = nil,
        in directory: StoreDirectory, beside others: (follower: Follower, additions: UInt64)
    ) throws(CacheError) -> InsertOutcome {
        let key = request.key
        let new = try writer.create(payload, entry, key, number: number, in: directory)
        defer { writer.end(new, in: directory) }
        // A captured variable instead of a result: an entry is large to copy.
        var replaced: IndexEntry?
        let ticket: CommitQueue.Ticket?
        do {
            ticket = try info.commit(new.line, number: new.entry.file.number) {
                replaced = index.publish(
                    new.entry, for: key, request.promotion, markingObsolete: !settings.isPowerSafe,
                    mayBeOvertaken: others.follower.mayHaveAdded(since: others.additions))
            }
        } catch {
            reaper.deleteUncommitted(new.entry.file, of: key, in: directory)
            throw error
        }
        if let ticket { try waitOrTakeBack(ticket, new.entry, replacing: replaced, key, in: directory) }
        if settings.isPowerSafe, let replaced {
            index.withShard(of: key) { $0.markObsolete(replaced.file, of: key) }
        }
        if case .ifPermitted(let permit) = request.condition {
            observer.didChange(key, with: permit)
        } else {
            observer.didChange(key)
        }
        return .stored(isNew: replaced == nil, file: new.entry.file)
    }

    private func holds(_ request: SetRequest, in directory: StoreDirectory) -> Bool {
        let key = request.key
        switch request.condition {
        case .none: return true
        case .ifPermitted(let permit): return permit.isValid(for: key)
        case .ifNotFresh:
            let now = request.now
            if provisional.mayLackFiles,
                !recovery.settle(key, at: now, checkingFile: true, in: directory, holdsStripe: true)
            {
                return true
            }
            return index.entry(key)?.isFresh(at: now) != true
        }
    }

    /// Waits until the record is on stable storage; on failure, restores the old value and throws. The new one stays if
    /// the journal fails again where other processes have seen it.
    private func waitOrTakeBack(
        _ ticket: CommitQueue.Ticket, _ new: IndexEntry, replacing old: IndexEntry?, _ key: Key,
        in directory: StoreDirectory
    ) throws(CacheError) {
        let error: Errno
        do {
            return try ticket.wait()
        } catch let failure {
            error = failure
        }
        // Not a `remove`, which would also cover the old value, and outlive its record.
        let obsolete = Record.obsolete(file: new.file, of: key)
        var changes = Changes(obsolete)
        if let old { changes.append(.set(old)) }
        let isUndone = info.takeBack(changes, afterFailedSync: true) {
            index.change(key, .replaced) { shard in
                if shard.isReplaced(new, key) { return }
                shard.table.remove(key)
                if !new.isAbsent { shard.stores -= 1 }
                if let old { shard.table.publish(old, for: key) }
            }
        }
        let failure = CacheError(error, doing: "sync the journal", path: directory.path)
        guard isUndone else { throw failure }
        // A mark that ended its life may be forgotten by now.
        if let old, old.life.isEnded {
            _ = try? directory.writeSlot(old.life, old.change, of: old, isPowerSafe: settings.isPowerSafe)
        }
        reaper.deleteUncommitted(new.file, of: key, in: directory)
        throw failure
    }
}
