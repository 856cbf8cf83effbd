import LarderFiles

/// The parts of a store that all its owners share. A class, so that reading one part does not copy the others.
final class StoreContext: Sendable {
    let fileSystem: any FileSystem
    let clock: any Clock
    /// The settings of the first opener; the limits may have changed since.
    let settings: StoreSettings
    let limits: LimitsInForce
    let path: String
    let index: Index
    let disk: DiskQueue
    let provisional: ProvisionalState
    let reporter: Reporter
    let pool = AttachmentsPool()
    let lifetime = StoreLifetime()
    let maintenance: MaintenanceQueue
    /// The session is ending, so work that the next session can also do is cut short.
    let isEnding = Flag()

    init(
        _ directory: StoreDirectory, _ index: Index, _ provisional: ProvisionalState, clock: any Clock,
        settings: StoreSettings
    ) {
        fileSystem = directory.fileSystem
        path = directory.path
        self.clock = clock
        self.settings = settings
        limits = LimitsInForce(settings.limits)
        self.index = index
        disk = DiskQueue(directory, path: directory.path)
        self.provisional = provisional
        reporter = Reporter(clock)
        maintenance = MaintenanceQueue(lifetime, clock)
    }
}

/// An owner of a part of a store. It reaches the shared parts by their names; an owner on the hot path keeps its own
/// references instead, which is faster.
protocol StoreOwner: AnyObject, Sendable {
    var context: StoreContext { get }
}

extension StoreOwner {
    var fileSystem: any FileSystem { context.fileSystem }
    var clock: any Clock { context.clock }
    var settings: StoreSettings { context.settings }
    var path: String { context.path }
    var index: Index { context.index }
    var disk: DiskQueue { context.disk }
    var provisional: ProvisionalState { context.provisional }
    var reporter: Reporter { context.reporter }
    var maintenance: MaintenanceQueue { context.maintenance }
}

/// The limits of a store, which may change while it is open. The check whether there are any reads one flag.
final class LimitsInForce: Sendable {
    private let flag: Flag
    /// For owners that check at every set and keep this object alive.
    let unretainedFlag: UnretainedReference<Flag>
    private let limits: Lock<StoreSettings.Limits>

    init(_ limits: StoreSettings.Limits) {
        flag = Flag(!limits.areNone)
        unretainedFlag = UnretainedReference(flag)
        self.limits = Lock(limits)
    }

    /// True when there are none.
    var areNone: Bool { !flag.isSet }

    var current: StoreSettings.Limits { areNone ? StoreSettings.Limits() : limits.withLock { $0 } }

    func set(_ new: StoreSettings.Limits) {
        limits.withLock { limits in
            limits = new
            flag.set(!new.areNone)
        }
    }
}

/// The settings that all handles on one directory share.
struct StoreSettings: Hashable, Sendable {
    var slidingExpiry: Bool
    var saveDelay: Duration
    var sweepInterval: Duration?
    var durability: Durability
    var manifestFormat: ManifestFormat
    var limits: Limits
    var eviction: EvictionPolicy
    /// The average number of entries in a group of the manifest, at most. Tests use smaller groups.
    var entriesPerGroup: Int
    /// Other processes may use the directory at the same time.
    var isShared: Bool
    /// Root writes as the owner of the directory.
    var writesAsOwner: Bool
    /// Values of at most so many bytes are stored in segments.
    var inlineThreshold: Int
    /// Bytes of a segment, at most. Tests have shorter ones.
    var segmentLength = Place.end
    /// The number of tombstones that are kept because of unreadable files. Tests keep fewer.
    var mostTombstones: Int

    var isPowerSafe: Bool { durability == .powerSafe }

    /// The bounds of a cache; nil: unlimited.
    struct Limits: Hashable, Sendable {
        var count: Int?
        /// Payload bytes.
        var size: Int?
        /// Milliseconds since the last use.
        var age: Int64?
        /// Bytes.
        var minimumFreeSpace: Int?

        var areNone: Bool { self == Limits() }

        /// The size to which a cache over a limit shrinks, so that not every write evicts: 5 % below.
        static func lowWaterMark(_ limit: Int) -> Int { limit - limit / 20 }

        /// The limits on the totals that are exceeded.
        struct Crossed: Equatable, Sendable {
            var count = false
            var size = false

            var isAny: Bool { count || size }
        }

        func crossed(by totals: EntryTable.Totals) -> Crossed {
            Crossed(count: totals.count > count ?? .max, size: totals.size > size ?? .max)
        }

        /// True when a limit is exceeded by more than a fraction of it and some entries.
        func areOverrun(by totals: EntryTable.Totals, slack: Int, entries: Int) -> Bool {
            let isOverCount = count.map { totals.count - $0 > $0 / slack + entries } ?? false
            let isOverSize = size.map { totals.size - $0 > $0 / slack } ?? false
            return isOverCount || isOverSize
        }
    }
}
