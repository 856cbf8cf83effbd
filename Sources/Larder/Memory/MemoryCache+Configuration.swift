import LarderFiles
public import LarderFoundation

extension MemoryCache {
    /// The settings of a memory cache.
    public struct Configuration: Sendable {
        /// The life of values stored without one. Default: one day.
        public var defaultTTL: TimeToLive
        /// Whether reading a fresh value begins its life again, like ``DiskCache/Configuration/slidingExpiry``. Lives
        /// until a given date do not slide. With a disk tier, its setting alone counts. Default: false.
        public var slidingExpiry: Bool
        /// The maximum number of entries: values, and keys that a fetch found to be absent. Storing one more removes an
        /// expired one, or else the one that `eviction` gives up. Default: nil, no limit.
        public var countLimit: Int?
        /// The maximum sum of the entries' costs; see `countLimit`. Entries that cost 0 are not evicted for it, and a
        /// value that costs more is not stored at all. A key that is known to be absent costs its UTF-8 bytes, at least
        /// 1. Default: nil, which is the maximum: `Int.max / 2`.
        public var costLimit: Int?
        /// The maximum cost of one entry. A value that costs more is not stored, and the key is removed. Default: nil,
        /// no limit but `costLimit`.
        public var entryCostLimit: Int?
        /// Returns the cost of a value that is stored without one; negative costs are 0. It must not call the cache.
        /// Default: nil, every cost is 0.
        public var cost: (@Sendable (Value) -> Int)?
        /// Which values a full cache gives up. Default: `.adaptive`.
        public var eviction: EvictionPolicy
        /// The longest time that a value may go unused; storing and reading are uses. Reads and the sweep enforce it.
        /// Default: nil, only the expiry ends a life.
        public var ageLimit: Duration?
        /// The interval at which expired values are removed and the age limit is enforced; nil: only by
        /// `removeExpired()` and `trim(toAge:)`. Reads check the expiry in any case. Default: a minute.
        public var sweepInterval: Duration?
        /// Where removed values are released. Default: `.background`.
        public var release: ValueRelease
        /// Whether memory pressure removes everything: the system's on Apple platforms, and `respond(to:)` everywhere.
        /// Default: true.
        public var removesAllOnMemoryPressure: Bool
        /// Whether entering the background removes everything: the app's on iOS and related platforms, and
        /// `respond(to:)` everywhere. Default: true.
        public var removesAllInBackground: Bool
        /// Called on memory pressure and on entering the background, before anything is removed. Default: nil.
        public var onSystemCondition: (@Sendable (SystemCondition) -> Void)?
        /// Called with every removed value and the cause, where and when the value is released, in the order of the
        /// removals; but not for values that `removeValue` returns, nor for those still in the cache when it is
        /// destroyed. It may call the cache. Default: nil.
        public var onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: RemovalCause) -> Void)?
        /// Returns the current time. It must be fast and must not call the cache. Default: the system's clock.
        public var now: @Sendable () -> Date = { Date() } {
            didSet { isSystemTime = false }
        }

        private var isSystemTime = true

        /// Creates a configuration with the default settings.
        public init() {
            self.init(defaultTTL: .days(1))
        }

        /// Creates a configuration. Each setting that is left out has its default.
        public init(
            defaultTTL: TimeToLive = .days(1), slidingExpiry: Bool = false, countLimit: Int? = nil,
            costLimit: Int? = nil, entryCostLimit: Int? = nil, cost: (@Sendable (Value) -> Int)? = nil,
            eviction: EvictionPolicy = .adaptive, ageLimit: Duration? = nil, sweepInterval: Duration? = .seconds(60),
            release: ValueRelease = .background, removesAllOnMemoryPressure: Bool = true,
            removesAllInBackground: Bool = true,
            onSystemCondition: (@Sendable (SystemCondition) -> Void)? = nil,
            onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: RemovalCause) -> Void)? = nil
        ) {
            self.defaultTTL = defaultTTL
            self.slidingExpiry = slidingExpiry
            self.countLimit = countLimit
            self.costLimit = costLimit
            self.entryCostLimit = entryCostLimit
            self.cost = cost
            self.eviction = eviction
            self.ageLimit = ageLimit
            self.sweepInterval = sweepInterval
            self.release = release
            self.removesAllOnMemoryPressure = removesAllOnMemoryPressure
            self.removesAllInBackground = removesAllInBackground
            self.onSystemCondition = onSystemCondition
            self.onRemove = onRemove
        }

        var limits: MemoryLimits {
            MemoryLimits(count: countLimit, cost: costLimit, entryCost: entryCostLimit, age: ageLimit)
        }

        var clock: any LarderFiles.Clock {
            let now = now
            return isSystemTime ? SystemClock() : WallClock { Timestamp(now()) }
        }
    }
}

extension MemoryCache.Configuration: CustomStringConvertible {
    /// The settings by name, without limits and closures that are nil.
    public var description: String {
        var parts = [
            "defaultTTL: \(defaultTTL)", "sweepInterval: \(sweepInterval.map(Wording.duration) ?? "none")",
            "release: \(release)",
        ]
        if slidingExpiry { parts.append("slidingExpiry") }
        if let countLimit { parts.append("countLimit: \(countLimit)") }
        if let costLimit { parts.append("costLimit: \(costLimit)") }
        if let entryCostLimit { parts.append("entryCostLimit: \(entryCostLimit)") }
        if eviction != .adaptive { parts.append("eviction: \(eviction)") }
        if let ageLimit { parts.append("ageLimit: \(Wording.duration(ageLimit))") }
        if !removesAllOnMemoryPressure { parts.append("keeps values on memory pressure") }
        if !removesAllInBackground { parts.append("keeps values in background") }
        return parts.joined(separator: ", ")
    }
}
