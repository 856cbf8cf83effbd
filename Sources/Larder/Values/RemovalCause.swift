/// The reason why an entry was removed from memory.
@usableFromInline
enum RemovalCause: UInt8, Sendable {
    case replaced, removed, expired, cleared, count, cost, age, evictedOnDisk

    /// The corresponding kind of event.
    var kind: CacheEvent.Kind {
        switch self {
        case .replaced: .replaced
        case .removed: .removed
        case .expired: .expired
        case .cleared: .cleared
        case .count, .cost, .age, .evictedOnDisk: .evicted
        }
    }

    var limit: CacheLimit? {
        switch self {
        case .count: .count
        case .cost: .cost
        case .age: .age
        case .replaced, .removed, .expired, .cleared, .evictedOnDisk: nil
        }
    }
}
