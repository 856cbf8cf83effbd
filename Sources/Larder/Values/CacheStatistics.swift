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
