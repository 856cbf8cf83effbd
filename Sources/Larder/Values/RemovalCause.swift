/// The reason why an entry left the memory. More may be added.
public struct RemovalCause: Hashable, Sendable, CustomStringConvertible {
    @usableFromInline
    enum Code: String, Sendable {
        case count, cost, age, expired, invalidated, memoryPressure, background, replaced, removed, cleared,
            evictedOnDisk, changedElsewhere
    }

    @usableFromInline let code: Code

    @inlinable
    init(_ code: Code) {
        self.code = code
    }

    /// The name of the cause.
    public var description: String { code.rawValue }

    /// Evicted for `countLimit` or `trim(toCount:)`.
    @inlinable public static var count: RemovalCause { RemovalCause(.count) }
    /// Evicted for `costLimit`, `entryCostLimit` or `trim(toCost:)`; or replaced by a value that costs more than they
    /// allow, which is not stored either.
    @inlinable public static var cost: RemovalCause { RemovalCause(.cost) }
    /// Unused for longer than `ageLimit`, or than `trim(toAge:)` allows.
    @inlinable public static var age: RemovalCause { RemovalCause(.age) }
    /// The entry had expired.
    @inlinable public static var expired: RemovalCause { RemovalCause(.expired) }
    /// A caller expired the entry, and it has no stale window.
    @inlinable public static var invalidated: RemovalCause { RemovalCause(.invalidated) }
    /// Everything was removed because memory is scarce.
    @inlinable public static var memoryPressure: RemovalCause { RemovalCause(.memoryPressure) }
    /// Everything was removed because the program is no longer in the foreground.
    @inlinable public static var background: RemovalCause { RemovalCause(.background) }
    /// A new value replaced the entry's, fresh or expired.
    @inlinable public static var replaced: RemovalCause { RemovalCause(.replaced) }
    /// A caller removed the entry.
    @inlinable public static var removed: RemovalCause { RemovalCause(.removed) }
    /// A caller removed everything.
    @inlinable public static var cleared: RemovalCause { RemovalCause(.cleared) }
    /// The disk tier evicted the entry, or its file was missing or damaged.
    @inlinable public static var evictedOnDisk: RemovalCause { RemovalCause(.evictedOnDisk) }

    /// Another process replaced, removed or renewed the entry.
    @inlinable public static var changedElsewhere: RemovalCause { RemovalCause(.changedElsewhere) }

    /// The corresponding kind of event.
    var kind: CacheEvent.Kind {
        switch code {
        case .replaced: .replaced
        case .removed: .removed
        case .expired: .expired
        case .invalidated: .invalidated
        case .cleared: .cleared
        case .changedElsewhere: .changedElsewhere
        case .count, .cost, .age, .memoryPressure, .background, .evictedOnDisk: .evicted
        }
    }

    var limit: CacheLimit? {
        switch code {
        case .count: .count
        case .cost: .cost
        case .age: .age
        case .replaced, .removed, .expired, .invalidated, .cleared, .memoryPressure, .background, .evictedOnDisk,
            .changedElsewhere:
            nil
        }
    }
}
