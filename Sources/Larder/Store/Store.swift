import Dispatch
import LarderFiles

/// The machine behind every handle on one directory.
///
/// Locks and queues are always taken in this order, and none is held while user code runs, but for the configured
/// clock:
///
/// 1. `disk`, concurrent: the whole of a set, a remove and a read is one block on it. Barriers replace `volume`.
/// 2. a stripe, one of 64, by key: held from taking a sequence number to publishing, so number order is commit order.
/// 3. `info`, serial: the one writer of the journal. It appends a change's record and publishes it.
/// 4. `frozen`, serial, no I/O: copies the index, a slice or a shard at a time.
/// 5. the lock of a shard of the index, for the length of a table operation; inside it those of the sums and of the
///    order of use, and those of the memory tiers; or, apart from it, that of the
///    observer.
///
/// `evicting` comes before all of them.
///
/// Slow work runs in slices on `maintenance`. Whatever touches `volume.entries` does so in a block of `disk`.
final class Store: Sendable {
    let fileSystem: any FileSystem
    let clock: any Clock
    let settings: StoreSettings
    let path: String

    let index: Index
    let unretainedIndex: UnretainedReference<Index>
    let events = EventCenter()
    let io = IOLimiter()
    let observer = ChangeObserverSlot()
    let pool = AttachmentsPool()
    let maintenance = MaintenanceQueue()
    let disk = ConcurrentQueue()
    let info = SerialQueue()
    let frozen = SerialQueue()
    let stripes: [Lock<Void>]
    let tally = Lock(CacheStatistics())
    let reconciliation: Lock<Reconciliation>
    /// True while entries of the index are hints, because files and index have not been reconciled after an unclean
    /// close.
    let provisional: Flag
    /// Held while entries are chosen and evicted, so that two that do so do not evict twice as many. Outermost: taken
    /// before `disk`.
    let evicting = Lock(())
    let freeSpace = Lock(FreeSpaceBudget())
    /// The files that keep removed namespaces, tags and keys dead.
    let tombstones: Lock<TombstoneFiles>
    /// Large files that are being copied in outside of `disk`.
    let copies = DispatchGroup()
    /// Open handles.
    let handles = Lock(Handles())

    /// True while the journal still says that the last session ended in order, or is not there.
    private let hasShutdownMarker: Flag
    /// The last sequence number taken.
    private let lastNumber: Lock<UInt64>
    /// Nil once closed. Read in a block of `disk`, replaced in a barrier of it: the queue makes it safe.
    @exclusivity(unchecked) nonisolated(unsafe) var volume: StoreDirectory? {
        didSet { unretainedDirectory = volume.map { UnretainedReference($0) } }
    }
    /// The same, for blocks of `disk`, during which it does not go.
    @exclusivity(unchecked) nonisolated(unsafe) private var unretainedDirectory: UnretainedReference<StoreDirectory>?
    /// Used on `info` alone; replaced there inside a barrier of `disk`.
    @exclusivity(unchecked) nonisolated(unsafe) var journal: Journal
    /// Lets the next opener of the directory in when the store goes. Set before anybody else sees the store; after that
    /// like `volume`.
    nonisolated(unsafe) var lease: Lease?
    /// Like `volume`.
    nonisolated(unsafe) var isClosing = false
    /// The directory of the entries could not be brought back from the trash. Like `volume`.
    nonisolated(unsafe) var isTrashLive = false

    init(_ loaded: consuming LoadedStore, path: String, clock: any Clock, settings: StoreSettings) {
        fileSystem = loaded.volume.fileSystem
        self.clock = clock
        self.settings = settings
        self.path = path
        index = Index(loaded.shards, keepsOrder: !settings.limits.areNone, at: clock.now)
        unretainedIndex = UnretainedReference(index)
        stripes = (0..<Index.shardCount).map { _ in Lock(()) }
        provisional = Flag(!loaded.reconciliation.isConsistent)
        reconciliation = Lock(loaded.reconciliation)
        lastNumber = Lock(loaded.lastNumber)
        hasShutdownMarker = Flag(loaded.journals.hasShutdownMarker)
        tombstones = Lock(loaded.tombstones)
        volume = loaded.volume
        unretainedDirectory = UnretainedReference(loaded.volume)
        journal = Journal(loaded.journals, of: loaded.volume, durability: settings.durability)
        tally.withLock {
            $0.damagedLines = loaded.damagedLines
            $0.adoptions = loaded.found.adopted.count
        }
    }

    var isPowerSafe: Bool { settings.durability == .powerSafe }

    /// Takes the next sequence number.
    func takeNumber() throws(CacheError) -> UInt64 {
        let number = lastNumber.withLock { last -> UInt64 in
            last += 1
            return last
        }
        guard number <= Record.lastNumber else {
            throw CacheError(
                code: .io, message: "The directory claims that all sequence numbers are used up.", path: path)
        }
        return number
    }

    /// The last number taken: a header tells it, so that numbers never come again.
    var lastTaken: UInt64 { lastNumber.withLock { $0 } }

    func raiseNumbers(to number: UInt64) {
        lastNumber.withLock { $0 = max($0, number) }
    }

    /// Runs `body` in a block of `disk` with the open directory.
    func onDisk<Result>(
        _ body: (StoreDirectory) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try disk.run { () throws(CacheError) in
            guard let unretainedDirectory else { throw CacheError.closed(path) }
            return try unretainedDirectory.use(body)
        }
    }

    /// Runs `body` in a block of `disk` while no other change of a key in this shard is under way. What touches the
    /// disk then calls `clearShutdownMarker` first; dropping a entry in memory does not.
    func changing<Result>(
        shard: Int, _ body: (StoreDirectory) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try onDisk { volume throws(CacheError) in
            try stripes[shard].withLock { _ throws(CacheError) in try body(volume) }
        }
    }

    /// Sees to it that a kill from here on is noticed. Call it in a block of `disk` before a session's first change.
    func clearShutdownMarker() throws(CacheError) {
        guard hasShutdownMarker.isSet else { return }
        try info.run { () throws(CacheError) in
            try translating("reopen the journal", at: path) { () throws(Errno) in
                try journal.clearShutdownMarker(last: lastTaken)
            }
        }
        hasShutdownMarker.set(false)
    }

    /// Notes whether the journal that has just been read ends in order.
    func setShutdownMarker(_ hasShutdownMarker: Bool) {
        self.hasShutdownMarker.set(hasShutdownMarker)
    }

    /// Counts and reports something that could not be done.
    func report(_ error: CacheError, of key: Key? = nil) {
        tally.withLock { $0.failures += 1 }
        events.post(CacheEvent(.failed, of: key, error: error))
    }

    /// Runs what has no caller to throw to; what fails is counted and reported.
    func attempting<Result>(_ body: () throws(CacheError) -> Result) -> Result? {
        do {
            return try body()
        } catch {
            if error.code != .closed { report(error) }
            return nil
        }
    }

    /// Counts what has been done and tells the listeners.
    func report(_ event: @autoclosure () -> CacheEvent, _ count: (inout CacheStatistics) -> Void) {
        tally.withLock(count)
        events.post(event())
    }

    /// Tells the listeners what became of entries: an event for each namespace.
    func tell(_ kind: CacheEvent.Kind, _ entries: [IndexEntry], limit: CacheLimit? = nil) {
        guard events.isListening else { return }
        for (namespace, entries) in Dictionary(grouping: entries, by: \.namespace) {
            events.post(CacheEvent(kind, keys: entries.map(\.keyText), in: namespace, limit: limit))
        }
    }

    var statistics: CacheStatistics {
        var statistics = tally.withLock { $0 }
        index.forEachShard { shard in
            statistics.hits += shard.hits
            statistics.misses += shard.misses
            statistics.stores += shard.stores
        }
        statistics.eventsDropped = events.dropped
        return statistics
    }
}
