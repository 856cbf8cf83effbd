import LarderFiles

/// The part of the index that is still on disk: the groups of the saved manifest, and the journal lines for them.
struct SavedGroups: Sendable {
    /// The manifest, with the place of each group in it.
    struct Manifest: Sendable {
        let file: OwnedDescriptor
        let table: GroupTable
        /// The offset of each group. Bytes.
        fileprivate let offsets: [Int]

        init(_ file: OwnedDescriptor, _ table: GroupTable) {
            self.file = file
            self.table = table
            var offset = table.start
            offsets = table.groups.map { group in
                defer { offset += group.length }
                return offset
            }
        }
    }

    let fileSystem: any FileSystem
    private(set) var manifest: Manifest
    private(set) var lines: WaitingLines
    /// Entries below these marks are cleared.
    let cleared: ClearMarks
    /// The highest number that a line may mention; a higher one proves damage.
    let lastNumber: UInt64
    /// The last session was killed: the files of superseded entries may exist.
    let isUnsettled: Bool
    /// The journals are those of several processes.
    private let isOfSeveral: Bool
    private let pool = AttachmentsPool()

    init(
        _ manifest: Manifest, _ lines: WaitingLines, cleared: ClearMarks, lastNumber: UInt64, isUnsettled: Bool,
        isOfSeveral: Bool = false, in fileSystem: any FileSystem
    ) {
        self.fileSystem = fileSystem
        self.manifest = manifest
        self.lines = lines
        self.cleared = cleared
        self.lastNumber = lastNumber
        self.isUnsettled = isUnsettled
        self.isOfSeveral = isOfSeveral
    }

    var table: GroupTable { manifest.table }

    /// True when a search for expired entries may find some in a group, or in the lines that wait for it.
    func mayHaveExpired(_ group: Int, at now: Timestamp) -> Bool {
        table.groups[group].mayHaveExpired(at: now) || lines.mayHaveExpired(group, at: now)
    }

    /// The content of a group.
    struct Content {
        /// The entries, with the changes from the journal lines.
        var shard: Shard
        /// The sums of the manifest's lines alone.
        var saved = SavedTotals()
        /// Lines are missing or damaged. The others are in `shard`.
        var isDamaged = false
        /// Several processes have the directory.
        let areOfSeveral: Bool

        var entries: some Sequence<IndexEntry> { shard.table.entries.lazy.filter { $0.file != 0 } }

        /// The files that lines mention and no entry uses, the oldest first. An entry may use a file that had been
        /// replaced: the replacement could not be synced, and was taken back.
        var supersededFiles: [Debts.File] {
            shard.unusedFiles(areOfSeveral: areOfSeveral)
        }
    }

    /// The bytes of a group in the manifest; nil when they are damaged.
    func bytes(of group: Int) -> [UInt8]? {
        let (bytes, isIntact) = read(group)
        return isIntact ? bytes : nil
    }

    private func read(_ group: Int) -> (bytes: [UInt8], isIntact: Bool) {
        let (offset, expected) = (manifest.offsets[group], table.groups[group])
        do {
            var bytes = [UInt8](repeating: 0, count: expected.length)
            let count = try fileSystem.read(manifest.file.file, at: offset, into: &bytes)
            bytes.removeLast(bytes.count - count)
            let isIntact = count == expected.length && bytes.withBytes { XXH64.hash($0) } == expected.check
            return (bytes, isIntact)
        } catch {
            return ([], false)
        }
    }

    /// Reads a group and the lines that wait for it. O(its entries).
    func content(of group: Int) -> Content {
        var shard = Shard()
        shard.table.beginLoading()
        var content = Content(shard: shard, areOfSeveral: isOfSeveral)
        let (bytes, isIntact) = read(group)
        content.isDamaged = !isIntact
        bytes.withBytes { bytes in
            LineReader.forEachLine(in: bytes) { add($0, of: group, isIntact: isIntact, to: &content) }
        }
        if content.saved.whole != table.groups[group].totals { content.isDamaged = true }
        // Those of several processes are in no order.
        var placers = isOfSeveral ? [ObjectIdentifier: Record.Placer]() : nil
        var records: [Record.Placed] = []
        do {
            var buffer: [UInt8] = []
            try lines.forEach(of: group) { journal, offset, length throws(Errno) in
                buffer = [UInt8](repeating: 0, count: length)
                guard try fileSystem.read(journal.file, at: offset, into: &buffer) == length,
                    let record = buffer.withBytes({ RecordScanner.record(on: $0) })
                else {
                    content.isDamaged = true
                    return
                }
                guard placers != nil else { return replay(record, of: group, into: &content) }
                records.append(placers![ObjectIdentifier(journal), default: Record.Placer()].place(record))
            }
        } catch {
            content.isDamaged = true
        }
        for record in Record.inOrder(records) { replay(record, of: group, into: &content) }
        return content
    }

    /// Adds a line of the manifest, `,` and a record.
    private func add(_ line: UnsafeRawBufferPointer, of group: Int, isIntact: Bool, to content: inout Content) {
        let record = line.first == UInt8(ascii: ",") ? line.part(1..<line.count) : line
        // The check of an intact group covers its lines.
        guard case .set(let entry)? = RecordScanner.record(on: record, isChecked: isIntact),
            max(entry.file.number, entry.change) <= lastNumber,
            content.saved.whole.count < table.groups[group].totals.count
        else { return content.isDamaged = true }
        content.saved.add(entry)
        if !cleared.cover(entry) { replay(.set(entry), of: group, into: &content) }
    }

    private func replay(_ record: Record, of group: Int, into content: inout Content) {
        guard let key = record.key, table.hash.group(of: key) == group else { return content.isDamaged = true }
        switch record {
        case .set(var entry):
            entry.attachments = pool.shared(entry.attachments)
            _ = content.shard.apply(.set(entry), of: key)
        default:
            _ = content.shard.apply(record, of: key)
        }
    }

    /// Notes that a new manifest has replaced this one. It covers all waiting lines.
    mutating func move(to next: Manifest) {
        manifest = next
        lines.removeAll()
    }
}
