// What happened between two moments: `cache.statistics - earlier`. Counters are subtracted; what is said of a moment or of
// the whole time is that of the later statistics.

extension CacheStatistics {
    /// Returns what happened since the earlier statistics of the same directory. The segments that there are and their
    /// bytes are those of now. O(1).
    public static func - (now: CacheStatistics, earlier: CacheStatistics) -> CacheStatistics {
        var since = now
        since.hits -= earlier.hits
        since.misses -= earlier.misses
        since.stores -= earlier.stores
        since.removals -= earlier.removals
        since.expirations -= earlier.expirations
        since.evictions.count -= earlier.evictions.count
        since.evictions.size -= earlier.evictions.size
        since.evictions.age -= earlier.evictions.age
        since.evictions.freeSpace -= earlier.evictions.freeSpace
        since.corruptions -= earlier.corruptions
        since.losses -= earlier.losses
        since.adoptions -= earlier.adoptions
        since.orphansDeleted -= earlier.orphansDeleted
        since.damagedLines -= earlier.damagedLines
        since.failures -= earlier.failures
        since.eventsDropped -= earlier.eventsDropped
        since.segments.cleaned -= earlier.segments.cleaned
        since.segments.movedBytes -= earlier.segments.movedBytes
        return since
    }
}

extension MemoryStatistics {
    /// Returns what happened since the earlier statistics of the same cache. O(1).
    public static func - (now: MemoryStatistics, earlier: MemoryStatistics) -> MemoryStatistics {
        var since = now
        since.hits -= earlier.hits
        since.misses -= earlier.misses
        since.stores -= earlier.stores
        since.removals -= earlier.removals
        since.expirations -= earlier.expirations
        since.evictions.count -= earlier.evictions.count
        since.evictions.cost -= earlier.evictions.cost
        since.evictions.age -= earlier.evictions.age
        return since
    }
}

extension FetchStatistics {
    /// Returns what happened since the earlier statistics of the same cache. The longest time is that of all fetches.
    /// O(1).
    public static func - (now: FetchStatistics, earlier: FetchStatistics) -> FetchStatistics {
        var since = now
        since.begun -= earlier.begun
        since.failed -= earlier.failed
        since.coalesced -= earlier.coalesced
        since.staleAnswers -= earlier.staleAnswers
        since.totalTime -= earlier.totalTime
        return since
    }
}

extension RemoteStatistics {
    /// Returns what happened since the earlier statistics of the same cache. The changes that wait are those of now.
    /// O(1).
    public static func - (now: RemoteStatistics, earlier: RemoteStatistics) -> RemoteStatistics {
        var since = now
        since.hits -= earlier.hits
        since.misses -= earlier.misses
        since.confirmations -= earlier.confirmations
        since.failures -= earlier.failures
        since.late -= earlier.late
        since.changes -= earlier.changes
        since.refusals -= earlier.refusals
        since.dropped -= earlier.dropped
        since.malformed -= earlier.malformed
        since.notices -= earlier.notices
        return since
    }
}

extension TierStatistics {
    /// Returns what happened since the earlier statistics of the same cache, in each tier. O(1).
    public static func - (now: TierStatistics, earlier: TierStatistics) -> TierStatistics {
        var since = now
        since.memoryHits -= earlier.memoryHits
        since.diskHits -= earlier.diskHits
        since.remoteHits -= earlier.remoteHits
        since.misses -= earlier.misses
        since.absentAnswers -= earlier.absentAnswers
        since.fetches = now.fetches - earlier.fetches
        if let memory = now.memory, let before = earlier.memory { since.memory = memory - before }
        if let disk = now.disk, let before = earlier.disk { since.disk = disk - before }
        if let remote = now.remote, let before = earlier.remote { since.remote = remote - before }
        return since
    }
}
