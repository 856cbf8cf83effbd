import LarderFiles

extension Store {
    private static let slice = 256

    /// Drops every entry that has expired, at a cost that follows their number; the files are unlinked in the
    /// background. Returns the number: none while files and index are being reconciled, as the file may tell of a
    /// longer life.
    func removeExpired(at now: Timestamp) -> Int {
        if isReconciling { return 0 }
        let spared = provisional.isSet ? reconciliation.withLock { Set($0.unverifiable.keys) } : []
        var count = 0
        for shard in 0..<Index.shardCount {
            while case let victims = purge(shard, at: now, sparing: spared), !victims.isEmpty {
                count += victims.count
                tally.withLock { $0.expirations += victims.count }
                tell(.expired, victims)
            }
        }
        if count > 0 { unlinkAnyBehind() }
        return count
    }

    private func purge(_ shard: Int, at now: Timestamp, sparing spared: Set<UInt64>) -> [IndexEntry] {
        guard index.withShard(at: shard, { $0.table.mayHaveExpired(at: now) }) else { return [] }
        let victims = attempting { () throws(CacheError) in
            try changing(shard: shard) { _ throws(CacheError) in
                index.change(at: shard, .expired) { $0.purge(at: now, limit: Self.slice, sparing: spared) }
            }
        }
        return victims ?? []
    }

    /// Sweeps after each interval, for as long as the store lives.
    func scheduleSweep() {
        guard let interval = settings.sweepInterval else { return }
        clock.schedule(after: max(interval, .milliseconds(1))) { [weak self] in
            guard let self else { return }
            maintenance.begin(.sweep) { [weak self] in
                guard let self else { return false }
                sweep()
                return false
            }
            scheduleSweep()
        }
    }

    private func sweep() {
        reconcileAgain()
        boundTombstones()
        _ = removeExpired(at: clock.now)
        saveUses(isClosing: false)
        unlinkAnyBehind()
        enforceBehind()
    }

    /// Writes down the last uses, and the lives that slid with them, as far as they are due.
    func saveUses(isClosing: Bool) {
        let due = UseNotes(isSliding: settings.slidingExpiry, isClosing: isClosing)
        for shard in 0..<Index.shardCount { saveUses(shard, due) }
    }

    private func saveUses(_ shard: Int, _ due: UseNotes) {
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
            _ = try onDisk { volume throws(CacheError) in
                try clearShutdownMarker()
                for use in uses where use.isSlotBehind { writeSlidSlot(of: use.entry, in: volume) }
                return try printer.withBytes { lines throws(CacheError) in
                    try commit(lines, count: uses.count, in: volume) { _ in }
                }
            }
        } catch {
            report(error)
            // The manifest knows the uses all the same.
            info.run { journal.demandSave() }
        }
    }
}
