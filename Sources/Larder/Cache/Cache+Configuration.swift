extension Cache {
    /// How a cache behaves.
    public struct Configuration: Sendable {
        /// The memory tier; nil: none. Where there is a disk tier, lives are those of the disk. Without limits.
        public var memory: MemoryCache<String, Value>.Configuration? = .init()
        /// The directory, where the cache opens it itself.
        public var disk = DiskCache.Configuration()
        /// The life of values stored without one. That of the disk tier: one day, unless changed.
        public var defaultTTL: TimeToLive = .default
        /// Returns the weight of a value in memory, given its bytes on disk; in whatever unit `memory.costLimit` has. Called with no
        /// lock held. The bytes on disk.
        public var cost: (@Sendable (_ value: Value, _ size: Int) -> Int)?
        /// Is told of every failure and every removal with its cause, as far as this cache's keys are concerned. None.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// Creates the defaults.
        public init() {}
    }
}
