import LarderFiles

/// Changes of the table, and what they remove.
extension MemoryCache {
    /// Arranges the release of removed values.
    @usableFromInline
    func release(_ demand: ReleaseDemand) { releaser.release(demand) }

    /// Changes the table and arranges the release of the removed values: `inBackground` if the caller holds locks.
    func change<Result>(inBackground: Bool = false, _ body: (inout Table) -> Result) -> Result {
        let (result, demand) = table.withLock { table in
            let result = body(&table)
            return (result, table.takeDemand())
        }
        if inBackground { releaser.releaseInBackground(demand) } else { release(demand) }
        return result
    }

    /// Removes a key whose new value is not to be kept: because it costs too much, or has no life.
    @usableFromInline
    func removeUnkept(_ key: Key, cost: Int) {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        change { table in
            if table.limits.allow(cost) {
                _ = table.remove(key, fingerprint: fingerprint, at: now)
            } else {
                table.remove(key, fingerprint: fingerprint, .cost)
            }
        }
    }

    /// Removes a value for a caller, and reports it like any other removal; true when it was fresh.
    @usableFromInline
    @discardableResult
    func remove(_ key: Key) -> Bool {
        let removal = discardKept(key)
        release(removal.demand)
        return removal.wasFresh
    }
}
