public import LarderFiles

/// The entries of a memory cache. It makes the decisions, and has neither clock nor lock.
///
/// Entries are in slots of contiguous memory, found through `table` and linked by `order`: without an object, and so
/// without a reference count, per entry. Removed values are collected in `removed`: the table itself never releases a
/// value.
///
/// An entry is over when it has expired and is not kept as a stale one either, or has gone unused for too long. When a
/// limit is exceeded, such entries go first.
@usableFromInline
struct MemoryTable<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    @usableFromInline typealias Entry = MemoryEntry<Key, Value>
    /// A value with its life and metadata.
    typealias Found = (value: Value, life: MemoryLife, metadata: [String: String])

    @usableFromInline var slots = Slab<Entry>()
    @usableFromInline var order: EvictionOrder
    @usableFromInline var table = HashIndex()
    @usableFromInline var expiries = ExpiryBuckets()
    @usableFromInline var count = 0
    /// The number of entries without a value.
    @usableFromInline var absences = 0
    @usableFromInline var cost = 0
    @usableFromInline var statistics = MemoryStatistics()
    /// Hits of expired values.
    @usableFromInline var staleHits = 0
    /// Attributes that few entries have, by slot.
    @usableFromInline var extras: [Int: MemoryExtra] = [:]
    /// The times of the stores, by slot, if lives slide, which moves their beginnings; empty otherwise.
    @usableFromInline var storeTimes: ContiguousArray<Timestamp> = []
    /// Removed values that are yet to be released. Those in `cleared`, which holds all that was removed at once, come
    /// first.
    @usableFromInline var removed: ContiguousArray<MemoryRemoval<Key, Value>> = []
    @usableFromInline var cleared: ContiguousArray<ClearedEntries<Key, Value>> = []
    /// The releases that are already scheduled.
    @usableFromInline var demands = ReleaseDemands()
    @usableFromInline var turn = ReleaseTurn()

    /// Whether removals are reported with their keys.
    @usableFromInline let reportsKeys: Bool
    /// Whether a replaced value is returned to the caller instead of being collected.
    @usableFromInline let returnsReplaced: Bool
    /// Whether using a fresh value begins its life again.
    @usableFromInline let slides: Bool
    @usableFromInline let policy: EvictionPolicy
    @usableFromInline var limits: MemoryLimits

    @inlinable
    init(reportsKeys: Bool, returnsReplaced: Bool, slides: Bool, policy: EvictionPolicy, limits: MemoryLimits) {
        self.reportsKeys = reportsKeys
        self.returnsReplaced = returnsReplaced && !reportsKeys
        self.slides = slides
        self.policy = policy
        order = EvictionOrder(policy, weighs: limits.cost < MemoryLimits.costBound)
        self.limits = limits
    }

    /// Returns a fresh value and records the use, but renews no life: see `useSliding`. O(1).
    @inlinable
    mutating func use(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> Value? {
        guard let found = useSlot(key, fingerprint: fingerprint, at: now, &demand) else {
            statistics.misses &+= 1
            return nil
        }
        return found.value
    }

    /// Like `use`, but counts no miss: for a second lookup.
    @inlinable
    mutating func find(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> Value? {
        useSlot(key, fingerprint: fingerprint, at: now, &demand)?.value
    }

    /// Like `find`, with the value's life and metadata.
    mutating func findEntry(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> Found? {
        useSlot(key, fingerprint: fingerprint, at: now, &demand).map { found in
            if slides { slide(found.slot, at: now) }
            return (found.value, slots[found.slot].life, extras.isEmpty ? [:] : extras[found.slot]?.metadata ?? [:])
        }
    }

    @inlinable
    mutating func useSlot(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> (slot: Int, value: Value)? {
        guard let slot = slot(key, fingerprint) else { return nil }
        // Copied once: looking whether there is a value would count a reference to it as well.
        guard isUsable(slot, at: now), let value = slots[slot].value else {
            demand = noteMiss(slot, at: now)
            return nil
        }
        statistics.hits &+= 1
        touch(slot, at: now)
        return (slot, value)
    }

    /// Records a use. O(1).
    @inlinable
    mutating func touch(_ slot: Int, at now: Timestamp) {
        slots[slot].used = now
        order.use(slot)
    }

    /// Returns whether there is a fresh value without recording a use. O(1).
    mutating func hasValue(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> Bool {
        guard let slot = slot(key, fingerprint) else { return false }
        if hasValue(slot, at: now) { return true }
        demand = discard(slot, at: now)
        return false
    }

    @inlinable
    func hasValue(_ slot: Int, at now: Timestamp) -> Bool {
        isUsable(slot, at: now) && slots[slot].value != nil
    }

    /// Whether an entry is fresh and within the age limit.
    @inlinable
    func isUsable(_ slot: Int, at now: Timestamp) -> Bool {
        slots[slot].life.isFresh(at: now) && !isAged(slot, at: now)
    }

    @inlinable
    func isAged(_ slot: Int, at now: Timestamp) -> Bool {
        now.milliseconds &- slots[slot].used.milliseconds > limits.age
    }

    /// Handles an entry in which a read has found no value. One that is kept stale stays as it is.
    @inlinable
    mutating func noteMiss(_ slot: Int, at now: Timestamp) -> ReleaseDemand {
        isAged(slot, at: now) || slots[slot].life.isFresh(at: now) || now >= end(of: slot)
            ? noteUnusable(slot, at: now) : .none
    }

    /// Uses an absence, and removes an entry that is over.
    @inline(never)
    @usableFromInline
    mutating func noteUnusable(_ slot: Int, at now: Timestamp) -> ReleaseDemand {
        if !isUsable(slot, at: now) { return discard(slot, at: now) }
        touch(slot, at: now)
        return .none
    }

    /// Removes an entry that is over or aged.
    private mutating func discard(_ slot: Int, at now: Timestamp) -> ReleaseDemand {
        if end(of: slot) > now { return .none }
        removeEnded(slot, at: now)
        return takeDemand()
    }

    /// Inserts a value, or an absence, as the most recently used. Returns the replaced value if the caller has to
    /// release it. O(1) amortized.
    @inlinable
    mutating func insert(
        _ value: consuming Value?, for key: Key, fingerprint: UInt32, life: MemoryLife, cost: Int, at now: Timestamp
    ) -> Value? {
        if value == nil { absences &+= 1 } else { statistics.stores &+= 1 }
        self.cost &+= cost
        guard let slot = slot(key, fingerprint) else {
            if count == 0 { expiries.restart(at: now) }
            let slot = slots.insert(Entry(value, for: key, life: life, used: now, cost: cost))
            table.insert(fingerprint: fingerprint, slot: slot)
            order.append(slot, cost: cost, fingerprint: fingerprint)
            expiries.insert(slot, at: end(of: slot))
            count &+= 1
            if slides { noteStore(slot) }
            return nil
        }
        self.cost &-= slots[slot].cost
        order.replace(slot, cost: slots[slot].cost, by: cost)
        let old = end(of: slot)
        swap(&slots[slot].value, &value)
        slots[slot].life = life
        slots[slot].used = now
        slots[slot].cost = cost
        if !extras.isEmpty { extras[slot] = nil }
        expiries.move(slot, from: old, to: end(of: slot))
        if slides { noteStore(slot) }
        guard value != nil else {
            absences &-= 1
            return nil
        }
        if returnsReplaced { return value }
        removed.append(MemoryRemoval(value, of: reportsKeys ? key : nil, cause: .replaced))
        return nil
    }

    /// Inserts an absence. A value of the key is removed. O(1) amortized.
    mutating func insertAbsence(for key: Key, fingerprint: UInt32, life: MemoryLife, cost: Int, at now: Timestamp) {
        _ = remove(key, fingerprint: fingerprint, at: now)
        _ = insert(nil, for: key, fingerprint: fingerprint, life: life, cost: cost, at: now)
    }

    /// Removes an entry: a fresh value is handed to the caller, everything else collected for release. O(1).
    @inlinable
    mutating func take(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> Entry? {
        guard let slot = slot(key, fingerprint) else { return nil }
        guard hasValue(slot, at: now) else {
            demand = removeUnusable(slot, at: now)
            return nil
        }
        statistics.note(.removed)
        let entry = take(slot)
        if isSparse { compact() }
        return entry
    }

    @inline(never)
    @usableFromInline
    mutating func removeUnusable(_ slot: Int, at now: Timestamp) -> ReleaseDemand {
        remove(slot, causeOfRemoval(slot, at: now))
        return takeDemand()
    }

    /// The cause to report when a caller removes an entry.
    private func causeOfRemoval(_ slot: Int, at now: Timestamp) -> RemovalCause {
        if !slots[slot].life.isFresh(at: now) { return .expired }
        return isAged(slot, at: now) ? .age : .removed
    }

    /// Mutating, because the compiler would copy all properties of the table to lend them.
    @inlinable
    mutating func slot(_ key: Key, _ fingerprint: UInt32) -> Int? {
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
        order.remove(slot, cost: slots[slot].cost)
        expiries.remove(slot)
        if !extras.isEmpty { extras[slot] = nil }
        let entry = slots.remove(slot)
        count &-= 1
        cost &-= entry.cost
        if entry.value == nil { absences &-= 1 }
        return entry
    }

    /// Removes all entries, in one piece. O(1).
    mutating func removeAll(_ cause: RemovalCause) {
        var all = Slab<Entry>()
        swap(&all, &slots)
        cleared.append(ClearedEntries(all, count: count - absences, cause: cause, removedBefore: takeRemoved()))
        statistics.note(cause, times: count)
        order = EvictionOrder(policy, weighs: order.weighs)
        extras = [:]
        storeTimes = []
        table = HashIndex()
        expiries = ExpiryBuckets()
        count = 0
        absences = 0
        cost = 0
    }

    /// Removes an entry and collects it for release.
    @inlinable
    mutating func remove(_ slot: Int, _ cause: RemovalCause) {
        // With the key, whose destruction may call the cache as well.
        let entry = take(slot)
        removed.append(MemoryRemoval(entry.value, of: entry.key, cause: cause))
        statistics.note(cause)
    }

    /// Removes an entry for a caller; true when there was a fresh value.
    mutating func remove(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> Bool {
        guard let slot = slot(key, fingerprint) else { return false }
        let hadValue = hasValue(slot, at: now)
        remove(slot, causeOfRemoval(slot, at: now))
        return hadValue
    }

    @usableFromInline
    mutating func remove(_ key: Key, fingerprint: UInt32, _ cause: RemovalCause) {
        if let slot = slot(key, fingerprint) { remove(slot, cause) }
    }

    /// Returns an entry, fresh or stale, with its extra attributes. Records a use of an absence, which no other read
    /// does, but not of a value.
    mutating func stored(_ key: Key, fingerprint: UInt32, at now: Timestamp) -> (entry: Entry, extra: MemoryExtra)? {
        guard let slot = slot(key, fingerprint), now < end(of: slot), slots[slot].life.isFromPast(at: now),
            !isAged(slot, at: now)
        else { return nil }
        if slots[slot].value == nil { _ = noteMiss(slot, at: now) }
        var extra = extras[slot] ?? MemoryExtra()
        if slides, extra.stored == nil { extra.stored = storeTimes[slot] }
        return (slots[slot], extra)
    }

    mutating func setExtra(_ extra: MemoryExtra, of key: Key, fingerprint: UInt32) {
        guard !extra.isNone, let slot = slot(key, fingerprint) else { return }
        let old = end(of: slot)
        extras[slot] = extra
        expiries.move(slot, from: old, to: end(of: slot))
    }

    /// Gives a fresh value a new life; false when there is none. O(1).
    mutating func setLife(_ life: MemoryLife, of key: Key, fingerprint: UInt32, at now: Timestamp) -> Bool {
        guard let slot = slot(key, fingerprint), hasValue(slot, at: now) else { return false }
        replaceLife(of: slot, with: life)
        return true
    }
}
