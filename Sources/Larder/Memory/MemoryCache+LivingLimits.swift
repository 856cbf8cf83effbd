import LarderFiles

/// Limits that can be changed at any time, from any thread. A limit that is lowered evicts before the setter returns.
extension MemoryCache {
    /// The maximum number of entries; nil: no limit. A negative limit is 0. Setting it evicts as storing a value does,
    /// O(1) per removed entry. Default: that of the configuration.
    public var countLimit: Int? {
        get {
            let limit = limits.count
            return limit == .max ? nil : limit
        }
        set {
            change { $0.limits.count = MemoryLimits.count(newValue) }
            obeyLimits()
        }
    }

    /// The maximum sum of the entries' costs, at most `Int.max / 2`, which is no limit; nil: no limit. A negative limit
    /// is 0. Setting it evicts as storing a value does, O(1) per removed entry; a first limit takes O(n). Default: that
    /// of the configuration.
    public var costLimit: Int? {
        get { Self.costLimit(limits.cost) }
        set {
            change { table in
                table.limits.cost = MemoryLimits.cost(newValue)
                table.weigh(table.limits.cost < MemoryLimits.costBound)
            }
            obeyLimits()
        }
    }

    /// The maximum cost of one entry, at most `Int.max / 2`, which is no limit; nil: no limit. A negative limit is 0.
    /// Lowering it removes the entries that cost more. O(n). Default: that of the configuration.
    public var entryCostLimit: Int? {
        get { Self.costLimit(limits.entryCost) }
        set {
            change { table in
                let old = table.limits.entryCost
                table.limits.entryCost = MemoryLimits.cost(newValue)
                if table.limits.entryCost < old { table.removeTooCostly() }
            }
        }
    }

    /// The longest time that a value may go unused, in whole milliseconds, rounded up; nil: no limit. A negative limit
    /// is 0. Setting it evicts the values that have been unused for longer. O(n). Default: that of the configuration.
    public var ageLimit: Duration? {
        get {
            let limit = limits.age
            return limit == .max ? nil : .milliseconds(limit)
        }
        set {
            let now = time.now
            change { table in
                table.limits.age = MemoryLimits.age(newValue)
                table.restartExpiries(at: now)
            }
            removeExpired()
        }
    }

    private var limits: MemoryLimits { table.withLock { $0.limits } }

    private static func costLimit(_ limit: Int) -> Int? { limit == MemoryLimits.costBound ? nil : limit }

    /// Evicts until the count and the cost limit are obeyed: those that hold by now, if another thread changes them.
    private func obeyLimits() {
        let now = time.now
        trim { $0.evict(at: now, limit: Self.slice) }
    }
}

extension MemoryTable {
    /// Removes the entries that cost more than one may. O(n).
    mutating func removeTooCostly() {
        for slot in 0..<slots.count where slots.isUsed(slot) && slots[slot].cost > limits.entryCost {
            remove(slot, .cost)
        }
    }
}
