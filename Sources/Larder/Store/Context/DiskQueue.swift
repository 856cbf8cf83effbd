import LarderFiles

/// The *disk* queue: owns the open directory, and orders all work in it.
///
/// Blocks run side by side; a barrier runs alone, and only a barrier replaces the directory. Callers block, so these
/// are reader-writer locks. Changes of one key exclude each other by the key's stripe, one of 64, taken inside a block.
/// It is held from taking a sequence number to publishing, so for each key number order is commit order.
final class DiskQueue: Sendable {
    let path: String
    /// The place among the processes of the directory, also of one that has it alone. Replaced with the directory.
    let others = ReplaceableReference<Follower>()
    /// Set where a call must ask the others, if there are any: where some may join, and in a forked child process.
    let mustAsk = ForkFlag()
    private let queue = ConcurrentQueue()
    private let stripes = UnretainedObjects((0..<Index.shardCount).map { _ in Lock(()) })
    /// Nil once closed.
    @exclusivity(unchecked) nonisolated(unsafe) private var current: StoreDirectory?
    /// The same object: a block keeps barriers out, so the object outlives the block without reference counting.
    @exclusivity(unchecked) nonisolated(unsafe) private var unretained: UnretainedReference<StoreDirectory>?

    init(_ directory: StoreDirectory, path: String) {
        self.path = path
        current = directory
        unretained = UnretainedReference(directory)
    }

    /// Runs `body` in a block with the open directory. Never call it from a block: a barrier may be waiting in between.
    ///
    /// - Throws: `.closed`; and the errors of `body`.
    @inline(__always)
    func run<Result>(_ body: (StoreDirectory) throws(CacheError) -> Result) throws(CacheError) -> Result {
        let lane = queue.enter()
        defer { queue.leave(lane) }
        guard let unretained else { throw .closed(path) }
        return try unretained.use(body)
    }

    /// Runs `body` in a block while no other change of a key in this shard is running.
    func run<Result>(
        shard: Int, _ body: (StoreDirectory) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try run { directory throws(CacheError) in
            lockStripe(shard)
            defer { unlockStripe(shard) }
            return try body(directory)
        }
    }

    /// The same for a change of a key whose outcome depends on the present value: no other process changes that
    /// meanwhile in such a way, and the changes of all others are known.
    func run<Result>(
        changing key: Key, _ body: (StoreDirectory) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        while true {
            if let result = try tryToRun(changing: key, body) { return result }
            // Outside of the block: a barrier may wait for it.
            others.object.membership.await(stripe: key.stripe)
        }
    }

    /// The same, but nil when another process is changing a key of the stripe.
    func tryToRun<Result>(
        changing key: Key, _ body: (StoreDirectory) throws(CacheError) -> Result
    ) throws(CacheError) -> Result? {
        try run(shard: key.shard) { directory throws(CacheError) -> Result? in
            try others.unretained.use { others throws(CacheError) in
                guard others.membership.tryLock(key) else { return nil }
                defer { others.membership.unlock(key) }
                try followOrThrow()
                return try body(directory)
            }
        }
    }

    /// Runs `body` in a block while no other change of a key in this shard is running, with the function that says
    /// whether no other process is changing a key.
    func run<Result>(
        sweeping shard: Int, _ body: (StoreDirectory, _ isFree: (Key) -> Bool) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try run(shard: shard) { directory throws(CacheError) in
            let membership = others.object.membership
            var locked: UInt64 = 0
            for stripe in 0..<PeerPage.stripeCount where membership.lockUnlessElsewhere(stripe: stripe) {
                locked |= 1 << UInt64(stripe)
            }
            defer { for stripe in locked.bits { membership.unlock(stripe: stripe) } }
            try followOrThrow()
            return try body(directory) { locked == .max || locked & 1 << UInt64($0.stripe) != 0 }
        }
    }

    /// Brings the changes of other processes into the index. Returns false when that fails, and in a forked child
    /// process: no call may then answer from the index.
    @inline(__always)
    func follow() -> Bool {
        !mustAsk.isSet || askOthers(self)
    }

    /// The same, for changes.
    @inline(__always)
    func followOrThrow() throws(CacheError) {
        if !follow() { throw others.object.failure(path) }
    }

    /// Runs `body` with whether no other process uses the directory; if so, none can join meanwhile.
    func whileNobodyJoins<Result>(
        _ body: (_ isAlone: Bool) throws(CacheError) -> Result
    ) throws(CacheError) -> Result {
        try others.object.membership.whileNobodyJoins(body)
    }

    /// True when no other process uses the directory.
    var isAlone: Bool { others.use { $0.isAlone } }

    /// True when other processes use the directory, or have since the page was begun.
    var hasHadOthers: Bool { others.use { $0.page.used != 1 << UInt64($0.lane) } }

    /// True while dead processes may have left files.
    var hasLeftFiles: Bool { others.use { $0.page.hasUncleanedDeaths } }

    /// Other processes may have dead files from this number on, or be about to; `.max`: none.
    var lowestElsewhere: UInt64 { lowestElsewhere(inStripe: nil) }

    /// The same for dead files of the keys of a stripe.
    func lowestElsewhere(inStripe stripe: Int?) -> UInt64 {
        others.use { $0.page.lowestDebt(but: $0.lane, stripe: stripe) }
    }

    /// True in a child process that was forked from the one that opened the directory.
    var isForked: Bool { others.use { $0.isForked } }

    /// Begins to ask other processes.
    func follow(through others: Follower) {
        self.others.replace(with: others)
        if others.membership.mayBeJoined { mustAsk.set() }
    }

    /// Keeps other changes of keys in this shard out. Call it in a block; the next line is
    /// `defer { unlockStripe(shard) }`.
    func lockStripe(_ shard: Int) {
        stripes[shard].use { $0.lock() }
    }

    func unlockStripe(_ shard: Int) {
        others.use { $0.endChange(slot: shard) }
        stripes[shard].use { $0.unlock() }
    }

    /// The same for a part of a block.
    func withStripe<Result, Failure: Error>(
        _ shard: Int, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lockStripe(shard)
        defer { unlockStripe(shard) }
        return try body()
    }

    /// The same for several shards, in ascending order: two threads that do this wait for each other, but not forever.
    /// A caller that has one stripe asks for no other.
    func withStripes(_ shards: [Int], _ body: () -> Void) {
        let shards = Set(shards).sorted()
        for shard in shards { lockStripe(shard) }
        defer { for shard in shards { unlockStripe(shard) } }
        body()
    }

    /// Returns when every change that has taken a number is published or has failed.
    func awaitChanges() {
        queue.run {
            for shard in stripes.indices { withStripe(shard) {} }
        }
    }

    /// Runs `body` after all blocks that have begun, while no other block runs.
    func runAlone<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try queue.runAlone { () throws(Failure) in
            defer { others.use { $0.endChange(slot: Index.shardCount) } }
            return try body()
        }
    }

    /// Runs `body` in a block, closed or not.
    func runAnyway<Result>(_ body: (StoreDirectory?) -> Result) -> Result {
        queue.run { body(current) }
    }

    var isClosed: Bool { queue.run { current == nil } }

    /// The open directory, for barriers; nil once closed.
    var directory: StoreDirectory? { current }

    /// Replaces the directory. Call it in a barrier; nil closes the queue.
    func replace(_ directory: StoreDirectory?) {
        current = directory
        unretained = directory.map { UnretainedReference($0) }
    }
}

/// The rest of `DiskQueue.follow`: a function, so that what calls it stays small enough to be inlined.
@inline(never)
private func askOthers(_ disk: DiskQueue) -> Bool {
    disk.others.use { $0.follow() }
}
