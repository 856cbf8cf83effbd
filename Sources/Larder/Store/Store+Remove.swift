import LarderFiles

extension Store {
    /// Removes an entry: its files first, then the record. Returns whether there was a fresh one.
    ///
    /// The file goes first, so that a full disk can always be emptied and nothing can bring the value back: a row without a
    /// file is forgotten. When the file cannot be unlinked the value stays. After an unclean close it waits until the files
    /// have been reconciled: an older one of the key may still lie about.
    func remove(_ key: Key, at now: Timestamp, for flight: Flight? = nil) throws(CacheError) -> Bool {
        if !reconciliation.withLock({ $0.isFinished }) { chores.wait() }
        let removed: Row?
        do {
            removed = try changing(shard: key.shard) { volume throws(CacheError) in
                if let flight, !flights.isFlying(flight, key) { return nil }
                // Afterwards: what begins before may still be given the value that goes.
                defer { flights.divert(key, but: flight) }
                return try remove(key, in: volume)
            }
        } catch {
            report(error, of: key)
            throw error
        }
        guard let removed else { return false }
        report(CacheEvent(.removed, of: key)) { $0.removals += 1 }
        return removed.isFresh(at: now)
    }

    private func remove(_ key: Key, in volume: Volume) throws(CacheError) -> Row? {
        let isReconciled = reconciliation.withLock { $0.isDone }
        let (row, waiting) = index.withShard(of: key) { shard in
            (shard.manifest.row(key), shard.doomed.filter { $0.hash == key.hash })
        }
        if row == nil, waiting.isEmpty, isReconciled { return nil }
        try unseal()
        for file in waiting.map(\.file) + (row.map { [$0.file] } ?? []) {
            try translating("remove an entry", at: volume.path(of: file)) { () throws(Errno) in
                try volume.unlink(file)
            }
        }
        let number = try takeNumber()
        let record = Record.remove(key: key, number: number)
        let publish = { (index: Index) in
            index.change(key, .removed) { shard in
                shard.remove(key, number: number)
                shard.doomed.removeAll { waiting.contains($0) }
            }
        }
        let ticket: Ticket?
        if row == nil, !isReconciled {
            // A file that has not been found yet may hold the key: only the record keeps it from being adopted.
            ticket = try commit(JournalFormat.lines(record), in: volume, publish).ticket
        } else {
            ticket = commitBestEffort(record, in: volume, publish)
        }
        if isPowerSafe { try syncEntries(in: volume) }
        try wait(for: ticket)
        return row
    }

    private func syncEntries(in volume: Volume) throws(CacheError) {
        try translating("sync the directory", at: volume.path) { () throws(Errno) in
            try volume.entriesSync.sync(through: volume.entriesSync.note())
        }
    }
}
