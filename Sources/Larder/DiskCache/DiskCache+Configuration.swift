import LarderFiles
public import LarderFoundation

extension DiskCache {
    /// The settings of a cache. All handles on a directory share the first opener's settings, except those marked as
    /// the handle's own; opening it again with different ones is an error. The limits can be changed later, with
    /// ``DiskCache/setLimits(_:)``.
    public struct Configuration: Sendable {
        /// The life of entries stored without one. The handle's own; changing it does not affect stored entries.
        /// Default: one day.
        public var defaultTTL: TimeToLive = .days(1)
        /// Whether reading an entry restarts its life. The sweep and `close()` save restarted lives: a kill may shorten
        /// such a life, and the loss of the index may shorten it by another tenth of the TTL; neither ever extends it.
        /// Default: false.
        public var slidingExpiry = false
        /// How long after the first change the manifest is saved. Nothing is lost before: changes are in the journal.
        /// Default: half a second.
        public var saveDelay: Duration = .milliseconds(500)
        /// The interval at which expired entries are removed and the limits on age and free space are checked; nil:
        /// only when the directory is opened and by `removeExpired()`. Default: a minute.
        public var sweepInterval: Duration? = .seconds(60)
        /// The maximum number of entries. Storing one more evicts others, down to 5 % below the limit so that not every
        /// write evicts; see ``eviction``. Enforced in the background after the write. Default: nil, no limit.
        public var countLimit: Int?
        /// The maximum sum of payload bytes; see `countLimit`. A larger value cannot be stored at all. `.max`: no
        /// limit. Default: nil, which is no limit, except in a cache that was created by its name; see
        /// ``DiskCache/init(name:configuration:)``.
        public var sizeLimit: Int?
        /// The longest time that an entry may go unused; storing and reading are uses. Enforced by the sweep, so not
        /// without one, and when the directory is opened. Default: nil, only the expiry ends a life.
        public var ageLimit: Duration?
        /// The number of bytes to keep free on the disk. When fewer are free, entries are evicted to make up for the
        /// shortage, as far as the cache is large enough, and only once: until others have freed as much again, the
        /// cache makes up for its own growth only. So another program that fills the disk does not empty the cache.
        /// Checked by the sweep, and in the background after writes that may have crossed the limit. Default: nil, no
        /// limit.
        public var minimumFreeSpace: Int?
        /// Which entries go first when a limit on number, size or free space is exceeded; the limit on age evicts those
        /// that went unused for so long. Where processes have different settings, that of the process counts that
        /// evicts. Default: ``EvictionPolicy/adaptive``.
        public var eviction = EvictionPolicy.adaptive
        /// The failures that a stored value survives. Default: `.killSafe`.
        public var durability: Durability = .killSafe
        /// The processes that may have the directory open at the same time. Default:
        /// ``DiskCache/Sharing/platformDefault``, several on macOS and Linux.
        public var sharing: Sharing = .platformDefault
        /// Whether root may write in a directory that belongs to another user. Default: `.ownerOnly`.
        public var access: Access = .ownerOnly
        /// The data protection of files that are created from now on, on iOS, tvOS, watchOS and visionOS; the last
        /// opener's counts, and no other system has any. Default: nil, that of the directory in which the cache's
        /// directory is created.
        public var fileProtection: FileProtection?
        /// The format in which the index is saved; a property list of more than 32 MiB is saved as JSON instead.
        /// Default: `.json`.
        public var manifestFormat: ManifestFormat = .json
        /// Values of at most so many bytes are stored in *segments*, many in one file, instead of in files of their
        /// own. More than 1 MiB counts as 1 MiB. Default: 0, every value has a file of its own.
        ///
        /// A short value is stored in a segment in a third of the time, and takes no inode; see <doc:Performance> for
        /// the size from which files are as fast. Files that are copied in always stay files. The threshold may be
        /// another one at the next opening: existing entries stay where they are. On a full disk segments with few live
        /// values are given up whole; see <doc:Limits>. A directory with segments cannot be opened by Larder 0.1.0.
        public var inlineThreshold = 0
        /// Returns the current time; the first opener's function is used. It must be fast and must not call the cache.
        /// Default: the system's clock.
        public var now: @Sendable () -> Date = { Date() } {
            didSet { isSystemTime = false }
        }
        /// Called with every failure, and every removal with its cause. The handle's own. Default: nil.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// The average number of entries in a group of the manifest, at most. Tests use smaller groups.
        package var entriesPerGroup = GroupTable.entriesPerGroup
        /// Bytes of a segment, at most. Tests have shorter ones.
        package var segmentLength = Place.end
        /// The number of tombstones that are kept because of unreadable files. Tests keep fewer.
        package var mostTombstones = 10_000
        private var isSystemTime = true

        /// The default settings without a limit, also for a cache that is created by its name.
        public static var unlimited: Configuration { Configuration(sizeLimit: .max) }

        /// Creates a configuration. Each setting has the documented default; ``now`` is set afterwards.
        public init(
            defaultTTL: TimeToLive = .days(1), slidingExpiry: Bool = false, saveDelay: Duration = .milliseconds(500),
            sweepInterval: Duration? = .seconds(60), countLimit: Int? = nil, sizeLimit: Int? = nil,
            ageLimit: Duration? = nil, minimumFreeSpace: Int? = nil, eviction: EvictionPolicy = .adaptive,
            durability: Durability = .killSafe, sharing: Sharing = .platformDefault, access: Access = .ownerOnly,
            fileProtection: FileProtection? = nil, manifestFormat: ManifestFormat = .json, inlineThreshold: Int = 0,
            onEvent: (@Sendable (CacheEvent) -> Void)? = nil
        ) {
            self.defaultTTL = defaultTTL
            self.slidingExpiry = slidingExpiry
            self.saveDelay = saveDelay
            self.sweepInterval = sweepInterval
            self.countLimit = countLimit
            self.sizeLimit = sizeLimit
            self.ageLimit = ageLimit
            self.minimumFreeSpace = minimumFreeSpace
            self.eviction = eviction
            self.durability = durability
            self.sharing = sharing
            self.access = access
            self.fileProtection = fileProtection
            self.manifestFormat = manifestFormat
            self.inlineThreshold = inlineThreshold
            self.onEvent = onEvent
        }

        var clock: any LarderFiles.Clock {
            let now = now
            return isSystemTime ? SystemClock() : WallClock { Timestamp(now()) }
        }

        var settings: StoreSettings {
            StoreSettings(
                slidingExpiry: slidingExpiry, saveDelay: saveDelay, sweepInterval: sweepInterval,
                durability: durability, manifestFormat: manifestFormat, limits: limits.settings,
                eviction: eviction, entriesPerGroup: entriesPerGroup, isShared: sharing == .processes,
                writesAsOwner: access == .asOwner,
                inlineThreshold: max(0, min(inlineThreshold, SegmentFormat.longestPayload)),
                segmentLength: segmentLength, mostTombstones: mostTombstones)
        }

        private var limits: Limits {
            Limits(
                countLimit: countLimit, sizeLimit: sizeLimit, ageLimit: ageLimit, minimumFreeSpace: minimumFreeSpace)
        }
    }
}

extension DiskCache.Configuration: CustomStringConvertible {
    /// The settings by name, without limits and closures that are nil.
    public var description: String {
        var parts = [
            "defaultTTL: \(defaultTTL)", "saveDelay: \(Wording.duration(saveDelay))",
            "sweepInterval: \(sweepInterval.map(Wording.duration) ?? "none")", "durability: \(durability)",
            "sharing: \(sharing)", "manifestFormat: \(manifestFormat)",
        ]
        if access != .ownerOnly { parts.append("access: \(access)") }
        if let fileProtection { parts.append("fileProtection: \(fileProtection)") }
        if slidingExpiry { parts.append("slidingExpiry") }
        if eviction != .adaptive { parts.append("eviction: \(eviction)") }
        if inlineThreshold > 0 { parts.append("inlineThreshold: \(inlineThreshold) bytes") }
        return (parts + limits.descriptions).joined(separator: ", ")
    }
}
