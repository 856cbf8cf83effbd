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
final class ClearedEntries<Key: Sendable, Value: Sendable>: Sendable {
    let slots: Slab<MemoryEntry<Key, Value>>
    let count: Int
    let removedBefore: ContiguousArray<MemoryRemoval<Key, Value>>

    init(
        _ slots: consuming Slab<MemoryEntry<Key, Value>>, count: Int,
        removedBefore: ContiguousArray<MemoryRemoval<Key, Value>>
    ) {
        self.slots = slots
        self.count = count
        self.removedBefore = removedBefore
    }
}

/// What an observer of a cache in memory is told.
enum MemoryObservation<Key: Sendable>: Sendable {
    case left(Key, RemovalCause)
    /// Everything has gone, so many.
    case cleared(Int)
}

/// How urgent it is to release what has left the memory.
@usableFromInline
enum ReleaseDemand: Sendable {
    case none, soon, now
}

/// What has been asked for, so that nobody asks twice.
@usableFromInline
struct ReleaseDemands: Sendable {
    /// Values that may wait for their time.
    @inlinable static var batchLimit: Int { 2048 }

    @usableFromInline var isSoon = false
    @usableFromInline var isNow = false

    @inlinable
    init() {}

    /// Returns the demand, unless it is under way.
    @inlinable
    mutating func add(_ demand: ReleaseDemand) -> ReleaseDemand {
        if isNow || isSoon && demand == .soon { return .none }
        if demand == .now { isNow = true } else { isSoon = true }
        return demand
    }

    mutating func meet(_ demand: ReleaseDemand) {
        if demand == .now { isNow = false } else { isSoon = false }
    }
}
