import LarderFiles

extension MemoryCache {
    /// Values removed or examined at a time, before other callers get the lock.
    private static var slice: Int { 1024 }

    /// Evicts the least recently used values until at most `count` are left. O(1) per evicted value.
    public func trim(toCount count: Int) {
        trim { $0.evict(count: max(0, count), cost: .max, limit: Self.slice) }
    }

    /// Evicts the least recently used values until their costs sum up to at most `cost`. O(1) per evicted value.
    public func trim(toCost cost: Int) {
        trim { $0.evict(count: .max, cost: max(0, cost), limit: Self.slice) }
    }

    /// Evicts the values that have not been stored or read for longer than `age`. O(1) per evicted value.
    public func trim(toAge age: Duration) {
        let time = time.now.advanced(byMilliseconds: -max(0, age.milliseconds))
        trim { $0.evict(unusedSince: time, limit: Self.slice) }
    }

    /// Removes expired values without waiting for the sweep. O(n), in slices.
    ///
    /// - Returns: The number of values removed.
    @discardableResult
    public func removeExpired() -> Int {
        let now = time.now
        var removed = 0
        var position: Int? = 0
        while let start = position {
            change { table in
                let before = table.count
                position = table.removeExpired(from: start, limit: Self.slice, at: now)
                removed += before - table.count
            }
        }
        return removed
    }

    /// Removes every value. O(1), not counting their release.
    public func removeAll() {
        release(removeAllKept())
    }

    /// Does what is configured for a system condition. Apple platforms report their own conditions; elsewhere the
    /// program calls this method.
    public func respond(to condition: SystemCondition) {
        configuration.onSystemCondition?(condition)
        let removesAll =
            switch condition {
            case .memoryPressure: configuration.removesAllOnMemoryPressure
            case .background: configuration.removesAllInBackground
            default: false
            }
        if removesAll { removeAll() }
    }

    private func trim(_ evictSome: (inout Table) -> Bool) {
        while change(evictSome) {}
    }

    /// Sweeps at every interval for as long as the cache lives.
    func scheduleSweep() {
        guard let interval = configuration.sweepInterval else { return }
        time.clock.schedule(after: max(interval, .milliseconds(1))) { [weak self] in
            guard let self else { return }
            removeExpired()
            if let age = configuration.ageLimit { trim(toAge: age) }
            scheduleSweep()
        }
    }
}
