import LarderFiles

extension Store {
    /// Stores a payload: its file, its record, its entry. The file that it replaces is unlinked behind.
    ///
    /// Killed before the journal has the record, the process leaves a file that the next opening adopts or deletes;
    /// after it, the value is stored.
    func set(
        _ payload: UnsafeRawBufferPointer, for key: Key, life: Life, attachments: Attachments?, at now: Timestamp,
        _ condition: Condition = .none, promotion: Promotion? = nil
    ) throws(CacheError) {
        try checkSize(payload.count, of: key)
        let entry = IndexEntry(
            keyText: key.text, file: 0, change: 0, stored: now, life: life, used: now, size: payload.count,
            checksum: XXH64.hash(payload), attachments: attachments)
        _ = try set(payload, entry, key, condition, promotion: promotion)
    }

    /// Stores a entry whose file is still to be made; false when the condition does not hold.
    func set(
        _ payload: UnsafeRawBufferPointer, _ entry: IndexEntry, _ key: Key, _ condition: Condition,
        promotion: Promotion? = nil
    ) throws(CacheError) -> Bool {
        let outcome = try retryingReopened(key) { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                try clearShutdownMarker()
                return try store(.bytes(payload), entry, key, condition, promotion: promotion, in: volume)
            }
        }
        return finish(outcome, key)
    }

    /// What a payload is when it is stored.
    enum Content {
        case bytes(UnsafeRawBufferPointer)
        case staged(StagedFile)
    }

    enum Outcome {
        case stored(isNew: Bool)
        /// The condition did not hold.
        case refused
    }

    /// When a value may be stored.
    enum Condition {
        case none
        /// Where there is no fresh one.
        case ifNotFresh
        /// While the permit is valid.
        case ifPermitted(any WritePermit)
    }

    /// Obeys limits and tells of what was stored; true when it was.
    func finish(_ outcome: Outcome, _ key: Key) -> Bool {
        guard case .stored(let isNew) = outcome else { return false }
        enforceAfterStoring()
        if isNew { return true }
        unlinkSomeBehind(shard: key.shard)
        events.post(CacheEvent(.replaced, of: key))
        return true
    }

    /// Refuses a value that would have to push out all others, and then itself; and one that no record can tell of.
    func checkSize(_ size: Int, of key: Key) throws(CacheError) {
        let limit = min(settings.limits.size ?? .max, Fields.largestSize)
        if size <= limit { return }
        let error = CacheError(
            code: .tooLarge, message: "A value of \(size) bytes is larger than the cache may be, \(limit) bytes.",
            path: path)
        report(error, of: key)
        throw error
    }

    /// Call it in a block of `disk`, with the journal unsealed.
    func store(
        _ content: Content, _ entry: IndexEntry, _ key: Key, _ condition: Condition, promotion: Promotion? = nil,
        in volume: StoreDirectory
    ) throws(CacheError) -> Outcome {
        try stripes[key.shard].withLock { _ throws(CacheError) in
            guard holds(condition, entry, key, in: volume) else { return .refused }
            let isNew = try store(content, entry, key, promotion, in: volume)
            if case .ifPermitted(let permit) = condition {
                observer.didChange(key, with: permit)
            } else {
                observer.didChange(key)
            }
            return .stored(isNew: isNew)
        }
    }

    private func holds(_ condition: Condition, _ entry: IndexEntry, _ key: Key, in volume: StoreDirectory) -> Bool {
        switch condition {
        case .none: true
        case .ifNotFresh:
            !((!provisional.isSet || settle(key, at: entry.stored, looking: true, in: volume, holdsStripe: true))
                && index.withShard(of: key) { $0.table.entry(key) }?.isFresh(at: entry.stored) == true)
        case .ifPermitted(let permit): permit.isValid(for: key)
        }
    }

    private func store(
        _ content: Content, _ entry: IndexEntry, _ key: Key, _ promotion: Promotion?, in volume: StoreDirectory
    ) throws(CacheError) -> Bool {
        let new = try create(content, entry, key, in: volume)
        // Not handed through as a result: a entry is large to copy.
        var replaced: IndexEntry?
        let ticket: Ticket?
        do {
            ticket = try new.withLine { line throws(CacheError) in
                try commit(line, in: volume) { index in
                    replaced = index.publish(new.entry, for: key, promotion, markingObsolete: !isPowerSafe)
                }.ticket
            }
        } catch {
            discard(new.entry.file, of: key, in: volume)
            throw error
        }
        if let ticket { try waitOrTakeBack(ticket, new.entry, replacing: replaced, key, in: volume) }
        if isPowerSafe, let replaced { index.withShard(of: key) { $0.markObsolete(replaced.file, of: key) } }
        return replaced == nil
    }

    /// Gives a entry its number and makes the file, which no record mentions yet. Returns what tells of it.
    private func create(
        _ content: Content, _ entry: IndexEntry, _ key: Key, in volume: StoreDirectory
    ) throws(CacheError) -> NewEntry {
        // What has been staged was tried again then.
        var mayRetry = if case .bytes = content { true } else { false }
        while true {
            let new = NewEntry(entry, number: try takeNumber())
            // A entry may grow in the manifest, by the number of a renewal and the time of a use.
            try checkRecord(new.lineLength)
            do {
                try write(content, new, key, in: volume)
                return new
            } catch .exists {
                continue
            } catch {
                // What was replaced and not yet unlinked may be just the room that is needed.
                if mayRetry, error == .noSpace || error == .overQuota, deleteObsolete(in: volume) > 0 {
                    mayRetry = false
                    continue
                }
                throw CacheError(error, doing: "store a value", path: volume.path(of: new.entry.file))
            }
        }
    }

    func checkRecord(_ length: Int) throws(CacheError) {
        guard length <= LineReader.longestRecord - 128 else {
            throw CacheError(code: .tooLarge, message: "Key, metadata and tags make a record of more than 1 MiB.")
        }
    }

    /// Bytes. A longer payload is written under a name that is no entry's, and renamed when it is whole. Systems write
    /// some thousand megabytes at a time at most: a payload might be made so that, cut there by a kill, it ends in the
    /// footer of another entry.
    private static let longestInPlace = 16 << 20

    private func write(
        _ content: Content, _ new: borrowing NewEntry, _ key: Key, in volume: StoreDirectory
    ) throws(Errno) {
        let file = new.entry.file
        let name = FileName.number(file)
        switch content {
        case .bytes(let payload) where payload.count > Self.longestInPlace:
            let staged = DirectoryLayout.stagedNumber(file)
            let opened = try fileSystem.open(.number(staged), in: volume.entries.file, for: .creating)
            do throws(Errno) {
                try fileSystem.write(payload, .none, to: opened, at: 0)
                let copy = StagedFile(number: staged, file: SharedDescriptor(opened), volume: volume)
                try write(.staged(copy), new, key, in: volume)
            } catch {
                discard(staged, of: key, in: volume)
                throw error
            }
        case .bytes(let payload):
            let opened = try fileSystem.open(name, in: volume.entries.file, for: .creating)
            do {
                try new.withFooter { footer throws(Errno) in
                    try fileSystem.write(payload, footer, to: opened, at: 0)
                }
                if isPowerSafe { try fileSystem.sync(opened) }
                try syncNames(of: volume)
            } catch {
                discard(file, of: key, in: volume)
                throw error
            }
        case .staged(let staged):
            try requireFree(name, in: volume)
            do {
                // The footer first: whatever the copy ends with, it counts for nothing under the name that it has.
                try new.withFooter { footer throws(Errno) in
                    try fileSystem.write(footer, .none, to: staged.file.file, at: new.entry.size)
                }
                if isPowerSafe { try fileSystem.sync(staged.file.file) }
                let entries = volume.entries
                try fileSystem.rename(.number(staged.number), in: entries.file, to: name, in: entries.file)
                try syncNames(of: volume)
            } catch {
                discard(file, of: key, in: volume)
                throw error
            }
        }
    }

    private func syncNames(of volume: StoreDirectory) throws(Errno) {
        if isPowerSafe { try volume.entriesSync.sync(through: volume.entriesSync.note()) }
    }

    /// Numbers are new, so what has the name is not ours; renaming would replace it.
    private func requireFree(_ name: FileName, in volume: StoreDirectory) throws(Errno) {
        do {
            _ = try fileSystem.status(of: name, in: volume.entries.file)
        } catch .noEntry {
            return
        }
        throw .exists
    }

    /// Undoes the file of a value that could not be stored. Emptied first: without its footer nothing adopts it.
    func discard(_ file: UInt64, of key: Key, in volume: StoreDirectory) {
        if let open = try? fileSystem.open(.number(file), in: volume.entries.file, for: .updating) {
            try? fileSystem.truncate(open, to: 0)
        }
        do {
            try volume.unlink(file)
        } catch {
            index.withShard(of: key) { $0.markObsolete(file, of: key) }
        }
    }

    /// Waits until the record is on stable storage; when that fails, brings the old value back and throws.
    private func waitOrTakeBack(
        _ ticket: Ticket, _ entry: IndexEntry, replacing old: IndexEntry?, _ key: Key, in volume: StoreDirectory
    ) throws(CacheError) {
        let error: Errno
        do {
            return try ticket.wait()
        } catch let failure {
            error = failure
        }
        info.run {
            journal.abandon()
            // Not a remove: it would outlive the old value's record, and take that away as well.
            let obsolete = Record.obsolete(file: entry.file, of: key)
            let lines = old.map { JournalFormat.lines(obsolete, .set($0)) } ?? JournalFormat.lines(obsolete)
            do {
                try journal.append(lines, count: old == nil ? 1 : 2, last: lastTaken)
                if let sync = journal.sync { try sync.sync(through: sync.note()) }
            } catch {
                journal.demandSave()
            }
            index.change(key, .replaced) { shard in
                shard.table.remove(key)
                if !entry.isAbsent { shard.stores -= 1 }
                if let old { shard.table.publish(old, for: key) }
            }
        }
        discard(entry.file, of: key, in: volume)
        throw CacheError(error, doing: "sync the journal", path: volume.path)
    }
}
