import LarderFiles

/// The one authoritative index: 64 shards, each under its own lock, and the groups of entries that are still on disk.
///
/// A look-up takes the lock of its shard, and inside it at most that of the order of use. Changes to a key are
/// published by the info queue, or under the key's stripe; shard locks are held for one table operation. Only the three
/// locks below, those of the memory tiers and that of the reconciliation are taken inside one.
final class Index: Sendable {
    static let shardCount = 1 << Key.shardBits

    private let cells: UnretainedObjects<Lock<Cell>>
    /// True while there are groups that have not been loaded.
    let hasUnloaded = Flag()
    /// Set when the file of a loaded entry knows a longer life than any line.
    let unrecorded = Flag()
    /// Called while a damaged group is being loaded, before its entries are inserted. It may take the locks of shards.
    let damageFound = Hook()
    // These three locks are taken inside that of a shard, one at a time.
    /// The sums over the shards.
    private let sums = Lock(Sums())
    private let uses = AccessCounter()
    private let keepsOrder: Lock<Bool>

    /// How often the content was replaced.
    private let replacementCount = Lock(0)

    private struct Sums {
        var loaded = EntryTable.Totals()
        /// Those of the groups that are not loaded.
        var unloaded = EntryTable.Totals()
        var groups: ColdGroups?
    }

    /// A shard, and the memory tiers that are notified of its changes before these are visible.
    private struct Cell {
        var shard = Shard()
        /// The groups that have keys in the shard, until all are loaded.
        var groups: ColdGroups?
        var tiers: [any MemoryTier] = []
        /// Tells other processes of the lowest debt; nil: there are no others.
        var debtNote: DebtNote?
        /// The debt that was noted last.
        var notedDebt: UInt64 = 0

        /// True when the group of a key is not loaded.
        @inline(__always)
        func mayLack(_ key: Key) -> Bool {
            guard let groups else { return false }
            return !groups.isLoaded(groups.hash.group(of: key))
        }

        func invalidate(_ key: Key, _ cause: RemovalCause, but spared: (any MemoryTier)? = nil) {
            for tier in tiers where tier !== spared && tier.namespace == key.namespace {
                tier.invalidate(key.text, cause)
            }
        }

        func invalidateAll(in scope: ClearScope) {
            for tier in tiers where scope.mayConcern(tier.namespace) {
                if case .tag(let tag) = scope { tier.invalidateAll(tagged: tag) } else { tier.invalidateAll() }
            }
        }

        func expireAll(in scope: ClearScope) {
            var tag: Key?
            if case .tag(let wanted) = scope { tag = wanted }
            for tier in tiers where scope.mayConcern(tier.namespace) { tier.expireAll(tagged: tag) }
        }

        @inline(__always)
        mutating func noteDebt() {
            if shard.debts.lowest != notedDebt { noteOtherDebt() }
        }

        @inline(never)
        private mutating func noteOtherDebt() {
            notedDebt = shard.debts.lowest
            debtNote?.note(notedDebt)
        }

        func hasTier(_ tier: any MemoryTier) -> Bool { tiers.contains { $0 === tier } }
    }

    /// With `keepsOrder` the order of use is kept from the beginning.
    init(_ content: [Shard], _ groups: ColdGroups?, keepsOrder: Bool, at now: Timestamp) {
        self.keepsOrder = Lock(keepsOrder)
        cells = UnretainedObjects(content.map { _ in Lock(Cell()) })
        replace(with: content, groups, isSameDirectory: false, at: now)
    }

    @inline(__always)
    private func withLock<Result>(_ position: Int, _ body: (inout Cell) -> Result) -> Result {
        cells[position].use { $0.withLock(body) }
    }

    func withShard<Result>(of key: Key, _ body: (inout Shard) -> Result) -> Result {
        withCell(of: key) { body(&$0.shard) }
    }

    func withShard<Result>(at position: Int, _ body: (inout Shard) -> Result) -> Result {
        withCell(at: position) { body(&$0.shard) }
    }

    /// Returns the entry of a key, even an expired one. O(1).
    func entry(_ key: Key) -> IndexEntry? {
        load(key)
        let entry = withLock(key.shard) { $0.shard.table.entry(key) }
        if entry == nil, mayLack(key) { return self.entry(key) }
        return entry
    }

    /// Whether there may be an entry of a key; true when its group is not loaded. Never loads it: does not block.
    func mayHaveEntry(_ key: Key) -> Bool {
        withLock(key.shard) { $0.mayLack(key) || $0.shard.table.entry(key) != nil }
    }

    /// Looks an entry up for a read: notes the use, and counts a hit or a miss. O(1).
    func use(_ key: Key, at now: Timestamp, sliding: Bool, orStale: Bool) -> IndexEntry? {
        load(key)
        let entry = withLock(key.shard) { cell in
            let entry = cell.shard.table.use(key, at: now, sliding: sliding, orStale: orStale)
            if entry == nil { cell.shard.misses += 1 } else { cell.shard.hits += 1 }
            return entry
        }
        if entry == nil, mayLack(key) {
            withShard(at: key.shard) { $0.misses -= 1 }
            return use(key, at: now, sliding: sliding, orStale: orStale)
        }
        return entry
    }

    /// True when the group of a key must be loaded first: the content was replaced after `load`.
    @inline(__always)
    private func mayLack(_ key: Key) -> Bool {
        hasUnloaded.isSet && withLock(key.shard) { $0.mayLack(key) }
    }

    /// True while the entry of a key is still the same value.
    func isCurrent(_ entry: IndexEntry, _ key: Key) -> Bool {
        withShard(of: key) { $0.table.entry(key)?.isSameValue(as: entry) ?? false }
    }

    /// True while the entry of a key is still the same value, in the same place.
    func isCurrentFile(_ entry: IndexEntry, _ key: Key) -> Bool {
        withShard(of: key) { $0.table.entry(key)?.isSameFile(as: entry) ?? false }
    }

    /// Copies the entries of a shard. The next change of the shard is O(slots), as is this while something is being
    /// cleared.
    func snapshot(_ shard: Int) -> some Sequence<IndexEntry> {
        withShard(at: shard) { $0.table.snapshot }.lazy.filter { $0.file != 0 }
    }

    /// Drops a value that may exist in a memory tier alone, with nothing on disk.
    func invalidate(_ key: Key, _ cause: RemovalCause = .removed) {
        withLock(key.shard) { $0.invalidate(key, cause) }
    }

    /// The same for all values in `scope`.
    func invalidateAll(in scope: ClearScope) {
        for position in cells.indices { withLock(position) { $0.invalidateAll(in: scope) } }
    }

    /// Expires the values in `scope` of which the disk has nothing.
    func expireAll(in scope: ClearScope) {
        for position in cells.indices { withLock(position) { $0.expireAll(in: scope) } }
    }

    /// Changes the value or the life of a key. Every memory tier drops the value before the change is visible.
    func change<Result>(_ key: Key, _ cause: RemovalCause, _ body: (inout Shard) -> Result) -> Result {
        withCell(of: key) { cell in
            cell.invalidate(key, cause)
            return body(&cell.shard)
        }
    }

    /// Inserts an entry, and its value into the memory tier that it came through, if that is still attached. Returns
    /// the replaced entry, whose file is obsolete at once if `markingObsolete`; the entry itself if another process has
    /// already replaced or removed it.
    ///
    /// `mayBeOvertaken`: changes of other processes were added since the number was taken.
    func publish(
        _ entry: IndexEntry, for key: Key, _ promotion: Promotion?, markingObsolete: Bool, mayBeOvertaken: Bool = false
    ) -> IndexEntry? {
        load(key)
        // Not through `withCell`: nested closures copy the entry once more. Nor can the content be replaced meanwhile:
        // that waits for commits.
        return withLock(key.shard) { cell in
            let before = cell.shard.table.totals
            defer { settle(before, &cell) }
            if mayBeOvertaken || cell.shard.hasGraves, let loser = cell.shard.overtaken(entry, key) {
                cell.invalidate(key, .changedElsewhere)
                return loser
            }
            // The promotion's tier replaces the value itself.
            cell.invalidate(key, .replaced, but: promotion?.tier)
            let old = cell.shard.table.publish(entry, for: key)
            if let old, old.file > entry.file {
                // Another process's value was added after the caller had asked.
                cell.shard.table.publish(old, for: key)
                cell.shard.markObsolete(entry.file, of: key)
                return entry
            }
            if !entry.isAbsent { cell.shard.stores += 1 }
            if markingObsolete, let file = old?.file { cell.shard.markObsolete(file, of: key) }
            if let promotion, cell.hasTier(promotion.tier) {
                promotion.insert(entry)
                promotion.published()
            }
            return old
        }
    }

    /// Applies a change of another process to a key. Returns whether those who watch the key must know.
    func apply(_ record: Record, of key: Key) -> Bool {
        // A removal even without an entry: a fetch that is under way must not store its value.
        let isRemoval = if case .remove = record { true } else { false }
        return withCell(of: key) { cell in
            guard cell.shard.apply(record, of: key) || isRemoval else { return false }
            cell.invalidate(key, .changedElsewhere)
            return true
        }
    }

    /// The same for a change that returns the entries that it changed.
    func change(at position: Int, _ cause: RemovalCause, _ body: (inout Shard) -> [IndexEntry]) -> [IndexEntry] {
        withCell(at: position) { cell in
            let entries = body(&cell.shard)
            for tier in cell.tiers {
                for entry in entries where entry.namespace == tier.namespace { tier.invalidate(entry.keyText, cause) }
            }
            return entries
        }
    }

    /// Runs `body` with the cell of a key, whose group is loaded.
    @inline(__always)
    private func withCell<Result>(of key: Key, _ body: (inout Cell) -> Result) -> Result {
        while true {
            load(key)
            let result = withCell(at: key.shard) { cell -> Result? in cell.mayLack(key) ? nil : body(&cell) }
            if let result { return result }
        }
    }

    @inline(__always)
    private func withCell<Result>(at position: Int, _ body: (inout Cell) -> Result) -> Result {
        withLock(position) { cell in
            let before = cell.shard.table.totals
            defer { settle(before, &cell) }
            return body(&cell)
        }
    }

    /// Adds the change of a shard's totals to the sums, and notes its debts.
    private func settle(_ before: EntryTable.Totals, _ cell: inout Cell) {
        cell.noteDebt()
        let after = cell.shard.table.totals
        if after == before { return }
        sums.withLock { sums in
            sums.loaded.add(after)
            sums.loaded.add(before, times: -1)
        }
    }

    /// Calls `body` with one shard after another, never with two at once.
    func forEachShard(_ body: (inout Shard) -> Void) {
        for position in cells.indices { withShard(at: position, body) }
    }

    /// Replaces the content by that of another index.
    ///
    /// `isSameDirectory`: obsolete files and graves stay. The sequence numbers of another directory may be lower.
    func replace(with fresh: [Shard], _ groups: ColdGroups?, isSameDirectory: Bool, at now: Timestamp) {
        func putInPlace(_ unloaded: EntryTable.Totals) {
            for (position, content) in fresh.enumerated() {
                replace(position, with: content, groups, keepsDebts: isSameDirectory, at: now)
            }
            setGroups(groups, unloaded)
        }
        // Twice: work that begins in the midst must notice that it has seen a part of each.
        replacementCount.withLock { $0 += 1 }
        defer { replacementCount.withLock { $0 += 1 } }
        // While the state is locked, no group is loaded: it would miss the shards that still have the old content.
        if let groups {
            groups.withState { state in
                // First: a reader that finds a shard without its entries then loads them, and waits for that.
                hasUnloaded.set()
                putInPlace(state.totals.whole)
            }
        } else {
            putInPlace(EntryTable.Totals())
        }
    }

    /// How often the content was replaced; nil while it is being replaced. Work that spans several calls compares it.
    var replacements: Int? {
        let count = replacementCount.withLock { $0 }
        return count.isMultiple(of: 2) ? count / 2 : nil
    }

    /// Returns what `body` finds while the content is not replaced, by that of a manifest, say, whose groups are not
    /// loaded. It runs again otherwise.
    func whileNotReplaced<Result>(_ body: () -> Result) -> Result {
        while true {
            let before = replacements
            let result = body()
            if before != nil, replacements == before { return result }
        }
    }

    private func setGroups(_ groups: ColdGroups?, _ totals: EntryTable.Totals = EntryTable.Totals()) {
        sums.withLock { sums in
            sums.groups = groups
            sums.unloaded = totals
            hasUnloaded.set(groups != nil)
        }
    }

    /// Empties every shard, but keeps its counters.
    func removeAll(at now: Timestamp) {
        for position in cells.indices {
            var empty = Shard()
            empty.forgetTombstones()
            empty.graves = withShard(at: position) { $0.graves }
            replace(position, with: empty, nil, at: now)
        }
        setGroups(nil)
    }

    /// Marks every entry in `scope`, all of which have file numbers below `number`, as cleared. Returns the totals of a
    /// namespace. O(1). Memory tiers do not know tags: those of the namespace are emptied.
    func clear(_ scope: ClearScope, below number: UInt64) -> EntryTotals {
        var gone = EntryTotals()
        for position in cells.indices {
            withCell(at: position) { cell in
                cell.invalidateAll(in: scope)
                gone.add(cell.shard.table.clear(scope, below: number))
            }
        }
        return gone
    }

    /// The same where other processes may have stored newer entries. Returns the totals of what it removes. O(n).
    ///
    /// `deletesFiles`: their files are obsolete. Otherwise the process that clears deletes them.
    func clearOlder(_ scope: ClearScope, below number: UInt64, deletesFiles: Bool) -> EntryTotals {
        var gone = EntryTotals()
        for position in cells.indices {
            withCell(at: position) { cell in
                cell.invalidateAll(in: scope)
                gone.add(cell.shard.clearOlder(scope, below: number, deletesFiles: deletesFiles))
            }
        }
        return gone
    }

    /// Ends the lives of the entries in `scope` that have not changed since. O(1). Memory tiers as for `clear`.
    func expire(_ scope: ClearScope, _ mark: ExpiryMarks.Mark) {
        for position in cells.indices {
            withCell(at: position) { cell in
                cell.expireAll(in: scope)
                cell.shard.graves.add(mark, to: scope)
                cell.shard.table.expire(scope, mark)
            }
        }
    }

    /// True while the end of some lives is not on disk yet.
    var hasMarks: Bool { cells.indices.contains { withShard(at: $0) { $0.table.hasUnwritten } } }

    /// True while some cleared entries have not been taken out.
    var hasCleared: Bool { cells.indices.contains { withShard(at: $0) { $0.table.hasCleared } } }

    /// Inserts a value that was read into a memory tier, with its current entry, unless it was replaced or removed
    /// meanwhile or the tier was detached.
    func promote(_ entry: IndexEntry, _ key: Key, _ promotion: Promotion) {
        load(key)
        withCell(at: key.shard) { cell in
            guard let current = cell.shard.table.entry(key), current.isSameValue(as: entry),
                cell.hasTier(promotion.tier)
            else { return }
            promotion.insert(current)
        }
    }

    /// Notifies a memory tier of every change from now on.
    func attach(_ tier: any MemoryTier) {
        for position in cells.indices { withLock(position) { $0.tiers.append(tier) } }
    }

    /// For tests.
    var tierCount: Int { withLock(0) { $0.tiers.count } }

    func detach(_ tier: any MemoryTier) {
        for position in cells.indices { withLock(position) { $0.tiers.removeAll { $0 === tier } } }
    }

    private func replace(
        _ position: Int, with content: Shard, _ groups: ColdGroups?, keepsDebts: Bool = false, at now: Timestamp
    ) {
        let old = withCell(at: position) { cell in
            cell.invalidateAll(in: .everything)
            // Cleared entries are not in the fresh content, and only here is it known that they have files.
            if keepsDebts { _ = cell.shard.markClearedObsolete(limit: .max) }
            let old = cell.shard
            cell.shard = content
            // In the same step: files are deleted and set aside meanwhile.
            if keepsDebts {
                cell.shard.debts.add(old.debts)
                cell.shard.graves.add(old.graves)
            }
            cell.groups = groups
            // Read under the lock: `keepOrder` sets the flag first, and then visits every shard.
            if keepsOrder.withLock({ $0 }) { cell.shard.table.keepOrder(counting: uses, at: now) }
            cell.shard.hits = old.hits
            cell.shard.misses = old.misses
            cell.shard.stores = old.stores
            return old
        }
        _ = consume old
    }

    /// Keeps the order of use from now on. O(n log n) the first time.
    func keepOrder(at now: Timestamp) {
        let isKept = keepsOrder.withLock { isKept in
            defer { isKept = true }
            return isKept
        }
        if !isKept { forEachShard { $0.table.keepOrder(counting: uses, at: now) } }
    }

    /// Sorts all entries again by the times of their last use, if the order is kept: entries with old uses were added.
    /// O(n log n).
    func orderAnew(at now: Timestamp) {
        if keepsOrder.withLock({ $0 }) { forEachShard { $0.table.orderAnew(counting: uses, at: now) } }
    }

    /// The same when the clock was set back, and entries with the wrong time would count as used last. O(1) otherwise.
    func orderAnewIfSetBack(at now: Timestamp) {
        guard keepsOrder.withLock({ $0 }), uses.isAhead(of: now) else { return }
        uses.restart(at: now)
        orderAnew(at: now)
    }

    /// The sums over all entries. After a kill they leave out the last changes until their groups are loaded. O(1).
    var totals: EntryTable.Totals {
        sums.withLock { sums in
            var totals = sums.loaded
            totals.add(sums.unloaded)
            return totals
        }
    }

    /// The totals of a namespace, or of the part without one. O(shards); after a kill, the first call loads the groups
    /// that were changed since the last save.
    func totals(of namespace: Namespace) -> EntryTable.Totals {
        guard let groups = unloaded else { return loadedTotals(of: namespace) }
        if !groups.withState({ $0.areTotalsExact }) { loadChanged() }
        // While the state is locked, no group is loaded.
        let totals = groups.withState { state -> EntryTable.Totals? in
            guard var totals = state.totals.totals(of: namespace) else { return nil }
            totals.add(loadedTotals(of: namespace))
            return totals
        }
        if let totals { return totals }
        // There are too many namespaces for the index file to state their sums.
        loadAll()
        return loadedTotals(of: namespace)
    }

    private func loadedTotals(of namespace: Namespace) -> EntryTable.Totals {
        var totals = EntryTable.Totals()
        forEachShard { totals.add($0.table.totals(of: namespace)) }
        return totals
    }

    /// Forgets the groups that are not loaded, and with them their files, at the end of a session. Returns the sums;
    /// nil when they are not known. O(shards and namespaces).
    func forgetUnloaded() -> SavedTotals? {
        func end(_ unloaded: SavedTotals) -> SavedTotals {
            var totals = unloaded
            forEachShard { totals.add($0.table.savedTotals) }
            setGroups(nil)
            for position in cells.indices { withLock(position) { $0.groups = nil } }
            return totals
        }
        guard let groups = unloaded else { return end(SavedTotals()) }
        return groups.withState { state in
            let totals = end(state.totals)
            return state.areTotalsExact ? totals : nil
        }
    }

    /// Loads every entry. Returns the namespaces that have some, and the part without one, in a fixed order. O(n).
    func loadedNamespaces() -> [Namespace] {
        whileNotReplaced {
            loadAll()
            var namespaces: Set<Namespace> = [.none]
            forEachShard { namespaces.formUnion($0.table.namespaces.keys) }
            return namespaces.inOrder { $0.seed }
        }
    }

    /// Tombstones in memory. O(shards).
    var tombstoneCount: Int { (0..<Self.shardCount).reduce(0) { $0 + withShard(at: $1) { $0.tombstones.count } } }

    var obsoleteCount: Int { (0..<Self.shardCount).reduce(0) { $0 + withShard(at: $1) { $0.debts.count } } }

    /// True while there are files to delete, or some that are set aside. O(shards).
    var hasDebts: Bool { cells.indices.contains { !withShard(at: $0) { $0.debts.isEmpty } } }

    /// Forgets the files set aside that have been deleted: by the names that they have now, not by those that they had.
    func forgetAside(_ deleted: Set<FileID>) {
        for position in cells.indices {
            withShard(at: position) { shard in
                if shard.debts.aside.isEmpty { return }
                shard.debts.forgetAside { aside in
                    let file = aside.file
                    let number = DirectoryLayout.asideNumber(file.number)
                    return deleted.contains(file.place.isInSegment ? file : FileID(number))
                }
            }
        }
    }

    /// How many files are set aside. O(shards).
    var asideCount: Int { cells.indices.reduce(0) { $0 + withShard(at: $1) { $0.debts.aside.count } } }

    /// True while there are files that are set aside. O(shards).
    var hasFilesAside: Bool { cells.indices.contains { !withShard(at: $0) { $0.debts.aside.isEmpty } } }

    /// Tells other processes of the debts from now on.
    func noteDebts(_ note: (_ shard: Int) -> DebtNote) {
        for position in cells.indices {
            withLock(position) { cell in
                cell.debtNote = note(position)
                cell.notedDebt = 0
                cell.noteDebt()
            }
        }
    }
}

/// Access to the groups that are not loaded, for `Index+Groups`.
extension Index {
    /// The groups of the saved index; nil when all are loaded.
    var unloaded: ColdGroups? { hasUnloaded.isSet ? sums.withLock { $0.groups } : nil }

    func groups(of key: Key) -> ColdGroups? { withLock(key.shard) { $0.groups } }

    /// Runs `body` with a shard unless its content was replaced meanwhile. `noteLoaded` then adds the sums.
    func withoutSums(at position: Int, of groups: ColdGroups, _ body: (inout Shard) -> Void) {
        withLock(position) { cell in
            guard cell.groups === groups else { return }
            body(&cell.shard)
            cell.noteDebt()
        }
    }

    /// Notes that a group was loaded. Call it with the state of the groups.
    func noteLoaded(
        _ group: Int, _ content: SavedGroups.Content, _ added: SavedTotals, of groups: ColdGroups,
        _ state: inout ColdGroups.State
    ) {
        let isLast = groups.note(group, content, added, &state)
        if isLast {
            // Before others see that everything is loaded.
            for position in cells.indices {
                withLock(position) { if $0.groups === groups { $0.shard.table.restoreOrder() } }
            }
        }
        sums.withLock { sums in
            // Even if the shards were replaced meanwhile: the totals subtracted then included these entries.
            sums.loaded.add(added.whole)
            guard sums.groups === groups else { return }
            sums.unloaded = state.totals.whole
            if isLast {
                sums.groups = nil
                hasUnloaded.set(false)
            }
        }
        guard isLast else { return }
        for position in cells.indices { withLock(position) { if $0.groups === groups { $0.groups = nil } } }
    }

    /// Returns whether an entry with a life that no line records was loaded since the last call.
    func takeUnrecorded() -> Bool {
        guard unrecorded.isSet else { return false }
        unrecorded.set(false)
        return true
    }
}
