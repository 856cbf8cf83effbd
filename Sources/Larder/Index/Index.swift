import LarderFiles

/// The one authoritative index: 64 shards, each under its own lock.
///
/// A look-up takes the lock of its shard and nothing else. Changes to a key are published by the info queue, or under the
/// key's stripe; shard locks are the innermost, held for the length of a table operation.
final class Index: Sendable {
    static let shardCount = 1 << Key.shardBits

    private let shards: [Lock<Shard>]

    init(_ shards: [Shard]) {
        self.shards = shards.map { Lock($0) }
    }

    func withShard<Result>(of key: Key, _ body: (inout Shard) -> Result) -> Result {
        shards[key.shard].withLock(body)
    }

    func withShard<Result>(at position: Int, _ body: (inout Shard) -> Result) -> Result {
        shards[position].withLock(body)
    }

    /// Calls `body` with one shard after the other, never with two at once.
    func forEachShard(_ body: (inout Shard) -> Void) {
        for shard in shards { shard.withLock(body) }
    }

    /// Puts the content of another index in the place of this one's.
    func replace(with fresh: [Shard]) {
        for (shard, content) in zip(shards, fresh) {
            let old = shard.withLock { state in
                let old = state
                state = content
                state.hits = old.hits
                state.misses = old.misses
                return old
            }
            _ = consume old
        }
    }

    /// Empties every shard but for its counters.
    func removeAll() {
        for shard in shards {
            let old = shard.withLock { state in
                let old = state
                state = Shard(hits: state.hits, misses: state.misses)
                state.forgetGraves()
                return old
            }
            _ = consume old
        }
    }

    var count: Int { total { $0.manifest.count } }
    var size: Int { total { $0.manifest.size } }
    var doomedCount: Int { total { $0.doomed.count } }

    private func total(_ part: (Shard) -> Int) -> Int {
        shards.reduce(0) { sum, shard in sum + shard.withLock { part($0) } }
    }
}
