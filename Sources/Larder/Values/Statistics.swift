/// Counts of a disk cache since its directory was opened in this process, by any handle.
public struct CacheStatistics: Hashable, Sendable {
    /// Reads that returned a value.
    public var hits = 0
    /// Reads that found no value.
    public var misses = 0
    /// Values stored.
    public var stores = 0
    /// Entries removed by a caller, including those of `removeAll`.
    public var removals = 0
    /// Entries removed because they had expired.
    public var expirations = 0
    /// Entries evicted to obey a limit or a trim.
    public var evictions = Evictions()
    /// Entries removed because their data on disk was proven damaged.
    public var corruptions = 0
    /// Entries removed because their file was missing.
    public var losses = 0
    /// Entries recovered from their files after an unclean close.
    public var adoptions = 0
    /// Files without an entry that were deleted after an unclean close.
    public var orphansDeleted = 0
    /// Lines of the manifest and the journals that could not be read.
    public var damagedLines = 0
    /// Failed operations; each was reported as an event.
    public var failures = 0
    /// Events that were not delivered because the handler was too slow.
    public var eventsDropped = 0
    /// The segments of the directory.
    public var segments = Segments()

    /// The segments that hold short values; see ``DiskCache/Configuration/inlineThreshold``.
    public struct Segments: Hashable, Sendable {
        /// Segments in the directory, now.
        public var count = 0
        /// Their bytes that belong to entries, headers and records included, approximately, now.
        public var liveBytes = 0
        /// Their bytes that belonged to entries that are gone, approximately, now.
        public var deadBytes = 0
        /// Segments that this process has cleaned and deleted.
        public var cleaned = 0
        /// Bytes of payloads that this process has moved to other segments.
        public var movedBytes = 0
    }

    /// Entries evicted to obey a limit or a trim, by the kind of limit.
    public struct Evictions: Hashable, Sendable {
        /// For `countLimit` and `trim(toCount:)`.
        public var count = 0
        /// For `sizeLimit` and `trim(toSize:)`.
        public var size = 0
        /// For `ageLimit` and `trim(toAge:)`.
        public var age = 0
        /// For `minimumFreeSpace` and `trim(toFreeSpace:)`.
        public var freeSpace = 0

        /// The sum of all kinds.
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

/// Counts of a memory cache since it was created.
public struct MemoryStatistics: Hashable, Sendable {
    /// Reads that returned a value.
    public var hits = 0
    /// Reads that found no value.
    public var misses = 0
    /// Values stored.
    public var stores = 0
    /// Entries removed by a caller, on memory pressure or in the background, or because the disk tier has removed them.
    public var removals = 0
    /// Entries removed because they had expired.
    public var expirations = 0
    /// Entries evicted to obey a limit or a trim.
    public var evictions = Evictions()

    /// The share of reads that returned a value, from 0 to 1; nil before the first read.
    public var hitRatio: Double? {
        let reads = Double(hits) + Double(misses)
        return reads > 0 ? Double(hits) / reads : nil
    }

    @inlinable
    init() {}

    /// Entries evicted to obey a limit or a trim, by the kind of limit.
    public struct Evictions: Hashable, Sendable {
        /// For `countLimit` and `trim(toCount:)`.
        public var count = 0
        /// For `costLimit`, `entryCostLimit` and `trim(toCost:)`.
        public var cost = 0
        /// For `ageLimit` and `trim(toAge:)`.
        public var age = 0

        /// The sum of all kinds.
        public var total: Int { count + cost + age }

        @inlinable
        init() {}
    }

    @usableFromInline
    mutating func note(_ cause: RemovalCause, times number: Int = 1) {
        switch cause.code {
        case .replaced, .changedElsewhere: break
        case .removed, .cleared, .memoryPressure, .background, .evictedOnDisk: removals += number
        case .expired, .invalidated: expirations += number
        case .count: evictions.count += number
        case .cost: evictions.cost += number
        case .age: evictions.age += number
        }
    }
}

/// Counts of the fetches through a cache.
public struct FetchStatistics: Hashable, Sendable {
    /// Fetches started.
    public var begun = 0
    /// Fetches that failed or exceeded their own timeout. A fetch cancelled because its last caller left does not count
    /// as failed.
    public var failed = 0
    /// Calls that waited for a fetch that another call had started.
    public var coalesced = 0
    /// Calls that returned a stale value, with a fetch or without one.
    public var staleAnswers = 0
    /// The total duration of all fetches, including failed ones.
    public var totalTime = Duration.zero
    /// The duration of the longest fetch.
    public var longestTime = Duration.zero

    mutating func note(_ time: Duration) {
        totalTime += time
        longestTime = max(longestTime, time)
    }
}

/// Counts of a cache with two tiers.
public struct TierStatistics: Hashable, Sendable {
    /// Reads answered from memory. An answer is a hit of the tier that had the value, be that fresh or stale;
    /// ``FetchStatistics/staleAnswers`` counts the stale ones among the hits of all tiers.
    public var memoryHits = 0
    /// Reads answered from disk.
    public var diskHits = 0
    /// Reads answered by the remote tier.
    public var remoteHits = 0
    /// Reads that no tier answered, not even with a stale value.
    public var misses = 0
    /// Calls answered by the knowledge that there is no value.
    public var absentAnswers = 0
    /// Fetches through the cache.
    public var fetches = FetchStatistics()
    /// The share of reads that the cache answered, from 0 to 1; nil before the first read.
    public var hitRatio: Double? {
        let hits = memoryHits + diskHits + remoteHits + absentAnswers
        return hits + misses == 0 ? nil : Double(hits) / Double(hits + misses)
    }
    /// The statistics of the memory tier; nil without one.
    public var memory: MemoryStatistics?
    /// The statistics of the directory, by any handle; nil without one.
    public var disk: CacheStatistics?
    /// The statistics of the use of the remote tier; nil without one.
    public var remote: RemoteStatistics?
}

extension CacheStatistics: CustomStringConvertible {
    /// Hits and misses, and every other count that is not 0.
    public var description: String {
        let counts = Wording.counts([
            "stored": stores, "removed": removals, "expired": expirations, "corrupt": corruptions, "lost": losses,
            "adopted": adoptions, orphansDeleted == 1 ? "orphan deleted" : "orphans deleted": orphansDeleted,
            damagedLines == 1 ? "damaged line" : "damaged lines": damagedLines, "failed": failures,
            eventsDropped == 1 ? "event dropped" : "events dropped": eventsDropped,
        ])
        let text = ([reads(hits: hits, misses: misses)] + counts).joined(separator: ", ")
        let evicted = evictions.total == 0 ? "" : "; evicted: \(evictions)"
        return segments == Segments() ? text + evicted : "\(text)\(evicted); segments: \(segments)"
    }
}

extension CacheStatistics.Segments: CustomStringConvertible {
    /// The number of segments, their bytes, and every other count that is not 0.
    public var description: String {
        let counts = Wording.counts(["cleaned": cleaned, "bytes moved": movedBytes])
        return (["\(count) with \(liveBytes) live and \(deadBytes) dead bytes"] + counts).joined(separator: ", ")
    }
}

extension CacheStatistics.Evictions: CustomStringConvertible {
    /// The number of entries evicted for each limit, without those that are 0.
    public var description: String {
        evicted(["for count": count, "for size": size, "for age": age, "for free space": freeSpace])
    }
}

extension MemoryStatistics: CustomStringConvertible {
    /// Hits and misses, and every other count that is not 0.
    public var description: String {
        let counts = Wording.counts(["stored": stores, "removed": removals, "expired": expirations])
        let text = ([reads(hits: hits, misses: misses)] + counts).joined(separator: ", ")
        return evictions.total == 0 ? text : "\(text); evicted: \(evictions)"
    }
}

extension MemoryStatistics.Evictions: CustomStringConvertible {
    /// The number of entries evicted for each limit, without those that are 0.
    public var description: String {
        evicted(["for count": count, "for cost": cost, "for age": age])
    }
}

extension FetchStatistics: CustomStringConvertible {
    /// The number of fetches begun, and every other count that is not 0.
    public var description: String {
        var parts = ["\(begun) begun"]
        parts += Wording.counts(["failed": failed, "coalesced": coalesced, "answered stale": staleAnswers])
        if longestTime > .zero { parts.append("longest \(Wording.duration(longestTime))") }
        return parts.joined(separator: ", ")
    }
}

extension TierStatistics: CustomStringConvertible {
    /// Hits of both tiers and misses, then the counts of fetches and of each tier.
    public var description: String {
        var parts = ["\(memoryHits) from memory, \(diskHits) from disk, \(Wording.number(misses, "miss", "misses"))"]
        if absentAnswers > 0 { parts.append("\(absentAnswers) answered absent") }
        if fetches != FetchStatistics() { parts.append("fetches (\(fetches))") }
        if let memory { parts.append("memory (\(memory))") }
        if let disk { parts.append("disk (\(disk))") }
        if let remote { parts.append("remote (\(remote))") }
        return parts.joined(separator: "; ")
    }
}

private func reads(hits: Int, misses: Int) -> String {
    "\(Wording.number(hits, "hit", "hits")), \(Wording.number(misses, "miss", "misses"))"
}

private func evicted(_ counts: KeyValuePairs<String, Int>) -> String {
    let counts = Wording.counts(counts)
    return counts.isEmpty ? "none" : counts.joined(separator: ", ")
}
