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
