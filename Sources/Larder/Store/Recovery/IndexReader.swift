import LarderFiles
import LarderFoundation

/// Reads manifest and journals into an index. A bad line is skipped and counted; a newer format is refused.
///
/// The number of files bounds the memory: an index with many more entries than files is a forgery, and counts as lost.
struct IndexReader {
    let fileSystem: any FileSystem
    let root: OwnedDescriptor
    let entries: OwnedDescriptor?
    let path: String

    /// Processes that shared the directory and are all dead have left this; nil: nothing is proved.
    var proof: LeftPage.Proof?
    /// The journals that had lines when the last of them died, and their lengths.
    var announced: [UInt64: Int]? { proof?.announced }
    /// The memory that records may take before the files are counted. Bytes.
    var freely = 512 << 20
    /// The number of entries whose files may be missing, as after a power cut; also the bound of other things in
    /// memory.
    var missing = 1 << 16
    /// The number of damaged bytes after which the rest of a file is not read: a sparse file may claim any length.
    private static let mostDamage = 64 << 20
    /// The length of the longest header of a journal. Bytes.
    private static let longestHeader = 128

    enum Refusal: Error {
        case fake
        /// Another process has deleted a file meanwhile.
        case vanished
        case error(CacheError)
    }

    /// Returns the index of the records, with the findings about the journals.
    func read(_ listing: RootListing, at now: Timestamp) throws(CacheError) -> Replay {
        try read(listing, at: now, published: nil) ?? Replay(at: now)
    }

    /// The same beside other processes: only what they have published. Nil when they have deleted a file meanwhile.
    func read(
        _ listing: RootListing, at now: Timestamp, published: JournalPositions?
    ) throws(CacheError) -> Replay? {
        var replay = Replay(at: now)
        do {
            try read(listing, published, into: &replay)
        } catch {
            if case .error(let error) = error { throw error }
            if case .vanished = error { return nil }
            replay = Replay(at: now)
            replay.damagedLines = 1
            replay.journals.generations = listing.journals
            replay.journals.manifests = listing.manifests
            replay.journals.isBroken = true
            replay.journals.isDamaged = true
        }
        return replay
    }

    private func read(
        _ listing: RootListing, _ published: JournalPositions?, into replay: inout Replay
    ) throws(Refusal) {
        let manifest = try readManifests(listing, into: &replay)
        var journals = listing.journals
        replay.journals.generations = journals
        if case .intact(let generation) = manifest {
            replay.journals.savedGeneration = generation
            journals.removeAll { $0 < generation }
        } else {
            replay.journals.older = []
        }
        var isComplete =
            if let published {
                !published.lacksAnnounced(journals, since: manifest.generation)
            } else {
                isComplete(journals, manifest) && announced?.lacks(journals, since: manifest.generation) != true
            }
        for part in replay.journals.older where !listing.journals.contains(part.generation) {
            if published != nil { throw .vanished }
            isComplete = false
        }
        let older = replay.journals.older.filter { listing.journals.contains($0.generation) }
        // Those of several processes are in no order.
        var records: [Record.Placed]? = older.isEmpty && journals.count < 2 ? nil : []
        for part in older { try readJournal(part.generation, from: part.length, published, &records, into: &replay) }
        for generation in journals {
            try readJournal(
                generation, isLast: generation == journals.last, published, &records, into: &replay)
        }
        if let records {
            let isShared = published != nil || replay.journals.wasShared || !older.isEmpty
            for record in isShared ? Record.inOrder(records) : records.map(\.record) { replay.applyOfJournal(record) }
        }
        if published == nil, older.count + journals.count > 1, mayLackLines(replay.journals) { isComplete = false }
        replay.journals.isDamaged = replay.damagedLines > 0 || !isComplete || replay.journals.isDoubtful
        replay.journals.isProved = announced != nil || replay.isClean
        if replay.journals.isProved { replay.journals.settled = .max }
    }

    /// True when the clean-shutdown marker, which is in the last of several journals, vouches for nothing: a power cut
    /// may have kept it, and cut off the ends of the journals before, which leaves no trace. A kill loses no lines.
    func mayLackLines(_ journals: LoadedJournals) -> Bool {
        journals.endsClosed && announced == nil && journals.isHeaderSettled != true
    }

    private enum ManifestState {
        case absent
        /// The generation is 0 when it cannot be read either.
        case damaged(generation: UInt64)
        case intact(generation: UInt64)

        var generation: UInt64 {
            switch self {
            case .absent: 0
            case .damaged(let generation), .intact(let generation): generation
            }
        }
    }

    /// Reads the manifest. If there are two, the format was changed: the higher generation wins.
    private func readManifests(
        _ listing: RootListing, into replay: inout Replay
    ) throws(Refusal) -> ManifestState {
        replay.journals.manifests = listing.manifests
        guard listing.manifests.contains(.propertyList) else {
            return listing.manifests.isEmpty ? .absent : try readManifest(into: &replay)
        }
        let content = try readPropertyList()
        if listing.manifests.contains(.json) {
            var json = replay
            let manifest = try readManifest(into: &json)
            if content.map({ manifest.generation > $0.generation }) ?? true { replay = json }
            if let content, manifest.generation > content.generation { return manifest }
        }
        guard let content else {
            replay.damagedLines += 1
            return .damaged(generation: 0)
        }
        for record in content.records {
            if case .header(_, _, _, Record.doubtfulBoot?) = record { replay.journals.isDoubtful = true }
            replay.applyOfManifest(record)
        }
        replay.damagedLines += content.damagedRecords
        return content.damagedRecords == 0
            ? .intact(generation: content.generation) : .damaged(generation: content.generation)
    }

    /// Nil when it is damaged.
    private func readPropertyList() throws(Refusal) -> PropertyListManifest.Parsed? {
        let name = DirectoryLayout.manifest(.propertyList).name
        var bytes: Data?
        do {
            guard let (file, size) = try fileSystem.openRegular(name, in: root.file) else { return nil }
            bytes = try PropertyListManifest.bytes(of: file.file, size: size, in: fileSystem)
        } catch .io {
            return nil
        } catch {
            throw .error(CacheError(error, doing: "read \(name)", path: path))
        }
        let content = bytes.flatMap { PropertyListManifest.content(of: $0) }
        if let content, content.version > Record.lastVersion { throw .error(newer(content.version)) }
        return content
    }

    /// True when the journals that follow the manifest exist without a gap.
    private func isComplete(_ journals: [UInt64], _ manifest: ManifestState) -> Bool {
        let first: UInt64 =
            switch manifest {
            case .absent: 1
            case .intact(let generation): generation
            case .damaged: 0
            }
        return first > 0 && journals == Array(first..<first + UInt64(journals.count)) && !journals.isEmpty
    }

    /// The length that a journal must have: so much of it was published. Bytes.
    func leastLength(of generation: UInt64, _ published: JournalPositions?) -> Int {
        published?.leastLength(of: generation) ?? announced?[generation] ?? 0
    }

    private func readManifest(into replay: inout Replay) throws(Refusal) -> ManifestState {
        var generation: UInt64?
        var isDoubtful = false
        var hasEnd = false
        var older: [JournalPart] = []
        var settled: UInt64 = 0
        let damagedBefore = replay.damagedLines
        let outcome = try readLines(of: DirectoryLayout.manifest(.json).name, isManifest: true, into: &replay) {
            line, _, _ in
            if case .record(.header(_, let found, _, let boot)) = line {
                (generation, isDoubtful) = (found, boot == Record.doubtfulBoot)
            }
            if case .record(.groups(let table)) = line { (older, settled) = (table.journals, table.settled) }
            if case .end = line { hasEnd = true }
            return true
        }
        guard outcome.isWhole, hasEnd, replay.damagedLines == damagedBefore, let generation, generation > 0 else {
            if replay.damagedLines == damagedBefore { replay.damagedLines += 1 }
            return .damaged(generation: generation ?? 0)
        }
        replay.journals.older = older
        replay.journals.settled = settled
        replay.journals.isDoubtful = isDoubtful
        return .intact(generation: generation)
    }

    /// `start`: the part up to it is covered. Journals of other processes are read as far as they are `published`.
    /// With `placed`, the records are applied later.
    private func readJournal(
        _ generation: UInt64, from start: Int = 0, isLast: Bool = false, _ published: JournalPositions?,
        _ placed: inout [Record.Placed]?, into replay: inout Replay
    ) throws(Refusal) {
        let end = published?.length(of: generation) ?? .max
        if end <= start { return }
        var placer = Record.Placer()
        var records = 0
        let damagedBefore = replay.damagedLines
        var endsClosed = false
        var hasHeader = false
        var closedLength = 0
        var hasUnpublished = false
        let publishedEnd = proof?.uncut[generation] ?? .max
        var header: (version: UInt64, last: UInt64, boot: UInt64?) = (0, 0, nil)
        let outcome = try readLines(
            of: DirectoryLayout.journal(generation).name, in: start..<end, mayVanish: published != nil,
            appliesRecords: placed == nil, into: &replay
        ) { line, offset, length in
            if offset > publishedEnd {
                guard case .record(.closed) = line else {
                    hasUnpublished = true
                    return false
                }
            }
            if case .record(let record) = line { placed?.append(placer.place(record)) }
            switch line {
            case .record(.header(let version, _, let last, let boot)):
                hasHeader = true
                header = (version, last, boot)
            case .record(.closed):
                endsClosed = true
                closedLength = length + 1
            case .record:
                records += 1
                endsClosed = false
            case .damaged: endsClosed = false
            case .end, .blank: break
            }
            return true
        }
        // A process was killed when it had just created it, or the disk was full.
        let least = leastLength(of: generation, published)
        let isUnbegun = least == 0 && (published != nil ? end == .max : announced != nil)
        if isUnbegun, !hasHeader, start == 0, records == 0, outcome.isWhole, outcome.length <= Self.longestHeader {
            replay.damagedLines = damagedBefore
            if isLast { replay.journals.isBroken = true }
            return
        }
        if !outcome.isWhole || !hasHeader && start == 0 || outcome.length < least { replay.damagedLines += 1 }
        if hasUnpublished { replay.journals.isIncomplete = true }
        replay.journals.records += records
        let marked = endsClosed && isLast ? closedLength : 0
        replay.journals.parts.append(JournalPart(generation: generation, length: outcome.length - marked))
        if header.boot == Record.sharedBoot { replay.journals.wasShared = true }
        guard isLast else { return }
        replay.journals.headerVersion = header.version
        replay.journals.headerLast = header.last
        replay.journals.isHeaderSettled = fileSystem.isThisBoot(header.boot)
        replay.journals.endsClosed = endsClosed
        replay.journals.closedLength = closedLength
        replay.journals.length = outcome.length
        replay.journals.isBroken = !outcome.isWhole || hasUnpublished
    }

    /// Applies every line of a file for which `look` returns true. A file that the disk cannot read to its end counts as
    /// damaged, like a lost one; a failure that may pass (no descriptors left, no permission) is an error.
    private func readLines(
        of name: FileName, in part: Range<Int> = 0..<Int.max, mayVanish: Bool = false, isManifest: Bool = false,
        appliesRecords: Bool = true, into replay: inout Replay, _ look: (Line, _ offset: Int, _ length: Int) -> Bool
    ) throws(Refusal) -> (length: Int, isWhole: Bool) {
        let what = "read \(name)"
        let opened: (file: OwnedDescriptor, size: Int)?
        do {
            opened = try fileSystem.openRegular(name, in: root.file)
        } catch .io {
            return (0, false)
        } catch .noEntry where mayVanish {
            throw .vanished
        } catch {
            throw .error(CacheError(error, doing: what, path: path))
        }
        guard let (file, _) = opened else { return (0, false) }
        var damage = 0
        var allowed = max(freely, 2 * replay.claimed)
        var offset = part.lowerBound
        do {
            let length = try LineReader(fileSystem: fileSystem).forEachLine(of: file.file, in: part) {
                bytes throws(Refusal) in
                defer { offset += bytes.count + 1 }
                let line = Line(bytes)
                guard look(line, offset, bytes.count) else { return true }
                switch line {
                case .damaged:
                    replay.damagedLines += 1
                    damage += bytes.count
                    return damage <= Self.mostDamage
                case .record(.header(let version, _, _, _)) where version > Record.lastVersion:
                    throw .error(newer(version))
                case .record(let record):
                    if isManifest {
                        replay.applyOfManifest(record)
                    } else if appliesRecords {
                        replay.applyOfJournal(record)
                    }
                    replay.claim(bytes.count)
                    if replay.claimed > allowed {
                        guard try isPlausible(replay.kept) else { throw .fake }
                        allowed = 2 * replay.claimed
                    }
                case .end, .blank: break
                }
                return true
            }
            return (length ?? 0, length != nil)
        } catch {
            switch error {
            case .stopped(let refusal): throw refusal
            case .reading(.io): return (0, false)
            case .reading(let error): throw .error(CacheError(error, doing: what, path: path))
            }
        }
    }

    /// True when there are about as many files as entries in the index. O(files).
    func isPlausible(_ kept: (entries: Int, others: Int)) throws(Refusal) -> Bool {
        var files = 0
        do throws(Errno) {
            guard let entries else { return false }
            try fileSystem.list(entries.file) { name, kind in
                if case .number = name, kind == .regular { files += 1 }
                return true
            }
            let segments = SegmentTable(of: entries, in: fileSystem)
            for number in try segments.numbers() {
                if let size = try? segments.segment(number).size() { files += size / SegmentFormat.shortestEntry }
            }
        } catch {
            throw .error(CacheError(error, doing: "list the entries", path: path))
        }
        return kept.entries <= files + missing && kept.others <= 4 * (files + 4 * missing)
    }

    private func newer(_ version: UInt64) -> CacheError {
        CacheError(
            code: .newerFormat,
            message:
                "The directory was written by a newer Larder (format \(version), this one knows \(Record.lastVersion)).",
            path: path)
    }
}
