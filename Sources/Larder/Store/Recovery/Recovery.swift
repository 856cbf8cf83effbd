import LarderFiles

/// Answers for the index while it is provisional, and corrects it where files prove it wrong.
final class Recovery: StoreOwner {
    let context: StoreContext
    private let info: CommitQueue
    private let reaper: FileReaper

    init(_ context: StoreContext, info: CommitQueue, reaper: FileReaper) {
        self.context = context
        self.info = info
        self.reaper = reaper
    }

    /// Returns when every file has been checked. O(files), once after an unclean close. Never call it from the
    /// maintenance queue, or in a block of the disk queue.
    func awaitScan() {
        maintenance.awaitScan(provisional)
    }

    /// Runs a change, and repeats it if there was no room for its tombstone: once every file is known, none is needed.
    /// Whether they are known now says nothing: the scan may have ended since the change failed.
    func retryingAfterScan<Result>(_ change: () throws(CacheError) -> Result) throws(CacheError) -> Result {
        do throws(CacheError) {
            return try change()
        } catch {
            guard error.code == .noSpace else { throw error }
            awaitScan()
            return try change()
        }
    }
}

/// Entries while the index is provisional.
extension Recovery {
    /// Returns the entry of a key, whatever its life; nil while it cannot be trusted.
    ///
    /// With `checkingFile`, returns it only if its file exists, while that is not certain.
    func entry(_ key: Key, at now: Timestamp, checkingFile: Bool = false) -> IndexEntry? {
        index.load(key)
        let mustSettle = checkingFile ? provisional.mayLackFiles : provisional.isSet
        if mustSettle, !settle(key, at: now, checkingFile: checkingFile) {
            if provisional.lacksRecords, let entry = index.entry(key) { removeUnreadable(entry, key, as: .lost) }
            return nil
        }
        return index.entry(key)
    }

    /// The same without reading any file; nil also when a file would have to be read.
    func knownEntry(_ key: Key, at now: Timestamp) -> IndexEntry? {
        index.load(key)
        let isProvisional = provisional.isSet
        let horizon = isProvisional ? provisional.horizon : 0
        guard let entry = index.entry(key), entry.file > horizon else { return nil }
        if !isProvisional { return entry }
        let hasExpired = entry.life.isExpired(at: now)
        return provisional.update { $0.mustLook(at: entry.file, hasExpired: hasExpired) } ? nil : entry
    }

    /// Makes the entry of a key agree with its file; false when there is none, or it cannot be trusted yet.
    func settle(_ key: Key, at now: Timestamp, checkingFile: Bool = false) -> Bool {
        let isSettled = try? disk.run { directory in
            settle(key, at: now, checkingFile: checkingFile, in: directory, holdsStripe: false)
        }
        return isSettled ?? false
    }

    /// The same in a block of the disk queue; `holdsStripe` when the caller holds the key's stripe.
    func settle(
        _ key: Key, at now: Timestamp, checkingFile: Bool = false, in directory: StoreDirectory, holdsStripe: Bool
    ) -> Bool {
        index.load(key)
        let horizon = provisional.horizon
        guard let entry = index.entry(key), entry.file > horizon else { return false }
        let hasExpired = entry.life.isExpired(at: now)
        let mustLook = provisional.update { reconciliation in
            // A removal that was killed has deleted its file first; of an entry in a segment the bytes are still there.
            reconciliation.mustLook(at: entry.file, hasExpired: hasExpired)
                || (checkingFile || entry.file.place.isInSegment) && provisional.mustCheckFile(reconciliation)
        }
        if !mustLook { return true }
        do {
            guard case .valid(let found)? = try directory.footer(of: entry.file), found.isEntry(entry, of: key) else {
                // The description may be damaged alone. An undamaged index has everything else.
                guard entry.file.place.isInSegment, !provisional.isRepairing else { return false }
                try directory.requireFile(of: entry)
                return true
            }
            // With a damaged slot, the life in the index counts.
            if found.knowsMore(than: entry) {
                if holdsStripe {
                    takeOverLife(of: found, key)
                } else {
                    disk.withStripe(key.shard) { takeOverLife(of: found, key) }
                }
            }
            provisional.update { $0.looked(at: entry.file) }
            return true
        } catch .noEntry {
            // If the file was replaced meanwhile, it proves nothing about the current entry.
            _ = disk.follow()
            return !index.isCurrentFile(entry, key)
                && settle(key, at: now, checkingFile: checkingFile, in: directory, holdsStripe: holdsStripe)
        } catch {
            let path = directory.path(of: entry.file)
            reporter.report(CacheError(error, doing: "check an entry", path: path), of: key)
            return false
        }
    }

    /// Adopts a life that is recorded only in the file. Call it with the key's stripe held.
    func takeOverLife(of found: IndexEntry, _ key: Key) {
        guard let known = index.entry(key), known.isSameValue(as: found), found.knowsMore(than: known) else { return }
        // No line may record the change: its number must not be taken again.
        info.raiseNumbers(to: found.change)
        let taken = endingHidden(found)
        let record = Record.life(key: key, file: taken.file.number, change: taken.change, taken.life)
        let marks = provisional.marks
        info.commitIfPossible(Changes(record)) {
            index.change(key, .replaced) { shard in
                shard.table.setLife(taken.life, change: taken.change, for: key)
                if taken.life.isEnded || marks.ending(taken) != nil { shard.table.expire(marks) }
            }
        }
    }

    /// Returns an entry that only its file knows; with a new number and its life ended if a mark of this session has a
    /// lower number than the life. Call it once its numbers cannot be taken again.
    func endingHidden(_ found: IndexEntry) -> IndexEntry {
        guard let life = provisional.hiddenEnd(of: found), let number = try? info.takeNumber(.none) else {
            return found
        }
        var ended = found
        ended.life = life
        ended.change = number
        return ended
    }

    /// True when the file of a lost entry may be there after all: the directory of the entries was replaced meanwhile.
    private func isReplaced(_ entry: IndexEntry, in directory: StoreDirectory, _ cause: CacheEvent.Kind) -> Bool {
        if cause != .lost { return false }
        if !directory.isWhole { return true }
        do throws(Errno) {
            try directory.requireFile(of: entry)
            return true
        } catch {
            return error != .noEntry
        }
    }

    /// Removes an entry whose file is missing or proven damaged, unless a newer value has replaced it. Returns whether
    /// it did.
    ///
    /// Does nothing while a damaged index is reconciled: the entry may be the mistake.
    @discardableResult
    func removeUnreadable(_ entry: IndexEntry, _ key: Key, as cause: CacheEvent.Kind) -> Bool {
        if provisional.isRepairing { return false }
        let isRemoved = reporter.attempt { () throws(CacheError) in
            // Where another process is changing the key, the file may be missing because of that.
            try disk.tryToRun(changing: key) { directory throws(CacheError) in
                guard index.isCurrentFile(entry, key), !isReplaced(entry, in: directory, cause) else { return false }
                try info.removeShutdownMarker()
                info.commitIfPossible(Changes(removing: [entry])) {
                    index.change(key, .evictedOnDisk) { shard in
                        shard.remove(key, below: entry.file.number + 1)
                        if cause != .lost { shard.markObsolete(entry.file, of: key, isLast: true) }
                    }
                }
                if cause != .lost { reaper.deleteObsolete(in: directory, shard: key.shard) }
                return true
            }
        }
        guard isRemoved == .some(true) else { return false }
        reporter.report(CacheEvent(cause, of: key)) { statistics in
            if cause == .lost { statistics.losses += 1 } else { statistics.corruptions += 1 }
        }
        return true
    }
}

extension IndexEntry {
    /// True when this entry, found by its file, is the entry of `key` in the index.
    func isEntry(_ entry: IndexEntry, of key: Key) -> Bool {
        isSameValue(as: entry) && isNamed(key)
    }

    /// True when its life was renewed or extended after the change that the other one has, or ended earlier.
    func knowsMore(than other: IndexEntry) -> Bool {
        if hasDamagedSlot { return false }
        // A mark, which has a higher number, has ended the other life. The earlier end counts.
        if change < other.change, other.life.isEnded { return life.expires < other.life.expires }
        return (change, life.expires) > (other.change, other.life.expires)
    }
}
