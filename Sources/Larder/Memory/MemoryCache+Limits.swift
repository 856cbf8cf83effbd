import LarderFiles

extension MemoryCache {
    /// Entries removed or examined at a time, before other callers get the lock.
    static var slice: Int { 1024 }

    /// Removes expired values, and then evicts others as a full cache does, until at most `count` entries are left.
    /// O(1) per removed value.
    public func trim(toCount count: Int) {
        let now = time.now
        trim { $0.evict(count: max(0, count), cost: .max, at: now, limit: Self.slice) }
    }

    /// Removes expired values, and then evicts others that have a cost, until the costs sum up to at most `cost`.
    /// O(1) per removed value; the first time O(n), where costs are not limited.
    public func trim(toCost cost: Int) {
        let now = time.now
        trim { $0.evict(count: .max, cost: max(0, cost), at: now, limit: Self.slice) }
    }

    /// Evicts the values that have not been stored or read for longer than `age`. O(n), in slices.
    public func trim(toAge age: Duration) {
        let time = time.now.advanced(byMilliseconds: -max(0, age.milliseconds))
        var place = SlotPlace()
        trim { $0.evict(unusedSince: time, from: &place, limit: Self.slice) }
    }

    /// Removes expired values, and those beyond the age limit, without waiting for the sweep. O(1) amortized per
    /// removed value, in slices.
    ///
    /// - Returns: The number of entries removed.
    @discardableResult
    public func removeExpired() -> Int {
        let now = time.now
        var removed = 0
        trim { table in
            let before = table.count
            defer { removed += before - table.count }
            return table.removeExpired(limit: Self.slice, at: now)
        }
        return removed
    }

    /// Removes every value, with the cause `.cleared`. O(1), not counting their release.
    public func removeAll() {
        release(removeAllKept())
    }

    /// Responds to a system condition as configured. Apple platforms report their own conditions; elsewhere the
    /// program calls this method.
    public func respond(to condition: SystemCondition) {
        configuration.onSystemCondition?(condition)
        switch condition {
        case .memoryPressure where configuration.removesAllOnMemoryPressure: release(removeAllKept(.memoryPressure))
        case .background where configuration.removesAllInBackground: release(removeAllKept(.background))
        default: break
        }
    }

    /// Changes the table until `evictSome` returns false.
    func trim(_ evictSome: (inout Table) -> Bool) {
        while change(evictSome) {}
    }

    /// Sweeps at every interval for as long as the cache lives.
    func scheduleSweep() {
        guard let interval = configuration.sweepInterval else { return }
        let timer = time.clock.schedule(after: max(interval, .milliseconds(1))) { [weak self] in
            guard let self else { return }
            removeExpired()
            scheduleSweep()
        }
        sweepTimer.set(timer)
    }
}
