import LarderFiles

/// Expires many entries before their time: those of a namespace or of none, or those with a tag.
///
/// A mark, in the journal and in a tombstone, ends their lives at once. In the background, the entries that are not
/// kept beyond their expiry are removed, and the end of the others is written to their life slots; then the mark is no
/// longer needed.
final class Expirer: StoreOwner {
    private static let slice = 256

    let context: StoreContext
    private let info: CommitQueue
    private let reaper: FileReaper
    private let observer: ChangeObserverSlot
    /// Held while a mark is applied to a slice of the entries and the result written, so no other thread forgets the
    /// mark in between. Taken before the disk queue.
    private let applying = Lock(())

    init(_ context: StoreContext, info: CommitQueue, reaper: FileReaper, observer: ChangeObserverSlot) {
        self.context = context
        self.info = info
        self.reaper = reaper
        self.observer = observer
    }

    /// Ends the lives of all entries in a scope other than everything. O(1) once the index is loaded, except on a full
    /// disk. Returns an error if this succeeded but a power cut may undo it.
    ///
    /// In a barrier: every earlier change has a lower number and is published, every later one has a higher number.
    func expire(_ scope: ClearScope, at now: Timestamp) throws(CacheError) -> CacheError? {
        var failure: CacheError?
        repeat { index.loadAll(for: scope) } while try !expireLoaded(scope, at: now, &failure)
        return failure
    }

    /// Ends the lives of all entries, one namespace after the other. O(namespaces) once the index is loaded. Returns
    /// the first error as `expire` does. After an error that is thrown, some namespaces may have expired.
    func expireEveryNamespace(at now: Timestamp) throws(CacheError) -> CacheError? {
        try disk.followOrThrow()
        // First: fetches and values in memory alone may be in namespaces without entries.
        if !disk.isAlone { try info.announceClear() }
        index.expireAll(in: .everything)
        observer.didClear(.everything)
        var failure: CacheError?
        do throws(CacheError) {
            for namespace in index.loadedNamespaces() {
                let next = try expire(.namespace(namespace), at: now)
                failure = failure ?? next
            }
        } catch {
            applyInBackground()
            throw error
        }
        return failure
    }

    /// Returns false when entries in the scope must be loaded first.
    private func expireLoaded(
        _ scope: ClearScope, at now: Timestamp, _ failure: inout CacheError?
    ) throws(CacheError) -> Bool {
        try disk.runAlone { () throws(CacheError) in
            guard let directory = disk.directory else { throw CacheError.closed(path) }
            return try disk.whileNobodyJoins { isAlone throws(CacheError) in
                try expireLoaded(scope, at: now, in: directory, isAlone: isAlone, &failure)
            }
        }
    }

    private func expireLoaded(
        _ scope: ClearScope, at now: Timestamp, in directory: StoreDirectory, isAlone: Bool,
        _ failure: inout CacheError?
    ) throws(CacheError) -> Bool {
        // First: it may replace the index.
        try disk.followOrThrow()
        // Another directory may have been opened meanwhile.
        if index.mustLoad(for: scope) { return false }
        // Afterwards: a fetch that begins earlier may still receive a fresh value.
        defer { observer.didClear(scope, in: index) }
        let isEmpty = index.totals(of: scope.namespace ?? .none).count == 0 && index.obsoleteCount == 0
        if isEmpty, provisional.isSettled, isAlone, !disk.hasLeftFiles {
            index.expireAll(in: scope)
            try reaper.syncDeletions(of: nil, in: directory)
            return true
        }
        try info.removeShutdownMarker()
        info.skipNumbers(provisional.takeSkip())
        let removal = EntryFile.Removal.expiry(scope, at: now)
        let number = try reaper.placeTombstone(of: removal, in: directory)
        let mark = ExpiryMarks.Mark(number: number, time: now)
        failure = try reaper.commit(removal, number: number, in: directory, isAlone: isAlone) {
            index.expire(scope, mark)
        }
        provisional.expireNow(scope, mark)
        return true
    }
}

/// Recording the ended lives.
extension Expirer {
    /// Applies the marks to the entries, and then deletes the tombstones. `retrying`: first tries again to write what
    /// could not be written; only when asked to, because it probably fails again.
    func applyInBackground(retrying: Bool = false) {
        if !index.hasMarks, !reaper.hasTombstones { return }
        let position = Lock(0)
        // Never merged with a run that does not retry.
        maintenance.begin(retrying ? nil : .expire) { [weak self] in
            guard let self, !provisional.isReconciling else { return false }
            let shard = position.withLock { $0 }
            if shard == Index.shardCount {
                reaper.deleteNeedlessTombstones()
                return false
            }
            if retrying { _ = retryUnwritten(of: shard) }
            if !applySome(of: shard).hasMore { position.withLock { $0 += 1 } }
            return true
        }
    }

    /// Applies the marks to all entries. Returns how many were removed. `retrying` as above.
    func applyAll(retrying: Bool = false) -> Int {
        var removed = 0
        for shard in 0..<Index.shardCount {
            if retrying { removed += retryUnwritten(of: shard) }
            while case let part = applySome(of: shard), case _ = removed += part.removed, part.hasMore {}
        }
        return removed
    }

    /// Applies the marks to a slice of the entries of a shard. Does nothing during reconciliation: a file may have a
    /// later life.
    private func applySome(of shard: Int) -> (hasMore: Bool, removed: Int) {
        guard index.withShard(at: shard, { $0.table.hasMarks }) else { return (false, 0) }
        return record(of: shard) { table in
            table.applyMarks(limit: Self.slice)
        } noting: { table, slice, unwritten in
            table.noteWritten(slice, but: unwritten)
        }
    }

    /// Tries again to record the ends that could not be recorded. Returns how many entries were removed.
    private func retryUnwritten(of shard: Int) -> Int {
        let files = index.withShard(at: shard) { $0.table.ending.unwritten.map { (file: $0.key, key: $0.value) } }
        var removed = 0
        for start in stride(from: 0, to: files.count, by: Self.slice) {
            let part = Array(files[start...].prefix(Self.slice))
            removed +=
                record(of: shard) { table in
                    table.unwritten(among: part)
                } noting: { table, ended, unwritten in
                    table.noteRetried(ended, but: unwritten)
                    return false
                }.removed
        }
        return removed
    }

    /// Removes the ended entries that `choose` returns, or writes their slots.
    private func record(
        of shard: Int, _ choose: (inout EntryTable) -> EntryTable.Ended,
        noting note: (inout EntryTable, EntryTable.Ended, _ unwritten: [IndexEntry]) -> Bool
    ) -> (hasMore: Bool, removed: Int) {
        var removed: [IndexEntry] = []
        let hasMore = applying.withLock { _ in
            reporter.attempt { () throws(CacheError) in
                try disk.run { directory throws(CacheError) in
                    // In the block: another directory may have been opened meanwhile.
                    if provisional.isReconciling { return false }
                    try info.removeShutdownMarker()
                    let spared = provisional.unverifiable
                    let slice = disk.withStripe(shard) { () -> EntryTable.Ended? in
                        let chosen = index.withShard(at: shard) { shard in
                            // Damage may have been found meanwhile, and entries added whose lives are doubtful.
                            provisional.isReconciling ? nil : choose(&shard.table)
                        }
                        guard let slice = chosen else { return nil }
                        removed = slice.over.filter { !spared.contains($0.file) }
                        remove(removed, of: shard)
                        return slice
                    }
                    guard let slice else { return false }
                    var unwritten = slice.over.filter { spared.contains($0.file) }
                    for entry in slice.kept where spared.contains(entry.file) || !writeSlot(of: entry, in: directory) {
                        unwritten.append(entry)
                    }
                    return index.withShard(at: shard) { note(&$0.table, slice, unwritten) }
                }
            }
        }
        if !removed.isEmpty {
            reporter.count { [removed] in $0.expirations += removed.count }
            reporter.post(.expired, removed)
            reaper.deleteObsolete(shard: shard)
        }
        return (hasMore ?? false, removed.count)
    }

    /// Removes entries. Unlike entries that expired on their own, they would seem fresh to an index that has lost the
    /// mark.
    private func remove(_ over: [IndexEntry], of shard: Int) {
        if over.isEmpty { return }
        info.commitIfPossible(Changes(removing: over)) {
            _ = index.change(at: shard, .expired) { shard in
                for entry in over { shard.removeWithFile(entry) }
                return over
            }
        }
    }

    /// Writes the ended life of an entry to its file, unless the value was replaced or its life renewed meanwhile.
    /// Returns false when it could not be written.
    private func writeSlot(of entry: IndexEntry, in directory: StoreDirectory) -> Bool {
        let key = entry.key
        return disk.withStripe(key.shard) {
            // A renewal that failed has restored the ended life with another number.
            guard let current = index.entry(key), current.isSameValue(as: entry), current.life.isEnded
            else { return true }
            do throws(Errno) {
                _ = try directory.writeSlot(
                    current.life, current.change, of: current, isPowerSafe: settings.isPowerSafe)
                return true
            } catch {
                if error == .noEntry { return true }
                let path = directory.path(of: entry.file)
                reporter.report(CacheError(error, doing: "expire an entry", path: path), of: key)
                return false
            }
        }
    }
}
