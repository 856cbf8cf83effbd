extension Cache {
    /// How a cache behaves.
    public struct Configuration: Sendable {
        /// The memory tier; nil: none. Where there is a disk tier, lives and time are those of the disk, and what a change there
        /// pushes out is released in the background, or on the main queue. Without limits.
        public var memory: MemoryCache<String, Value>.Configuration? = .init()
        /// The directory, where the cache opens it itself.
        public var disk = DiskCache.Configuration()
        /// The life of values stored without one. That of the disk tier: one day, unless changed.
        public var defaultTTL: TimeToLive = .default
        /// Returns the weight of a value in memory, given its bytes on disk; in whatever unit `memory.costLimit` has. Called with no
        /// lock held. What `memory.cost` says, or else the bytes on disk.
        public var cost: (@Sendable (_ value: Value, _ size: Int) -> Int)?
        /// Is told of every failure and every removal with its cause, in this cache's namespace; without one, in the whole
        /// directory. None.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// Creates the defaults.
        public init() {}

        var costInMemory: (@Sendable (_ value: Value, _ size: Int) -> Int)? {
            if let cost { return cost }
            return memory?.cost.map { cost in { value, _ in cost(value) } }
        }
    }
}
