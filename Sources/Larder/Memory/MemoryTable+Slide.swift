public import LarderFiles

/// Lives that begin again with every use.
extension MemoryTable {
    /// Like `find`, and begins the life of the value again. Apart from it, which has to be fast. O(1).
    mutating func useSliding(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> Value? {
        guard let found = useSlot(key, fingerprint: fingerprint, at: now, &demand) else { return nil }
        slide(found.slot, at: now)
        return found.value
    }

    /// Begins the life of a fresh entry again. O(1).
    @inline(never)
    @usableFromInline
    mutating func slide(_ slot: Int, at now: Timestamp) {
        guard let life = slots[slot].life.renewed(at: now) else { return }
        replaceLife(of: slot, with: life)
    }

    /// Notes the time of a store, because the beginning of the life moves on.
    @inline(never)
    @usableFromInline
    mutating func noteStore(_ slot: Int) {
        while storeTimes.count <= slot { storeTimes.append(Timestamp(milliseconds: 0)) }
        storeTimes[slot] = slots[slot].life.begun
    }

    /// Gives an entry another life, and finds it in time at its new end. O(1).
    mutating func replaceLife(of slot: Int, with life: MemoryLife) {
        let old = end(of: slot)
        slots[slot].life = life
        expiries.move(slot, from: old, to: end(of: slot))
    }
}

extension MemoryCache {
    /// Returns a fresh value, records the use, and begins its life again. O(1).
    @inline(never)
    @usableFromInline
    func slidingValue(forKey key: Key, countsMiss: Bool) -> Value? {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        var demand = ReleaseDemand.none
        let value = table.withLock { table in
            let value = table.useSliding(key, fingerprint: fingerprint, at: now, &demand)
            if countsMiss, value == nil { table.statistics.misses &+= 1 }
            return value
        }
        release(demand)
        return value
    }
}
