/// What a cache in memory has done since it was made.
public struct MemoryStatistics: Hashable, Sendable {
    /// Reads that returned a value.
    public var hits = 0
    /// Reads that returned none.
    public var misses = 0
    /// Values stored.
    public var stores = 0
    /// Entries removed by a caller, by memory pressure, or because the disk tier has dropped them.
    public var removals = 0
    /// Entries dropped because they had expired.
    public var expirations = 0
    /// Entries dropped to obey a limit or a trim.
    public var evictions = Evictions()

    @inlinable
    init() {}

    /// Entries dropped to obey a limit or a trim, by its kind.
    public struct Evictions: Hashable, Sendable {
        /// For `countLimit` and `trim(toCount:)`.
        public var count = 0
        /// For `costLimit` and `trim(toCost:)`.
        public var cost = 0
        /// For `ageLimit` and `trim(toAge:)`.
        public var age = 0

        /// All of them.
        public var total: Int { count + cost + age }

        @inlinable
        init() {}
    }

    @usableFromInline
    mutating func note(_ cause: RemovalCause, times number: Int = 1) {
        switch cause {
        case .replaced: break
        case .removed, .cleared, .evictedOnDisk: removals += number
        case .expired: expirations += number
        case .count: evictions.count += number
        case .cost: evictions.cost += number
        case .age: evictions.age += number
        }
    }
}
