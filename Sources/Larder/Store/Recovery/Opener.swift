import LarderFiles

/// Opens a directory whose lock is held: decides whether it is a cache, and reads its index.
struct Opener {
    let fileSystem: any FileSystem
    let path: String
    let identity: FileIdentity
    let root: SharedDescriptor
    let now: Timestamp
    let isPowerSafe: Bool
    /// False when the index is loaded whole, whatever its size.
    let mayLoadLater: Bool

    /// Reads the cache in the directory; creates a missing `entries`. Writes nothing else.
    func load() throws(CacheError) -> LoadedStore {
        let listing = try RootListing(of: root, in: fileSystem, path: path)
        let entries = try openEntries(listing)
        if !listing.isEmpty, !(try listing.isCache(entries: entries, fileSystem)) { throw notACache }
        let reader = IndexReader(fileSystem: fileSystem, root: root, entries: entries, path: path)
        if mayLoadLater, let entries, var found = GroupedIndex(listing, reader, at: now) {
            let directory = StoreDirectory(
                fileSystem: fileSystem, path: path, identity: identity, root: root, entries: entries)
            if found.findSuspects(in: directory) { return try finish(found, listing, directory) }
        }
        let replay = listing.isEmpty ? Replay(at: now) : try reader.read(listing, at: now)
        let opened = if let entries { entries } else { try make(listing) }
        let directory = StoreDirectory(
            fileSystem: fileSystem, path: path, identity: identity, root: root, entries: opened)
        return try finish(replay, listing, directory)
    }

    private var notACache: CacheError {
        CacheError(
            code: .notACache, message: "The directory is not empty and is not a cache; it was left untouched.",
            path: path)
    }

    private func finish(
        _ replay: consuming Replay, _ listing: RootListing, _ directory: StoreDirectory
    ) throws(CacheError) -> LoadedStore {
        var replay = replay
        var expired = 0
        var scan: OpeningScan?
        if replay.isClean || listing.isEmpty {
            expired = replay.finishPurging(at: now)
        } else {
            let names = try numbers(in: directory)
            // Before any other file: entries and files that tombstones cover are dead.
            let tombstones = try read(names.compactMap(DirectoryLayout.number(ofTombstone:)), in: directory)
            for (number, removal) in tombstones.valid { replay.apply(removal.record(number: number)) }
            replay.finish()
            replay.journals.isLost = replay.journals.generations.isEmpty && replay.journals.savedGeneration == 0
            scan = OpeningScan(replay, names: names, tombstones)
        }
        let lookedAt = try scan?.look(in: directory, at: now)
        let found = LoadedStore.Found(
            expired: expired, adopted: scan?.adopted ?? [], failures: scan?.failures ?? [],
            hasTrash: listing.hasTrash,
            leftovers: leftovers(listing, savedGeneration: replay.journals.savedGeneration))
        var loaded = LoadedStore(
            directory: directory, shards: scan?.shards ?? replay.shards,
            lastNumber: max(scan?.lastNumber ?? replay.lastNumber, try lastNumberInTrash(listing)),
            journals: replay.journals,
            reconciliation: lookedAt ?? Reconciliation(cleared: replay.cleared), damagedLines: replay.damagedLines,
            tombstones: scan?.tombstones ?? TombstoneFiles(), found: found)
        // No line mentions an adopted entry.
        loaded.journals.isIncomplete = !found.adopted.isEmpty
        loaded.journals.lacksRemovals = expired > 0 && replay.hasGroups
        loaded.journals.isUnsettled = !loaded.reconciliation.isConsistent || loaded.journals.isIncomplete
        return loaded
    }

    /// The same for an index whose groups are loaded later.
    private func finish(
        _ index: GroupedIndex, _ listing: RootListing, _ directory: StoreDirectory
    ) throws(CacheError) -> LoadedStore {
        var shard = Shard()
        if !index.isAfterKill { shard.forgetTombstones() }
        var shards = Array(repeating: shard, count: Index.shardCount)
        for file in index.obsolete { shards[0].markObsolete(file) }
        var reconciliation = Reconciliation(cleared: index.cleared)
        if !index.suspects.isEmpty {
            let findings = Reconciliation.Findings(suspects: index.suspects)
            reconciliation = Reconciliation(findings, cleared: index.cleared, marks: ExpiryMarks())
        }
        return LoadedStore(
            directory: directory, shards: shards, groups: index.groups(of: directory, at: now),
            lastNumber: max(index.lastNumber, try lastNumberInTrash(listing)), journals: index.journals,
            reconciliation: reconciliation, hasLeftovers: index.isAfterKill, damagedLines: 0,
            tombstones: TombstoneFiles(),
            found: LoadedStore.Found(
                hasTrash: listing.hasTrash,
                leftovers: leftovers(listing, savedGeneration: index.journals.savedGeneration)))
    }

    private func read(_ numbers: [UInt64], in directory: StoreDirectory) throws(CacheError) -> FoundTombstones {
        var tombstones = FoundTombstones()
        for number in numbers {
            let name = DirectoryLayout.tombstoneNumber(number)
            do throws(Errno) {
                switch try directory.tombstone(number) {
                case nil: break
                case .valid(let removal): tombstones.valid.append((number, removal))
                case .newer: tombstones.unread.append(number)
                case .invalid: tombstones.torn.append(name)
                }
            } catch .noEntry {
                continue
            } catch .io, .accessDenied, .notPermitted {
                tombstones.unread.append(number)
            } catch {
                throw CacheError(error, doing: "read a tombstone", path: directory.path(of: name))
            }
        }
        return tombstones
    }

    /// The leftovers of a killed save: temporary manifests, and journals that the manifest has replaced.
    private func leftovers(_ listing: RootListing, savedGeneration: UInt64) -> [DirectoryLayout] {
        listing.temporaries.map(DirectoryLayout.temporaryManifest)
            + listing.journals.filter { $0 < savedGeneration }.map(DirectoryLayout.journal)
    }

    private func openEntries(_ listing: RootListing) throws(CacheError) -> SharedDescriptor? {
        guard listing.hasEntries else { return nil }
        return try translating("open the entries", at: path) { () throws(Errno) in
            SharedDescriptor(try fileSystem.open(DirectoryLayout.entries.name, in: root.file, for: .directory))
        }
    }

    /// Creates the directory of the entries, or restores the old one after a kill in the middle of `removeAll`.
    private func make(_ listing: RootListing) throws(CacheError) -> SharedDescriptor {
        try translating("make the entries directory", at: path) { () throws(Errno) in
            let name = DirectoryLayout.entries.name
            if let last = try lastInTrash(listing) {
                let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
                try fileSystem.rename(.number(last), in: trash, to: name, in: root.file)
            } else {
                try fileSystem.makeDirectory(name, in: root.file)
            }
            if isPowerSafe { try fileSystem.sync(root.file) }
            return SharedDescriptor(try fileSystem.open(name, in: root.file, for: .directory))
        }
    }

    /// The numbers of cleared directories are in use until the trash is empty.
    private func lastNumberInTrash(_ listing: RootListing) throws(CacheError) -> UInt64 {
        try translating("list the trash", at: path) { () throws(Errno) in try lastInTrash(listing) ?? 0 }
    }

    private func lastInTrash(_ listing: RootListing) throws(Errno) -> UInt64? {
        guard listing.hasTrash else { return nil }
        let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
        return try fileSystem.numbers(.directory, in: trash).max()
    }

    private func numbers(in directory: StoreDirectory) throws(CacheError) -> [UInt64] {
        try translating("list the entries", at: path) { () throws(Errno) in
            try fileSystem.numbers(.regular, in: directory.entries.file)
        }
    }
}

/// The outcome of reading a directory.
struct LoadedStore {
    let directory: StoreDirectory
    var shards: [Shard]
    /// The groups of the index that are loaded later.
    var groups: ColdGroups?
    var lastNumber: UInt64
    var journals: LoadedJournals
    var reconciliation: Reconciliation
    /// The last session was killed, and the files have not been listed.
    var hasLeftovers = false
    var damagedLines: Int
    /// The tombstones that may still cover files.
    var tombstones: TombstoneFiles
    var found: Found

    /// Findings that are reported, or handled in the background.
    struct Found {
        /// Entries that had expired before the directory was opened.
        var expired = 0
        /// Entries that were found by their files before the first answer.
        var adopted: [Key] = []
        /// Files that could not be read.
        var failures: [CacheError] = []
        var hasTrash = false
        /// Files that a killed save has left.
        var leftovers: [DirectoryLayout] = []
    }
}
