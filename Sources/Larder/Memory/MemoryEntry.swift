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

    @inlinable var expires: Timestamp { life.expires }

    @inlinable
    func isFresh(at now: Timestamp) -> Bool { life.isFresh(at: now) }
}

/// A value that has left the memory, and why.
@usableFromInline
struct MemoryRemoval<Key: Sendable, Value: Sendable>: Sendable {
    /// Nil when the key is still in use and nobody wants to know.
    @usableFromInline let key: Key?
    @usableFromInline let value: Value
    @usableFromInline let cause: RemovalCause

    @inlinable
    init(_ value: Value, of key: Key?, cause: RemovalCause) {
        self.key = key
        self.value = value
        self.cause = cause
    }
}

/// All that was in the memory before it was emptied, and what had left before.
@usableFromInline
final class EmptiedMemory<Key: Sendable, Value: Sendable>: Sendable {
    let slots: SlotMemory<MemoryEntry<Key, Value>>
    let count: Int
    let before: ContiguousArray<MemoryRemoval<Key, Value>>

    init(
        _ slots: consuming SlotMemory<MemoryEntry<Key, Value>>, count: Int,
        after before: ContiguousArray<MemoryRemoval<Key, Value>>
    ) {
        self.slots = slots
        self.count = count
        self.before = before
    }
}
