import Foundation
import LarderFiles

extension Store {
    /// Returns the payload of a fresh entry, verified; nil for a miss. What cannot be read is a miss, counted and
    /// reported.
    func read(_ key: Key, at now: Timestamp) -> Data? {
        read(key, at: now) { volume, row in volume.payload(of: row) }
    }

    /// Does something with the file of a fresh entry, or also of one that has expired and is kept; nil for a miss.
    func read<Value>(
        _ key: Key, at now: Timestamp, staleToo: Bool = false, _ body: (Volume, Row) -> Volume.Reading<Value>
    ) -> Value? {
        // A writer may replace the file between the look-up and the opening; each time it does, it has made progress.
        for _ in 0..<3 {
            let isProvisional = provisional.isSet
            if isProvisional, !settle(key, at: now) {
                index.withShard(of: key) { $0.misses += 1 }
                return nil
            }
            guard let row = use(key, at: now, staleToo) else { return nil }
            if !isProvisional, provisional.isSet {
                // Another index has taken the place of the one that was believed.
                takeBackHit(key, asMiss: false)
                continue
            }
            switch try? onDisk({ volume throws(CacheError) in body(volume, row) }) {
            case .value(let value):
                return value
            case .gone where isCurrent(row, key):
                forget(row, key, as: .lost)
            case .gone:
                takeBackHit(key, asMiss: false)
                continue
            case .damaged:
                forget(row, key, as: .corrupt)
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
        _ key: Key, at now: Timestamp, _ staleToo: Bool, _ body: (Volume, Row) -> Volume.Reading<Value>
    ) -> Value? {
        let reading = attempting { () throws(CacheError) in
            try changing(shard: key.shard) { volume throws(CacheError) -> Volume.Reading<Value>? in
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

    /// Looks a row up for a read and counts it.
    private func use(_ key: Key, at now: Timestamp, _ staleToo: Bool) -> Row? {
        lentIndex.use { index in
            index.withShard(of: key) { shard in
                let sliding = settings.slidingExpiry
                guard let row = shard.manifest.use(key, at: now, sliding: sliding, staleToo: staleToo) else {
                    shard.misses += 1
                    return nil
                }
                shard.hits += 1
                return row
            }
        }
    }

    func takeBackHit(_ key: Key, asMiss: Bool) {
        index.withShard(of: key) { shard in
            shard.hits -= 1
            shard.misses += asMiss ? 1 : 0
        }
    }

    func isCurrent(_ row: Row, _ key: Key) -> Bool {
        index.withShard(of: key) { $0.manifest.row(key)?.isSameValue(as: row) ?? false }
    }

    /// Returns the row of a fresh entry without counting a use. While the index is provisional, the file must be there.
    func freshRow(_ key: Key, at now: Timestamp) -> Row? {
        row(key, at: now, looking: true).flatMap { $0.isFresh(at: now) ? $0 : nil }
    }

    /// Forgets an entry whose file is gone or proven damaged, unless a newer value has come. Returns whether it did.
    ///
    /// Never while a damaged index is being reconciled with the files: the row may be the mistake.
    @discardableResult
    func forget(_ row: Row, _ key: Key, as cause: CacheEvent.Kind) -> Bool {
        if provisional.isSet, reconciliation.withLock({ !$0.isFinished && $0.isDamaged }) { return false }
        let dropped = attempting { () throws(CacheError) in try drop(row, key, as: cause) }
        guard dropped == true else { return false }
        report(CacheEvent(cause, of: key)) { statistics in
            if cause == .lost { statistics.losses += 1 } else { statistics.corruptions += 1 }
        }
        return true
    }

    private func drop(_ row: Row, _ key: Key, as cause: CacheEvent.Kind) throws(CacheError) -> Bool {
        try changing(shard: key.shard) { volume throws(CacheError) in
            guard isCurrent(row, key) else { return false }
            try unseal()
            _ = commitBestEffort(.remove(key: key, number: row.file + 1), in: volume) { index in
                index.change(key, .evictedOnDisk) { shard in
                    shard.remove(key, below: row.file + 1)
                    if cause != .lost { shard.doom(row.file, of: key) }
                }
            }
            if cause != .lost { unlinkDoomed(in: volume, shard: key.shard) }
            return true
        }
    }
}
