import Foundation
import LarderFiles

extension Store {
    /// Returns the payload of a fresh entry, verified; nil for a miss. What cannot be read is a miss, counted and
    /// reported.
    func read(_ key: Key, at now: Timestamp) -> Data? {
        read(key, at: now) { volume, entry in volume.payload(of: entry) }
    }

    /// Does something with the file of a fresh entry, or also of one that has expired and is kept; nil for a miss.
    func read<Value>(
        _ key: Key, at now: Timestamp, staleToo: Bool = false,
        _ body: (StoreDirectory, IndexEntry) -> StoreDirectory.Reading<Value>
    ) -> Value? {
        // A writer may replace the file between the look-up and the opening; each time it does, it has made progress.
        for _ in 0..<3 {
            let isProvisional = provisional.isSet
            if isProvisional, !settle(key, at: now) {
                index.withShard(of: key) { $0.misses += 1 }
                return nil
            }
            guard let entry = use(key, at: now, staleToo) else { return nil }
            if !isProvisional, provisional.isSet {
                // Another index has taken the place of the one that was believed.
                takeBackHit(key, asMiss: false)
                continue
            }
            switch try? onDisk({ volume throws(CacheError) in body(volume, entry) }) {
            case .value(let value):
                return value
            case .gone where isCurrent(entry, key):
                forget(entry, key, as: .lost)
            case .gone:
                takeBackHit(key, asMiss: false)
                continue
            case .damaged:
                forget(entry, key, as: .corrupt)
            case .failed(let error):
                report(error, of: key)
            case nil:
                break
            }
            takeBackHit(key, asMiss: true)
            return nil
        }
        return readHoldingStripe(key, at: now, staleToo, body)
    }

    /// The same with writers of the key kept out: for a key that is overwritten again and again.
    private func readHoldingStripe<Value>(
        _ key: Key, at now: Timestamp, _ staleToo: Bool,
        _ body: (StoreDirectory, IndexEntry) -> StoreDirectory.Reading<Value>
    ) -> Value? {
        let reading = attempting { () throws(CacheError) in
            try changing(shard: key.shard) { volume throws(CacheError) -> StoreDirectory.Reading<Value>? in
                if provisional.isSet, !settle(key, at: now, in: volume, holdsStripe: true) {
                    index.withShard(of: key) { $0.misses += 1 }
                    return nil
                }
                return use(key, at: now, staleToo).map { body(volume, $0) }
            }
        }
        guard let reading = reading ?? nil else { return nil }
        if case .value(let value) = reading { return value }
        if case .failed(let error) = reading { report(error, of: key) }
        takeBackHit(key, asMiss: true)
        return nil
    }

    /// Looks a entry up for a read and counts it.
    private func use(_ key: Key, at now: Timestamp, _ staleToo: Bool) -> IndexEntry? {
        unretainedIndex.use { index in
            index.withShard(of: key) { shard in
                let sliding = settings.slidingExpiry
                guard let entry = shard.table.use(key, at: now, sliding: sliding, staleToo: staleToo) else {
                    shard.misses += 1
                    return nil
                }
                shard.hits += 1
                return entry
            }
        }
    }

    func takeBackHit(_ key: Key, asMiss: Bool) {
        index.withShard(of: key) { shard in
            shard.hits -= 1
            shard.misses += asMiss ? 1 : 0
        }
    }

    func isCurrent(_ entry: IndexEntry, _ key: Key) -> Bool {
        index.withShard(of: key) { $0.table.entry(key)?.isSameValue(as: entry) ?? false }
    }

    /// Returns the entry of a fresh entry without counting a use. While the index is provisional, the file must be there.
    func freshEntry(_ key: Key, at now: Timestamp) -> IndexEntry? {
        entry(key, at: now, looking: true).flatMap { $0.isFresh(at: now) ? $0 : nil }
    }

    /// Forgets an entry whose file is gone or proven damaged, unless a newer value has come. Returns whether it did.
    ///
    /// Never while a damaged index is being reconciled with the files: the entry may be the mistake.
    @discardableResult
    func forget(_ entry: IndexEntry, _ key: Key, as cause: CacheEvent.Kind) -> Bool {
        if provisional.isSet, reconciliation.withLock({ !$0.hasScanned && $0.isDamaged }) { return false }
        let dropped = attempting { () throws(CacheError) in try drop(entry, key, as: cause) }
        guard dropped == true else { return false }
        report(CacheEvent(cause, of: key)) { statistics in
            if cause == .lost { statistics.losses += 1 } else { statistics.corruptions += 1 }
        }
        return true
    }

    private func drop(_ entry: IndexEntry, _ key: Key, as cause: CacheEvent.Kind) throws(CacheError) -> Bool {
        try changing(shard: key.shard) { volume throws(CacheError) in
            guard isCurrent(entry, key) else { return false }
            try clearShutdownMarker()
            _ = commitBestEffort(.remove(key: key, number: entry.file + 1), in: volume) { index in
                index.change(key, .evictedOnDisk) { shard in
                    shard.remove(key, below: entry.file + 1)
                    if cause != .lost { shard.markObsolete(entry.file, of: key) }
                }
            }
            if cause != .lost { deleteObsolete(in: volume, shard: key.shard) }
            return true
        }
    }
}
