import LarderFiles

extension Store {
    /// Expires an entry before its time. Returns whether there was a fresh one.
    ///
    /// An entry that is kept beyond its expiry gets a life that ends now; any other is removed. While a lost index is
    /// rebuilt, the call waits until the key's entry is found; if a file that cannot be read may hold it, the key is
    /// removed.
    func expire(_ key: Key, at now: Timestamp) throws(CacheError) -> Bool {
        do throws(CacheError) {
            var outcome = try expireOnce(key, at: now)
            if case .unknown = outcome, provisional.isReconciling {
                recovery.awaitScan()
                outcome = try expireOnce(key, at: now)
            }
            switch outcome {
            case .unknown: break
            case .nothing: return false
            case .expired(let wasFresh, let isRemoved):
                reporter.report(CacheEvent(.invalidated, of: key)) { $0.expirations += isRemoved ? 1 : 0 }
                return wasFresh
            }
        } catch {
            reporter.report(error, of: key)
            throw error
        }
        return try remove(key, at: now)
    }

    private enum ExpiryOutcome {
        /// There is no entry, or it has already expired.
        case nothing
        case expired(wasFresh: Bool, isRemoved: Bool)
        /// A file that has not been read may hold the value.
        case unknown
    }

    private func expireOnce(_ key: Key, at now: Timestamp) throws(CacheError) -> ExpiryOutcome {
        try disk.run(shard: key.shard) { directory throws(CacheError) in
            // Afterwards: a fetch that begins earlier may still receive the fresh value.
            defer { observer.didChange(key) }
            if provisional.isSet,
                !recovery.settle(key, at: now, checkingFile: true, in: directory, holdsStripe: true),
                provisional.mayHaveUnread || index.entry(key) != nil
            {
                return .unknown
            }
            guard let entry = index.entry(key), !entry.life.isExpired(at: now) else {
                index.invalidate(key, .invalidated)
                return .nothing
            }
            let wasFresh = entry.isFresh(at: now)
            if !entry.isAbsent, entry.update.keptStale > 0,
                try renew(entry, key, Renewal(life: .ended(at: now)), in: directory)
            {
                return .expired(wasFresh: wasFresh, isRemoved: false)
            }
            _ = try removeFiles(of: key, in: directory)
            return .expired(wasFresh: wasFresh, isRemoved: true)
        }
    }

    /// Expires every entry in a scope before its time. O(1); in the background, entries that are not kept beyond their
    /// expiry are removed.
    func expireAll(of scope: ClearScope, at now: Timestamp) throws(CacheError) {
        let failure = try retryingReopened(nil) { () throws(CacheError) in try expirer.expire(scope, at: now) }
        reporter.report(CacheEvent(.invalidated, of: scope, count: 0)) { _ in }
        expirer.applyInBackground()
        guard let failure else { return }
        reporter.report(failure)
        throw failure
    }
}
