public import LarderFiles

/// A cache in memory: values by key, each with a life and a cost. When a limit is exceeded, values are evicted as
/// ``EvictionPolicy`` says: those that are hardly used, or the least recently used.
///
///     let thumbnails = MemoryCache<URL, Image>()
///     thumbnails.setValue(image, forKey: url, ttl: .minutes(10), cost: image.bytes)
///     let image = thumbnails[url]
///
/// Getting, setting, removing and evicting are O(1), under a single lock and without an object per entry. The order
/// of use, where it decides, is exact across all entries. Values are released outside of the lock: their `deinit` may
/// call the cache; the key's `==` and `hash` may not. String keys are compared by their UTF-8 bytes. Without limits
/// the cache keeps everything until it expires.
public final class MemoryCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline typealias Table = MemoryTable<Key, Value>

    @usableFromInline let table: Lock<Table>
    @usableFromInline let time: MemoryTime
    @usableFromInline let defaultTTL: TimeToLive
    /// Whether using a fresh value begins its life again.
    @usableFromInline let slides: Bool
    @usableFromInline let costOfValue: (@Sendable (Value) -> Int)?
    let configuration: Configuration
    let releaser: ValueReleaser<Key, Value>
    let sweepTimer = OwnedTimer()
    /// Set once, before anybody else has a reference to the cache.
    private let conditions = Lock<SystemConditions?>(nil)

    /// Creates an empty cache.
    public convenience init(configuration: Configuration = .init()) {
        self.init(configuration: configuration, clock: configuration.clock)
    }

    /// Creates an empty cache with another clock, for tests.
    package convenience init(configuration: Configuration, clock: any Clock) {
        self.init(configuration: configuration, clock: clock, isAttached: false)
    }

    /// Creates a cache with another clock, for tests or a disk tier, and an observer of removals. A cache that is
    /// attached to a disk tier releases nothing while its caller holds locks, and leaves it to the disk to renew lives.
    init(
        configuration: Configuration, clock: any Clock, isAttached: Bool = false,
        observer: (@Sendable (MemoryObservation<Key>) -> Void)? = nil
    ) {
        self.configuration = configuration
        costOfValue = configuration.cost
        slides = configuration.slidingExpiry && !isAttached
        table = Lock(
            Table(
                reportsKeys: configuration.onRemove != nil || observer != nil,
                returnsReplaced: configuration.release == .inline && !isAttached,
                slides: slides, policy: configuration.eviction, limits: configuration.limits))
        releaser = ValueReleaser(
            table, configuration.release, clock,
            RemovalObservers(observer: observer, onRemove: configuration.onRemove))
        time = MemoryTime(clock)
        defaultTTL = configuration.defaultTTL
        if configuration.removesAllOnMemoryPressure || configuration.removesAllInBackground
            || configuration.onSystemCondition != nil
        {
            let observer = SystemConditions { [weak self] condition in
                self?.respond(to: condition == .background ? .background : .memoryPressure)
            }
            conditions.withLock { $0 = observer }
        }
        scheduleSweep()
    }

    /// Returns the value of a key; nil for a miss. A value that has expired, or has gone unused for longer than
    /// `ageLimit`, is a miss and is removed. O(1).
    @inlinable
    public func value(forKey key: Key) -> Value? {
        if slides { return slidingValue(forKey: key, countsMiss: true) }
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        var demand = ReleaseDemand.none
        let value = table.withLock { $0.use(key, fingerprint: fingerprint, at: now, &demand) }
        if demand != .none { release(demand) }
        return value
    }

    /// The value of a key. Setting it stores a value with the configured life and cost; setting nil removes it. O(1).
    @inlinable
    public subscript(key: Key) -> Value? {
        get { value(forKey: key) }
        set {
            if let newValue { setValue(newValue, forKey: key) } else { remove(key) }
        }
    }

    /// Stores a value, and evicts others when a limit is exceeded: expired ones first, then as
    /// ``Configuration/eviction`` says. With `.adaptive`, a value that costs more than a tenth of the cost limit may be
    /// evicted at once. O(1) amortized.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Its key.
    ///   - ttl: How long the value is kept. Zero or less removes the key. Default: the configured life.
    ///   - cost: Its weight for `costLimit`, in any unit; at most `Int.max / 2`, and negative ones are 0. A value that
    ///     costs more than this limit or `entryCostLimit` is not stored, and the key is removed. Default: as the
    ///     configuration says.
    @inlinable
    public func setValue(_ value: Value, forKey key: Key, ttl: TimeToLive = .default, cost: Int? = nil) {
        let cost = MemoryLimits.bounded(cost ?? costOfValue?(value) ?? 0)
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        guard let life = MemoryLife(ttl, from: now, default: defaultTTL) else { return removeUnkept(key, cost: cost) }
        let (replaced, demand) = table.withLock { table in
            if !table.limits.allow(cost) {
                table.remove(key, fingerprint: fingerprint, .cost)
                return (Value?.none, table.takeDemand())
            }
            let replaced = table.insert(
                value, for: key, fingerprint: fingerprint, life: life, cost: cost, at: now)
            table.evict(at: now)
            return (replaced, table.takeDemand())
        }
        _ = consume replaced
        if demand != .none { release(demand) }
    }

    /// Removes a value, and returns it if it was fresh: releasing it is then up to the caller. An expired one is
    /// released and reported like any other. O(1).
    @inlinable
    @discardableResult
    public func removeValue(forKey key: Key) -> Value? {
        let fingerprint = MemoryKey.fingerprint(key)
        let now = time.now
        var demand = ReleaseDemand.none
        let entry = table.withLock { $0.take(key, fingerprint: fingerprint, at: now, &demand) }
        if demand != .none { release(demand) }
        return entry?.value
    }

    /// Returns whether there is a fresh value. This does not count as a use. O(1).
    public func hasValue(forKey key: Key) -> Bool {
        let now = time.now
        var demand = ReleaseDemand.none
        let hasValue = table.withLock {
            $0.hasValue(key, fingerprint: MemoryKey.fingerprint(key), at: now, &demand)
        }
        release(demand)
        return hasValue
    }

    /// The number of entries: values, including expired ones that have not been removed yet, and keys that a fetch
    /// found to be absent. O(1).
    public var count: Int { table.withLock { $0.count } }

    /// The sum of the costs of all entries that `count` counts. O(1).
    public var cost: Int { table.withLock { $0.cost } }

    /// Counts since the cache was created. O(1).
    public var statistics: MemoryStatistics { table.withLock { $0.statistics } }

    /// Gives a fresh value a new life, starting now. O(1).
    ///
    /// - Parameters:
    ///   - ttl: How long the value is kept. Zero or less removes it.
    ///   - key: Its key.
    /// - Returns: False when there is no fresh value.
    @discardableResult
    public func setTimeToLive(_ ttl: TimeToLive, forKey key: Key) -> Bool {
        let now = time.now
        guard let life = MemoryLife(ttl, from: now, default: defaultTTL) else {
            return remove(key)
        }
        return table.withLock { $0.setLife(life, of: key, fingerprint: MemoryKey.fingerprint(key), at: now) }
    }
}

/// The clock of a memory cache. The system's clock is read directly, without the protocol.
@usableFromInline
struct MemoryTime: Sendable {
    let clock: any Clock
    @usableFromInline let isSystem: Bool

    init(_ clock: any Clock) {
        self.clock = clock
        isSystem = clock is SystemClock
    }

    @inlinable var now: Timestamp { isSystem ? Timestamp.now : clockTime }

    @usableFromInline var clockTime: Timestamp { clock.now }
}
