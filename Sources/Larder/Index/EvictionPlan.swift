import LarderFiles

/// Decides which entries are evicted to obey a limit: the least recently used across all shards.
struct EvictionPlan {
    /// The amount to evict.
    enum Need: Equatable {
        case entries(Int)
        /// At least this many payload bytes, and further entries while the sum is at most `upTo`.
        case bytes(Int, upTo: Int)
        /// Bytes on disk.
        case allocated(Int)
        case unusedSince(Timestamp, now: Timestamp)

        /// The excess over a size limit: enough to reach the limit, then on toward the low-water mark but not below it.
        static func overSize(_ limit: Int, lowWaterMark: Int, of totals: EntryTable.Totals) -> Need {
            .bytes(totals.size - limit, upTo: totals.size - lowWaterMark)
        }
    }

    /// One entry that a shard would give up.
    struct Offer {
        let stamp: UInt64
        /// Orders uses of the same millisecond from an earlier session.
        let file: FileID
        let size: Int
        let allocatedSize: Int
        let used: Timestamp

        init(_ entry: IndexEntry, stamp: UInt64) {
            self.stamp = stamp
            file = entry.file
            size = entry.size
            allocatedSize = entry.allocatedSize
            used = entry.used
        }
    }

    /// The part of one shard: its `count` oldest entries, none used after `stamp`.
    struct Part {
        let shard: Int
        var count = 0
        var stamp: UInt64 = 0
    }

    let parts: [Part]

    /// Plans with the offers of the shards, each with its oldest first. O(offers, times shards).
    ///
    /// The plan ends when the offers of a shard that `hasMore` are used up: its next one is unknown.
    init(_ offers: [[Offer]], hasMore: [Bool], need: Need, limit: Int) {
        var parts = offers.indices.map { Part(shard: $0) }
        var (entries, bytes, allocated) = (0, 0, 0)
        let lastUnused = need.lastUnused(offers)
        while entries < limit {
            guard let shard = Self.shardOfOldest(offers, parts) else { break }
            let offer = offers[shard][parts[shard].count]
            let isNeeded =
                switch need {
                case .entries(let count): entries < count
                case .bytes(let count, let most): bytes < count || offer.size > 0 && bytes + offer.size <= most
                case .allocated(let count): allocated < count
                case .unusedSince(let time, let now):
                    offer.used < time || offer.used > now && lastUnused > 0 && offer.stamp <= lastUnused
                }
            if !isNeeded { break }
            entries += 1
            bytes += offer.size
            allocated += offer.allocatedSize
            parts[shard].count += 1
            parts[shard].stamp = offer.stamp
            if parts[shard].count == offers[shard].count, hasMore[shard] { break }
        }
        self.parts = parts.filter { $0.count > 0 }
    }

    private static func shardOfOldest(_ offers: [[Offer]], _ parts: [Part]) -> Int? {
        var oldest: (shard: Int, offer: Offer)?
        for shard in offers.indices where parts[shard].count < offers[shard].count {
            let offer = offers[shard][parts[shard].count]
            if let oldest, (oldest.offer.stamp, oldest.offer.file) < (offer.stamp, offer.file) { continue }
            oldest = (shard, offer)
        }
        return oldest?.shard
    }
}

extension EvictionPlan.Need {
    /// The stamp of the most recent use that is too long ago; 0: none. An entry before it in the order but with a time
    /// in the future was used while the clock was wrong.
    fileprivate func lastUnused(_ offers: [[EvictionPlan.Offer]]) -> UInt64 {
        guard case .unusedSince(let time, _) = self else { return 0 }
        return offers.joined().reduce(0) { $1.used < time ? max($0, $1.stamp) : $0 }
    }
}
