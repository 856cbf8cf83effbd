import LarderFiles

/// Keeps the store within its limits: expired entries go first, then those that `EvictionPlan` chooses.
final class Evictor: Sendable {
    /// Called in the background before entries are evicted, to bound the tombstones that earlier evictions have left.
    let willEvict = Hook()

    /// Entries that are evicted in one step, with the writers of other keys let in between.
    private static let slice = 256
    /// Writers help once they are ahead of the background work by a twentieth of the limit and a slice.
    private static let slack = 20
    /// Groups that are loaded in one step, before the order of use is known.
    private static let groups = 16

    private let fileSystem: any FileSystem
    private let clock: any Clock
    private let inForce: LimitsInForce
    private let hasLimits: UnretainedReference<Flag>
    private let path: String
    private let index: Index
    private let disk: DiskQueue
    private let info: CommitQueue
    private let provisional: ProvisionalState
    private let reaper: FileReaper
    private let clearer: Clearer
    let leftFiles: LeftFiles
    private let expirer: Expirer
    private let sweeper: Sweeper
    private let reporter: Reporter
    private let maintenance: MaintenanceQueue
    private let isEnding: Flag
    private let budget = FreeSpaceBudget()
    private let isAdaptive: Bool
    let regrets: SavedRegrets
    /// Held while entries are chosen and evicted, so that two threads do not evict twice as many. Taken before the disk
    /// queue.
    private let evicting = Lock(())

    init(
        _ context: StoreContext, _ info: CommitQueue, _ reaper: FileReaper, _ clearer: Clearer, _ expirer: Expirer,
        _ sweeper: Sweeper
    ) {
        fileSystem = context.fileSystem
        clock = context.clock
        inForce = context.limits
        hasLimits = inForce.unretainedFlag
        path = context.path
        index = context.index
        disk = context.disk
        provisional = context.provisional
        reporter = context.reporter
        maintenance = context.maintenance
        isEnding = context.isEnding
        isAdaptive = context.settings.eviction == .adaptive
        regrets = SavedRegrets(context)
        self.info = info
        self.reaper = reaper
        self.clearer = clearer
        leftFiles = LeftFiles(context)
        self.expirer = expirer
        self.sweeper = sweeper
    }
}

/// The configured limits.
extension Evictor {
    /// How much must go, from the totals.
    typealias Need = (EntryTable.Totals) -> EvictionPlan.Need

    /// Enforces the limits in the background, if the value just stored crosses one. O(1).
    func enforceAfterStoring() {
        if !hasLimits.use({ $0.isSet }) { return }
        let limits = inForce.current
        let totals = index.totals
        let mayLackSpace = limits.minimumFreeSpace != nil && budget.mayLack(size: totals.allocatedSize)
        guard mayLackSpace || limits.crossed(by: totals).isAny else { return }
        enforceInBackground()
        // A writer that outruns the background work helps, so no limit is exceeded by much.
        if limits.areOverrun(by: totals, slack: Self.slack, entries: Self.slice) { help() }
    }

    private var limits: StoreSettings.Limits { inForce.current }

    /// Notes that the limits have changed: the free space is measured again.
    func limitsChanged() {
        if !inForce.areNone { index.keepOrder(at: clock.now) }
        budget.restart()
        enforceInBackground()
    }

    private func help() {
        if index.loadSome(Self.groups) { return }
        for _ in 0..<Index.shardCount { guard clearer.removeSomeCleared() else { break } }
        if index.hasCleared { return }
        _ = expirer.applyAll()
        _ = sweeper.removeExpired(at: clock.now)
        if let excess = findExcess() { _ = evictToLowWaterMarks(excess, isHelp: true) }
    }

    func enforceInBackground() {
        if inForce.areNone { return }
        let excess = Lock<Excess?>(nil)
        maintenance.begin(.evict) { [weak self] in
            // Entries whose files have not been checked may be wrong; the reconciler requests this work again when it
            // is done.
            guard let self, !provisional.isReconciling else { return false }
            willEvict()
            if clearer.removeSomeCleared() { return true }
            let known = excess.withLock { $0 } ?? prepare()
            // The limits may have been raised since the last slice.
            guard let known, let current = isCurrent(known) ? known : findExcess() else {
                return clearer.removeSomeCleared()
            }
            excess.withLock { $0 = current }
            // The least recently used entry may be in a group that is not loaded.
            if index.hasUnloaded.isSet, current.crossed.isAny || limits.age != nil || budget.owed > 0 {
                _ = index.loadSome(Self.groups)
                return !isEnding.isSet
            }
            if evictSome(current) || clearer.removeSomeCleared() { return true }
            regrets.saveIfDue()
            return false
        }
    }

    /// Saves what evictions have taught, at the end of the session.
    func saveRegrets() { regrets.save() }

    /// The limits that are exceeded, and that apply until a low-water mark is reached.
    private struct Excess {
        let limits: StoreSettings.Limits
        let crossed: StoreSettings.Limits.Crossed
    }

    /// Nil while cleared entries must be taken out first.
    private func findExcess() -> Excess? {
        let limits = limits
        return totals.map { Excess(limits: limits, crossed: limits.crossed(by: $0)) }
    }

    /// The totals; nil while they count entries of cleared tags, which would cause too many evictions.
    private var totals: EntryTable.Totals? {
        // In this order: a tag may be cleared in between, and another entry stored.
        let totals = index.totals
        return index.hasCleared ? nil : totals
    }

    private func isCurrent(_ excess: Excess) -> Bool { excess.limits == limits }

    /// Removes expired entries, and returns the limits that are still exceeded.
    private func prepare() -> Excess? {
        index.orderAnewIfSetBack(at: clock.now)
        _ = expirer.applyAll()
        _ = sweeper.removeExpired(at: clock.now)
        if let minimum = limits.minimumFreeSpace, let free = measureFreeSpace(wanted: minimum) {
            budget.note(free: free, minimum: minimum, size: index.totals.allocatedSize)
        }
        return findExcess()
    }

    /// Evicts a slice for each limit; false when nothing more has to be evicted.
    private func evictSome(_ excess: Excess) -> Bool {
        var evicted = evictToLowWaterMarks(excess)
        if let age = limits.age {
            let now = clock.now
            evicted += evict(.age) { _ in .unusedSince(now.advanced(byMilliseconds: -age), now: now) }
        }
        budget.beginGivingUp()
        let forSpace = evict(.freeSpace) { _ in .allocated(budget.owed) }
        budget.noteGivenUp(Self.allocatedSize(of: forSpace))
        return !evicted.isEmpty || !forSpace.isEmpty
    }

    /// Evicts a slice on the way to the low-water mark of each exceeded limit.
    private func evictToLowWaterMarks(_ excess: Excess, isHelp: Bool = false) -> [IndexEntry] {
        var evicted: [IndexEntry] = []
        if excess.crossed.count, let limit = excess.limits.count {
            let mark = StoreSettings.Limits.lowWaterMark(limit)
            evicted += evict(.count, isHelp: isHelp) { .entries(isCurrent(excess) ? $0.count - mark : 0) }
        }
        if excess.crossed.size, let limit = excess.limits.size {
            let mark = StoreSettings.Limits.lowWaterMark(limit)
            evicted += evict(.size, isHelp: isHelp) {
                isCurrent(excess) ? .overSize(limit, lowWaterMark: mark, of: $0) : .entries(0)
            }
        }
        return evicted
    }

    private static func allocatedSize(of entries: [IndexEntry]) -> Int {
        entries.reduce(0) { $0 + $1.allocatedSize }
    }

    /// Returns the free space of the disk once every obsolete file is deleted. Bytes. With less than `wanted`, those
    /// that are set aside are deleted, too.
    private func measureFreeSpace(wanted: Int) -> Int? {
        reaper.deleteAllObsolete()
        guard let free = freeSpace(), free < wanted, index.hasFilesAside else { return freeSpace() }
        leftFiles.deleteForRoom()
        return freeSpace()
    }

    private func freeSpace() -> Int? {
        reporter.attempt { () throws(CacheError) in
            try disk.run { directory throws(CacheError) in
                try translating("measure the free space", at: path) { () throws(Errno) in
                    try fileSystem.freeSpace(of: directory.root.file)
                }
            }
        }
    }
}

/// Limits that a caller asks for.
extension Evictor {
    /// At least so much is evicted for a value, in bytes: it and its record need inodes, too.
    private static let leastRoom = 64 << 10
    /// The same while files are set aside, which takes a listing to make room of.
    private static let leastRoomAside = 1 << 20
    /// How often values are evicted for one change: other programs may use up the room.
    private static let evictions = 8

    /// Makes a change that needs some bytes. Where the disk has no room or no inode for it, a cache with limits evicts as
    /// much, and tries again: the disk is then the limit. Call it outside of the queues.
    func makingRoom<Result>(
        for size: @autoclosure () -> Int, atMost attempts: Int = evictions, _ change: () throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        for _ in 0..<attempts {
            do throws(CacheError) {
                return try change()
            } catch {
                guard error.code == .noSpace else { throw error }
                guard hasLimits.use({ $0.isSet }) else {
                    if !index.hasFilesAside { throw error }
                    leftFiles.deleteForRoom()
                    return try change()
                }
                // Nothing is evicted before.
                maintenance.awaitScan(provisional)
                guard makeRoom(for: size()) else { throw error }
            }
        }
        return try change()
    }

    /// Evicts about as much as a value of `size` bytes needs, because the disk has no room; false when there is nothing
    /// to evict. Call it outside of the disk queue.
    private func makeRoom(for size: Int) -> Bool {
        index.loadAll()
        let need = max(size + size / 8, index.hasFilesAside ? Self.leastRoomAside : Self.leastRoom)
        if clearer.removeSomeCleared() { return true }
        guard let free = measureFreeSpace(wanted: size), free + index.totals.allocatedSize >= size else { return false }
        return !evict(.freeSpace, isHelp: true) { _ in .allocated(need) }.isEmpty
    }

    /// Evicts as much as a caller needs, expired entries first; the files are deleted when this returns.
    func trim(_ limit: CacheLimit, _ need: Need) {
        beginTrimming()
        while !evict(limit, isTrim: true, need).isEmpty || clearer.removeSomeCleared() {}
        leftFiles.deleteForRoom()
    }

    /// Evicts until `target` bytes are free, as far as deleting entries can free them.
    func trim(toFreeSpace target: Int) {
        beginTrimming()
        guard let free = measureFreeSpace(wanted: target) else { return }
        var lack = target - free
        while case let evicted = evict(.freeSpace, isTrim: true, { _ in .allocated(lack) }),
            !evicted.isEmpty || clearer.removeSomeCleared()
        {
            lack -= Self.allocatedSize(of: evicted)
        }
        leftFiles.deleteForRoom()
    }

    private func beginTrimming() {
        index.orderAnewIfSetBack(at: clock.now)
        while clearer.removeSomeCleared() {}
        if expirer.applyAll() + sweeper.removeExpired(at: clock.now) > 0 { reaper.deleteAllObsolete() }
    }
}

/// Eviction.
extension Evictor {
    /// Evicts a slice of the entries in excess, and deletes its files. Returns the entries: none without an excess.
    ///
    /// `isTrim`: a caller has asked for it. That says nothing about what the cache should have kept.
    private func evict(
        _ limit: CacheLimit, isHelp: Bool = false, isTrim: Bool = false, _ need: Need
    ) -> [IndexEntry] {
        if provisional.isReconciling { return [] }
        let evicted = evicting.withLock { _ in evictInTurn(need, isHelp: isHelp) }
        if evicted.isEmpty { return [] }
        if isAdaptive, !isTrim, limit != .age { regrets.remember(evicted) }
        reporter.count { $0.evictions.add(evicted.count, for: limit) }
        reporter.post(.evicted, evicted, limit: limit)
        return evicted
    }

    /// How long a writer that helps waits for the process that evicts. Milliseconds.
    private static let longestWait = 10

    /// The same while no other process evicts; none if one does. A writer that helps waits for that one, and then takes
    /// it for stopped or dying, and evicts beside it: no limit may be exceeded by much.
    private func evictInTurn(_ need: Need, isHelp: Bool) -> [IndexEntry] {
        func chooseAndEvict() -> [IndexEntry] {
            // An entry that is used between the choice and the eviction stays, and another is chosen. The last attempt
            // evicts used entries too, except for an age limit.
            for attempt in 1...3 {
                guard let totals, case let need = need(totals), !need.isNone else { return [] }
                guard let evicted = evict(need, sparingUsed: attempt < 3 || need.isAge) else { return [] }
                if !evicted.isEmpty { return evicted }
            }
            return []
        }
        let others = disk.others.object
        func followAndEvict() -> [IndexEntry] { others.follow() ? chooseAndEvict() : [] }
        var evicted = others.membership.perform(.evict, followAndEvict)
        if evicted == nil, isHelp {
            _ = Backoff.wait(milliseconds: Self.longestWait) {
                evicted = others.membership.perform(.evict, followAndEvict)
                return evicted != nil
            }
            if evicted == nil { evicted = followAndEvict() }
        }
        return evicted ?? []
    }

    /// Returns nil when there is nothing to evict.
    private func evict(_ need: EvictionPlan.Need, sparingUsed: Bool) -> [IndexEntry]? {
        index.keepOrder(at: clock.now)
        var parts: [EvictionPlan.Part] = []
        // Moves do not obey the limit: after some plans without a victim the least recently used entries go.
        var plansLeft = !isAdaptive || need.isAge || index.totals.count < Self.fewest ? 0 : Self.mostPlans
        repeat {
            parts = plansLeft > 0 ? planAdaptively(need) : planInOrder(need)
            if parts.isEmpty { return nil }
            plansLeft -= 1
        } while parts.allSatisfy(\.evicted.isEmpty)
        return parts.flatMap { evict($0.evicted, of: $0.shard, sparingUsed: sparingUsed) }
    }

    private static let mostPlans = 16
    /// In a smaller cache each part would have an entry or two.
    private static let fewest = 16

    private func planInOrder(_ need: EvictionPlan.Need) -> [EvictionPlan.Part] {
        var offers: [EvictionPlan.Offers] = []
        index.forEachShard { offers.append($0.table.offers(need.offersWanted)) }
        return EvictionPlan(leastRecentlyUsed: offers, need, limit: Self.slice).parts
    }

    /// Plans, and moves entries to other parts.
    private func planAdaptively(_ need: EvictionPlan.Need) -> [EvictionPlan.Part] {
        var moved = regrets.welcomeNew()
        var offers = PerPart { _ in [EvictionPlan.Offers]() }
        var totals = PerPart { _ in EntryTotals() }
        index.forEachShard { shard in
            for part in Rank.Part.allCases {
                offers[part].append(shard.table.offers(need.offersWanted, of: part))
                totals[part].add(shard.table.uses?.totals[part] ?? EntryTotals())
            }
        }
        let (threshold, demotions) = regrets.lessons
        let plan = EvictionPlan(
            adaptive: offers, totals, threshold: threshold, demotions: demotions, need, limit: Self.slice)
        regrets.noteDemoted(plan.demoted)
        for part in plan.parts where !part.moved.isEmpty {
            moved += index.withShard(at: part.shard) { shard in
                part.moved.compactMap { shard.table.move($0.offer, to: $0.rank) }
            }
        }
        tell(moved)
        return plan.parts
    }

    /// Tells other processes and later sessions the ranks of entries. While nobody can be told, the manifest will.
    private func tell(_ entries: [IndexEntry]) {
        if entries.isEmpty { return }
        let number = disk.others.object.page.lastNumber
        var changes = Changes(reserving: entries.count * 144)
        for entry in entries {
            changes.append(
                .used(
                    key: entry.key, file: entry.file.number, change: entry.change, at: entry.used,
                    decision: Rank.Decision(rank: entry.rank, number: number), expires: entry.life.expires))
        }
        try? disk.run { _ throws(CacheError) in
            try info.removeShutdownMarker()
            _ = try info.commit(changes) {}
        }
    }

    /// Evicts entries of one shard, except those that were replaced meanwhile, or used if `sparingUsed`.
    private func evict(_ offers: [EvictionPlan.Offer], of shard: Int, sparingUsed: Bool) -> [IndexEntry] {
        let evicted = reporter.attempt { () throws(CacheError) in
            try disk.run(shard: shard) { directory throws(CacheError) in
                try disk.followOrThrow()
                let entries = index.withShard(at: shard) { shard in
                    offers.compactMap { shard.table.entry($0, sparingUsed: sparingUsed) }
                }
                if entries.isEmpty { return entries }
                try info.removeShutdownMarker()
                _ = try info.commit(Changes(removing: entries), orElse: .publishingAlone) {
                    _ = index.change(at: shard, .evictedOnDisk) { shard in
                        for entry in entries { shard.removeWithFile(entry) }
                        return entries
                    }
                }
                return entries
            }
        }
        guard let evicted, !evicted.isEmpty else { return [] }
        reaper.deleteObsolete(shard: shard)
        return evicted
    }
}

extension EvictionPlan.Need {
    fileprivate var isNone: Bool {
        switch self {
        case .entries(let count), .bytes(_, upTo: let count), .allocated(let count): count <= 0
        case .unusedSince: false
        }
    }

    fileprivate var isAge: Bool {
        if case .unusedSince = self { true } else { false }
    }

    /// The number of entries requested from each shard: somewhat more than its share, because keys are not spread
    /// evenly.
    fileprivate var offersWanted: Int {
        if case .entries(let count) = self { return min(count, 16) }
        return 16
    }
}
