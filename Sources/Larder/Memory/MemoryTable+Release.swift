/// Handing out removed values, which the caller releases outside of the lock.
extension MemoryTable {
    /// Ends a change: returns whether a release has to be scheduled for the removed values; never twice for the same
    /// ones. Slots may have other numbers afterwards.
    @inlinable
    mutating func takeDemand() -> ReleaseDemand {
        if removed.isEmpty && cleared.isEmpty { return .none }
        if isSparse { compact() }
        return demands.add(cleared.isEmpty && removed.count < ReleaseDemands.batchLimit ? .soon : .now)
    }

    /// All removed values. Their taker has the only references, and releases the values with them.
    typealias Removed = (
        cleared: ContiguousArray<ClearedEntries<Key, Value>>, removed: ContiguousArray<MemoryRemoval<Key, Value>>
    )

    /// Takes the removed values to meet a demand; nil without any, and while another thread has the turn, which then
    /// takes them.
    mutating func beginRelease(_ demand: ReleaseDemand) -> Removed? {
        demands.meet(demand)
        return turn.take() ? takeForRelease() : nil
    }

    /// Takes the values removed while this thread had the turn, if others wanted to release it; otherwise gives the
    /// turn back, and returns nil.
    mutating func continueRelease() -> Removed? {
        turn.keep() ? takeForRelease() : nil
    }

    mutating func takeForRelease() -> Removed {
        defer { cleared = [] }
        return (cleared, takeRemoved())
    }

    mutating func takeRemoved() -> ContiguousArray<MemoryRemoval<Key, Value>> {
        var taken: ContiguousArray<MemoryRemoval<Key, Value>> = []
        // A little in advance, but not the memory of a large trim.
        taken.reserveCapacity(min(removed.count, 64))
        swap(&taken, &removed)
        return taken
    }
}
