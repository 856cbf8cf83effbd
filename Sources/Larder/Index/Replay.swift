import LarderFiles

/// Builds the index from the records of the manifest and the journals.
struct Replay {
    private(set) var shards: [Shard]
    private(set) var lastNumber: UInt64 = 0
    /// Cleared scopes: older files in them are dead.
    private(set) var cleared = ClearMarks()
    /// Expired scopes.
    private(set) var marks = ExpiryMarks()
    /// Attachments that entries without metadata share.
    private var attachments: [Attachments.Traits: Attachments] = [:]
    /// Expired entries of a manifest. They are added only when a later record might concern them: usually none does.
    private var overdue: [IndexEntry] = []
    private let now: Timestamp
    /// Files that wait to be deleted.
    private(set) var obsolete: [FileID] = []
    /// Segments that could not be read after damage, with the highest numbers that their entries may have.
    private(set) var unread: [UInt64: UInt64] = [:]
    /// The manifest has several groups.
    private(set) var hasGroups = false
    var damagedLines = 0
    var journals = LoadedJournals()
    /// Bytes of memory that the records need, approximately.
    private(set) var claimed = 0

    init(at now: Timestamp) {
        self.now = now
        var shard = Shard()
        shard.table.beginLoading()
        shards = Array(repeating: shard, count: Index.shardCount)
    }

    /// True when entries and files are known to agree: nothing is damaged and the last session ended in order.
    var isClean: Bool { journals.endsClosed && !journals.isDamaged }

    /// Adds the memory that a record needs: its text, and the rest of an entry.
    mutating func claim(_ length: Int) {
        claimed += length + 200
    }

    /// The number of entries so far, and of other things in memory.
    var kept: (entries: Int, others: Int) {
        var kept = (entries: overdue.count, others: obsolete.count + cleared.numbers.count + marks.count)
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
        case .remove(let key, _), .life(let key, _, _, _, _), .used(let key, _, _, _, _, _): apply(record, to: key)
        case .clear(let scope, let number): clear(scope, below: number)
        case .expire(let scope, let number, let time):
            marks.add(ExpiryMarks.Mark(number: number, time: time), to: scope)
        case .obsolete(let file, _) where file.place.isWholeSegment: unread[file.place.segment] = file.number
        case .obsolete(let file, let key):
            obsolete.append(file)
            if let key { apply(record, to: key) }
        case .groups(let table): hasGroups = table.groups.count > 1
        case .header, .closed, .unknown: break
        }
    }

    /// The same for a record of a manifest, which is older than those of the journals. A manifest may have two entries
    /// of a key that was set while it was written; that set is in a journal too, so the deferred entries are then
    /// added.
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
        // An expired entry keeps its earlier end.
        case .header, .closed, .groups, .expire: break
        case .set, .remove, .life, .used, .clear, .obsolete, .unknown: takeInOverdue()
        }
        apply(record)
    }

    private mutating func takeInOverdue() {
        for entry in overdue { apply(.set(entry)) }
        overdue = []
    }

    /// The same entry, with shared attachments if it can share them.
    private mutating func shared(_ entry: IndexEntry) -> IndexEntry {
        guard let own = entry.attachments, own.areShareable else { return entry }
        var entry = entry
        entry.attachments = attachments[own.traits] ?? own
        attachments[own.traits] = entry.attachments
        return entry
    }

    private mutating func apply(_ record: Record, to key: Key) {
        _ = shards[key.shard].apply(record, of: key)
    }

    /// Replays a record or a tombstone. The entries are removed at the end, all in one pass.
    private mutating func clear(_ scope: ClearScope, below number: UInt64) {
        lastNumber = max(lastNumber, number)
        cleared.add(scope, below: number)
    }

    /// Marks the files that lines mention and no entry uses. Call it after `finish`.
    mutating func markSupersededObsolete() {
        for position in shards.indices { shards[position].markSupersededObsolete() }
    }

    /// Removes the cleared entries. Keeps expired ones: their files may record longer lives than an untrusted index
    /// does.
    mutating func finish() {
        takeInOverdue()
        for position in shards.indices {
            _ = shards[position].finishLoading(at: Timestamp(milliseconds: .min), cleared: cleared)
            // Their life slots may not have been written.
            if !marks.isEmpty { shards[position].table.expire(marks) }
        }
    }

    /// Removes the cleared entries, and those that have expired at `now`; their files are deleted in the background.
    /// Returns how many expired.
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
            count += shards[position].finishLoading(at: now, cleared: cleared, marks: marks).count
            shards[position].forgetSuperseded()
        }
        for file in unusedObsolete { shards[0].markObsolete(file) }
        return count
    }
}

extension Replay {
    /// The files that the manifest lists for deletion, without those that a journal has given to a key since: a copy
    /// waits like them until it is recorded.
    private var unusedObsolete: [FileID] {
        var unused = Set(obsolete)
        if unused.isEmpty { return [] }
        for shard in shards { for entry in shard.table.entries { unused.remove(entry.file) } }
        return obsolete.filter { unused.contains($0) }
    }
}

/// The findings of an opening about the journals.
struct LoadedJournals {
    /// Sorted.
    var generations: [UInt64] = []
    /// Bytes of the last journal.
    var length = 0
    /// The last journal could not be read to its end.
    var isBroken = false
    var savedGeneration: UInt64 = 0
    /// Several processes had the directory open.
    var wasShared = false
    /// Every change up to this number is in the index or has failed: it was saved, or nothing is missing that was
    /// published. Beyond, lines may be missing.
    var settled: UInt64 = 0
    /// The journals that are needed, with the lengths up to a clean-shutdown marker, if nothing is missing in them.
    var complete: [JournalPart]? { isProved && !isDamaged ? parts : nil }
    var parts: [JournalPart] = []
    /// The page of this boot or a clean close proves that nothing is missing, unless the journals are damaged.
    var isProved = false
    /// The older journals that the manifest covers in part only.
    var older: [JournalPart] = []
    var manifests: [ManifestFormat] = []
    /// The directory has no `CACHEDIR.TAG`.
    var lacksTag = false
    var records = 0
    var endsClosed = false
    /// Bytes of that record, with its line feed.
    var closedLength = 0
    /// The manifest or the journals had lines that were unreadable or missing.
    var isDamaged = false
    /// The manifest was saved while files could not be read after damage.
    var isDoubtful = false
    /// There are entry files but no index. The first journal must not look like that of a new directory.
    var isLost = false
    /// Expired entries of the manifest were removed without a line. At the end of the session, the sums would differ
    /// from those of manifest and journal.
    var lacksRemovals = false
    /// Some entries are in neither the manifest nor the journals.
    var isIncomplete = false

    /// The version in the header of the last journal.
    var headerVersion: UInt64 = 0
    /// The last number taken, according to that header.
    var headerLast: UInt64 = 0
    /// The last number that the next opening finds without the clean-shutdown marker; 0: unknown.
    var recorded: UInt64 = 0
    /// Whether that header promises that every file which no line mentions belongs to a change that was under way at
    /// the end; nil: it does not say.
    var isHeaderSettled: Bool?
    /// The header must be corrected: it may promise that, but other files may exist.
    var isUnsettled = false
}
