public import LarderFiles

/// The entries of a memory cache, in the order of their last use. It makes the decisions, and has neither clock nor
/// lock.
///
/// Entries are in slots of contiguous memory, found through `table` and linked by `order`: without an object, and so
/// without a reference count, per entry. Removed values are collected in `removed`: the table itself never releases a
/// value.
@usableFromInline
struct MemoryTable<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    @usableFromInline typealias Entry = MemoryEntry<Key, Value>

    @usableFromInline var slots = Slab<Entry>()
    @usableFromInline var order = SlotList()
    @usableFromInline var table = HashIndex()
    @usableFromInline var count = 0
    @usableFromInline var cost = 0
    @usableFromInline var statistics = MemoryStatistics()
    /// Attributes that few entries have, by slot.
    @usableFromInline var extras: [Int: MemoryExtra] = [:]
    /// Removed values that are yet to be released. Those in `cleared`, which holds all that was removed at once, come
    /// first.
    @usableFromInline var removed: ContiguousArray<MemoryRemoval<Key, Value>> = []
    @usableFromInline var cleared: ContiguousArray<ClearedEntries<Key, Value>> = []
    /// The releases that are already scheduled.
    @usableFromInline var demands = ReleaseDemands()

    /// Whether removals are reported with their keys.
    @usableFromInline let reportsKeys: Bool
    /// Whether a replaced value is returned to the caller instead of being collected.
    @usableFromInline let returnsReplaced: Bool

    @inlinable
    init(reportsKeys: Bool, returnsReplaced: Bool) {
        self.reportsKeys = reportsKeys
        self.returnsReplaced = returnsReplaced && !reportsKeys
    }

    /// Returns a fresh value and records the use. O(1).
    @inlinable
    mutating func use(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Value? {
        guard let slot = useSlot(key, fingerprint: fingerprint, at: now) else {
            statistics.misses &+= 1
            return nil
        }
        return slots[slot].value
    }

    /// Like `use`, but counts no miss: for a second lookup.
    @inlinable
    mutating func find(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Value? {
        guard let slot = useSlot(key, fingerprint: fingerprint, at: now) else { return nil }
        return slots[slot].value
    }

    /// Like `use`, with the value's life.
    mutating func useEntry(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> (value: Value, life: MemoryLife)? {
        guard let slot = useSlot(key, fingerprint: fingerprint, at: now) else {
            statistics.misses &+= 1
            return nil
        }
        return (slots[slot].value, slots[slot].life)
    }

    @inlinable
    mutating func useSlot(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Int? {
        guard let slot = slot(key, fingerprint), slots[slot].isFresh(at: now) else { return nil }
        statistics.hits &+= 1
        slots[slot].used = now
        order.moveToEnd(slot)
        return slot
    }

    /// Returns a fresh entry without recording a use. O(1).
    @inlinable
    func entry(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Entry? {
        guard let slot = slot(key, fingerprint), slots[slot].isFresh(at: now) else { return nil }
        return slots[slot]
    }

    /// Inserts a value as the most recently used. Returns the replaced value if the caller has to release it. O(1)
    /// amortised.
    @inlinable
    mutating func insert(
        _ value: consuming Value, for key: Key, fingerprint: UInt32, life: MemoryLife, cost: Int, at now: Timestamp
    ) -> Value? {
        statistics.stores &+= 1
        self.cost &+= cost
        guard let slot = slot(key, fingerprint) else {
            let slot = slots.insert(Entry(value, for: key, life: life, used: now, cost: cost))
            table.insert(fingerprint: fingerprint, slot: slot)
            order.append(slot)
            count &+= 1
            return nil
        }
        self.cost &-= slots[slot].cost
        swap(&slots[slot].value, &value)
        slots[slot].life = life
        slots[slot].used = now
        slots[slot].cost = cost
        if !extras.isEmpty { extras[slot] = nil }
        order.moveToEnd(slot)
        if returnsReplaced { return value }
        removed.append(MemoryRemoval(value, of: reportsKeys ? key : nil, cause: .replaced))
        return nil
    }

    /// Removes an entry and hands it to the caller. O(1).
    @inlinable
    mutating func take(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Entry? {
        guard let slot = slot(key, fingerprint) else { return nil }
        statistics.note(slots[slot].isFresh(at: now) ? .removed : .expired)
        return take(slot)
    }

    /// Evicts the least recently used entries until the limits are obeyed, at most `limit` entries; true when more may
    /// be left. O(1) per entry.
    @inlinable
    @discardableResult
    mutating func evict(count: Int, cost: Int, limit: Int = .max) -> Bool {
        var remaining = limit
        while self.count > count || self.cost > cost && self.count > 0 {
            if remaining == 0 { return true }
            evictOldest(self.count > count ? .count : .cost)
            remaining &-= 1
        }
        return false
    }

    @inlinable
    func slot(_ key: Key, _ fingerprint: UInt32) -> Int? {
        table.slot(fingerprint: fingerprint) { slot in
            // Moved out and back, which is safe under the lock. Borrowing the key would count a reference to a string
            // that may not be in the processor's cache.
            let place = UnsafeMutablePointer(mutating: (slots.base + slot).pointer(to: \.key)!)
            let other = place.move()
            defer { place.initialize(to: other) }
            return MemoryKey.areSame(other, key)
        }
    }

    @inlinable
    mutating func take(_ slot: Int) -> Entry {
        table.remove(slot)
        order.remove(slot)
        if !extras.isEmpty { extras[slot] = nil }
        let entry = slots.remove(slot)
        count &-= 1
        cost &-= entry.cost
        return entry
    }

    /// Returns whether a release has to be scheduled for the removed values; never twice for the same ones.
    @inlinable
    mutating func takeDemand() -> ReleaseDemand {
        if removed.isEmpty && cleared.isEmpty { return .none }
        return demands.add(cleared.isEmpty && removed.count < ReleaseDemands.batchLimit ? .soon : .now)
    }

    /// Takes the removed values. The caller then has the only references, and releases the values with them.
    mutating func takeForRelease(_ demand: ReleaseDemand) -> (
        cleared: ContiguousArray<ClearedEntries<Key, Value>>, removed: ContiguousArray<MemoryRemoval<Key, Value>>
    ) {
        demands.meet(demand)
        defer { cleared = [] }
        return (cleared, takeRemoved())
    }

    private mutating func takeRemoved() -> ContiguousArray<MemoryRemoval<Key, Value>> {
        var taken: ContiguousArray<MemoryRemoval<Key, Value>> = []
        taken.reserveCapacity(min(removed.count, ReleaseDemands.batchLimit))
        swap(&taken, &removed)
        return taken
    }

    /// Removes all entries, in one piece. O(1).
    mutating func removeAll() {
        var all = Slab<Entry>()
        swap(&all, &slots)
        cleared.append(ClearedEntries(all, count: count, removedBefore: takeRemoved()))
        statistics.note(.cleared, times: count)
        order = SlotList()
        extras = [:]
        table = HashIndex()
        count = 0
        cost = 0
    }

    @usableFromInline
    mutating func evictOldest(_ cause: RemovalCause) {
        if let slot = order.oldest { remove(slot, cause) }
    }

    /// Removes an entry and collects it for release.
    mutating func remove(_ slot: Int, _ cause: RemovalCause) {
        // With the key, whose destruction may call the cache as well.
        let entry = take(slot)
        removed.append(MemoryRemoval(entry.value, of: entry.key, cause: cause))
        statistics.note(cause)
    }

    /// Removes an entry for a caller; true when it was fresh.
    mutating func remove(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Bool {
        guard let slot = slot(key, fingerprint) else { return false }
        let isFresh = slots[slot].isFresh(at: now)
        remove(slot, isFresh ? .removed : .expired)
        return isFresh
    }

    mutating func remove(_ key: Key, fingerprint: UInt32, _ cause: RemovalCause) {
        if let slot = slot(key, fingerprint) { remove(slot, cause) }
    }

    /// Evicts the entries last used before `time`, at most `limit` of them; true when more may be left. O(1) per entry.
    mutating func evict(unusedSince time: Timestamp, limit: Int) -> Bool {
        for _ in 0..<limit {
            guard let slot = order.oldest, slots[slot].used < time else { return false }
            remove(slot, .age)
        }
        return true
    }

    /// Removes the expired entries among `limit` slots. Returns the slot to continue at; nil at the end. O(limit).
    mutating func removeExpired(from start: Int, limit: Int, at now: Timestamp) -> Int? {
        let end = min(slots.count, start + limit)
        for slot in min(start, end)..<end where slots.isUsed(slot) && isOver(slot, at: now) {
            remove(slot, .expired)
        }
        return end < slots.count ? end : nil
    }

    /// Whether an entry has expired, and is not needed as a stale one either.
    private func isOver(_ slot: Int, at now: Timestamp) -> Bool {
        let expires = slots[slot].life.expires
        if now < expires { return false }
        guard !extras.isEmpty, let extra = extras[slot] else { return true }
        return now >= expires.advanced(byMilliseconds: extra.keptStale)
    }

    /// Returns an entry, fresh or stale, with its extra attributes, without recording a use.
    func stored(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> (entry: Entry, extra: MemoryExtra)? {
        guard let slot = slot(key, fingerprint), !isOver(slot, at: now), slots[slot].life.isFromPast(at: now) else {
            return nil
        }
        return (slots[slot], extras[slot] ?? MemoryExtra())
    }

    mutating func setExtra(_ extra: MemoryExtra, of key: Key, fingerprint: UInt32) {
        if !extra.isNone, let slot = slot(key, fingerprint) { extras[slot] = extra }
    }

    /// Gives a fresh entry a new life; false when there is none. O(1).
    mutating func setLife(_ life: MemoryLife, of key: Key, fingerprint: UInt32, at now: Timestamp) -> Bool {
        guard let slot = slot(key, fingerprint), slots[slot].isFresh(at: now) else { return false }
        slots[slot].life = life
        return true
    }
}
