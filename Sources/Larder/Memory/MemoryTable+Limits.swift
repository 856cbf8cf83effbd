public import LarderFiles

/// Removing entries to obey limits, and giving back memory.
extension MemoryTable {
    /// Removes entries until the limits of the cache are obeyed; see below.
    @inlinable
    @discardableResult
    mutating func evict(at now: Timestamp, limit: Int = .max) -> Bool {
        evict(count: limits.count, cost: limits.cost, at: now, limit: limit)
    }

    /// Removes entries until the limits are obeyed, at most `limit` of them; true when more may be left. Those that are
    /// over go first, then those that the order gives up; for cost those that have one. O(1) amortized per entry.
    @inlinable
    @discardableResult
    mutating func evict(count: Int, cost: Int, at now: Timestamp, limit: Int = .max) -> Bool {
        if self.count > count || self.cost > cost {
            return evictSome(count: count, cost: cost, at: now, limit: limit)
        }
        if order.grown >= 0 {
            let measure = measure(order.grown, isForCount: false, count: count, cost: cost)
            order.settle(measure) { [base = slots.base] in base[$0].cost }
        }
        return false
    }

    @inline(never)
    @inlinable
    mutating func evictSome(count: Int, cost: Int, at now: Timestamp, limit: Int) -> Bool {
        var remaining = limit
        while self.count > count || self.cost > cost {
            if remaining == 0 { return true }
            remaining &-= 1
            if let slot = dueSlot(at: now) {
                removeEnded(slot, at: now)
                continue
            }
            let isForCount = self.count > count
            guard let slot = nextEvicted(isForCount: isForCount, count: count, cost: cost) else { return false }
            // A trim says nothing about which values are needed.
            if count == limits.count, cost == limits.cost {
                order.noteEvicted(slot, table.fingerprints[slot], entries: self.count)
            }
            remove(slot, isForCount ? .count : .cost)
        }
        return false
    }

    /// The entry that is evicted next. O(1) amortized.
    @inlinable
    mutating func nextEvicted(isForCount: Bool, count: Int, cost: Int) -> Int? {
        if !order.isAdaptive { return isForCount ? order.rings.first(in: 0) : oldestCostly() }
        if !isForCount { weigh(true) }
        let group = isForCount ? groupForCount() : EvictionOrder.costly
        let measure = measure(group, isForCount: isForCount, count: count, cost: cost)
        return order.next(measure) { [base = slots.base] in base[$0].cost }
    }

    @usableFromInline
    mutating func weigh(_ weighs: Bool) {
        order.weigh(weighs) { [base = slots.base] in base[$0].cost }
    }

    /// The group that has an entry to give up for count; of two, the one whose entry has not been used for longer.
    @inlinable
    mutating func groupForCount() -> Int {
        if order.costly.count == 0 { return EvictionOrder.free }
        if order.free.count == 0 { return EvictionOrder.costly }
        let costs = { [base = slots.base] in base[$0].cost }
        let free = order.mainVictim(EvictionOrder.free, costs)
        let costly = order.mainVictim(EvictionOrder.costly, costs)
        if let free, let costly {
            return slots[free].used <= slots[costly].used ? EvictionOrder.free : EvictionOrder.costly
        }
        // A group that is all window may have the value that was just stored, and no other.
        if free != nil || costly != nil { return free != nil ? EvictionOrder.free : EvictionOrder.costly }
        return order.free.count > order.costly.count ? EvictionOrder.free : EvictionOrder.costly
    }

    @inlinable
    mutating func measure(_ group: Int, isForCount: Bool, count: Int, cost: Int) -> EvictionOrder.Measure {
        if group == EvictionOrder.costly, !isForCount {
            return EvictionOrder.Measure(group, limit: cost, largest: limits.cost / EvictionOrder.windowShare)
        }
        let others = group == EvictionOrder.costly ? order.free : order.costly
        return EvictionOrder.Measure(group, limit: max(0, count &- others.count), largest: nil)
    }

    /// The least recently used entry that costs something. O(1) amortized.
    @inlinable
    mutating func oldestCostly() -> Int? {
        while order.firstCostly >= 0 {
            if slots[order.firstCostly].cost > 0 { return order.firstCostly }
            order.firstCostly = order.rings.next(after: order.firstCostly) ?? -1
        }
        return nil
    }

    /// Removes an entry that is over.
    @usableFromInline
    mutating func removeEnded(_ slot: Int, at now: Timestamp) {
        remove(slot, lifeEnd(of: slot) <= now ? .expired : .age)
    }

    /// The entry that ended first; nil without one. O(1) amortized.
    @inlinable
    mutating func dueSlot(at now: Timestamp) -> Int? {
        if expiries.isQuiet(at: now) { return nil }
        if expiries.isAhead(of: now, by: Life.clockTolerance) { restartExpiries(at: now) }
        // The next eviction goes on, or a sweep: no caller waits for all of them.
        for _ in 0..<Self.steps {
            switch expiries.next(at: now) {
            case .none: return nil
            case .due(let slot) where end(of: slot) <= now: return slot
            // It has been used since it was placed here, which moves its end, but not its place.
            case .due(let slot) where expiries.isBehind(end(of: slot)): expiries.place(slot, at: end(of: slot))
            // The clock was set back since this entry was due. Others may be hidden behind it.
            case .due:
                if !expiries.isAhead(of: now, by: 1_000) { return nil }
                restartExpiries(at: now)
            case .move(let slot): expiries.place(slot, at: end(of: slot))
            }
        }
        return nil
    }

    /// How many entries an eviction looks at to find one that is over.
    @inlinable static var steps: Int { 256 }

    /// Removes entries that are over, in at most `limit` steps; true when more may be left. O(limit).
    mutating func removeExpired(limit: Int, at now: Timestamp) -> Bool {
        if expiries.isAhead(of: now, by: Life.clockTolerance) { restartExpiries(at: now) }
        for _ in 0..<limit {
            switch expiries.next(at: now) {
            case .due(let slot) where end(of: slot) <= now: removeEnded(slot, at: now)
            case .due(let slot) where expiries.isBehind(end(of: slot)): expiries.place(slot, at: end(of: slot))
            case .due where expiries.isAhead(of: now, by: 1_000): restartExpiries(at: now)
            case .none, .due: return false
            case .move(let slot): expiries.place(slot, at: end(of: slot))
            }
        }
        return true
    }

    /// Makes a clock that was set back the new beginning of all buckets. O(n).
    @usableFromInline
    mutating func restartExpiries(at now: Timestamp) {
        expiries.compact()
        expiries.restart(at: now)
        for slot in 0..<slots.count where slots.isUsed(slot) { expiries.insert(slot, at: end(of: slot)) }
    }

    /// The time until which an entry is kept, fresh or stale, if it is not used again. Then it ends. Mutating like
    /// `slot`, because the compiler would copy the table.
    @inlinable
    mutating func end(of slot: Int) -> Timestamp {
        let end = lifeEnd(of: slot)
        if limits.age == .max { return end }
        return min(end, slots[slot].used.advanced(byMilliseconds: limits.age).advanced(byMilliseconds: 1))
    }

    @inlinable
    mutating func lifeEnd(of slot: Int) -> Timestamp {
        extras.isEmpty ? slots[slot].life.expires : staleEnd(of: slot)
    }

    @inlinable
    func staleEnd(of slot: Int) -> Timestamp {
        slots[slot].life.expires.advanced(byMilliseconds: extras[slot]?.keptStale ?? 0)
    }

    /// Whether most of the memory is unused.
    @inlinable var isSparse: Bool { slots.capacity > 64 && count < slots.capacity / 4 }

    /// Moves the entries to less memory, in their order. O(entries), and so O(1) amortized: more entries have been
    /// removed since the memory grew, or was compacted, than there are left.
    @inline(never)
    @usableFromInline
    mutating func compact() {
        let kept = order.slots
        slots.compact(kept)
        let (fingerprints, oldExtras) = (table.fingerprints, extras)
        table = HashIndex()
        order.renumber(kept)
        extras = [:]
        if slides { storeTimes = ContiguousArray(kept.map { storeTimes[Int($0)] }) }
        for (slot, old) in kept.enumerated() {
            table.insert(fingerprint: fingerprints[Int(old)], slot: slot)
            if !oldExtras.isEmpty { extras[slot] = oldExtras[Int(old)] }
        }
        expiries.compact()
        for slot in 0..<kept.count { expiries.insert(slot, at: end(of: slot)) }
    }

    /// Evicts the entries last used before `time` among the next slots, and moves on; true when more may be left.
    /// O(limit).
    mutating func evict(unusedSince time: Timestamp, from place: inout SlotPlace, limit: Int) -> Bool {
        // The slots have other numbers once they were compacted.
        if place.capacity != slots.capacity { place = SlotPlace(slot: 0, capacity: slots.capacity) }
        let end = min(place.slot + limit, slots.count)
        for slot in place.slot..<max(place.slot, end) where slots.isUsed(slot) && slots[slot].used < time {
            remove(slot, .age)
        }
        place.slot = end
        return end < slots.count
    }
}

/// How far a walk through all slots has come, and the capacity that they had.
struct SlotPlace {
    var slot = 0
    var capacity = 0
}
