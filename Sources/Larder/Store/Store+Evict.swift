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
        chores.begin(.evict) { [weak self] in
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

    /// Evicts a slice of what the limits demand; false when there is no more. On the chores queue.
    private func enforceSome(_ crossed: StoreSettings.Limits.Crossed) -> Bool {
        var rows = evictDown(crossed)
        if let age = settings.limits.age {
            let now = clock.now
            rows += evict(.age) { .unusedSince(now.advanced(byMilliseconds: -age), now: now) }
        }
        let forSpace = evict(.freeSpace) { .space(freeSpace.withLock { $0.owed }) }
        freeSpace.withLock { $0.gaveUp(Self.space(of: forSpace)) }
        return !rows.isEmpty || !forSpace.isEmpty
    }

    /// Evicts a slice on the way down to the low-water marks of what is exceeded.
    private func evictDown(_ crossed: StoreSettings.Limits.Crossed) -> [Row] {
        var rows: [Row] = []
        if crossed.count, let limit = settings.limits.count {
            rows += evict(.count) { .entries(index.totals.count - StoreSettings.Limits.lowWaterMark(limit)) }
        }
        if crossed.size, let limit = settings.limits.size {
            let mark = StoreSettings.Limits.lowWaterMark(limit)
            rows += evict(.size) { .overSize(limit, lowWaterMark: mark, of: index.totals) }
        }
        return rows
    }

    private static func space(of rows: [Row]) -> Int {
        rows.reduce(0) { $0 + $1.space }
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
        while case let rows = evict(.freeSpace, { .space(lack) }), !rows.isEmpty { lack -= Self.space(of: rows) }
    }

    private func beginTrimming() {
        awaitReconciliation()
        index.orderAnewIfSetBack(at: clock.now)
        while clearSome() {}
        if removeExpired(at: clock.now) > 0 { unlinkAllDoomed() }
    }

    /// Evicts a slice of what needs to go, and deletes its files. Returns what went: nothing, when nothing needs to.
    private func evict(_ limit: CacheLimit, _ need: () -> EvictionPlan.Need) -> [Row] {
        if isReconciling { return [] }
        let rows = evicting.withLock { _ -> [Row] in
            // What is used between the choice and the eviction stays, and something else is chosen; but not for ever.
            for attempt in 1...3 {
                let need = need()
                if need.isNone { return [] }
                guard let rows = evictSome(need, sparingUsed: attempt < 3 || need.isAge) else { return [] }
                if !rows.isEmpty { return rows }
            }
            return []
        }
        if rows.isEmpty { return [] }
        tally.withLock { $0.evictions.add(rows.count, for: limit) }
        tell(.evicted, rows, limit: limit)
        return rows
    }

    /// Returns nil when there is nothing that would have to go.
    private func evictSome(_ need: EvictionPlan.Need, sparingUsed: Bool) -> [Row]? {
        index.keepOrder(at: clock.now)
        var offers: [[EvictionPlan.Offer]] = []
        var hasMore: [Bool] = []
        for shard in 0..<Index.shardCount {
            let (oldest, count) = index.withShard(at: shard) { shard in
                (shard.manifest.leastRecentlyUsed(need.offersWanted), shard.manifest.count)
            }
            offers.append(oldest.map { EvictionPlan.Offer($0.row, stamp: $0.stamp) })
            hasMore.append(oldest.count < count)
        }
        let plan = EvictionPlan(offers, hasMore: hasMore, need: need, limit: Self.slice)
        if plan.parts.isEmpty { return nil }
        return plan.parts.flatMap { evict($0.count, of: $0.shard, through: sparingUsed ? $0.stamp : .max) }
    }

    /// Evicts the oldest entries of one shard, but none that was used after `stamp`.
    private func evict(_ count: Int, of shard: Int, through stamp: UInt64) -> [Row] {
        let rows = attempting { () throws(CacheError) in
            try changing(shard: shard) { volume throws(CacheError) in
                let rows = index.withShard(at: shard) { shard in
                    shard.manifest.leastRecentlyUsed(count, through: stamp).map(\.row)
                }
                if rows.isEmpty { return rows }
                try unseal()
                var printer = RecordPrinter(reserving: rows.count * 96)
                for row in rows { JournalFormat.append(.remove(key: row.name, number: row.file + 1), to: &printer) }
                _ = commitBestEffort(printer.bytes, count: rows.count, in: volume) { index in
                    _ = index.change(at: shard, .evictedOnDisk) { shard in
                        for row in rows {
                            let key = row.name
                            shard.remove(key, below: row.file + 1)
                            shard.doom(row.file, of: key)
                        }
                        return rows
                    }
                }
                return rows
            }
        }
        guard let rows, !rows.isEmpty else { return [] }
        unlinkDoomed(shard: shard)
        return rows
    }

    private func unlinkAllDoomed() {
        if index.doomedCount > 0 { for shard in 0..<Index.shardCount { unlinkDoomed(shard: shard) } }
    }

    private func unlinkDoomed(shard: Int) {
        _ = attempting { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                while unlinkDoomed(in: volume, shard: shard) > 0 {}
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
