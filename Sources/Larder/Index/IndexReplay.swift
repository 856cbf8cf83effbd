import LarderFiles

/// Builds the index from the records of manifest and journals.
struct IndexReplay {
    private(set) var shards: [Shard]
    private(set) var lastNumber: UInt64 = 0
    /// The number of the last `clear`: files below it are dead.
    private(set) var cleared: UInt64 = 0
    /// The same for single namespaces.
    private(set) var clearedNamespaces: [Namespace: UInt64] = [:]
    /// What entries without metadata share.
    private var attachments: [Namespace: Attachments] = [:]
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
        case .remove(let key, _), .life(let key, _, _, _), .used(let key, _, _, _, _): apply(record, to: key)
        case .clear(nil, let number): clear(number)
        case .clear(let namespace?, let number):
            clear(namespace, below: number)
        case .header, .closed, .unknown: break
        }
    }

    /// The same row; with attachments that it shares, if it has nothing but a namespace.
    private mutating func shared(_ row: Row) -> Row {
        guard let own = row.attachments, own.isNamespaceAlone else { return row }
        var row = row
        row.attachments = attachments[own.namespace] ?? own
        attachments[own.namespace] = row.attachments
        return row
    }

    private mutating func apply(_ record: Record, to key: Key) {
        shards[key.shard].replay(record, of: key)
    }

    /// Does again what a tombstone says was done.
    mutating func clear(_ namespace: Namespace, below number: UInt64) {
        lastNumber = max(lastNumber, number)
        clearedNamespaces[namespace] = max(number, clearedNamespaces[namespace] ?? 0)
    }

    private mutating func clear(_ number: UInt64) {
        cleared = max(cleared, number)
        for position in shards.indices { shards[position].manifest.remove(below: number) }
    }

    /// Purges what has expired at `now`; its files go behind. Returns how many rows went.
    mutating func finish(at now: Timestamp, keepingGraves: Bool) -> Int {
        var count = 0
        for position in shards.indices {
            if !keepingGraves { shards[position].forgetGraves() }
            count += shards[position].finishLoading(at: now, cleared: clearedNamespaces).count
        }
        return count
    }
}
