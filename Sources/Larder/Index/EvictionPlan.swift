import LarderFiles

/// Decides which entries are evicted to obey a limit, across all shards.
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
        /// The slot in the table of the shard.
        let slot: Int
        let file: FileID
        let size: Int
        let allocatedSize: Int
        let used: Timestamp
        let rank: Rank
        /// Its place in the order of eviction.
        let turn: UInt64
        let lastUse: UInt64

        /// True for a value from the future, which no read may return.
        var isMiss: Bool { lastUse == 0 }

        init(_ entry: IndexEntry, _ slot: Int, turn: UInt64, lastUse: UInt64) {
            self.slot = slot
            file = entry.file
            size = entry.size
            allocatedSize = entry.allocatedSize
            used = entry.used
            rank = entry.rank
            self.turn = turn
            self.lastUse = lastUse
        }
    }

    /// The entries of one shard that would be evicted next.
    struct Offers {
        var first: [Offer] = []
        /// There are others after these.
        var hasMore = false
    }

    /// The first offer of a part, and its shard.
    typealias First = (shard: Int, offer: Offer)

    /// The decisions for one shard.
    struct Part {
        let shard: Int
        var evicted: [Offer] = []
        /// Entries that get another rank.
        var moved: [(offer: Offer, rank: Rank)] = []

        var isEmpty: Bool { evicted.isEmpty && moved.isEmpty }
    }

    /// All shards for which something was decided.
    var parts: [Part] { shards.filter { !$0.isEmpty } }

    private var shards: [Part]
    private let need: Need
    private var sum = EntryTotals()
    private var decisions = 0
    /// How many protected entries go back for keys that have come back.
    private(set) var demoted = 0
    private let limit: Int

    private init(_ shards: Int, _ need: Need, limit: Int) {
        self.shards = (0..<shards).map { Part(shard: $0) }
        self.need = need
        self.limit = limit
    }

    /// Decides to evict an entry; false when no more is needed.
    private mutating func evict(_ next: First, lastUnused: UInt64 = 0) -> Bool {
        let offer = next.offer
        let isNeeded =
            switch need {
            case .entries(let count): sum.count < count
            case .bytes(let count, let most): sum.size < count || offer.size > 0 && sum.size + offer.size <= most
            case .allocated(let count): sum.allocatedSize < count
            case .unusedSince(let time, let now):
                offer.used < time || offer.used > now && lastUnused > 0 && offer.lastUse <= lastUnused
            }
        if !isNeeded { return false }
        sum.add(EntryTotals(offer))
        shards[next.shard].evicted.append(offer)
        decisions += 1
        return true
    }
}

/// The order of use.
extension EvictionPlan {
    /// Plans to evict the entries that were used longest ago. O(offers, times shards).
    init(leastRecentlyUsed offers: [Offers], _ need: Need, limit: Int) {
        self.init(offers.count, need, limit: limit)
        var queue = Queue(offers)
        let lastUnused = need.lastUnused(offers)
        while decisions < limit, let next = queue.first, evict(next, lastUnused: lastUnused) {
            queue.removeFirst(of: next.shard)
        }
    }
}

extension EvictionPlan.Need {
    /// The stamp of the most recent use that is too long ago; 0: none. An entry before it in the order but with a time
    /// in the future was used while the clock was wrong.
    fileprivate func lastUnused(_ offers: [EvictionPlan.Offers]) -> UInt64 {
        guard case .unusedSince(let time, _) = self else { return 0 }
        return offers.lazy.flatMap(\.first).reduce(0) { $1.used < time ? max($0, $1.lastUse) : $0 }
    }
}

/// The adaptive order: that of the memory tier, in batches.
///
/// Entries wait in the window until a batch comes. It brings the window down to a tenth of the room: the first one goes
/// to probation if it has more hits than `threshold`, else out. One that is larger than the window must have been hit.
/// As many leave the main part as it has too many: the first in probation goes out, or if it was used there, becomes
/// protected. The protected entries have at most four fifths of the main part, and less where refused keys come back:
/// the first of them goes back to probation for each.
extension EvictionPlan {
    /// One entry in so many is in the window, and of the main part one in so many in probation.
    private static let windowShare = 10
    private static let probationShare = 5

    /// `totals`: of all entries. `demotions`: how many refused keys have come back. O(offers, times shards).
    ///
    /// The plan ends where it would have to guess: with the last offer of a shard that has more entries in the part,
    /// and with entries that it has moved itself.
    init(
        adaptive offers: PerPart<[Offers]>, _ totals: PerPart<EntryTotals>, threshold: Int, demotions: Int,
        _ need: Need, limit: Int
    ) {
        self.init(offers[.window].count, need, limit: limit)
        var queues = PerPart { Queue(offers[$0]) }
        var (totals, hasGrown) = (totals, PerPart { _ in false })
        func size(_ part: Rank.Part) -> Int { need.measure(totals[part]) }
        var mainSize: Int { size(.probation) + size(.protected) }
        let room = max(0, size(.window) + mainSize - need.amount)
        let window = max(1, room / Self.windowShare)
        let main = room - window
        let protected = main - main / Self.probationShare

        func leave(_ part: Rank.Part, _ first: First) {
            queues[part].removeFirst(of: first.shard)
            totals[part].add(EntryTotals(first.offer), times: -1)
        }
        /// Moves the first entry of a part to another one.
        func move(_ first: First, to rank: Rank) {
            shards[first.shard].moved.append((first.offer, rank))
            decisions += 1
            leave(first.offer.rank.part, first)
            totals[rank.part].add(EntryTotals(first.offer))
            hasGrown[rank.part] = true
        }
        func demote() -> Bool {
            guard let oldest = queues[.protected].first else { return false }
            move(oldest, to: Rank(.probation, hits: oldest.offer.rank.hits))
            return true
        }
        // Values from the future are misses.
        for part in Rank.Part.allCases {
            while let first = queues[part].first, first.offer.isMiss, evict(first) { leave(part, first) }
        }
        while demoted < demotions, demote() { demoted += 1 }
        while decisions < limit, !need.isMet(by: sum) {
            let isWindowsTurn = size(.window) > window && mainSize <= main && !queues[.window].isAtEnd
            let order: [Rank.Part] = isWindowsTurn ? [.window] : [.probation, .protected, .window]
            guard let part = order.first(where: { !queues[$0].isAtEnd || hasGrown[$0] }),
                let first = queues[part].first
            else { return }
            let (hits, own) = (Int(first.offer.rank.hits), need.measure(EntryTotals(first.offer)))
            let hasEnough = hits > (own > window ? max(threshold, 0) : threshold) && own <= main
            if isWindowsTurn, hasEnough || mainSize + own <= main {
                move(first, to: Rank(.probation))
            } else if part == .probation, hits > 0 {
                move(first, to: Rank(.protected))
                while size(.protected) > protected, demote() {}
            } else {
                guard evict(first) else { return }
                leave(part, first)
            }
        }
    }
}

extension EvictionPlan.Need {
    fileprivate func measure(_ totals: EntryTotals) -> Int {
        switch self {
        case .entries: totals.count
        case .bytes: totals.size
        case .allocated: totals.allocatedSize
        case .unusedSince: 0
        }
    }

    fileprivate var amount: Int {
        switch self {
        case .entries(let amount), .bytes(_, upTo: let amount), .allocated(let amount): amount
        case .unusedSince: 0
        }
    }

    fileprivate func isMet(by sum: EntryTotals) -> Bool { measure(sum) >= amount }
}

extension EvictionPlan {
    /// The offers of all shards, the first one of all first.
    private struct Queue {
        let offers: [Offers]
        private var taken: [Int]

        init(_ offers: [Offers]) {
            self.offers = offers
            taken = offers.map { _ in 0 }
        }

        /// Nil at the end, and where the next one of a shard is not known. O(shards).
        var first: First? {
            var first: First?
            for (shard, offers) in offers.enumerated() {
                guard taken[shard] < offers.first.count else {
                    if offers.hasMore { return nil }
                    continue
                }
                let offer = offers.first[taken[shard]]
                if let first, (first.offer.turn, first.offer.file) < (offer.turn, offer.file) { continue }
                first = (shard, offer)
            }
            return first
        }

        /// True when there are no others.
        var isAtEnd: Bool {
            offers.indices.allSatisfy { taken[$0] == offers[$0].first.count && !offers[$0].hasMore }
        }

        /// Removes the first one, of this shard.
        mutating func removeFirst(of shard: Int) { taken[shard] += 1 }
    }
}

extension EntryTotals {
    fileprivate init(_ offer: EvictionPlan.Offer) {
        self.init(count: 1, size: offer.size, allocatedSize: offer.allocatedSize)
    }
}
