public import Foundation
import LarderFiles

extension MemoryCache {
    /// How a cache in memory behaves.
    public struct Configuration: Sendable {
        /// The life of values stored without one. One day.
        public var defaultTTL: TimeToLive = .days(1)
        /// How many values there may be; the least recently used go when one more is stored. None.
        public var countLimit: Int?
        /// What the costs of all values may sum up to; as `countLimit`. A value that costs more is not kept at all. None.
        public var costLimit: Int?
        /// Returns the cost of a value that is stored without one. It must not call the cache. None: 0.
        public var cost: (@Sendable (Value) -> Int)?
        /// For how long a value may go unused, stored or read being a use. Enforced by the sweep, so not without one. None:
        /// lives end by their expiry alone.
        public var ageLimit: Duration?
        /// How often expired values are dropped and the age limit is enforced; nil: never, but by `removeExpired()` and
        /// `trim(toAge:)`. Reads check the expiry in any case. A minute.
        public var sweepInterval: Duration? = .seconds(60)
        /// Where values that have left are released. `.background`.
        public var release: ValueRelease = .background
        /// Whether memory pressure removes everything: the system's, on Apple platforms, and that of `respond(to:)`. True.
        public var removesAllOnMemoryPressure = true
        /// Whether everything goes when the program enters the background: on iOS and its kin, and by `respond(to:)`. True.
        public var removesAllInBackground = true
        /// Is told of memory pressure and of the background, before anything is removed. None.
        public var onSystemCondition: (@Sendable (SystemCondition) -> Void)?
        /// Is given every value that leaves, but for what `removeValue` returns and what is there when the cache itself goes; and why,
        /// where and when it is released. It may call the cache. None.
        public var onRemove: (@Sendable (_ key: Key, _ value: Value, _ cause: CacheEvent.Kind) -> Void)?
        /// Tells the time. It must be quick and must not call the cache. The system's clock.
        public var now: @Sendable () -> Date = { Date() } {
            didSet { isSystemTime = false }
        }

        private var isSystemTime = true

        /// Creates the defaults.
        public init() {}

        var clock: any LarderFiles.Clock {
            let now = now
            return isSystemTime ? SystemClock() : WallClock { Timestamp(now()) }
        }
    }
}
