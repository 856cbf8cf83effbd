import LarderFiles

extension Store {
    /// Removes an entry: its files first, then the record. Returns whether there was a fresh one.
    ///
    /// The file goes first, so that a full disk can always be emptied and nothing can bring the value back: a entry
    /// without a file is forgotten. When the file cannot be unlinked the value stays. Where files have not been found
    /// yet, one of them may be an older one of the key: a tombstone among the files keeps it dead.
    func remove(_ key: Key, at now: Timestamp, permit: (any WritePermit)? = nil) throws(CacheError) -> Bool {
        let removed: IndexEntry?
        do throws(CacheError) {
            do throws(CacheError) {
                removed = try removeOnce(key, at: now, permit: permit)
            } catch {
                // There is no room for the tombstone: when every file has been found, none is needed.
                guard error.code == .noSpace, isReconciling else { throw error }
                awaitReconciliation()
                removed = try removeOnce(key, at: now, permit: permit)
            }
        } catch {
            report(error, of: key)
            throw error
        }
        guard let removed else { return false }
        report(CacheEvent(.removed, of: key)) { $0.removals += 1 }
        return removed.isFresh(at: now)
    }

    private func removeOnce(_ key: Key, at now: Timestamp, permit: (any WritePermit)?) throws(CacheError) -> IndexEntry?
    {
        try changing(shard: key.shard) { volume throws(CacheError) in
            if let permit, !permit.isValid(for: key) { return nil }
            // Afterwards: what begins before may still be given the value that goes.
            defer { observer.didChange(key, with: permit) }
            if !provisional.isSet { return try remove(key, in: volume) }
            let isBelieved = settle(key, at: now, looking: true, in: volume, holdsStripe: true)
            let entry = try remove(key, in: volume)
            return isBelieved ? entry : nil
        }
    }

    /// Returns the entry that went.
    private func remove(_ key: Key, in volume: StoreDirectory) throws(CacheError) -> IndexEntry? {
        let mayBeUnfound = provisional.isSet && reconciliation.withLock { !$0.hasScanned || $0.hasUnread }
        let (entry, waiting) = index.withShard(of: key) { shard in
            (shard.table.entry(key), shard.obsolete.filter { $0.hash == key.hash })
        }
        if entry == nil, waiting.isEmpty {
            // Nothing of the key came since its tombstone was placed.
            if !mayBeUnfound || tombstones.withLock({ $0.hasTombstone(of: key) }) { return nil }
        }
        try clearShutdownMarker()
        let tombstone = mayBeUnfound ? try placeTombstone(of: key, in: volume) : nil
        if tombstone != nil, hasTooManyTombstones { boundTombstonesBehind() }
        do {
            for file in waiting.map(\.file) + (entry.map { [$0.file] } ?? []) {
                try translating("remove an entry", at: volume.path(of: file)) { () throws(Errno) in
                    try volume.unlink(file)
                }
            }
        } catch {
            // The value stays, after the next opening too.
            if let tombstone { discardTombstone(tombstone, in: volume) }
            throw error
        }
        let number = if let tombstone { tombstone } else { try takeNumber() }
        let ticket = commitBestEffort(.remove(key: key, number: number), in: volume) { index in
            index.change(key, .removed) { shard in
                shard.remove(key, below: number)
                shard.obsolete.removeAll { waiting.contains($0) }
            }
        }
        if isPowerSafe { try syncEntries(in: volume) }
        try wait(for: ticket)
        return entry
    }

    private func syncEntries(in volume: StoreDirectory) throws(CacheError) {
        try translating("sync the directory", at: volume.path) { () throws(Errno) in
            try volume.entriesSync.sync(through: volume.entriesSync.note())
        }
    }
}
