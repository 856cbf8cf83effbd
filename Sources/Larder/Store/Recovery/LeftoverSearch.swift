import LarderFiles

/// Compares the names of all files from earlier sessions with the index.
struct LeftoverSearch {
    let directory: StoreDirectory
    /// The numbers of entry files, sorted, and which of them the index mentions.
    private let files: [FileID]
    private let segments: SegmentTable.Listing
    private var isMentioned: [Bool]
    private let last: UInt64
    private var missing: [Reconciliation.Entry] = []
    private var mentioned: [Reconciliation.Entry] = []
    private var copies: [UInt64] = []
    private var tombstones: [UInt64] = []
    private var aside: [UInt64] = []
    /// The groups that have been compared.
    private var group = 0

    /// `last`: the last number that was taken before the session.
    init(_ listing: StoreDirectory.Listing, of directory: StoreDirectory, through last: UInt64) {
        self.directory = directory
        self.last = last
        files = listing.entries.filter { $0 <= last }.sorted()
        segments = listing.segments
        isMentioned = Array(repeating: false, count: files.count)
        for name in listing.names where name > Record.lastNumber {
            if let number = DirectoryLayout.number(ofStaged: name) {
                if number <= last { copies.append(name) }
            } else if let number = DirectoryLayout.number(ofTombstone: name) {
                if number <= last { tombstones.append(number) }
            } else if let number = DirectoryLayout.number(ofAside: name), number <= last {
                aside.append(number)
            }
        }
    }

    /// Compares the entries of some groups that are not loaded; only damaged ones are loaded. Returns false after the
    /// last group.
    mutating func takeSome(_ limit: Int, of index: Index) -> Bool {
        guard let frozen = index.freeze() else { return false }
        // Another directory, with fewer groups, may have been opened meanwhile.
        let end = max(group, min(group + limit, frozen.isLoaded.count))
        for group in group..<end where !frozen.isLoaded[group] {
            let content = frozen.saved.content(of: group)
            if content.isDamaged {
                index.load(group, of: frozen.groups)
            } else {
                for entry in content.entries { take(entry, keepsMentioned: false) }
            }
        }
        group = end
        return end < frozen.isLoaded.count
    }

    /// Compares the entries that are loaded. Call it after the files have been listed.
    mutating func take(_ index: Index) {
        index.forEachShard { shard in
            for entry in shard.table.entries where entry.file != 0 && entry.file <= last {
                take(entry, keepsMentioned: true)
            }
            for entry in shard.table.evacuated { mention(entry.file) }
            for file in shard.debts.files { mention(file.file) }
            let known = Set(shard.debts.aside.lazy.map(\.file.number))
            aside.removeAll { known.contains($0) }
        }
    }

    private mutating func take(_ entry: IndexEntry, keepsMentioned: Bool) {
        // The file of an entry that is removed without a record is examined as if nobody mentioned it.
        let isRemoved = segments.last.contains(entry.file)
        if isRemoved || !mention(entry.file), segments.unreadable[entry.file.place.segment] == nil {
            missing.append((entry.key, entry.file))
        } else if keepsMentioned {
            mentioned.append((entry.key, entry.file))
        }
    }

    /// Returns false when there is no such file.
    @discardableResult
    private mutating func mention(_ file: FileID) -> Bool {
        guard let position = files.sortedPosition(of: file) else { return false }
        isMentioned[position] = true
        return true
    }

    /// The work that is left. With a damaged index, the files decide about the lives of all entries.
    func findings(isDamaged: Bool) -> Reconciliation.Findings {
        var findings = Reconciliation.Findings()
        findings.suspects = zip(files, isMentioned).compactMap { $1 ? nil : $0 }
        findings.missing = missing
        findings.dead = copies.map { (FileID($0), nil) }
        findings.aside = aside
        if isDamaged {
            findings.unverified = mentioned.sorted { $0.file < $1.file }
            findings.unreadTombstones = tombstones
            findings.unreadable = Reconciliation.unreadable(segments.unreadable.keys, below: last, isDamaged: true)
        } else {
            findings.appliedTombstones = tombstones
            // The files of changes that were under way have been examined, and the ends of all segments. No other
            // suspect is newer than the index.
            findings.floor = last
        }
        return findings
    }
}

extension Reconciliation.Findings {
    /// True when there is nothing to do.
    var isEmpty: Bool {
        suspects.isEmpty && missing.isEmpty && dead.isEmpty && unreadTombstones.isEmpty && appliedTombstones.isEmpty
            && aside.isEmpty
    }
}
