import LarderFiles

/// The one authoritative index: 64 shards, each under its own lock.
///
/// A look-up takes the lock of its shard and nothing else. Changes to a key are published by the info queue, or under the
/// key's stripe; shard locks are the innermost, held for the length of a table operation.
final class Index: Sendable {
    static let shardCount = 1 << Key.shardBits

    private let shards: [Lock<Shard>]
    // The locks of these three are taken inside that of a shard, one at a time.
    /// The sums over the shards.
    private let sums = Lock(Shard.Totals())
    private let uses = UseCounter()
    private let keepsOrder: Lock<Bool>

    /// With `keepsOrder` the order of use is known from the beginning.
    init(_ content: [Shard], keepsOrder: Bool) {
        self.keepsOrder = Lock(keepsOrder)
        shards = content.map { _ in Lock(Shard()) }
        replace(with: content)
    }

    func withShard<Result>(of key: Key, _ body: (inout Shard) -> Result) -> Result {
        withShard(at: key.shard, body)
    }

    func withShard<Result>(at position: Int, _ body: (inout Shard) -> Result) -> Result {
        shards[position].withLock { shard in
            let before = shard.totals
            let result = body(&shard)
            let after = shard.totals
            if after != before {
                sums.withLock { sums in
                    sums.count += after.count - before.count
                    sums.size += after.size - before.size
                    sums.space += after.space - before.space
                }
            }
            return result
        }
    }

    /// Calls `body` with one shard after the other, never with two at once.
    func forEachShard(_ body: (inout Shard) -> Void) {
        for position in shards.indices { withShard(at: position, body) }
    }

    /// Puts the content of another index in the place of this one's.
    func replace(with fresh: [Shard]) {
        for (position, content) in fresh.enumerated() { replace(position, with: content) }
    }

    /// Empties every shard but for its counters.
    func removeAll() {
        var empty = Shard()
        empty.forgetGraves()
        for position in shards.indices { replace(position, with: empty) }
    }

    private func replace(_ position: Int, with content: Shard) {
        let old = withShard(at: position) { shard in
            let old = shard
            shard = content
            // Asked in here: who wants the order from now on says so first, and then comes to every shard.
            if keepsOrder.withLock({ $0 }) { shard.manifest.keepOrder(counting: uses) }
            shard.hits = old.hits
            shard.misses = old.misses
            return old
        }
        _ = consume old
    }

    /// From now on knows the order of use. O(n log n) the first time.
    func keepOrder() {
        let isKept = keepsOrder.withLock { isKept in
            defer { isKept = true }
            return isKept
        }
        if !isKept { forEachShard { $0.manifest.keepOrder(counting: uses) } }
    }

    /// Orders all entries by the times of their last use again, if their order is kept: rows have come that were used long ago.
    func orderAnew() {
        if keepsOrder.withLock({ $0 }) { forEachShard { $0.manifest.orderAnew(counting: uses) } }
    }

    var totals: Shard.Totals { sums.withLock { $0 } }
    var doomedCount: Int { (0..<Self.shardCount).reduce(0) { $0 + withShard(at: $1) { $0.doomed.count } } }
}
