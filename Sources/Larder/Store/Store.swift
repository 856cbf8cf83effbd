import LarderFiles

/// One open directory, shared by all handles on it. It reads, sets, removes, renews and copies entries; its owners do
/// the rest, each with the locks of its own state.
///
/// Locks and queues are taken in this order. None is held while user code runs, except for the configured clock:
///
/// 0. the gate of the directory in the registry, never by background work; then the lock of the evictor,
///    and that of what it has learned, or that of the expirer.
/// 1. `disk`, concurrent: a whole set or remove and the file access of a read are one block of it. Barriers replace the
///    directory.
/// 2. a stripe of `disk`, by key: held from taking a sequence number to publishing.
/// 3. `info`, serial: appends a change's record to the journal, and publishes the change.
/// 4. the state of the groups that are not loaded: held while one of them is read from disk.
/// 5. the lock of a shard of the index, for the length of a table operation; inside it those of the sums, of the order
///    of use, of the reconciliation and of the memory tiers; or, on its own, that of the observer.
///
/// Saves run on `frozen`, other slow work in slices on `maintenance`; jobs of both take these locks like any caller,
/// and neither queue waits for the other, except at the end of a session (`Housekeeper.alone`).
final class Store: Sendable {
    static let registry = DirectoryRegistry<Store>()

    let context: StoreContext
    // Parts of the context that every call needs.
    let fileSystem: any FileSystem
    let clock: any Clock
    let settings: StoreSettings
    /// The size limit that the directory got because nobody asked for one.
    let defaultSize: Int?
    let index: Index
    let disk: DiskQueue
    let provisional: ProvisionalState
    let reporter: Reporter
    let info: CommitQueue
    let frozen: ManifestWriter
    let reaper: FileReaper
    let trash: Trash
    let clearer: Clearer
    let expirer: Expirer
    let sweeper: Sweeper
    let evictor: Evictor
    let recovery: Recovery
    let reconciler: Reconciler
    let housekeeper: Housekeeper
    let writer: EntryWriter
    let cleaner: SegmentCleaner
    let observer = ChangeObserverSlot()
    let handles = HandleTable()
    let io: IOLimiter

    let unretainedIndex: UnretainedReference<Index>
    /// Set while there are limits.
    let hasLimits: UnretainedReference<Flag>
    /// Large files that are being copied in, outside of the disk queue.
    let copies: any WorkGroup
    /// Releases the directory for its next opener when the store is deallocated. Read in a block of the disk queue,
    /// replaced in a barrier.
    @exclusivity(unchecked) nonisolated(unsafe) var lease: DirectoryRegistry<Store>.Lease?
    /// True once the session is ending. Accessed like `lease`.
    @exclusivity(unchecked) nonisolated(unsafe) var isClosing = false

    init(
        _ loaded: consuming LoadedStore, clock: any Clock, settings: StoreSettings, defaultSize: Int?,
        _ membership: Membership
    ) {
        index = Index(loaded.shards, loaded.groups, keepsOrder: !settings.limits.areNone, at: clock.now)
        unretainedIndex = UnretainedReference(index)
        let provisional = ProvisionalState(
            loaded.reconciliation, hasLeftovers: loaded.hasLeftovers,
            // The first process has listed the files.
            lacksRecords: !membership.isFirst && membership.page.unrecorded > 0)
        context = StoreContext(loaded.directory, index, provisional, clock: clock, settings: settings)
        hasLimits = context.limits.unretainedFlag
        fileSystem = context.fileSystem
        self.clock = clock
        io = IOLimiter(clock)
        copies = clock.group()
        self.settings = settings
        self.defaultSize = defaultSize
        disk = context.disk
        self.provisional = provisional
        reporter = context.reporter
        info = CommitQueue(loaded.journals, of: loaded.directory, membership, context)
        frozen = ManifestWriter(context, info: info)
        reaper = FileReaper(loaded.tombstones, context, info: info)
        trash = Trash(context)
        clearer = Clearer(context, info: info, reaper: reaper, trash: trash, observer: observer)
        expirer = Expirer(context, info: info, reaper: reaper, observer: observer)
        sweeper = Sweeper(context, info: info, reaper: reaper)
        evictor = Evictor(context, info, reaper, clearer, expirer, sweeper)
        recovery = Recovery(context, info: info, reaper: reaper)
        reconciler = Reconciler(context, info, reaper, expirer, evictor, sweeper, recovery)
        writer = EntryWriter(context, info: info, reaper: reaper)
        cleaner = SegmentCleaner(context, info, writer, reaper)
        housekeeper = Housekeeper(context, info, frozen, reaper, expirer, sweeper, evictor, reconciler, cleaner)
        context.lifetime.begin(self)
        disk.follow(through: follower(membership, loaded))
        index.damageFound.install { [weak reconciler] in reconciler?.distrustIndex() }
        reporter.count { $0.damagedLines = loaded.damagedLines }
        reporter.count { $0.adoptions = loaded.found.adopted.count }
    }

    var path: String { context.path }
    var limits: LimitsInForce { context.limits }
    var pool: AttachmentsPool { context.pool }
    var maintenance: MaintenanceQueue { context.maintenance }
    var events: EventCenter { context.reporter.events }

    var statistics: CacheStatistics {
        var statistics = reporter.statistics
        index.forEachShard { shard in
            statistics.hits += shard.hits
            statistics.misses += shard.misses
            statistics.stores += shard.stores
        }
        if let usage = try? disk.runAnyway({ $0 })?.segments.usage() {
            statistics.segments.count = usage.count
            statistics.segments.liveBytes = max(0, usage.bytes - usage.dead)
            statistics.segments.deadBytes = usage.dead
        }
        return statistics
    }
}
