/// A removed entry and the cause of its removal.
@usableFromInline
struct MemoryRemoval<Key: Sendable, Value: Sendable>: Sendable {
    /// Nil when the key is still in use and no observer needs it.
    @usableFromInline let key: Key?
    /// Nil when the key was known to be absent.
    @usableFromInline let value: Value?
    @usableFromInline let cause: RemovalCause

    @inlinable
    init(_ value: consuming Value?, of key: Key?, cause: RemovalCause) {
        self.key = key
        self.value = value
        self.cause = cause
    }
}

/// All entries that were removed at once, and the values removed before them.
@usableFromInline
final class ClearedEntries<Key: Sendable, Value: Sendable>: Sendable {
    let slots: Slab<MemoryEntry<Key, Value>>
    /// The number of values among them.
    let count: Int
    let cause: RemovalCause
    let removedBefore: ContiguousArray<MemoryRemoval<Key, Value>>

    init(
        _ slots: consuming Slab<MemoryEntry<Key, Value>>, count: Int, cause: RemovalCause,
        removedBefore: ContiguousArray<MemoryRemoval<Key, Value>>
    ) {
        self.slots = slots
        self.count = count
        self.cause = cause
        self.removedBefore = removedBefore
    }
}

/// An event for the observer of a memory cache.
enum MemoryObservation<Key: Sendable>: Sendable {
    case left(Key, RemovalCause)
    /// Everything was removed: the number of values, and why.
    case cleared(Int, RemovalCause)
}

/// The right to report and release removed values. One thread at a time has it, so that they are reported in the order
/// of their removal.
@usableFromInline
struct ReleaseTurn: Sendable {
    private var isTaken = false
    private var isWanted = false

    @usableFromInline
    init() {}

    /// Takes the turn; false if another thread has it, which then continues with the values removed by now.
    mutating func take() -> Bool {
        isWanted = isTaken
        isTaken = true
        return !isWanted
    }

    /// Keeps the turn if another caller wanted it meanwhile; otherwise gives it back, and returns false.
    mutating func keep() -> Bool {
        isTaken = isWanted
        isWanted = false
        return isTaken
    }
}

/// The urgency of releasing removed values.
@usableFromInline
enum ReleaseDemand: Sendable {
    case none, soon, now
}

/// The releases that are already scheduled, so that none is scheduled twice.
@usableFromInline
struct ReleaseDemands: Sendable {
    /// From this number of values on, they are released without delay.
    @inlinable static var batchLimit: Int { 2048 }

    @usableFromInline var isSoon = false
    @usableFromInline var isNow = false

    @inlinable
    init() {}

    /// Returns the demand, or `.none` if a release is already scheduled.
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
