import LarderFiles

extension MemoryCache {
    /// Values that go, or are looked at, before others are let in.
    private static var slice: Int { 1024 }

    /// Evicts values until there are at most `count`, the least recently used first. O(1) for each.
    public func trim(toCount count: Int) {
        trim { $0.evict(count: max(0, count), cost: .max, limit: Self.slice) }
    }

    /// Evicts values until their costs sum up to at most `cost`. See `trim(toCount:)`.
    public func trim(toCost cost: Int) {
        trim { $0.evict(count: .max, cost: max(0, cost), limit: Self.slice) }
    }

    /// Evicts the values that have not been used, read or stored, for longer than `age`. See `trim(toCount:)`.
    public func trim(toAge age: Duration) {
        let time = time.now.advanced(byMilliseconds: -max(0, age.milliseconds))
        trim { $0.evict(unusedSince: time, limit: Self.slice) }
    }

    /// Drops what has expired, without waiting for the sweep. O(n), in slices.
    ///
    /// - Returns: The number of values dropped.
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

    /// Removes every value. O(1), but for their release.
    public func removeAll() {
        release(removeAllKept())
    }

    /// Does what is configured for a condition of the system. On Apple platforms the system's own are noticed; elsewhere the program
    /// calls this when it knows of one.
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

    /// Sweeps after each interval, for as long as the cache lives.
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
