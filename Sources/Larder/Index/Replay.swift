import LarderFiles

/// Builds the index from the records of manifest and journals.
struct Replay {
    private(set) var shards: [Shard]
    private(set) var lastNumber: UInt64 = 0
    /// What was removed at once: older files of it are dead.
    private(set) var cleared = ClearMarks()
    /// What entries without metadata share.
    private var attachments: [Attachments.Traits: Attachments] = [:]
    /// Rows of a manifest that have expired. They are put in only when a later record might speak of them: mostly none
    /// does.
    private var overdue: [IndexEntry] = []
    private let now: Timestamp
    /// Files that wait to be unlinked.
    private(set) var obsolete: [UInt64] = []
    var damagedLines = 0
    var journals = LoadedJournals()
    /// Bytes of memory that the records have asked for, nearly.
    private(set) var claimed = 0

    init(at now: Timestamp) {
        self.now = now
        var shard = Shard()
        shard.table.beginLoading()
        shards = Array(repeating: shard, count: Index.shardCount)
    }

    /// True when entries and files are known to agree: nothing is damaged and the last session ended in order.
    var isClean: Bool { journals.endsClosed && !journals.isDamaged }

    /// Notes that a record asks for memory: its text, and what an entry takes besides.
    mutating func claim(_ length: Int) {
        claimed += length + 200
    }

    /// What there is so far: entries, and other things that are kept in mind.
    var kept: (entries: Int, others: Int) {
        var kept = (entries: overdue.count, others: obsolete.count + cleared.numbers.count)
        for shard in shards {
            kept.entries += shard.table.count
            kept.others += shard.tombstones.count + shard.superseded.count
        }
        return kept
    }

    mutating func apply(_ record: Record) {
        lastNumber = max(lastNumber, record.highestNumber)
        switch record {
        case .set(let entry): apply(.set(shared(entry)), to: entry.key)
        case .remove(let key, _), .life(let key, _, _, _, _), .used(let key, _, _, _, _): apply(record, to: key)
        case .clear(let scope, let number): clear(scope, below: number)
        case .obsolete(let file, let key):
            obsolete.append(file)
            if let key { apply(record, to: key) }
        case .header, .closed, .unknown: break
        }
    }

    /// The same for a record of a manifest, which is older than those of the journals. Where a manifest has two entries of
    /// a key, because it was written while the key was set, that set stands in a journal too: so what was put aside is
    /// taken in.
    mutating func applyOfManifest(_ record: Record) {
        if case .set(let entry) = record, entry.isOver(at: now) {
            lastNumber = max(lastNumber, record.highestNumber)
            overdue.append(entry)
        } else {
            apply(record)
        }
    }

    /// The same for a record of a journal.
    mutating func applyOfJournal(_ record: Record) {
        switch record {
        case .header, .closed: break
        case .set, .remove, .life, .used, .clear, .obsolete, .unknown: takeInOverdue()
        }
        apply(record)
    }

    private mutating func takeInOverdue() {
        for entry in overdue { apply(.set(entry)) }
        overdue = []
    }

    /// The same entry; with attachments that it shares, if it can.
    private mutating func shared(_ entry: IndexEntry) -> IndexEntry {
        guard let own = entry.attachments, own.areShareable else { return entry }
        var entry = entry
        entry.attachments = attachments[own.traits] ?? own
        attachments[own.traits] = entry.attachments
        return entry
    }

    private mutating func apply(_ record: Record, to key: Key) {
        shards[key.shard].replay(record, of: key)
    }

    /// Does again what a record or a tombstone says was done. The entries go at the end, all in one pass.
    private mutating func clear(_ scope: ClearScope, below number: UInt64) {
        lastNumber = max(lastNumber, number)
        cleared.add(scope, below: number)
    }

    /// Takes out what was cleared. Keeps what has expired: its file may tell of a longer life than an index that nobody
    /// trusts.
    mutating func finish() {
        takeInOverdue()
        for position in shards.indices {
            _ = shards[position].finishLoading(at: Timestamp(milliseconds: .min), cleared: cleared)
        }
    }

    /// Takes out what was cleared and purges what has expired at `now`; its files are unlinked in the background.
    /// Returns how many entries expired.
    mutating func finishPurging(at now: Timestamp) -> Int {
        for position in shards.indices { shards[position].forgetTombstones() }
        var count = 0
        for entry in overdue {
            let (key, isCleared) = (entry.key, cleared.cover(entry))
            shards[key.shard].dismiss(entry, key, isCleared: isCleared)
            if !isCleared { count += 1 }
        }
        overdue = []
        for position in shards.indices {
            count += shards[position].finishLoading(at: now, cleared: cleared).count
            shards[position].forgetSuperseded()
        }
        for file in obsolete { shards[0].markObsolete(file) }
        return count
    }
}

/// What opening found out about the journals.
struct LoadedJournals {
    /// Sorted.
    var generations: [UInt64] = []
    /// Bytes of the last journal.
    var length = 0
    /// The last journal could not be read to its end.
    var isBroken = false
    var savedGeneration: UInt64 = 0
    var manifests: [ManifestFormat] = []
    var records = 0
    var endsClosed = false
    /// Bytes of the record that says so, with its line feed.
    var closedLength = 0
    /// EntryTable or journals had lines that could not be read, or were missing.
    var isDamaged = false
    /// There are entries that neither manifest nor journals tell of.
    var isIncomplete = false

    /// True when the first change has to touch the journal before anything else.
    var hasShutdownMarker: Bool { endsClosed || generations.isEmpty }
}
