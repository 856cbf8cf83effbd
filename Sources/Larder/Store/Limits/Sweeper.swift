import LarderFiles

/// Removes expired entries, and records the uses that are not on disk yet.
final class Sweeper: StoreOwner {
    private static let slice = 256

    let context: StoreContext
    private let info: CommitQueue
    private let reaper: FileReaper

    init(_ context: StoreContext, info: CommitQueue, reaper: FileReaper) {
        self.context = context
        self.info = info
        self.reaper = reaper
    }

    /// Removes every expired entry, at a cost proportional to their number; the files are deleted in the background.
    /// Returns the number. Removes none during reconciliation, because a file may hold a longer life.
    func removeExpired(at now: Timestamp) -> Int {
        if provisional.isReconciling { return 0 }
        let spared = provisional.unverifiable
        var count = 0
        for shard in 0..<Index.shardCount {
            while case let expired = removeExpired(of: shard, at: now, sparing: spared), !expired.isEmpty {
                count += expired.count
                reporter.count { $0.expirations += expired.count }
                reporter.post(.expired, expired)
            }
        }
        if count > 0 { reaper.deleteAllInBackground() }
        return count
    }

    private func removeExpired(of shard: Int, at now: Timestamp, sparing spared: Set<UInt64>) -> [IndexEntry] {
        guard index.withShard(at: shard, { $0.table.mayHaveExpired(at: now) }) else { return [] }
        let expired = reporter.attempt { () throws(CacheError) in
            try disk.run(shard: shard) { _ in
                index.change(at: shard, .expired) { $0.removeExpired(at: now, limit: Self.slice, sparing: spared) }
            }
        }
        return expired ?? []
    }

    /// Records the last uses that are due, and the sliding lives that they extended.
    func saveUses(isClosing: Bool) {
        let due = UseNotes(isSliding: settings.slidingExpiry, isClosing: isClosing)
        for shard in 0..<Index.shardCount { saveUses(of: shard, due) }
    }

    private func saveUses(of shard: Int, _ due: UseNotes) {
        let uses = index.withShard(at: shard) { $0.table.takeUses(due) }
        if uses.isEmpty { return }
        var printer = RecordPrinter(reserving: uses.count * 128)
        for use in uses {
            let entry = use.entry
            let record = Record.used(
                key: entry.key, file: entry.file, change: entry.change, at: entry.used, expires: entry.life.expires)
            JournalFormat.append(record, to: &printer)
        }
        do {
            _ = try disk.run { directory throws(CacheError) in
                try info.removeShutdownMarker()
                for use in uses where use.isSlotBehind { writeSlidSlot(of: use.entry, in: directory) }
                return try printer.withBytes { lines throws(CacheError) in
                    try info.commit(lines, count: uses.count) {}
                }
            }
        } catch {
            reporter.report(error)
            // The manifest will record the uses all the same.
            info.demandSave()
        }
    }

    /// Writes an extended sliding life to the file, so that it survives the loss of the index, unless the value was
    /// replaced or its life renewed meanwhile.
    func writeSlidSlot(of entry: IndexEntry, in directory: StoreDirectory) {
        let key = entry.key
        disk.withStripe(key.shard) {
            guard let current = index.entry(key), current.isSameValue(as: entry), current.change == entry.change
            else { return }
            do throws(Errno) {
                _ = try directory.writeSlot(
                    current.life, current.change, of: current, isPowerSafe: settings.isPowerSafe)
            } catch {
                if error == .noEntry { return }
                let path = directory.path(of: entry.file)
                reporter.report(CacheError(error, doing: "renew a life", path: path), of: key)
            }
        }
    }
}
