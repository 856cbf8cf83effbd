import LarderFiles

/// Removes expired entries, and records the uses that are not on disk yet.
final class Sweeper: StoreOwner {
    private static let slice = 256
    /// Groups that are loaded in one step.
    private static let groups = 16

    let context: StoreContext
    private let info: CommitQueue
    private let reaper: FileReaper

    init(_ context: StoreContext, info: CommitQueue, reaper: FileReaper) {
        self.context = context
        self.info = info
        self.reaper = reaper
    }

    /// Loads the groups in which entries may have expired, a few in each slice, and removes the expired entries. The
    /// end of the session cuts this short.
    func removeUnloadedInBackground() {
        maintenance.begin(.load) { [weak self] in
            guard let self, !provisional.isReconciling else { return false }
            let now = clock.now
            // Short sessions do only a part each, so they begin at different groups.
            let hasMore = index.loadSome(Self.groups, from: info.lastTaken) { saved, group in
                saved.mayHaveExpired(group, at: now)
            }
            _ = removeLoaded(at: now)
            return hasMore && !context.isEnding.isSet
        }
    }

    /// Removes every expired entry, and returns their number. The cost is proportional to this number, and to the size
    /// of the groups that must be loaded because they may contain some. The files are deleted in the background.
    /// Removes none during reconciliation, because a file may hold a longer life.
    func removeExpired(at now: Timestamp) -> Int {
        index.loadExpired(at: now) { !context.isEnding.isSet }
        return removeLoaded(at: now)
    }

    private func removeLoaded(at now: Timestamp) -> Int {
        if provisional.isReconciling { return 0 }
        var count = 0
        for shard in 0..<Index.shardCount {
            while case let expired = removeExpired(of: shard, at: now), !expired.isEmpty {
                count += expired.count
                reporter.count { $0.expirations += expired.count }
                reporter.post(.expired, expired)
            }
        }
        if count > 0 { reaper.deleteAllInBackground() }
        return count
    }

    private func removeExpired(of shard: Int, at now: Timestamp) -> [IndexEntry] {
        guard index.withShard(at: shard, { $0.table.mayHaveExpired(at: now) }) else { return [] }
        let expired = reporter.attempt { () throws(CacheError) in
            try disk.run(sweeping: shard) { _, isFree in
                let expired = index.change(at: shard, .expired) { shard in
                    // Damage may have been found meanwhile, and entries added whose lives are doubtful.
                    if provisional.isReconciling { return [] }
                    return shard.removeExpired(
                        at: now, limit: Self.slice, sparing: provisional.unverifiable, where: { isFree($0.key) })
                }
                record(expired)
                return expired
            }
        }
        return expired ?? []
    }

    /// Records removals, so that the sums at the end of the session are those of manifest and journal. Without the
    /// record the next opening removes the entries again.
    private func record(_ expired: [IndexEntry]) {
        if expired.isEmpty { return }
        do throws(CacheError) {
            try info.removeShutdownMarker()
            _ = try info.commit(Changes(removing: expired)) {}
        } catch {
            // The disk may be full. The files that are deleted next make room for the save.
            info.demandSave()
        }
    }

    /// Records the last uses that are due, and the sliding lives that they extended.
    func saveUses(isClosing: Bool) {
        let due = UseNotes(isSliding: settings.slidingExpiry, isClosing: isClosing)
        for shard in 0..<Index.shardCount { saveUses(of: shard, due) }
    }

    /// Tells other processes that a life slides, ten times in its length: none of them removes what this one keeps
    /// alive. Never call it in a block of the disk queue.
    func shareSlide(of key: Key) {
        guard settings.isShared, settings.slidingExpiry, index.withShard(of: key, { $0.table.hasSlid(key) }) else {
            return
        }
        saveUses(of: key.shard, UseNotes(isSliding: true, isClosing: false))
    }

    private func saveUses(of shard: Int, _ due: UseNotes) {
        let uses = index.withShard(at: shard) { $0.table.takeUses(due) }
        if uses.isEmpty { return }
        var changes = Changes(reserving: uses.count * 128)
        for use in uses {
            let entry = use.entry
            changes.append(
                .used(
                    key: entry.key, file: entry.file.number, change: entry.change, at: entry.used,
                    expires: entry.life.expires))
        }
        do {
            _ = try disk.run { directory throws(CacheError) in
                try info.removeShutdownMarker()
                for use in uses where use.isSlotBehind { writeSlidSlot(of: use.entry, in: directory) }
                return try info.commit(changes) {}
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
