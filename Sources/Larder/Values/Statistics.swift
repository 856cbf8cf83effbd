/// What the cache has done since its directory was opened in this process, by whatever handle.
public struct CacheStatistics: Hashable, Sendable {
    /// Reads that returned a value.
    public var hits = 0
    /// Reads that returned none.
    public var misses = 0
    /// Values stored.
    public var stores = 0
    /// Entries removed by a caller, those of `removeAll` included.
    public var removals = 0
    /// Entries dropped because they had expired.
    public var expirations = 0
    /// Entries dropped to obey a limit or a trim.
    public var evictions = Evictions()
    /// Entries dropped because what was on disk was proven damaged.
    public var corruptions = 0
    /// Entries dropped because their file was gone.
    public var losses = 0
    /// Entries found again by their files after an unclean close.
    public var adoptions = 0
    /// Files deleted that belonged to no entry, after an unclean close.
    public var orphansDeleted = 0
    /// Lines of manifest and journals that could not be read.
    public var damagedLines = 0
    /// Things that could not be done; each was reported as an event.
    public var failures = 0
    /// Events that were not delivered because the handler was too slow.
    public var eventsDropped = 0

    /// Entries dropped to obey a limit or a trim, by its kind.
    public struct Evictions: Hashable, Sendable {
        /// For `countLimit` and `trim(toCount:)`.
        public var count = 0
        /// For `sizeLimit` and `trim(toSize:)`.
        public var size = 0
        /// For `ageLimit` and `trim(toAge:)`.
        public var age = 0
        /// For `minimumFreeSpace` and `trim(toFreeSpace:)`.
        public var freeSpace = 0

        /// All of them.
        public var total: Int { count + size + age + freeSpace }

        mutating func add(_ number: Int, for limit: CacheLimit) {
            switch limit {
            case .size: size += number
            case .age: age += number
            case .freeSpace: freeSpace += number
            default: count += number
            }
        }
    }
}

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

/// What fetching through a cache has done.
public struct FetchStatistics: Hashable, Sendable {
    /// Fetches begun.
    public var begun = 0
    /// Those that failed, or took longer than their own timeout. One that is cancelled because nobody waits any more has not.
    public var failed = 0
    /// Calls that waited for a fetch that another call had begun.
    public var joined = 0
    /// Calls that were answered with a stale value.
    public var staleAnswers = 0
}

/// What a cache of two tiers has done.
public struct TierStatistics: Hashable, Sendable {
    /// Reads that the memory has answered.
    public var memoryHits = 0
    /// Reads that the disk has answered.
    public var diskHits = 0
    /// Reads that nobody has answered.
    public var misses = 0
    /// Fetches through the cache.
    public var fetches = FetchStatistics()
    /// The memory tier's own; nil without one.
    public var memory: MemoryStatistics?
    /// The directory's, by whatever handle; nil without one.
    public var disk: CacheStatistics?
}
