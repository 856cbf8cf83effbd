import Dispatch
import Foundation
import LarderFiles

extension Store {
    /// Arranges for a save after the delay. Called on `info`, by the first change since the last one.
    func scheduleSave() {
        clock.schedule(after: settings.saveDelay) { [weak self] in
            self?.maintenance.begin(.save) { [weak self] in
                guard let self else { return false }
                info.run { journal.schedule.due() }
                boundTombstones()
                unlinkAnyBehind()
                _ = attempting { () throws(CacheError) in try save(always: false) }
                return false
            }
        }
    }

    /// Rewrites the manifest, when that is cheap beside what changed or `always`. Call it on the maintenance queue.
    ///
    /// 1. On `info`, a new journal is begun: whatever happens from here on stands in it too.
    /// 2. The shards are copied slice by slice on `frozen` and written to a temporary file. Writers go on.
    /// 3. The file is renamed into place and the older journals are deleted.
    ///
    /// Killed anywhere in between, the old manifest and all journals are still there. Nothing is synced: the files are
    /// the truth, and an index lost with the power is made again from them; unless `powerSafe`.
    func save(always: Bool) throws(CacheError) {
        if disk.run({ volume == nil }) { return }
        let entries = index.totals.count
        let begun = try translating("begin a journal", at: path) { () throws(Errno) in
            try info.run { () throws(Errno) -> Begun? in
                let isWorthIt = SaveDebouncer.isWorthSaving(records: journal.records, entries: entries)
                guard journal.mustSave || isWorthIt || (always && journal.isDirty) else { return nil }
                let generation = try journal.beginSave(last: lastTaken)
                return Begun(
                    generation: generation, records: journal.records, demands: journal.demands, root: try journal.root,
                    journal: ObjectIdentifier(journal))
            }
        }
        guard let begun else { return }
        let format = try translating("save the manifest", at: path) { () throws(Errno) in
            try writeManifest(begun.generation, in: begun.root)
        }
        try translating("delete an old journal", at: path) { () throws(Errno) in
            try deleteOlder(than: begun, format)
        }
        unlinkTombstones()
    }

    /// A save under way: the generation that it writes, and what the journals held when it began.
    private struct Begun {
        let generation: UInt64
        let records: Int
        let demands: Int
        let root: SharedDescriptor
        let journal: ObjectIdentifier
    }

    /// Returns the format: that of the settings, unless the manifest is too long for it.
    private func writeManifest(_ generation: UInt64, in root: SharedDescriptor) throws(Errno) -> ManifestFormat {
        let temporary = DirectoryLayout.temporaryManifest(generation).name
        let list = settings.manifestFormat == .propertyList ? try propertyList(generation) : nil
        let format = list == nil ? ManifestFormat.json : .propertyList
        let manifest = DirectoryLayout.manifest(format).name
        guard try isReplaceable(manifest, in: root) else { throw .exists }
        let file = try createAnew(temporary, in: root)
        do throws(Errno) {
            if let list {
                try fileSystem.write(Array(list), to: file.file, at: 0)
            } else {
                try writeRecords(generation, to: file)
            }
            if isPowerSafe { try fileSystem.sync(file.file) }
            try fileSystem.rename(temporary, in: root.file, to: manifest, in: root.file)
            if isPowerSafe { try fileSystem.sync(root.file) }
        } catch {
            try? fileSystem.remove(temporary, in: root.file, directory: false)
            throw error
        }
        return format
    }

    /// Creates a file; one that a killed session left under the name goes first.
    private func createAnew(_ name: FileName, in root: SharedDescriptor) throws(Errno) -> SharedDescriptor {
        do {
            return SharedDescriptor(try fileSystem.open(name, in: root.file, for: .creating))
        } catch .exists {
            guard try isReplaceable(name, in: root) else { throw .exists }
            try fileSystem.remove(name, in: root.file, directory: false)
            return SharedDescriptor(try fileSystem.open(name, in: root.file, for: .creating))
        }
    }

    /// False when something that is no regular file, and so not ours, has the name.
    private func isReplaceable(_ name: FileName, in root: SharedDescriptor) throws(Errno) -> Bool {
        do {
            return try fileSystem.status(of: name, in: root.file).kind == .regular
        } catch .noEntry {
            return true
        }
    }

    private func writeRecords(_ generation: UInt64, to file: SharedDescriptor) throws(Errno) {
        var printer = RecordPrinter(reserving: 64 << 10)
        var offset = 0
        func flush() throws(Errno) {
            try printer.withBytes { bytes throws(Errno) in
                try fileSystem.write(bytes, .none, to: file.file, at: offset)
            }
            offset += printer.count
            printer.removeAll()
        }
        JSONManifest.begin(&printer, generation: generation, last: lastTaken)
        try forEachRecord { record throws(Errno) in
            JSONManifest.append(record, to: &printer)
            if printer.count >= 60 << 10 { try flush() }
            return true
        }
        JSONManifest.end(&printer)
        try flush()
    }

    /// Returns the manifest as a property list; nil when there is too much for one.
    private func propertyList(_ generation: UInt64) throws(Errno) -> Data? {
        var manifest = PropertyListManifest(generation: generation, last: lastTaken)
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

    /// Slots that are copied while the writers of a shard wait.
    private static let slice = 256

    /// Calls `body` with each record of a manifest, until it answers false. The copy is fuzzy: concurrent changes are
    /// also in the journal that was begun before, and replay is idempotent. Expirations are not journaled, so a shard's
    /// tombstones and obsolete files are copied after its entries.
    private func forEachRecord(_ body: (Record) throws(Errno) -> Bool) throws(Errno) {
        for (scope, number) in reconciliation.withLock({ $0.cleared.numbers }) {
            guard try body(.clear(scope, number: number)) else { return }
        }
        for shard in 0..<Index.shardCount {
            var start = 0
            // Not in one piece: the first change of the shard after that would have to copy all of it.
            while let entries = frozen.run({ index.withShard(at: shard) { $0.table.slice(from: start, Self.slice) } }) {
                for entry in entries { guard try body(.set(entry)) else { return } }
                start += Self.slice
            }
            let (tombstones, obsolete) = frozen.run {
                index.withShard(at: shard) { ($0.tombstones, $0.obsolete) }
            }
            for (key, number) in tombstones { guard try body(.remove(key: key, number: number)) else { return } }
            for file in obsolete { guard try body(.obsolete(file: file.file, of: nil)) else { return } }
        }
    }

    /// Copies one shard. The entries are shared until the next change of the shard, so this is O(1) here, unless a
    /// namespace is being cleared; and O(its entries) for that change.
    func snapshot(_ shard: Int) -> [IndexEntry] {
        frozen.run {
            index.withShard(at: shard) { $0.table.snapshot }
        }
    }

    /// Deletes what a save that was killed has left.
    func deleteBehind(_ leftovers: [DirectoryLayout]) {
        if leftovers.isEmpty { return }
        maintenance.begin(.tidy) { [weak self] in
            guard let self, let root = disk.run({ volume })?.root else { return false }
            for leftover in leftovers {
                do throws(Errno) {
                    try fileSystem.remove(leftover.name, in: root.file, directory: false)
                } catch {
                    if error != .noEntry { report(CacheError(error, doing: "delete \(leftover.name)", path: path)) }
                }
            }
            return false
        }
    }

    /// Deletes what the new manifest has made superfluous.
    private func deleteOlder(than begun: Begun, _ format: ManifestFormat) throws(Errno) {
        let old = info.run { () -> (journals: [UInt64], manifests: [ManifestFormat]) in
            // The directory may have been replaced meanwhile, and the journal with it.
            guard ObjectIdentifier(journal) == begun.journal else { return ([], []) }
            journal.saved(begun.generation, recordsSaved: begun.records, demandsMet: begun.demands)
            let journals = journal.generations.filter { $0 < begun.generation }
            return (journals, journal.wrote(format))
        }
        // The first journal is the proof that the directory is ours: the next one must reach the disk before it goes.
        if old.journals.contains(1), !isPowerSafe {
            try info.run { () throws(Errno) in
                if ObjectIdentifier(journal) == begun.journal { try journal.syncBegun() }
            }
        }
        for format in old.manifests {
            do {
                try fileSystem.remove(DirectoryLayout.manifest(format).name, in: begun.root.file, directory: false)
            } catch .noEntry {}
        }
        for generation in old.journals {
            do {
                try fileSystem.remove(DirectoryLayout.journal(generation).name, in: begun.root.file, directory: false)
            } catch .noEntry {}
            info.run { if ObjectIdentifier(journal) == begun.journal { journal.forget(generation) } }
        }
    }
}
