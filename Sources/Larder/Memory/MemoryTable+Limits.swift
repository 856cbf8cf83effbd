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
    /// over go first, then the least recently used; for cost those that have one. O(1) amortized per entry.
    @inlinable
    @discardableResult
    mutating func evict(count: Int, cost: Int, at now: Timestamp, limit: Int = .max) -> Bool {
        if self.count <= count && self.cost <= cost { return false }
        return evictSome(count: count, cost: cost, at: now, limit: limit)
    }

    @inline(never)
    @inlinable
    mutating func evictSome(count: Int, cost: Int, at now: Timestamp, limit: Int) -> Bool {
        var remaining = limit
        while self.count > count || self.cost > cost {
            if remaining == 0 { return true }
            remaining &-= 1
            if let slot = dueSlot(at: now) {
                remove(slot, .expired)
            } else if self.count > count {
                guard let slot = order.oldest else { return false }
                remove(slot, .count)
            } else {
                guard let slot = oldestCostly() else { return false }
                remove(slot, .cost)
            }
        }
        return false
    }

    /// The least recently used entry that costs something. O(1) amortized.
    @inlinable
    mutating func oldestCostly() -> Int? {
        while firstCostly >= 0 {
            if slots[firstCostly].cost > 0 { return firstCostly }
            firstCostly = order.newer(than: firstCostly) ?? -1
        }
        return nil
    }

    /// The entry that ended first; nil without one. O(1) amortized.
    @inlinable
    mutating func dueSlot(at now: Timestamp) -> Int? {
        if expiries.isAhead(of: now, by: Life.clockTolerance) { restartExpiries(at: now) }
        while true {
            switch expiries.next(at: now) {
            case .none: return nil
            case .due(let slot) where end(of: slot) <= now: return slot
            // The clock was set back since this entry was due. Others may be hidden behind it.
            case .due:
                if !expiries.isAhead(of: now, by: 1_000) { return nil }
                restartExpiries(at: now)
            case .move(let slot): expiries.place(slot, at: end(of: slot))
            }
        }
    }

    /// Removes entries that are over, in at most `limit` steps; true when more may be left. O(limit).
    mutating func removeExpired(limit: Int, at now: Timestamp) -> Bool {
        if expiries.isAhead(of: now, by: Life.clockTolerance) { restartExpiries(at: now) }
        for _ in 0..<limit {
            switch expiries.next(at: now) {
            case .due(let slot) where end(of: slot) <= now: remove(slot, .expired)
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

    /// The time until which an entry is kept, fresh or stale. Then it ends.
    @inlinable
    func end(of slot: Int) -> Timestamp {
        extras.isEmpty ? slots[slot].life.expires : staleEnd(of: slot)
    }

    @inlinable
    func staleEnd(of slot: Int) -> Timestamp {
        slots[slot].life.expires.advanced(byMilliseconds: extras[slot]?.keptStale ?? 0)
    }

    /// Whether most of the memory is unused.
    @inlinable var isSparse: Bool { slots.capacity > 64 && count < slots.capacity / 4 }

    /// Moves the entries to less memory, in the order of their use. O(entries), and so O(1) amortized: more entries
    /// have been removed since the memory grew, or was compacted, than there are left.
    @inline(never)
    @usableFromInline
    mutating func compact() {
        var kept: ContiguousArray<UInt32> = []
        kept.reserveCapacity(count)
        var next = order.oldest
        while let slot = next {
            kept.append(UInt32(slot))
            next = order.newer(than: slot)
        }
        slots.compact(kept)
        let (fingerprints, oldExtras, oldCostly) = (table.fingerprints, extras, firstCostly)
        table = HashIndex()
        order = SlotList()
        extras = [:]
        if slides { storeTimes = ContiguousArray(kept.map { storeTimes[Int($0)] }) }
        for (slot, old) in kept.enumerated() {
            table.insert(fingerprint: fingerprints[Int(old)], slot: slot)
            order.append(slot)
            if !oldExtras.isEmpty { extras[slot] = oldExtras[Int(old)] }
            if Int(old) == oldCostly { firstCostly = slot }
        }
        expiries.compact()
        for slot in 0..<kept.count { expiries.insert(slot, at: end(of: slot)) }
    }

    /// Evicts the entries last used before `time`, at most `limit` of them; true when more may be left. O(1) per entry.
    mutating func evict(unusedSince time: Timestamp, limit: Int) -> Bool {
        for _ in 0..<limit {
            guard let slot = order.oldest, slots[slot].used < time else { return false }
            remove(slot, .age)
        }
        return true
    }
}
