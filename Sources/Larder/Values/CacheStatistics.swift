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
}
