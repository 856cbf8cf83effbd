/// The memory tier of a cache: for reading it, trimming it and changing its limits.
///
/// Values are stored and removed through the cache, which keeps both tiers in step. Here they can only leave the
/// memory. With a disk tier they are still on disk, except those that it could not store; without one they are gone.
public struct MemoryView<Value: Sendable>: Sendable {
    @usableFromInline let memory: MemoryCache<String, Value>

    init(_ memory: MemoryCache<String, Value>) {
        self.memory = memory
    }

    /// Returns the value of a key if it is in memory and fresh; nil is a miss, though the disk may have it. Records a
    /// use in memory alone: lives that slide on disk are not renewed. O(1).
    @inlinable
    public func value(forKey key: String) -> Value? { memory.value(forKey: key) }

    /// Returns the value of a key as `value(forKey:)` does, without recording a use. O(1).
    public func peekValue(forKey key: String) -> Value? { memory.peekValue(forKey: key) }

    /// Returns a fresh value with its dates and its cost, without recording a use. O(1).
    public func entry(forKey key: String) -> MemoryCache<String, Value>.Entry? { memory.entry(forKey: key) }

    /// Returns whether there is a fresh value. This does not count as a use. O(1).
    public func hasValue(forKey key: String) -> Bool { memory.hasValue(forKey: key) }

    /// Returns the keys of all fresh values, in no particular order. O(n).
    public func keys() -> [String] { memory.keys() }

    /// Returns the keys of all fresh values, the most recently used first. O(n log n).
    public func keysByRecency() -> [String] { memory.keysByRecency() }

    /// Returns all fresh values, in no particular order. O(n).
    public func values() -> [Value] { memory.values() }

    /// The number of entries: values, including expired ones that have not been removed yet, and keys that a fetch
    /// found to be absent. O(1).
    public var count: Int { memory.count }

    /// The sum of the costs of all entries that `count` counts. O(1).
    public var cost: Int { memory.cost }

    /// Counts since the cache was created. O(1).
    public var statistics: MemoryStatistics { memory.statistics }

    /// The maximum number of entries; nil: no limit. Lowering it evicts at once; see ``MemoryCache/countLimit``.
    public var countLimit: Int? {
        get { memory.countLimit }
        nonmutating set { memory.countLimit = newValue }
    }

    /// The maximum sum of the entries' costs; nil: no limit. Lowering it evicts at once; see ``MemoryCache/costLimit``.
    public var costLimit: Int? {
        get { memory.costLimit }
        nonmutating set { memory.costLimit = newValue }
    }

    /// The maximum cost of one entry; nil: no limit. Lowering it evicts at once; see ``MemoryCache/entryCostLimit``.
    public var entryCostLimit: Int? {
        get { memory.entryCostLimit }
        nonmutating set { memory.entryCostLimit = newValue }
    }

    /// The longest time that a value may go unused; nil: no limit. Lowering it evicts at once; see
    /// ``MemoryCache/ageLimit``.
    public var ageLimit: Duration? {
        get { memory.ageLimit }
        nonmutating set { memory.ageLimit = newValue }
    }

    /// Removes expired values, and then evicts others as a full cache does, until at most `count` entries are left.
    /// O(1) per removed value.
    public func trim(toCount count: Int) { memory.trim(toCount: count) }

    /// Removes expired values, and then evicts others that have a cost, until the costs sum up to at most `cost`.
    /// O(1) per removed value; the first time O(n), where costs are not limited.
    public func trim(toCost cost: Int) { memory.trim(toCost: cost) }

    /// Evicts the values that have not been stored or read for longer than `age`. O(n), in slices.
    public func trim(toAge age: Duration) { memory.trim(toAge: age) }

    /// Removes expired values, and those beyond the age limit, without waiting for the sweep. O(1) amortized per
    /// removed value, in slices.
    ///
    /// - Returns: The number of entries removed.
    @discardableResult
    public func removeExpired() -> Int { memory.removeExpired() }

    /// Responds to a system condition as configured; see ``MemoryCache/respond(to:)``.
    public func respond(to condition: SystemCondition) { memory.respond(to: condition) }
}

extension MemoryView: CustomStringConvertible {
    /// The number of entries and the sum of their costs.
    public var description: String { "\(Wording.number(count, "entry", "entries")), cost \(cost)" }
}
