import LarderFiles

/// The one authoritative index: 64 shards, each under its own lock.
///
/// A look-up takes the lock of its shard and nothing else. Changes to a key are published by the info queue, or under
/// the key's stripe; shard locks are the innermost but for those of the memory tiers, held for the length of a table
/// operation.
final class Index: Sendable {
    static let shardCount = 1 << Key.shardBits

    private let cells: [Lock<Cell>]
    // The locks of these three are taken inside that of a shard, one at a time.
    /// The sums over the shards.
    private let sums = Lock(EntryTable.Totals())
    private let uses = AccessCounter()
    private let keepsOrder: Lock<Bool>

    /// A shard, and the memory tiers that are told of its changes before anybody can see them.
    private struct Cell {
        var shard = Shard()
        var tiers: [any MemoryTier] = []

        func invalidate(_ key: Key, _ cause: RemovalCause, but spared: (any MemoryTier)? = nil) {
            for tier in tiers where tier !== spared && tier.namespace == key.namespace {
                tier.invalidate(key.text, cause)
            }
        }

        func hasTier(_ tier: any MemoryTier) -> Bool { tiers.contains { $0 === tier } }
    }

    /// With `keepsOrder` the order of use is known from the beginning.
    init(_ content: [Shard], keepsOrder: Bool, at now: Timestamp) {
        self.keepsOrder = Lock(keepsOrder)
        cells = content.map { _ in Lock(Cell()) }
        replace(with: content, at: now)
    }

    func withShard<Result>(of key: Key, _ body: (inout Shard) -> Result) -> Result {
        withShard(at: key.shard, body)
    }

    func withShard<Result>(at position: Int, _ body: (inout Shard) -> Result) -> Result {
        withCell(at: position) { body(&$0.shard) }
    }

    /// Returns the entry of a key, expired ones too. O(1).
    func entry(_ key: Key) -> IndexEntry? {
        cells[key.shard].withLock { $0.shard.table.entry(key) }
    }

    /// Looks an entry up for a read: notes the use, and counts a hit or a miss. O(1).
    func use(_ key: Key, at now: Timestamp, sliding: Bool, orStale: Bool) -> IndexEntry? {
        cells[key.shard].withLock { cell in
            let entry = cell.shard.table.use(key, at: now, sliding: sliding, orStale: orStale)
            if entry == nil { cell.shard.misses += 1 } else { cell.shard.hits += 1 }
            return entry
        }
    }

    /// True while the entry of a key still is the same value.
    func isCurrent(_ entry: IndexEntry, _ key: Key) -> Bool {
        withShard(at: key.shard) { $0.table.entry(key)?.isSameValue(as: entry) ?? false }
    }

    /// Copies the entries of a shard. O(slots) for the next change of the shard; here too while something is being
    /// cleared.
    func snapshot(_ shard: Int) -> some Sequence<IndexEntry> {
        withShard(at: shard) { $0.table.snapshot }.lazy.filter { $0.file != 0 }
    }

    /// The same for what changes the value or the life of a key: no memory tier has it any more when somebody can see
    /// the change.
    func change<Result>(_ key: Key, _ cause: RemovalCause, _ body: (inout Shard) -> Result) -> Result {
        withCell(at: key.shard) { cell in
            cell.invalidate(key, cause)
            return body(&cell.shard)
        }
    }

    /// Puts a entry in, and its value into the memory tier that it came through, if that is still attached. Returns the
    /// entry that it replaces, whose file is obsolete at once if `markingObsolete`.
    func publish(_ entry: IndexEntry, for key: Key, _ promotion: Promotion?, markingObsolete: Bool) -> IndexEntry? {
        // Not through `withCell`: a closure in a closure copies the entry once more.
        cells[key.shard].withLock { cell in
            let before = cell.shard.table.totals
            defer { settle(before, cell.shard.table.totals) }
            // That one replaces the value itself.
            cell.invalidate(key, .replaced, but: promotion?.tier)
            let old = cell.shard.table.publish(entry, for: key)
            if !entry.isAbsent { cell.shard.stores += 1 }
            if markingObsolete, let file = old?.file { cell.shard.markObsolete(file, of: key) }
            if let promotion, cell.hasTier(promotion.tier) { promotion.insert(entry) }
            return old
        }
    }

    /// The same for changes that say afterwards whose they were.
    func change(at position: Int, _ cause: RemovalCause, _ body: (inout Shard) -> [IndexEntry]) -> [IndexEntry] {
        withCell(at: position) { cell in
            let entries = body(&cell.shard)
            for tier in cell.tiers {
                for entry in entries where entry.namespace == tier.namespace { tier.invalidate(entry.keyText, cause) }
            }
            return entries
        }
    }

    private func withCell<Result>(at position: Int, _ body: (inout Cell) -> Result) -> Result {
        cells[position].withLock { cell in
            let before = cell.shard.table.totals
            defer { settle(before, cell.shard.table.totals) }
            return body(&cell)
        }
    }

    /// Takes over into the sums what has become of a shard's totals.
    private func settle(_ before: EntryTable.Totals, _ after: EntryTable.Totals) {
        if after == before { return }
        sums.withLock { sums in
            sums.add(after)
            sums.add(before, times: -1)
        }
    }

    /// Calls `body` with one shard after the other, never with two at once.
    func forEachShard(_ body: (inout Shard) -> Void) {
        for position in cells.indices { withShard(at: position, body) }
    }

    /// Puts the content of another index in the place of this one's.
    func replace(with fresh: [Shard], at now: Timestamp) {
        for (position, content) in fresh.enumerated() { replace(position, with: content, at: now) }
    }

    /// Empties every shard but for its counters.
    func removeAll(at now: Timestamp) {
        var empty = Shard()
        empty.forgetTombstones()
        for position in cells.indices { replace(position, with: empty, at: now) }
    }

    /// Makes the entries of a namespace or a tag none, all of which have lower file numbers. Returns what those of a
    /// namespace were. O(1). Memory tiers do not know tags: those of the namespace are emptied.
    func clear(_ scope: ClearScope, below number: UInt64) -> EntryTable.Totals {
        var gone = EntryTable.Totals()
        for position in cells.indices {
            withCell(at: position) { cell in
                for tier in cell.tiers where tier.namespace == scope.namespace { tier.invalidateAll() }
                gone.add(cell.shard.table.clear(scope, below: number))
            }
        }
        return gone
    }

    /// True while entries that were cleared have not been taken out.
    var hasCleared: Bool { cells.indices.contains { withShard(at: $0) { $0.table.hasCleared } } }

    /// Puts a value that was read into a memory tier, with what the index says of it by now; unless it has been
    /// replaced or has gone, or the tier is not attached any more.
    func promote(_ entry: IndexEntry, _ key: Key, _ promotion: Promotion) {
        withCell(at: key.shard) { cell in
            guard let current = cell.shard.table.entry(key), current.isSameValue(as: entry),
                cell.hasTier(promotion.tier)
            else { return }
            promotion.insert(current)
        }
    }

    /// From now on tells a memory tier of every change.
    func attach(_ tier: any MemoryTier) {
        for cell in cells { cell.withLock { $0.tiers.append(tier) } }
    }

    /// For tests.
    var tierCount: Int { cells[0].withLock { $0.tiers.count } }

    func detach(_ tier: any MemoryTier) {
        for cell in cells { cell.withLock { cell in cell.tiers.removeAll { $0 === tier } } }
    }

    private func replace(_ position: Int, with content: Shard, at now: Timestamp) {
        let old = withCell(at: position) { cell in
            for tier in cell.tiers { tier.invalidateAll() }
            let old = cell.shard
            cell.shard = content
            // Asked in here: who wants the order from now on says so first, and then comes to every shard.
            if keepsOrder.withLock({ $0 }) { cell.shard.table.keepOrder(counting: uses, at: now) }
            cell.shard.hits = old.hits
            cell.shard.misses = old.misses
            cell.shard.stores = old.stores
            return old
        }
        _ = consume old
    }

    /// From now on knows the order of use. O(n log n) the first time.
    func keepOrder(at now: Timestamp) {
        let isKept = keepsOrder.withLock { isKept in
            defer { isKept = true }
            return isKept
        }
        if !isKept { forEachShard { $0.table.keepOrder(counting: uses, at: now) } }
    }

    /// Orders all entries by the times of their last use again, if their order is kept: entries have come that were used
    /// long ago. O(n log n).
    func orderAnew(at now: Timestamp) {
        if keepsOrder.withLock({ $0 }) { forEachShard { $0.table.orderAnew(counting: uses, at: now) } }
    }

    /// The same when the clock has been set back, and entries of the wrong time would count as used last. O(1)
    /// otherwise.
    func orderAnewIfSetBack(at now: Timestamp) {
        guard keepsOrder.withLock({ $0 }), uses.isAhead(of: now) else { return }
        uses.restart(at: now)
        orderAnew(at: now)
    }

    var totals: EntryTable.Totals { sums.withLock { $0 } }

    /// What there is of one namespace.
    func totals(of namespace: Namespace) -> EntryTable.Totals {
        var totals = EntryTable.Totals()
        forEachShard { shard in
            if let part = shard.table.namespaces[namespace] { totals.add(part) }
        }
        return totals
    }

    /// Tombstones that are kept in mind. O(shards).
    var tombstoneCount: Int { (0..<Self.shardCount).reduce(0) { $0 + withShard(at: $1) { $0.tombstones.count } } }

    var obsoleteCount: Int { (0..<Self.shardCount).reduce(0) { $0 + withShard(at: $1) { $0.obsolete.count } } }
}

/// Values in memory that must never outlive those on disk. Called with the lock of a shard held: it releases nothing there and
/// calls nobody.
protocol MemoryTier: AnyObject, Sendable {
    var namespace: Namespace { get }

    /// Drops the value of a key.
    func invalidate(_ key: String, _ cause: RemovalCause)

    /// Drops all values.
    func invalidateAll()
}

/// A value that goes into a memory tier at the moment when it can be seen on disk.
struct Promotion {
    let tier: any MemoryTier
    /// Is given the entry by which the value is known; like the tier's own methods.
    let insert: (IndexEntry) -> Void
}
