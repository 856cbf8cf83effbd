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
    let slots: Slab<MemoryEntry<Key, Value>>
    let count: Int
    let before: ContiguousArray<MemoryRemoval<Key, Value>>

    init(
        _ slots: consuming Slab<MemoryEntry<Key, Value>>, count: Int,
        after before: ContiguousArray<MemoryRemoval<Key, Value>>
    ) {
        self.slots = slots
        self.count = count
        self.before = before
    }
}
