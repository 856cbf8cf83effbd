public import Foundation
import LarderFiles

extension DiskCache {
    /// How a cache behaves. All handles on one directory share what is not said to be the handle's own: the first opener's
    /// settings count, and another's that differ are an error.
    public struct Configuration: Sendable {
        /// The life of entries stored without one. The handle's own; changing it leaves stored entries as they are. One day.
        public var defaultTTL: TimeToLive = .days(1)
        /// Whether reading an entry begins its life again. Kept in memory and saved by the sweep: a kill may make such a life
        /// shorter, never longer. False.
        public var slidingExpiry = false
        /// How long after the first change the manifest is saved. Nothing is lost before: the journal has it. Half a second.
        public var saveDelay: Duration = .milliseconds(500)
        /// How often expired entries are dropped; nil: only when the directory is opened and by `removeExpired()`. A minute.
        public var sweepInterval: Duration? = .seconds(60)
        /// What a stored value survives. `.killSafe`.
        public var durability: Durability = .killSafe
        /// Tells the time. The first opener's counts. It must be quick and must not call the cache. The system's clock.
        public var now: @Sendable () -> Date = { Date() }
        /// Is told of every failure and every removal with its cause. The handle's own. None.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// Creates the defaults.
        public init() {}

        var settings: StoreSettings {
            StoreSettings(
                slidingExpiry: slidingExpiry, saveDelay: saveDelay, sweepInterval: sweepInterval, durability: durability
            )
        }
    }
}
