import LarderFiles

/// Builds the index from the records of manifest and journals.
struct IndexReplay {
    private(set) var shards: [Shard]
    private(set) var lastNumber: UInt64 = 0
    /// What was removed at once: older files of it are dead.
    private(set) var cleared = Clearings()
    /// What entries without metadata share.
    private var attachments: [Attachments.Traits: Attachments] = [:]
    var damagedLines = 0
    var journals = LoadedJournals()

    init() {
        var shard = Shard()
        shard.manifest.beginLoading()
        shards = Array(repeating: shard, count: Index.shardCount)
    }

    /// True when rows and files are known to agree: nothing is damaged and the last session ended in order.
    var isClean: Bool { journals.endsClosed && !journals.isDamaged }

    mutating func apply(_ record: Record) {
        lastNumber = max(lastNumber, record.highestNumber)
        switch record {
        case .set(let row): apply(.set(shared(row)), to: row.name)
        case .remove(let key, _), .life(let key, _, _, _, _), .used(let key, _, _, _, _): apply(record, to: key)
        case .clear(let scope, let number): clear(scope, below: number)
        case .header, .closed, .unknown: break
        }
    }

    /// The same row; with attachments that it shares, if it can.
    private mutating func shared(_ row: Row) -> Row {
        guard let own = row.attachments, own.areShareable else { return row }
        var row = row
        row.attachments = attachments[own.traits] ?? own
        attachments[own.traits] = row.attachments
        return row
    }

    private mutating func apply(_ record: Record, to key: Key) {
        shards[key.shard].replay(record, of: key)
    }

    /// Does again what a record or a tombstone says was done.
    mutating func clear(_ scope: ClearScope, below number: UInt64) {
        lastNumber = max(lastNumber, number)
        cleared.add(scope, below: number)
        if scope != .everything { return }
        for position in shards.indices { shards[position].manifest.remove(below: number) }
    }

    /// Purges what has expired at `now`; its files go behind. Returns how many rows went.
    mutating func finish(at now: Timestamp, keepingGraves: Bool) -> Int {
        var count = 0
        for position in shards.indices {
            if !keepingGraves { shards[position].forgetGraves() }
            count += shards[position].finishLoading(at: now, cleared: cleared).count
        }
        return count
    }
}
