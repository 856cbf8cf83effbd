import Dispatch
import LarderFiles
import LarderFoundation

/// The *frozen* queue: saves run on it, one at a time, each writing a frozen snapshot of the index as the manifest.
///
/// 1. The info queue begins a new journal, so that it holds all changes from here on.
/// 2. The entries are written group by group to a temporary file, while writers continue: see `GroupWriter`.
/// 3. The file is renamed into place, and the older journals are deleted.
///
/// A process killed anywhere in between leaves the old manifest and all journals. Unless `powerSafe`, nothing is synced
/// but the journal that replaces the first: the entry files are the truth, and an index lost with the power is rebuilt
/// from them.
final class ManifestWriter: Sendable {
    /// The number of slots copied at a time for a property list, while the writers of a shard wait.
    private static let slice = 256
    /// The number of times that a save is tried when groups cannot be copied.
    private static let attempts = 3

    private let queue: any WorkQueue
    private let fileSystem: any FileSystem
    private let settings: StoreSettings
    private let path: String
    private let index: Index
    private let provisional: ProvisionalState
    private let info: CommitQueue
    private let disk: DiskQueue
    private let reporter: Reporter
    private let lifetime: StoreLifetime

    init(_ context: StoreContext, info: CommitQueue) {
        queue = context.clock.queue("larder.frozen", .utility)
        fileSystem = context.fileSystem
        settings = context.settings
        path = context.path
        index = context.index
        provisional = context.provisional
        self.info = info
        disk = context.disk
        reporter = context.reporter
        lifetime = context.lifetime
    }

    /// Runs `body` on the queue, unless the store has been deallocated by then.
    func async(_ body: @escaping @Sendable () -> Void) {
        queue.enqueue { [lifetime] in lifetime.whileAlive(body) }
    }

    /// The same, waiting for it.
    func run<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try queue.run(body)
    }

    /// Rewrites the manifest if that is cheap relative to the changes, or with `always` if there are any changes. Call
    /// it on the queue.
    func save(always: Bool) throws(CacheError) {
        queue.requireCurrent()
        let others = disk.others.object
        // A process that saves is slow, or stopped. Its save, or the next one, covers the changes, too.
        let isSaved = try Backoff.wait(milliseconds: always ? Self.longestWait : 0) { () throws(CacheError) in
            let isMine = try others.membership.perform(.save) { () throws(CacheError) in
                try saveInTurn(always: always, beside: others)
                return true
            }
            return isMine ?? false
        }
        if !isSaved { info.scheduleSaveIfDirty() }
    }

    /// How long a caller waits for the save of another process. Milliseconds.
    private static let longestWait = 1_000

    private func saveInTurn(always: Bool, beside others: Follower) throws(CacheError) {
        for _ in 0..<Self.attempts {
            if try saveOnce(always: always, beside: others) { return }
        }
        throw CacheError(code: .io, message: "The groups of the manifest cannot be read.", path: path)
    }

    /// Returns false when a group could not be copied: it is loaded now, so another save need not copy it. Also while the
    /// index is being replaced.
    private func saveOnce(always: Bool, beside others: Follower) throws(CacheError) -> Bool {
        guard var save = try info.beginSave(entries: index.totals.count, always: always) else { return true }
        try translating("begin a journal", at: path) { () throws(Errno) in try note(others, in: &save) }
        // The waiting lines supersede files that the new manifest does not mention.
        if provisional.hasLeftovers || index.mayOweFiles { index.loadChanged() }
        // From here on, every change is published, or has a higher number than the header of the journal.
        disk.awaitChanges()
        guard let replacements = index.replacements else { return false }
        guard
            let format = try translating(
                "save the manifest", at: path, { () throws(Errno) in try write(save, replacements) })
        else {
            // The recovery ends with a save.
            return provisional.isReconciling
        }
        try translating("delete an old journal", at: path) { () throws(Errno) in
            try deleteReplaced(by: save, format)
        }
        return true
    }

    /// Notes the journals of other processes, and how much of them is in the index. Says removals again in the
    /// journal of the save, if a change with a lower number may still come after them.
    private func note(_ others: Follower, in save: inout CommitQueue.Save) throws(Errno) {
        others.membership.buryTheDead()
        // Lines that wait for their groups may be removals that must be said again.
        if !others.membership.isAlone { index.loadChanged() }
        let journals = try Set(RootJournals(in: save.root, fileSystem).journals)
        guard let inUse = others.journalsInUse() else { throw .io }
        // A journal that an earlier save has deleted is being given up: its owner has noticed that it came too late.
        save.journals = inUse.filter { [generation = save.generation] part in
            part.generation < generation && journals.contains(part.generation)
        }
        let unread = provisional.lowestUnread
        index.forgetGraves(through: save.settled)
        if let unread { save.settled = min(save.settled, max(unread, 1) - 1) }
        save.isProof = unread == nil
        let graves = index.graves
        var printer = RecordPrinter()
        for (key, number) in graves.keys.inOrder(of: { $0.value }) {
            JournalFormat.append(.remove(key: key, number: number), to: &printer)
        }
        for (scope, marks) in graves.marks.inOrder {
            for mark in marks {
                JournalFormat.append(.expire(scope, number: mark.number, at: mark.time), to: &printer)
            }
        }
        for (scope, number) in graves.scopes.numbers.inOrder(of: { $0.value }) {
            JournalFormat.append(.clear(scope, number: number), to: &printer)
        }
        if printer.count > 0 { try info.repeatLines(printer.bytes, of: save) }
    }

    /// Returns the format: that of the settings, unless the manifest is too long for it. Nil when a group could not be
    /// copied, or damage was found meanwhile.
    private func write(_ save: CommitQueue.Save, _ replacements: Int) throws(Errno) -> ManifestFormat? {
        let temporary = DirectoryLayout.temporaryManifest(save.generation).name
        let isList = settings.manifestFormat == .propertyList && save.journals.isEmpty
        let list = isList ? try propertyList(save.generation) : nil
        let format = list == nil ? ManifestFormat.json : .propertyList
        let manifest = DirectoryLayout.manifest(format).name
        guard try isReplaceable(manifest, in: save.root) else { throw .exists }
        let file = OwnedDescriptor(try fileSystem.createAnew(temporary, in: save.root.file))
        do throws(Errno) {
            var groups: GroupWriter?
            if let list {
                try fileSystem.write(Array(list), to: file.file, at: 0)
            } else {
                groups = try writeRecords(of: save, to: file)
            }
            // Damage was found meanwhile. A group that this save copied may lack entries that the recovery finds.
            // Nor may the index have been replaced: the copy would have a part of each.
            if provisional.isReconciling || list == nil && groups == nil || index.replacements != replacements {
                try fileSystem.remove(temporary, in: save.root.file, directory: false)
                return nil
            }
            if settings.isPowerSafe { try fileSystem.sync(file.file) }
            try fileSystem.rename(temporary, in: save.root.file, to: manifest, in: save.root.file)
            if settings.isPowerSafe { try fileSystem.sync(save.root.file) }
            if let groups { move(groups, to: manifest, in: save.root) }
        } catch {
            try? fileSystem.remove(temporary, in: save.root.file, directory: false)
            throw error
        }
        return format
    }

    private var doubt: UInt64? { provisional.isDoubtful ? Record.doubtfulBoot : nil }

    /// The version of the format: the cache of another process may have made segments.
    private var version: UInt64 {
        let hasSegments = settings.inlineThreshold > 0 || disk.runAnyway { $0?.segments.exist ?? false }
        return hasSegments ? Record.segmentsVersion : Record.plainVersion
    }

    /// From now on, groups that are not loaded are read from the new manifest. If it cannot be opened, they are read
    /// from the old one, whose file is still open.
    private func move(_ groups: GroupWriter, to manifest: FileName, in root: OwnedDescriptor) {
        guard groups.hasUnloaded, let (file, _) = try? fileSystem.openRegular(manifest, in: root.file) else { return }
        groups.move(to: file)
    }

    /// False when the name belongs to something other than a regular file, which is not ours.
    private func isReplaceable(_ name: FileName, in root: OwnedDescriptor) throws(Errno) -> Bool {
        do {
            return try fileSystem.status(of: name, in: root.file).kind == .regular
        } catch .noEntry {
            return true
        }
    }

    /// Nil when a group could not be copied.
    private func writeRecords(of save: CommitQueue.Save, to file: OwnedDescriptor) throws(Errno) -> GroupWriter? {
        let generation = save.generation
        var printer = RecordPrinter(reserving: 64 << 10)
        var offset = 0
        func write(_ bytes: UnsafeRawBufferPointer) throws(Errno) {
            if bytes.isEmpty { return }
            try fileSystem.write(bytes, .none, to: file.file, at: offset)
            offset += bytes.count
        }
        func flush() throws(Errno) {
            try printer.withBytes(write)
            printer.removeAll()
        }
        JSONManifest.begin(
            &printer, version: version, generation: generation, last: info.lastTaken, boot: doubt)
        try flush()
        var groups = GroupWriter(
            index, generation: generation, start: offset, entriesPerGroup: settings.entriesPerGroup)
        do {
            try groups.write(write)
        } catch {
            switch error {
            case .io(let error): throw error
            case .damaged: return nil
            }
        }
        try forEachOtherRecord { record throws(Errno) in
            JSONManifest.append(record, to: &printer)
            if printer.count >= 60 << 10 { try flush() }
            return true
        }
        var table = groups.table
        table.journals = save.journals
        table.settled = save.settled
        JSONManifest.append(.groups(table), to: &printer)
        JSONManifest.end(&printer)
        try flush()
        return groups
    }

    /// Returns the manifest as a property list; nil when it would be too long.
    private func propertyList(_ generation: UInt64) throws(Errno) -> Data? {
        var manifest = PropertyListManifest(
            version: version, generation: generation, last: info.lastTaken, boot: doubt)
        var hasRoom = true
        try forEachRecord { record throws(Errno) in
            hasRoom = manifest.append(record)
            return hasRoom
        }
        if !hasRoom { return nil }
        do {
            return try manifest.encoded()
        } catch {
            throw .invalid
        }
    }

    /// Calls `body` with each record of a manifest, until it returns false. The copy is fuzzy: concurrent changes are
    /// also in the new journal, and replay is idempotent. Tombstones and obsolete files are copied after the entries.
    private func forEachRecord(_ body: (Record) throws(Errno) -> Bool) throws(Errno) {
        for shard in 0..<Index.shardCount {
            var start = 0
            // In slices: a copy in one piece would make the shard's next change copy all of it.
            while let entries = index.withShard(at: shard, { $0.table.slice(from: start, Self.slice) }) {
                for entry in entries { guard try body(.set(entry)) else { return } }
                start += Self.slice
            }
        }
        try forEachOtherRecord(body)
    }

    /// The same for the records that are not entries.
    private func forEachOtherRecord(_ body: (Record) throws(Errno) -> Bool) throws(Errno) {
        var cleared = provisional.cleared
        // Entries in these scopes were left out, but not all of their files are marked obsolete yet.
        index.forEachShard { shard in
            for (scope, number) in shard.table.cleared.numbers { cleared.add(scope, below: number) }
        }
        for (scope, number) in cleared.numbers.inOrder(of: { $0.value }) {
            guard try body(.clear(scope, number: number)) else { return }
        }
        for (scope, marks) in provisional.marks.inOrder {
            for mark in marks { guard try body(.expire(scope, number: mark.number, at: mark.time)) else { return } }
        }
        for file in provisional.unreadSegments.sorted() {
            guard try body(.obsolete(file: file, of: nil)) else { return }
        }
        for shard in 0..<Index.shardCount {
            let (tombstones, obsolete) = index.withShard(at: shard) { ($0.tombstones, $0.debts.files) }
            for (key, number) in tombstones.inOrder(of: { $0.value }) {
                guard try body(.remove(key: key, number: number)) else { return }
            }
            for file in obsolete { guard try body(.obsolete(file: file.file, of: nil)) else { return } }
        }
    }

    /// Deletes the files that a killed save has left, in the background. On this queue, so never while a save uses one
    /// of their names.
    func deleteInBackground(_ leftovers: [DirectoryLayout], in root: OwnedDescriptor) {
        if leftovers.isEmpty { return }
        async { [weak self] in
            guard let self else { return }
            for leftover in leftovers {
                do throws(Errno) {
                    try fileSystem.removeRegular(leftover.name, in: root.file)
                } catch {
                    reporter.report(CacheError(error, doing: "delete \(leftover.name)", path: path))
                }
            }
        }
    }

    /// The journals of all processes that a save covers whole. Deletes what killed saves have left: no other save runs.
    private func replaced(by save: CommitQueue.Save) throws(Errno) -> [UInt64] {
        let found = try RootJournals(in: save.root, fileSystem)
        for generation in found.temporaries {
            let name = DirectoryLayout.temporaryManifest(generation).name
            try? fileSystem.removeRegular(name, in: save.root.file)
        }
        let kept = Set(save.journals.map(\.generation))
        return found.journals.filter { $0 < save.generation && !kept.contains($0) }
    }

    private func deleteReplaced(by save: CommitQueue.Save, _ format: ManifestFormat) throws(Errno) {
        let journals = try replaced(by: save)
        guard let manifests = try info.finish(save, format, replacing: journals) else { return }
        for format in manifests {
            try fileSystem.removeRegular(DirectoryLayout.manifest(format).name, in: save.root.file)
        }
        for generation in journals {
            try fileSystem.removeRegular(DirectoryLayout.journal(generation).name, in: save.root.file)
        }
    }
}
