import LarderFiles

/// The first scan of a directory with an untrusted index, before any call is answered.
///
/// It compares the files of the directory with the index and reads the newest suspects. After a kill these are all the
/// suspects, and usually there are none; after the loss of the index, reconciliation reads the rest.
struct OpeningScan {
    /// The maximum number of suspects read before the first answer; each takes some 5 us.
    static let mostAtOnce = 256
    /// An unproven number counts if it is at most this much above the proven ones. A cache may have changed that often
    /// since its second newest entry, but a stray file with a name like `0020000000000000` must not use up all numbers.
    private static let plausible: UInt64 = 1 << 36

    static func isPlausible(_ number: UInt64, above proved: UInt64) -> Bool {
        number <= proved.addingReportingOverflow(plausible).partialValue
    }

    private(set) var shards: [Shard]
    /// The highest number that a line or a footer proves, or that is plausible above those.
    private(set) var lastNumber: UInt64
    /// The valid tombstones.
    private(set) var tombstones: TombstoneFiles
    /// Keys of entries that no line mentions.
    private(set) var adopted: [Key] = []
    private let pool = AttachmentsPool()
    private(set) var failures: [CacheError] = []

    private let cleared: ClearMarks
    private let marks: ExpiryMarks
    /// The existing files, sorted.
    private let files: [FileID]
    private let segments: SegmentTable.Listing
    /// The highest numbers in segments that could not be read in an earlier session either.
    private let unread: [UInt64: UInt64]
    /// Where several processes had the directory, files up to this number that the index does not mention are dead: the
    /// index is proved complete, and each process deletes some later. Silence alone is no proof.
    private let settled: UInt64
    private var adoptsNothing: Bool { settled == .max }
    /// Several processes use the directory again, and delete what one of them leaves.
    private let isShared: Bool
    /// Such files may be in segments that cannot be read.
    var hasLeftFiles: Bool { isShared && adoptsNothing && !segments.unreadable.isEmpty }
    private var torn: [FileID] = []
    private var provedDead: [FileID] = []
    private var findings = Reconciliation.Findings()

    init(
        _ replay: borrowing Replay, _ listing: StoreDirectory.Listing, _ found: FoundTombstones, isShared: Bool
    ) {
        self.isShared = isShared
        shards = replay.shards
        lastNumber = replay.lastNumber
        cleared = replay.cleared
        marks = replay.marks
        tombstones = TombstoneFiles(found.valid)
        files = listing.entries.sorted()
        segments = listing.segments
        unread = replay.unread
        findings.isDamaged = replay.journals.isDamaged
        settled = replay.journals.wasShared && !findings.isDamaged ? replay.journals.settled : 0
        // Twice: the last session may have skipped as many numbers.
        let distance = 2 * Reconciliation.concurrency
        if !findings.isDamaged, lastNumber > distance {
            // The lines of several processes may end at different times.
            findings.floor = replay.journals.wasShared ? min(settled, lastNumber - distance) : lastNumber - distance
        }
        findings.unrecorded = found.valid.compactMap { number, removal in
            if case .key = removal { nil } else { (number, removal) }
        }
        // A tombstone that the journal records need not be read.
        let known = Set(cleared.numbers.values).union(marks.numbers).union(shards.lazy.flatMap(\.tombstones.values))
        for number in found.unread {
            if known.contains(number) {
                tombstones.insert(unread: number)
            } else {
                findings.unreadTombstones.append(number)
            }
        }
        findings.aside = listing.names.compactMap(DirectoryLayout.number(ofAside:))
        findings.dead = (listing.names.filter(DirectoryLayout.isStaged) + found.torn).map { (FileID($0), nil) }
        sortFiles(obsolete: replay.obsolete)
    }

    /// Sorts the files: an index may mention all of them, none, or others.
    private mutating func sortFiles(obsolete: [FileID]) {
        var live: [FileID] = []
        var dead = obsolete
        for position in shards.indices {
            for entry in shards[position].table.entries where entry.file != 0 { live.append(entry.file) }
            dead += shards[position].superseded.map(\.file)
            shards[position].forgetSuperseded()
        }
        // Those that are removed without a record are examined as if nobody mentioned them.
        live.removeAll(where: segments.last.contains)
        live.sort()
        let unmentioned = files.without(live)
        for file in unmentioned.without(dead.sorted()) {
            if isSettled(file, beside: live) { provedDead.append(file) } else { findings.suspects.append(file) }
        }
        torn = provedDead
        findings.dead += unmentioned.without(findings.suspects).map { ($0, nil) }
        // Whether these exist will be known when their segments can be read.
        findings.dead += dead.filter { isUnreadable($0) }.map { ($0, nil) }
    }

    /// True when an unmentioned file is proved dead. The copy of a value that was being moved has its old number, and the
    /// line that mentions it may be missing.
    private func isSettled(_ file: FileID, beside live: [FileID]) -> Bool {
        if adoptsNothing { return true }
        return file.number <= settled && !live.hasNumber(file.number)
    }

    /// Deletes the unmentioned files that are proved dead. Call it while the proof is on disk: without it, the next
    /// opening would adopt them, although others have seen that they are not there. Best effort.
    func deleteProvedDead(in directory: StoreDirectory, isPowerSafe: Bool) {
        for file in provedDead { try? directory.delete(file, ofKey: nil, isPowerSafe: isPowerSafe) }
    }

    /// Reads the newest suspects, and returns the work that is left.
    mutating func look(in directory: StoreDirectory, at now: Timestamp) throws(CacheError) -> Reconciliation {
        var read = 0
        // Until a valid suspect is found, or the index is known to reach further: all others must be below the next
        // number.
        while let file = findings.suspects.last, file > lastNumber || (read < Self.mostAtOnce && file > findings.floor)
        {
            findings.suspects.removeLast()
            read += 1
            try look(at: file, in: directory, now)
        }
        let limit = lastNumber.addingReportingOverflow(Self.plausible).partialValue
        findings.unreadable.removeAll { $0 > limit }
        findings.unreadTombstones.removeAll { $0 > limit }
        findings.aside.removeAll { $0 > limit }
        let unproven =
            (findings.unreadable + torn.filter { $0 <= limit }).map(\.number) + findings.unreadTombstones
            + findings.aside
        lastNumber = max(lastNumber, unproven.max() ?? 0)
        // The numbers of segments are taken, too.
        if segments.highest <= limit { lastNumber = max(lastNumber, segments.highest) }
        if !segments.unreadable.isEmpty { takeUnreadableSegments() }
        sortEntries(at: now)
        return Reconciliation(findings, cleared: cleared, marks: marks)
    }

    private func isUnreadable(_ file: FileID) -> Bool { segments.unreadable[file.place.segment] != nil }

    private mutating func takeUnreadableSegments() {
        let numbers = segments.unreadable.keys
        // Nobody knows the numbers of these entries.
        if numbers.contains(where: { unread[$0] == nil }) {
            lastNumber += findings.isDamaged ? Reconciliation.mostUnknown : Reconciliation.concurrency
        }
        if hasLeftFiles { return }
        findings.unreadable += Reconciliation.unreadable(
            numbers, below: lastNumber, isDamaged: findings.isDamaged, known: unread)
    }

    private mutating func look(at file: FileID, in directory: StoreDirectory, _ now: Timestamp) throws(CacheError) {
        let footer: EntryFile.Footer?
        do {
            footer = try directory.footer(of: file)
        } catch .noEntry {
            return
        } catch {
            let failure = CacheError(error, doing: "examine an unknown file", path: directory.path(of: file))
            // The next opening may have a descriptor.
            if error == .tooManyOpenFiles { throw failure }
            findings.unreadable.append(file)
            return failures.append(failure)
        }
        switch footer {
        case .valid(let found), .last(let found):
            lastNumber = max(lastNumber, found.file.number, found.change)
            judge(found, in: directory, at: now)
        case .invalid, .longer:
            torn.append(file)
            findings.dead.append((file, nil))
        case .newer, nil: break
        }
    }

    private mutating func judge(_ found: IndexEntry, in directory: StoreDirectory, at now: Timestamp) {
        let key = found.key
        let position = key.shard
        // The shards know the marks, so an adopted entry need not have its new end yet.
        let ended = marks.ending(found) ?? found
        switch shards[position].verdict(on: ended, key, clearedBelow: cleared.number(for: found), at: now) {
        case .known:
            return
        case .dead:
            findings.dead.append((found.file, key))
        case .copy(let known):
            var entry = known.merged(with: ended)
            entry.file = directory.intact(known, or: found)
            shards[position].table.publish(entry, for: key)
            findings.dead.append((entry.file == known.file ? found.file : known.file, key))
        case .over:
            findings.dead.append((found.file, key))
            if let old = shards[position].remove(key, below: found.file.number + 1) {
                findings.dead.append((old.file, key))
            }
        case .adopt:
            adopted.append(key)
            var entry = found
            entry.attachments = pool.shared(found.attachments)
            if let old = shards[position].table.publish(entry, for: key) { findings.dead.append((old.file, key)) }
        }
    }

    /// Notes the entries whose file is missing, and those whose file must be checked for their life.
    private mutating func sortEntries(at now: Timestamp) {
        for shard in shards {
            for entry in shard.table.entries where entry.file != 0 {
                let isRemoved = segments.last.contains(entry.file)
                if isRemoved || files.sortedPosition(of: entry.file) == nil, !isUnreadable(entry.file) {
                    findings.missing.append((entry.key, entry.file))
                } else if findings.isDamaged || shard.table.marked(entry).isOver(at: now) {
                    findings.unverified.append((entry.key, entry.file))
                }
            }
        }
        findings.unverified.sort { $0.file < $1.file }
    }
}

extension [FileID] {
    /// The elements that are not in `others`; both are sorted. O(n).
    fileprivate func without(_ others: [FileID]) -> [FileID] {
        var rest: [FileID] = []
        var position = 0
        for element in self {
            while position < others.count, others[position] < element { position += 1 }
            if position == others.count || others[position] != element { rest.append(element) }
        }
        return rest
    }

    /// True when an element of a sorted array has a number. O(log n).
    fileprivate func hasNumber(_ number: UInt64) -> Bool {
        var (low, high) = (0, count)
        while low < high, case let middle = (low + high) / 2 {
            if self[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < count && self[low].number == number
    }

    /// The position of an element of a sorted array; nil when it has none. O(log n).
    func sortedPosition(of element: FileID) -> Int? {
        var (low, high) = (0, count)
        while low < high, case let middle = (low + high) / 2 {
            if self[middle] < element { low = middle + 1 } else { high = middle }
        }
        return low < count && self[low] == element ? low : nil
    }
}
