public import LarderFiles

/// What a cache in memory holds, in the order of its last use: decides, and knows neither clock nor lock.
///
/// Entries stand in slots of contiguous memory, found through `table` and linked by `order`: no object, and so no reference
/// count, for an entry. What leaves goes to `removed`: in here no value is ever released.
@usableFromInline
struct MemoryTable<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    @usableFromInline typealias Entry = MemoryEntry<Key, Value>

    @usableFromInline var slots = Slab<Entry>()
    @usableFromInline var order = SlotList()
    @usableFromInline var table = HashIndex()
    @usableFromInline var count = 0
    @usableFromInline var cost = 0
    @usableFromInline var statistics = MemoryStatistics()
    /// What few entries have beside them, by slot.
    @usableFromInline var extras: [Int: MemoryExtra] = [:]
    /// What is still to be released; before it goes what was there when all was removed.
    @usableFromInline var removed: ContiguousArray<MemoryRemoval<Key, Value>> = []
    @usableFromInline var cleared: ContiguousArray<ClearedEntries<Key, Value>> = []
    /// What has been asked for and is not yet done.
    @usableFromInline var demands = ReleaseDemands()

    /// Whether what leaves is to be told with its key.
    @usableFromInline let reportsKeys: Bool
    /// Whether a value that is replaced is handed to the caller instead of waiting.
    @usableFromInline let returnsReplaced: Bool

    @inlinable
    init(reportsKeys: Bool, returnsReplaced: Bool) {
        self.reportsKeys = reportsKeys
        self.returnsReplaced = returnsReplaced && !reportsKeys
    }

    /// Returns a fresh value and notes the use. O(1).
    @inlinable
    mutating func use(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Value? {
        guard let slot = useSlot(key, fingerprint: fingerprint, at: now) else {
            statistics.misses &+= 1
            return nil
        }
        return slots[slot].value
    }

    /// The same for who looks again when there is none: a miss is not counted.
    @inlinable
    mutating func find(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Value? {
        guard let slot = useSlot(key, fingerprint: fingerprint, at: now) else { return nil }
        return slots[slot].value
    }

    /// The same with its life.
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

    /// Returns a fresh entry, and notes no use. O(1).
    @inlinable
    func entry(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Entry? {
        guard let slot = slot(key, fingerprint), slots[slot].isFresh(at: now) else { return nil }
        return slots[slot]
    }

    /// Puts a value in, as the one used last; returns the one that it replaces, if that is to be released at once. O(1) amortised.
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

    /// Takes an entry out. O(1).
    @inlinable
    mutating func take(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Entry? {
        guard let slot = slot(key, fingerprint) else { return nil }
        statistics.note(slots[slot].isFresh(at: now) ? .removed : .expired)
        return take(slot)
    }

    /// Evicts what was used longest ago until limits are obeyed, at most `limit` entries; true when there may be more. O(1) for
    /// each.
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
            // Moved out and back, alone under the lock: lending it would count a reference, to a string that may be far away.
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

    /// Tells whether somebody has to be asked to release what waits; not twice for the same.
    @inlinable
    mutating func takeDemand() -> ReleaseDemand {
        if removed.isEmpty && cleared.isEmpty { return .none }
        return demands.add(cleared.isEmpty && removed.count < ReleaseDemands.batchLimit ? .soon : .now)
    }

    /// Hands over what waits. Nobody else has a reference to it then: who lets go of it releases it.
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

    /// Takes all entries out, in one piece. O(1).
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

    /// Takes an entry out and leaves it to be released.
    mutating func remove(_ slot: Int, _ cause: RemovalCause) {
        // The key too: its end may call the cache as well.
        let entry = take(slot)
        removed.append(MemoryRemoval(entry.value, of: entry.key, cause: cause))
        statistics.note(cause)
    }

    /// Takes out what a caller wants gone; true when it was fresh.
    mutating func remove(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Bool {
        guard let slot = slot(key, fingerprint) else { return false }
        let isFresh = slots[slot].isFresh(at: now)
        remove(slot, isFresh ? .removed : .expired)
        return isFresh
    }

    mutating func remove(_ key: Key, fingerprint: UInt32, _ cause: RemovalCause) {
        if let slot = slot(key, fingerprint) { remove(slot, cause) }
    }

    /// Evicts what was last used before a time, at most `limit` entries; true when there may be more. O(1) for each.
    mutating func evict(unusedSince time: Timestamp, limit: Int) -> Bool {
        for _ in 0..<limit {
            guard let slot = order.oldest, slots[slot].used < time else { return false }
            remove(slot, .age)
        }
        return true
    }

    /// Drops what has expired among some slots; returns where to go on, nil at the end. O(limit).
    mutating func removeExpired(from start: Int, limit: Int, at now: Timestamp) -> Int? {
        let end = min(slots.count, start + limit)
        for slot in min(start, end)..<end where slots.isUsed(slot) && isOver(slot, at: now) {
            remove(slot, .expired)
        }
        return end < slots.count ? end : nil
    }

    /// True when nothing of an entry is needed any more.
    private func isOver(_ slot: Int, at now: Timestamp) -> Bool {
        let expires = slots[slot].life.expires
        if now < expires { return false }
        guard !extras.isEmpty, let extra = extras[slot] else { return true }
        return now >= expires.advanced(byMilliseconds: extra.keptStale)
    }

    /// Returns an entry, fresh or stale, with what is beside it, and notes no use.
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
