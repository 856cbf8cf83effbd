public import LarderFiles

/// A value in memory with all that is known about it.
@usableFromInline
struct MemoryEntry<Key: Sendable, Value: Sendable>: Sendable {
    @usableFromInline let key: Key
    @usableFromInline var value: Value
    @usableFromInline var life: MemoryLife
    @usableFromInline var used: Timestamp
    @usableFromInline var cost: Int

    @inlinable
    init(_ value: Value, for key: Key, life: MemoryLife, used: Timestamp, cost: Int) {
        self.key = key
        self.value = value
        self.life = life
        self.used = used
        self.cost = cost
    }

    /// Costs that can be summed up: none below 0, and none beyond 1 TiB, or what else the unit is.
    @inlinable
    static func bounded(_ cost: Int) -> Int { min(max(0, cost), 1 << 40) }

    @inlinable
    func isFresh(at now: Timestamp) -> Bool { life.isFresh(at: now) }
}
