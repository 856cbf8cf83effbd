import LarderFiles

/// The *disk* queue: owns the open directory, and orders all work in it.
///
/// Blocks run side by side; a barrier runs alone, and only a barrier replaces the directory. Callers block, so these
/// are reader-writer locks. Changes of one key exclude each other by the key's stripe, one of 64, taken inside a block.
/// It is held from taking a sequence number to publishing, so for each key number order is commit order.
final class DiskQueue: Sendable {
    let path: String
    private let queue = ConcurrentQueue()
    private let stripes = (0..<Index.shardCount).map { _ in Lock(()) }
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

    /// Keeps other changes of keys in this shard out. Call it in a block; the next line is
    /// `defer { unlockStripe(shard) }`.
    func lockStripe(_ shard: Int) {
        stripes[shard].lock()
    }

    func unlockStripe(_ shard: Int) {
        stripes[shard].unlock()
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
    /// Whoever has one stripe asks for no other.
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
        try queue.runAlone(body)
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
