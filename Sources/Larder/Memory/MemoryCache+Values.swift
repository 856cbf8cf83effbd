import LarderFiles
public import LarderFoundation

/// Looking at the values without using them: nothing is counted, moved, renewed or removed.
extension MemoryCache {
    /// Returns the value of a key as `value(forKey:)` does, but without recording a use: no hit or miss is counted, the
    /// order of use stays, and no life is renewed. O(1).
    public func peekValue(forKey key: Key) -> Value? {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        return table.withLock { table in
            guard let slot = table.slot(key, fingerprint), table.isUsable(slot, at: now) else { return nil }
            return table.slots[slot].value
        }
    }

    /// Returns a fresh value with its dates and its cost, without recording a use; nil when there is none. O(1).
    public func entry(forKey key: Key) -> Entry? {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        return table.withLock { table in
            guard let slot = table.slot(key, fingerprint), table.isUsable(slot, at: now),
                let value = table.slots[slot].value
            else { return nil }
            let (entry, begun) = (table.slots[slot], table.extras[slot]?.stored ?? table.slots[slot].life.begun)
            return Entry(
                value: value, cost: entry.cost, storedAt: begun.date,
                age: .milliseconds(max(0, now.millisecondsSince(begun))),
                expiresAt: entry.life.expires.milliseconds == Life.unlimited ? nil : entry.life.expires.date,
                lastUsedAt: entry.used.date)
        }
    }

    /// A value in memory, and what the cache knows about it.
    public struct Entry: Sendable {
        /// The value.
        public let value: Value
        /// Its cost, in the unit of the cost limit.
        public let cost: Int
        /// When it was stored; where reading begins a life again, when that was.
        public let storedAt: Date
        /// The time since then.
        public let age: Duration
        /// When it expires; nil: never.
        public let expiresAt: Date?
        /// When it was last read, or else stored.
        public let lastUsedAt: Date
    }

    /// Returns the keys of all fresh values, in no particular order. O(n).
    public func keys() -> [Key] {
        let now = time.now
        var keys: [Key] = []
        table.withLock { table in
            for slot in 0..<table.slots.count where table.slots.isUsed(slot) && table.hasValue(slot, at: now) {
                keys.append(table.slots[slot].key)
            }
        }
        return keys
    }

    /// Returns the keys of all fresh values, the most recently used first. O(n log n).
    ///
    /// With `.adaptive` eviction, values used in the same millisecond are in no particular order.
    public func keysByRecency() -> [Key] {
        let now = time.now
        var keys: [Key] = []
        table.withLock { table in
            var slots = table.order.slots.map(Int.init).filter { table.hasValue($0, at: now) }
            // In the order of use they are sorted.
            if table.order.isAdaptive { slots.sort { table.slots[$0].used < table.slots[$1].used } }
            keys = slots.reversed().map { table.slots[$0].key }
        }
        return keys
    }

    /// Returns all fresh values, in no particular order. O(n).
    public func values() -> [Value] {
        let now = time.now
        var values: [Value] = []
        table.withLock { table in
            for slot in 0..<table.slots.count where table.slots.isUsed(slot) && table.isUsable(slot, at: now) {
                if let value = table.slots[slot].value { values.append(value) }
            }
        }
        return values
    }
}

extension MemoryCache.Entry: CustomStringConvertible {
    /// The value, its cost, its age and its dates.
    public var description: String {
        "\(Wording.value(value)), cost \(cost), stored \(Wording.date(storedAt)), \(Wording.duration(age)) old, "
            + Wording.expiry(expiresAt)
    }
}
