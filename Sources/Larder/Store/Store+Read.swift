import LarderFiles
import LarderFoundation

extension Store {
    /// Returns the payload of a fresh entry, verified; nil for a miss. An entry that cannot be read is a miss, counted
    /// and reported.
    func read(_ key: Key, at now: Timestamp) -> Data? {
        read(key, at: now) { directory, entry in directory.payload(of: entry) }
    }

    /// Reads the file of a fresh entry with `body`, or with `orStale` also that of a kept expired one; nil for a miss.
    func read<Value>(
        _ key: Key, at now: Timestamp, orStale: Bool = false,
        _ body: (StoreDirectory, IndexEntry) -> StoreDirectory.Reading<Value>
    ) -> Value? {
        guard disk.follow() else { return nil }
        if provisional.mayLackFiles { return readAgain(key, at: now, orStale, body) }
        guard let entry = use(key, at: now, orStale) else { return nil }
        if provisional.isSet {
            // Another index has replaced the trusted one.
            takeBackHit(key, asMiss: false)
            return readAgain(key, at: now, orStale, body)
        }
        let reading = try? disk.run { directory in body(directory, entry) }
        sweeper.shareSlide(of: key)
        if case .value(let value)? = reading { return value }
        return handleFailure(of: reading, entry, key) ? readAgain(key, at: now, orStale, body) : nil
    }

    private static let readAttempts = 100

    /// The same when the file must be checked first, or a writer intervened. A separate function keeps the common case
    /// small.
    @inline(never)
    private func readAgain<Value>(
        _ key: Key, at now: Timestamp, _ orStale: Bool,
        _ body: (StoreDirectory, IndexEntry) -> StoreDirectory.Reading<Value>
    ) -> Value? {
        // A writer may replace the file between look-up and opening, but then that writer has made progress.
        for _ in 0..<Self.readAttempts {
            guard disk.follow() else { return nil }
            let isProvisional = provisional.isSet
            if isProvisional || provisional.mayLackFiles, !recovery.settle(key, at: now) {
                index.withShard(of: key) { $0.misses += 1 }
                return nil
            }
            guard let entry = use(key, at: now, orStale) else { return nil }
            if !isProvisional, provisional.isSet {
                takeBackHit(key, asMiss: false)
                continue
            }
            let reading = try? disk.run { directory in body(directory, entry) }
            if case .value(let value)? = reading { return value }
            if !handleFailure(of: reading, entry, key) { return nil }
        }
        return readHoldingStripe(key, at: now, orStale, body)
    }

    /// Handles an entry that could not be read: removes one that is lost or damaged, reports a failure and corrects the
    /// counters. True when a writer has replaced the file and the read should be retried.
    @inline(never)
    private func handleFailure<Value>(
        of reading: StoreDirectory.Reading<Value>?, _ entry: IndexEntry, _ key: Key
    ) -> Bool {
        _ = disk.follow()
        switch reading {
        case .gone? where reopenIfDeleted():
            takeBackHit(key, asMiss: false)
            return true
        case .gone? where !index.isCurrentFile(entry, key):
            takeBackHit(key, asMiss: false)
            return true
        case .gone?:
            recovery.removeUnreadable(entry, key, as: .lost)
        case .damaged?:
            recovery.removeUnreadable(entry, key, as: .corrupt)
        case .failed(let error)?:
            reporter.report(error, of: key)
        case .value?, nil:
            break
        }
        takeBackHit(key, asMiss: true)
        return false
    }

    /// The same while writers of the key are locked out, for a key that is overwritten again and again.
    private func readHoldingStripe<Value>(
        _ key: Key, at now: Timestamp, _ orStale: Bool,
        _ body: (StoreDirectory, IndexEntry) -> StoreDirectory.Reading<Value>
    ) -> Value? {
        let reading = reporter.attempt { () throws(CacheError) in
            try disk.run(changing: key) { directory throws(CacheError) -> StoreDirectory.Reading<Value>? in
                if provisional.mayLackFiles,
                    !recovery.settle(key, at: now, in: directory, holdsStripe: true)
                {
                    index.withShard(of: key) { $0.misses += 1 }
                    return nil
                }
                return use(key, at: now, orStale).map { body(directory, $0) }
            }
        }
        guard let reading = reading ?? nil else { return nil }
        if case .value(let value) = reading { return value }
        if case .failed(let error) = reading { reporter.report(error, of: key) }
        takeBackHit(key, asMiss: true)
        return nil
    }

    /// Looks an entry up for a read, and counts it.
    private func use(_ key: Key, at now: Timestamp, _ orStale: Bool) -> IndexEntry? {
        unretainedIndex.use { $0.use(key, at: now, sliding: settings.slidingExpiry, orStale: orStale) }
    }

    func takeBackHit(_ key: Key, asMiss: Bool) {
        index.withShard(of: key) { shard in
            shard.hits -= 1
            shard.misses += asMiss ? 1 : 0
        }
    }

    /// Returns a fresh entry without counting a use. While the index is provisional, or a killed session may have
    /// deleted files, its file must exist.
    func freshEntry(_ key: Key, at now: Timestamp) -> IndexEntry? {
        recovery.entry(key, at: now, checkingFile: true).flatMap { $0.isFresh(at: now) ? $0 : nil }
    }

    /// Returns a part of every fresh entry of a namespace. O(n).
    func freshEntries<Part>(of namespace: Namespace, at now: Timestamp, _ part: (IndexEntry) -> Part) -> [Part] {
        index.whileNotReplaced {
            index.loadFresh(at: now)
            recovery.awaitScan()
            // A file that could not be read may have replaced or removed an entry below it.
            let horizon = provisional.horizon
            var parts: [Part] = []
            for shard in 0..<Index.shardCount {
                for entry in index.snapshot(shard)
                where entry.file > horizon && entry.namespace == namespace && entry.isFresh(at: now) {
                    parts.append(part(entry))
                }
            }
            return parts
        }
    }
}
