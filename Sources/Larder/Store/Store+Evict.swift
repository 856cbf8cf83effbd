import LarderFiles

/// Limits. Entries that were not used for longest go first; what has expired goes before them.
extension Store {
    /// Entries that go in one step, with the writers of other keys let in between.
    private static let slice = 256
    /// How far writers may run ahead of the chore before they help: this part of the limit, and this many entries.
    private static let slack = 20

    /// Has the limits enforced behind, if what has just been stored crosses one. O(1).
    func enforceAfterStoring() {
        let limits = settings.limits
        if limits.areNone { return }
        let totals = index.totals
        let mayLackSpace = limits.minimumFreeSpace != nil && freeSpace.withLock { $0.mayLack(space: totals.space) }
        guard mayLackSpace || limits.crossed(by: totals).isAny else { return }
        enforceBehind()
        // One that writes faster than the chore deletes helps, so that no limit is overrun by more than a little.
        if limits.areOverrun(by: totals, slack: Self.slack, entries: Self.slice) { helpEnforcing() }
    }

    private func helpEnforcing() {
        // Entries of cleared tags still count: with them, too many others would be evicted.
        for _ in 0..<Index.shardCount { guard clearSome() else { break } }
        if index.hasCleared { return }
        _ = removeExpired(at: clock.now)
        _ = evictDown(settings.limits.crossed(by: index.totals))
    }

    /// Has the limits enforced behind.
    func enforceBehind() {
        if settings.limits.areNone { return }
        let crossed = Lock<StoreSettings.Limits.Crossed?>(nil)
        maintenance.begin(.evict) { [weak self] in
            // Rows whose files have not been looked at may be wrong; the reconciling asks again when it is done.
            guard let self, !isReconciling else { return false }
            boundTombstones()
            if clearSome() { return true }
            let known = crossed.withLock { $0 } ?? lookAtLimits()
            crossed.withLock { $0 = known }
            return enforceSome(known)
        }
    }

    /// Drops what has expired, and finds out which limits are exceeded then.
    private func lookAtLimits() -> StoreSettings.Limits.Crossed {
        index.orderAnewIfSetBack(at: clock.now)
        _ = removeExpired(at: clock.now)
        if let minimum = settings.limits.minimumFreeSpace, let free = measureFreeSpace() {
            freeSpace.withLock { $0.looked(free: free, minimum: minimum, space: index.totals.space) }
        }
        return settings.limits.crossed(by: index.totals)
    }

    /// Evicts a slice of what the limits demand; false when there is no more. On the maintenance queue.
    private func enforceSome(_ crossed: StoreSettings.Limits.Crossed) -> Bool {
        var entries = evictDown(crossed)
        if let age = settings.limits.age {
            let now = clock.now
            entries += evict(.age) { .unusedSince(now.advanced(byMilliseconds: -age), now: now) }
        }
        let forSpace = evict(.freeSpace) { .space(freeSpace.withLock { $0.owed }) }
        freeSpace.withLock { $0.gaveUp(Self.space(of: forSpace)) }
        return !entries.isEmpty || !forSpace.isEmpty
    }

    /// Evicts a slice on the way down to the low-water marks of what is exceeded.
    private func evictDown(_ crossed: StoreSettings.Limits.Crossed) -> [IndexEntry] {
        var entries: [IndexEntry] = []
        if crossed.count, let limit = settings.limits.count {
            entries += evict(.count) { .entries(index.totals.count - StoreSettings.Limits.lowWaterMark(limit)) }
        }
        if crossed.size, let limit = settings.limits.size {
            let mark = StoreSettings.Limits.lowWaterMark(limit)
            entries += evict(.size) { .overSize(limit, lowWaterMark: mark, of: index.totals) }
        }
        return entries
    }

    private static func space(of entries: [IndexEntry]) -> Int {
        entries.reduce(0) { $0 + $1.allocatedSize }
    }

    /// What is free once everything that waits for its deletion is gone.
    private func measureFreeSpace() -> Int? {
        unlinkAllDoomed()
        return attempting { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                try translating("measure the free space", at: path) { () throws(Errno) in
                    try fileSystem.freeSpace(of: volume.root.file)
                }
            }
        }
    }

    /// Evicts now what a caller wants gone, and what has expired first; the files are deleted when this returns.
    func trim(_ limit: CacheLimit, _ need: () -> EvictionPlan.Need) {
        beginTrimming()
        while !evict(limit, need).isEmpty {}
    }

    /// Frees space until there is as much as a caller wants, as far as deleting its entries goes.
    func trim(toFreeSpace target: Int) {
        beginTrimming()
        guard let free = measureFreeSpace() else { return }
        var lack = target - free
        while case let entries = evict(.freeSpace, { .space(lack) }), !entries.isEmpty {
            lack -= Self.space(of: entries)
        }
    }

    private func beginTrimming() {
        awaitReconciliation()
        index.orderAnewIfSetBack(at: clock.now)
        while clearSome() {}
        if removeExpired(at: clock.now) > 0 { unlinkAllDoomed() }
    }

    /// Evicts a slice of what needs to go, and deletes its files. Returns what went: nothing, when nothing needs to.
    private func evict(_ limit: CacheLimit, _ need: () -> EvictionPlan.Need) -> [IndexEntry] {
        if isReconciling { return [] }
        let entries = evicting.withLock { _ -> [IndexEntry] in
            // What is used between the choice and the eviction stays, and something else is chosen; but not for ever.
            for attempt in 1...3 {
                let need = need()
                if need.isNone { return [] }
                guard let entries = evictSome(need, sparingUsed: attempt < 3 || need.isAge) else { return [] }
                if !entries.isEmpty { return entries }
            }
            return []
        }
        if entries.isEmpty { return [] }
        tally.withLock { $0.evictions.add(entries.count, for: limit) }
        tell(.evicted, entries, limit: limit)
        return entries
    }

    /// Returns nil when there is nothing that would have to go.
    private func evictSome(_ need: EvictionPlan.Need, sparingUsed: Bool) -> [IndexEntry]? {
        index.keepOrder(at: clock.now)
        var offers: [[EvictionPlan.Offer]] = []
        var hasMore: [Bool] = []
        for shard in 0..<Index.shardCount {
            let (oldest, count) = index.withShard(at: shard) { shard in
                (shard.table.leastRecentlyUsed(need.offersWanted), shard.table.count)
            }
            offers.append(oldest.map { EvictionPlan.Offer($0.entry, stamp: $0.stamp) })
            hasMore.append(oldest.count < count)
        }
        let plan = EvictionPlan(offers, hasMore: hasMore, need: need, limit: Self.slice)
        if plan.parts.isEmpty { return nil }
        return plan.parts.flatMap { evict($0.count, of: $0.shard, through: sparingUsed ? $0.stamp : .max) }
    }

    /// Evicts the oldest entries of one shard, but none that was used after `stamp`.
    private func evict(_ count: Int, of shard: Int, through stamp: UInt64) -> [IndexEntry] {
        let entries = attempting { () throws(CacheError) in
            try changing(shard: shard) { volume throws(CacheError) in
                let entries = index.withShard(at: shard) { shard in
                    shard.table.leastRecentlyUsed(count, through: stamp).map(\.entry)
                }
                if entries.isEmpty { return entries }
                try clearShutdownMarker()
                var printer = RecordPrinter(reserving: entries.count * 96)
                for entry in entries {
                    JournalFormat.append(.remove(key: entry.key, number: entry.file + 1), to: &printer)
                }
                _ = commitBestEffort(printer.bytes, count: entries.count, in: volume) { index in
                    _ = index.change(at: shard, .evictedOnDisk) { shard in
                        for entry in entries {
                            let key = entry.key
                            shard.remove(key, below: entry.file + 1)
                            shard.markObsolete(entry.file, of: key)
                        }
                        return entries
                    }
                }
                return entries
            }
        }
        guard let entries, !entries.isEmpty else { return [] }
        deleteObsolete(shard: shard)
        return entries
    }

    private func unlinkAllDoomed() {
        if index.obsoleteCount > 0 { for shard in 0..<Index.shardCount { deleteObsolete(shard: shard) } }
    }

    private func deleteObsolete(shard: Int) {
        _ = attempting { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                while deleteObsolete(in: volume, shard: shard) > 0 {}
            }
        }
    }
}

extension EvictionPlan.Need {
    fileprivate var isNone: Bool {
        switch self {
        case .entries(let count), .bytes(_, upTo: let count), .space(let count): count <= 0
        case .unusedSince: false
        }
    }

    fileprivate var isAge: Bool {
        if case .unusedSince = self { true } else { false }
    }

    /// How many entries each shard is asked for: some more than its share, as keys do not fall evenly.
    fileprivate var offersWanted: Int {
        if case .entries(let count) = self { return min(count, 16) }
        return 16
    }
}
