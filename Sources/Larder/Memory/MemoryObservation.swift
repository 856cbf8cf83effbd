/// What an observer of a cache in memory is told.
enum MemoryObservation<Key: Sendable>: Sendable {
    case left(Key, RemovalCause)
    /// Everything has gone, so many.
    case cleared(Int)
}
