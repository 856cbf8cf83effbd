import LarderFiles

extension Store {
    /// Expires an entry before its time. Returns whether there was a fresh one.
    ///
    /// An entry that is kept beyond its expiry gets a life that ends now; any other is removed. While a lost index is
    /// rebuilt, the call waits until the key's entry is found; if a file that cannot be read may hold it, the key is
    /// removed.
    func expire(_ key: Key, at now: Timestamp) throws(CacheError) -> Bool {
        let outcome = try retryingReopened(key) { () throws(CacheError) in
            let outcome = try expireOnce(key, at: now)
            guard case .unknown = outcome else { return outcome }
            recovery.awaitScan()
            return try expireOnce(key, at: now)
        }
        switch outcome {
        case .unknown: return try remove(key, at: now)
        case .nothing: return false
        case .expired(let wasFresh, let isRemoved):
            reporter.report(CacheEvent(.invalidated, of: key)) { $0.expirations += isRemoved ? 1 : 0 }
            return wasFresh
        }
    }

    private enum ExpiryOutcome {
        /// There is no entry, or it has already expired.
        case nothing
        case expired(wasFresh: Bool, isRemoved: Bool)
        /// A file that has not been read may hold the value.
        case unknown
    }

    private func expireOnce(_ key: Key, at now: Timestamp) throws(CacheError) -> ExpiryOutcome {
        try disk.run(changing: key) { directory throws(CacheError) in
            // Afterwards: a fetch that begins earlier may still receive the fresh value.
            defer { observer.didChange(key) }
            index.load(key)
            if provisional.mayLackFiles,
                !recovery.settle(key, at: now, checkingFile: true, in: directory, holdsStripe: true),
                provisional.mayHaveUnread || index.entry(key) != nil
            {
                return .unknown
            }
            guard let entry = index.entry(key) else {
                // Another process may have stored it meanwhile.
                if index.withShard(of: key, { $0.debts.files(of: key).isEmpty }), !disk.hasLeftFiles {
                    try reaper.syncDeletions(of: key, in: directory)
                } else if let wasFresh = try removeFiles(of: key, at: now, in: directory) {
                    return .expired(wasFresh: wasFresh, isRemoved: true)
                }
                index.invalidate(key, .invalidated)
                return .nothing
            }
            let hasExpired = entry.life.isExpired(at: now)
            if hasExpired, entry.life.isEnded {
                index.invalidate(key, .invalidated)
                return .nothing
            }
            let wasFresh = entry.isFresh(at: now)
            // One that expired by itself keeps its end, but setting the clock back no longer revives it.
            let end = min(now, entry.life.expires)
            // A file that a dead process has left does not end with this one.
            if !entry.isAbsent, entry.update.keptStale > 0, !disk.hasLeftFiles {
                try info.removeShutdownMarker()
                let number = try info.takeNumber(.key(key))
                if try renew(entry, key, Renewal(life: .ended(at: end)), number: number, in: directory) {
                    return hasExpired ? .nothing : .expired(wasFresh: wasFresh, isRemoved: false)
                }
            }
            // It may be one that another process has stored meanwhile.
            return .expired(wasFresh: try removeFiles(of: key, at: now, in: directory) ?? false, isRemoved: true)
        }
    }

    /// Expires every entry in a scope before its time. O(1), except on a full disk; in the background, entries that are
    /// not kept beyond their expiry are removed.
    func expireAll(of scope: ClearScope, at now: Timestamp) throws(CacheError) {
        let failure = try retryingReopened(nil) { () throws(CacheError) in
            if scope == .everything {
                // A namespace may only be in files that have not been read.
                recovery.awaitScan()
                return try expirer.expireEveryNamespace(at: now)
            }
            return try recovery.retryingAfterScan { () throws(CacheError) in try expirer.expire(scope, at: now) }
        }
        reporter.report(CacheEvent(.invalidated, of: scope, count: 0)) { _ in }
        expirer.applyInBackground()
        guard let failure else { return }
        reporter.report(failure)
        throw failure
    }
}
