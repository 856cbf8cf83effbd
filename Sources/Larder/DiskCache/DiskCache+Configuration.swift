public import Foundation
import LarderFiles

extension DiskCache {
    /// How a cache behaves. All handles on one directory share what is not said to be the handle's own: the first
    /// opener's settings count, and another's that differ are an error.
    public struct Configuration: Sendable {
        /// The life of entries stored without one. The handle's own; changing it leaves stored entries as they are. One
        /// day.
        public var defaultTTL: TimeToLive = .days(1)
        /// Whether reading an entry begins its life again. Saved by the sweep and by `close()`: a kill may make such a
        /// life shorter, and the loss of the index by a tenth of the TTL more, never longer. False.
        public var slidingExpiry = false
        /// How long after the first change the manifest is saved. Nothing is lost before: the journal has it. Half a
        /// second.
        public var saveDelay: Duration = .milliseconds(500)
        /// How often expired entries are dropped, and the limits on age and free space looked at; nil: only when the
        /// directory is opened and by `removeExpired()`. A minute.
        public var sweepInterval: Duration? = .seconds(60)
        /// How many entries there may be. The least recently used go when one more is stored, and some more with them,
        /// so that not every write evicts: down to 5 % below. Enforced behind the write. None.
        public var countLimit: Int?
        /// How many payload bytes there may be; as `countLimit`. A larger value cannot be stored at all. None.
        public var sizeLimit: Int?
        /// For how long an entry may go unused, stored or read being a use. Enforced by the sweep, so not without one,
        /// and when the directory is opened. None: lives end by their expiry alone.
        public var ageLimit: Duration?
        /// How many bytes are to be left free on the disk. When there are fewer, the least recently used entries go
        /// that make up for what is lacking, if the cache has as much, and once: until others have freed that much
        /// again, it makes up for its own growth alone. So another program that fills the disk does not empty it.
        /// Looked at behind writes, when they may have crossed it, and by the sweep. None.
        public var minimumFreeSpace: Int?
        /// What a stored value survives. `.killSafe`.
        public var durability: Durability = .killSafe
        /// How the index is saved; a property list of more than 32 MiB is saved as JSON. `.json`.
        public var manifestFormat: ManifestFormat = .json
        /// Tells the time. The first opener's counts. It must be quick and must not call the cache. The system's clock.
        public var now: @Sendable () -> Date = { Date() } {
            didSet { isSystemTime = false }
        }
        /// Is told of every failure and every removal with its cause. The handle's own. None.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        private var isSystemTime = true

        /// Creates the defaults.
        public init() {}

        var clock: any LarderFiles.Clock {
            let now = now
            return isSystemTime ? SystemClock() : WallClock { Timestamp(now()) }
        }

        var settings: StoreSettings {
            StoreSettings(
                slidingExpiry: slidingExpiry, saveDelay: saveDelay, sweepInterval: sweepInterval,
                durability: durability, manifestFormat: manifestFormat, limits: limits)
        }

        private var limits: StoreSettings.Limits {
            StoreSettings.Limits(
                count: countLimit.map { max(0, $0) }, size: sizeLimit.map { max(0, $0) },
                age: ageLimit.map { max(0, $0.milliseconds) }, minimumFreeSpace: minimumFreeSpace.map { max(0, $0) })
        }
    }
}
