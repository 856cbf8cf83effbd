import LarderFiles

/// The part of a large index that an opening reads: the journals, and the records of the manifest outside its groups.
/// The lines of the journals are checked and sorted by group. The groups are loaded later.
struct GroupedIndex {
    private(set) var journals = LoadedJournals()
    private(set) var lastNumber: UInt64
    /// Files that wait to be deleted.
    private(set) var obsolete: [FileID] = []
    /// Their numbers.
    private var obsoleteNumbers: Set<UInt64> = []
    private(set) var cleared = ClearMarks()
    /// After a kill: files that no line mentions.
    private(set) var suspects: [FileID] = []
    /// The last session was killed.
    var isAfterKill: Bool { !journals.endsClosed }

    private let manifest: SavedGroups.Manifest
    private var lines: WaitingLines
    /// The sums at the end of the last session.
    private var totals: SavedTotals?
    private let fileSystem: any FileSystem
    /// The highest number when the manifest was begun: changes up to it are in the manifest, or have failed.
    private var saved: UInt64 = 0
    /// Higher numbers that lines prove to have been taken.
    private var taken: [UInt64] = []
    /// True when every file that no line mentions belongs to a change that was under way at the end.
    private var isSettled = true

    /// The maximum number of journals: each stays open until the next save.
    private static let mostJournals = 8
    /// The same beside other processes, each of which may have some.
    private static let mostOfOthers = 64

    /// The published parts of the journals of living processes; nil when there are none.
    private let published: JournalPositions?

    /// Returns nil when the index must be read whole: it is small or damaged, has another version or format, or has
    /// records that concern several groups; or the files must be listed.
    ///
    /// `published`: beside other processes, which have published so much of their journals.
    init?(_ listing: RootListing, _ reader: IndexReader, published: JournalPositions? = nil) {
        guard listing.manifests == [.json] else { return nil }
        self.published = published
        do {
            guard let found = try ManifestFrame(reader) else { return nil }
            manifest = found.manifest
            lastNumber = found.lastNumber
            lines = WaitingLines(groups: found.manifest.table.groups.count)
            fileSystem = reader.fileSystem
            journals.recorded = lastNumber
            for record in found.others { guard take(record) else { return nil } }
            obsoleteNumbers = Set(obsolete.map(\.number))
            journals.generations = listing.journals
            journals.manifests = listing.manifests
            journals.savedGeneration = manifest.table.generation
            let following = listing.journals.filter { $0 >= manifest.table.generation }
            guard following.first == manifest.table.generation else { return nil }
            if let published {
                if published.lacksAnnounced(following, since: manifest.table.generation) { return nil }
                let older = manifest.table.journals
                journals.older = older
                guard following.count + older.count <= Self.mostOfOthers else { return nil }
                for part in older + following.map({ JournalPart(generation: $0, length: 0) }) {
                    let end = published.length(of: part.generation)
                    if end <= part.length { continue }
                    guard try read(part.generation, in: part.length..<end, reader) else { return nil }
                }
                return
            }
            if reader.announced?.lacks(following, since: manifest.table.generation) == true { return nil }
            guard manifest.table.journals.isEmpty, following.count <= Self.mostJournals,
                following.last! - following.first! == UInt64(following.count - 1)
            else { return nil }
            for generation in following { guard try read(generation, in: 0..<Int.max, reader) else { return nil } }
            if following.count > 1, reader.mayLackLines(journals) { return nil }
        } catch {
            return nil
        }
        guard journals.endsClosed || isSettled else { return nil }
        journals.isProved = journals.endsClosed || reader.announced != nil
    }

    /// The groups, none of which is loaded.
    ///
    /// `last`: the highest number that another process has taken; a save beside changes may mention it. With
    /// `deletesSuperseded`, the files that lines mention and no entry uses may exist, and nobody else deletes them.
    func groups(
        of directory: StoreDirectory, at now: Timestamp, through last: UInt64 = 0, deletesSuperseded: Bool = false
    ) -> ColdGroups {
        // Beside others, the process that has replaced a file deletes it.
        let isAfterKill = isAfterKill && published == nil
        let saved = SavedGroups(
            manifest, lines, cleared: cleared, lastNumber: max(lastNumber, last),
            isUnsettled: isAfterKill || deletesSuperseded,
            isOfSeveral: published != nil, in: fileSystem)
        // Only the file of a used value may say how long it lives.
        let mayKnowMore = isAfterKill || published?.areOfDead == true
        return ColdGroups(saved, totals: journals.endsClosed ? totals : nil, at: now) { entry in
            guard mayKnowMore else { return .success(nil) }
            do throws(Errno) {
                guard case .valid(let found)? = try directory.footer(of: entry.file),
                    found.isEntry(entry, of: entry.key), found.knowsMore(than: entry)
                else { return .success(nil) }
                return .success(found.life)
            } catch {
                return error == .noEntry ? .success(nil) : .failure(error)
            }
        }
    }

    /// After a kill, looks for the files of changes that were under way. Returns false when the files must be listed.
    mutating func findSuspects(in directory: StoreDirectory) -> Bool {
        if !isAfterKill { return true }
        let probe = SuspectProbe(directory: directory)
        guard let found = probe.suspects(above: saved, through: lastNumber, taken: Set(taken)) else { return false }
        (suspects, lastNumber) = found
        return true
    }

    /// Takes a record of the manifest that is not in a group; false when the index must be read whole.
    private mutating func take(_ record: Record) -> Bool {
        switch record {
        case .obsolete(let file, nil): obsolete.append(file)
        case .clear(.everything, let number): cleared.add(.everything, below: number)
        default: return false
        }
        note(recorded: record.highestNumber)
        return true
    }

    /// Reads a journal. Returns false when it is damaged, or has records that concern several groups.
    private mutating func read(
        _ generation: UInt64, in part: Range<Int>, _ reader: IndexReader
    ) throws(Errno) -> Bool {
        guard let (file, _) = try fileSystem.openRegular(DirectoryLayout.journal(generation).name, in: reader.root.file)
        else { return false }
        lines.begin(file)
        journals.endsClosed = false
        var offset = part.lowerBound
        var isGood = true
        let length: Int?
        do {
            length = try LineReader(fileSystem: fileSystem).forEachLine(of: file.file, in: part) { line -> Bool in
                isGood = take(line, at: offset)
                offset += line.count + 1
                return isGood
            }
        } catch {
            return false
        }
        journals.length = length ?? 0
        guard isGood, let length, length >= reader.leastLength(of: generation, published) else { return false }
        let marked = journals.endsClosed ? journals.closedLength : 0
        journals.parts.append(JournalPart(generation: generation, length: length - marked))
        // A process may have been killed when it had just created a journal.
        return offset > 0 || published != nil
    }

    private mutating func note(recorded number: UInt64) {
        lastNumber = max(lastNumber, number)
        journals.recorded = max(journals.recorded, number)
    }

    /// Notes that a line gives a key a file that was to be deleted when the manifest was saved: the copy of a value in a
    /// segment, which had not been recorded.
    private mutating func noteUse(by line: UnsafeRawBufferPointer) {
        guard case .set(let entry)? = RecordScanner.record(on: line) else { return }
        obsolete.removeAll { $0 == entry.file }
    }

    private mutating func note(taken number: UInt64) {
        if taken.count == 8 * Int(SuspectProbe.concurrency) {
            taken.removeAll { $0 + SuspectProbe.concurrency < lastNumber }
        }
        taken.append(number)
    }

    /// Takes a line of a journal; false when it is damaged, or concerns several groups.
    private mutating func take(_ line: UnsafeRawBufferPointer, at offset: Int) -> Bool {
        if line.isEmpty { return offset > 0 }
        journals.endsClosed = false
        switch RecordRoute(of: line, among: manifest.table.hash) {
        case .keyed(let group, let number, let isTaken, let file, let expires):
            if let file, obsoleteNumbers.contains(file) { noteUse(by: line) }
            lines.append(at: offset, length: line.count, expires: expires, to: group)
            journals.records += 1
            note(recorded: number)
            if isTaken { note(taken: number) }
            return offset > 0
        case .whole(.header(let version, let generation, let last, let boot)):
            note(recorded: last)
            if generation == manifest.table.generation { saved = last }
            isSettled = isSettled && fileSystem.isThisBoot(boot) == true
            journals.headerLast = last
            journals.isHeaderSettled = fileSystem.isThisBoot(boot)
            journals.headerVersion = version
            return offset == 0 && version <= Record.lastVersion
        case .whole(.closed(let number, let totals)):
            journals.endsClosed = true
            journals.closedLength = line.count + 1
            self.totals = totals
            lastNumber = max(lastNumber, number)
            return offset > 0
        case .whole, .damaged:
            return false
        }
    }
}

/// The records of a manifest that are not in its groups.
private struct ManifestFrame {
    let manifest: SavedGroups.Manifest
    let lastNumber: UInt64
    private(set) var others: [Record] = []

    /// Returns nil when the manifest has no groups or only one, or is damaged.
    init?(_ reader: IndexReader) throws(Errno) {
        let fileSystem = reader.fileSystem
        let name = DirectoryLayout.manifest(.json).name
        guard let (file, size) = try fileSystem.openRegular(name, in: reader.root.file) else { return nil }
        guard let (last, position) = try Self.lastRecord(of: file, size: size, fileSystem),
            case .groups(let table) = last, table.groups.count > 1, table.start > 0, table.end <= position,
            table.groups.allSatisfy({ $0.length <= Self.longest }), position - table.end <= Self.longest
        else { return nil }
        var head = [UInt8](repeating: 0, count: min(table.start, 256))
        guard try fileSystem.read(file.file, at: 0, into: &head) == head.count,
            let end = head.firstIndex(of: UInt8(ascii: "\n")), head[0] == UInt8(ascii: "["),
            case .header(let version, let generation, let number, let boot)? = Array(head[1..<end]).withBytes({
                RecordScanner.record(on: $0)
            }), Record.plainVersion...Record.lastVersion ~= version, boot != Record.doubtfulBoot,
            generation == table.generation, generation > 0
        else { return nil }
        if size > reader.freely {
            let isPlausible = (try? reader.isPlausible((entries: table.totals.whole.count, others: 0))) ?? false
            guard isPlausible else { return nil }
        }
        manifest = SavedGroups.Manifest(file, table)
        lastNumber = number
        var rest = [UInt8](repeating: 0, count: position - table.end)
        guard try fileSystem.read(file.file, at: table.end, into: &rest) == rest.count else { return nil }
        var isIntact = true
        var found: [Record] = []
        rest.withBytes { bytes in
            LineReader.forEachLine(in: bytes) { line in
                if case .record(let record) = Line(line) { found.append(record) } else { isIntact = false }
            }
        }
        if !isIntact { return nil }
        others = found
    }

    /// The longest group, and the longest part after the groups. Bytes; a longer one is read line by line.
    private static let longest = 256 << 20

    /// Returns the last record and the offset of its line.
    private static func lastRecord(
        of file: OwnedDescriptor, size: Int, _ fileSystem: any FileSystem
    ) throws(Errno) -> (record: Record, position: Int)? {
        var length = min(size, 16 << 10)
        while true {
            var tail = [UInt8](repeating: 0, count: length)
            guard try fileSystem.read(file.file, at: size - length, into: &tail) == length, length > 3,
                tail.suffix(3) == Array("\n]\n".utf8)[...]
            else { return nil }
            let line = tail.dropLast(3)
            guard let feed = line.lastIndex(of: UInt8(ascii: "\n")) else {
                if length == size || length > LineReader.longestLine { return nil }
                length = min(size, length * 2)
                continue
            }
            guard case .record(let record) = Array(line[(feed + 1)...]).withBytes({ Line($0) }) else { return nil }
            return (record, size - length + feed + 1)
        }
    }
}

extension FileSystem {
    /// True when a header was written or corrected during the current boot of the system; nil when the header does not
    /// say.
    func isThisBoot(_ boot: UInt64?) -> Bool? {
        boot.map { $0 != 0 && $0 == self.boot }
    }
}
