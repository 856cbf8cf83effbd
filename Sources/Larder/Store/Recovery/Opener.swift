import LarderFiles

/// Opens a directory whose lock is held: decides whether it is a cache, and reads its index.
struct Opener {
    let fileSystem: any FileSystem
    let path: String
    let identity: FileIdentity
    let root: OwnedDescriptor
    let now: Timestamp
    let isPowerSafe: Bool
    /// False when the index is loaded whole, whatever its size.
    let mayLoadLater: Bool
    let membership: Membership

    /// Reads the cache in the directory; creates a missing `entries`. Writes nothing else.
    func load() throws(CacheError) -> LoadedStore {
        if !membership.isFirst { return try loadBesideOthers() }
        var loaded = try membership.mayBeJoined ? loadAlone(membership.proof, ignoringPage: true) : loadAndRetirePage()
        let (page, journals) = (membership.page, loaded.journals)
        page.raiseNumbers(to: loaded.lastNumber)
        page.raiseGenerations(to: max(journals.generations.last ?? 0, journals.savedGeneration))
        page.noteSaved(journals.savedGeneration)
        // Nobody else has changed anything. Not 0, which a forked child finds in its page.
        loaded.positions.epoch = page.epoch
        if !membership.mayBeJoined { return loaded }
        // Last: a process that is killed before leaves a page that proves nothing.
        if !page.isProved, let complete = journals.complete { page.take(complete, in: membership.lane) }
        if loaded.found.hasLeftFiles { page.noteDeath() }
        loaded.keepGraves(ClearMarks())
        return loaded
    }

    /// Returns the file system with which this process may write in a directory. It belongs to the owner of its
    /// entries; before there are any, to its own owner, or to the first user who may write in it.
    static func access(
        to root: OwnedDescriptor, in fileSystem: any FileSystem, asOwner: Bool, path: String
    ) throws(CacheError) -> any FileSystem {
        var hasEntries = true
        let owner = try translating("examine the directory", at: path) { () throws(Errno) in
            do throws(Errno) {
                return try fileSystem.status(of: DirectoryLayout.entries.name, in: root.file).owner
            } catch .noEntry {
                hasEntries = false
                return try fileSystem.status(of: root.file).owner
            }
        }
        let (user, isRoot) = (fileSystem.userID, fileSystem.userID == 0)
        if owner.user == user || !hasEntries && !isRoot { return fileSystem }
        if isRoot, asOwner { return fileSystem.giving(to: owner) }
        let name = { (user: UInt32) in user == 0 ? "root" : "user \(user)" }
        throw CacheError(
            code: .io,
            message: """
                The cache belongs to \(name(owner.user)), and this process runs as \(name(user)), whose files the owner \
                could not open. Open it as the owner\(isRoot ? ", or with the setting `access: .asOwner`" : ""), or use \
                another directory.
                """,
            path: path, errno: Errno.notPermitted.rawValue)
    }

    /// Throws when a directory is neither a cache nor empty.
    static func requireCache(
        _ root: OwnedDescriptor, in fileSystem: any FileSystem, path: String
    ) throws(CacheError) {
        let listing = try RootListing(of: root, in: fileSystem, path: path)
        if listing.isEmpty { return }
        let entries = try openEntries(listing, root, fileSystem, path)
        if try !listing.isCache(entries: entries, fileSystem) { throw notACache(path) }
    }

    /// True when a path leads to a cache that this process may read. Does not look at the page: closing it would end the locks of this process.
    static func isCache(at path: String, in fileSystem: any FileSystem) throws(CacheError) -> Bool {
        guard let root = try existingDirectory(at: path, in: fileSystem) else { return false }
        for attempt in 1... {
            do throws(CacheError) {
                let listing = try RootListing(of: root, in: fileSystem, path: path, ignoringPage: true)
                if listing.isEmpty { return false }
                return try listing.isCache(entries: openEntries(listing, root, fileSystem, path), fileSystem)
            } catch {
                if error.errno == Errno.accessDenied.rawValue { return false }
                // Another process has deleted or renamed a file that was to be examined.
                if error.errno != Errno.noEntry.rawValue || attempt == attempts { throw error }
            }
        }
        return false
    }

    /// True when a path leads to a directory in which a cache was opened once.
    static func hasEntries(at path: String, in fileSystem: any FileSystem) throws(CacheError) -> Bool {
        guard let root = try existingDirectory(at: path, in: fileSystem) else { return false }
        return (try? fileSystem.status(of: DirectoryLayout.entries.name, in: root.file)) != nil
    }

    private static func existingDirectory(
        at path: String, in fileSystem: any FileSystem
    ) throws(CacheError) -> OwnedDescriptor? {
        do throws(Errno) {
            return OwnedDescriptor(try fileSystem.openDirectory(path: path, creation: .never))
        } catch {
            if [.noEntry, .notDirectory, .accessDenied].contains(error) { return nil }
            throw CacheError(error, doing: "look for the cache", path: path)
        }
    }

    /// The same where nobody can join. The page of others ends.
    private func loadAndRetirePage() throws(CacheError) -> LoadedStore {
        let left = try translating("examine the shared page", at: path) { () throws(Errno) in
            try LeftPage(in: root, fileSystem)
        }
        let loaded = try loadAlone(left?.bury(), ignoringPage: left != nil)
        try translating("remove the shared page", at: path) { () throws(Errno) in try left?.retire() }
        return loaded
    }

    /// `proof`: from the page of processes that are all dead.
    private func loadAlone(_ proof: LeftPage.Proof?, ignoringPage: Bool) throws(CacheError) -> LoadedStore {
        var loaded = try readAlone(proof, ignoringPage: ignoringPage)
        if let last = proof?.lastNumber, OpeningScan.isPlausible(last, above: loaded.lastNumber) {
            loaded.lastNumber = max(loaded.lastNumber, last)
        }
        return loaded
    }

    private func readAlone(_ proof: LeftPage.Proof?, ignoringPage: Bool) throws(CacheError) -> LoadedStore {
        let listing = try RootListing(of: root, in: fileSystem, path: path, ignoringPage: ignoringPage)
        let entries = try openEntries(listing)
        // Where there is a page this has been checked. Opening the page once more would end the locks on it.
        if !ignoringPage, !listing.isEmpty, try !listing.isCache(entries: entries, fileSystem) {
            throw Self.notACache(path)
        }
        let reader = IndexReader(
            fileSystem: fileSystem, root: root, entries: entries, path: path, proof: proof)
        if mayLoadLater, let entries, var found = GroupedIndex(listing, reader) {
            let directory = StoreDirectory(
                fileSystem: fileSystem, path: path, identity: identity, root: root, entries: entries)
            if found.findSuspects(in: directory) { return try finish(found, listing, directory) }
        }
        // The entries of a directory that a clear has renamed have no files, and perhaps no record of the clear.
        let lastInTrash = try lastNumberInTrash(listing)
        let lacksRecords = proof.map { $0.lacksRecords || lastInTrash > 0 } ?? false
        if let entries, !lacksRecords, let found = try joinTheDead(proof, listing, reader, entries) { return found }
        if lacksRecords, membership.mayBeJoined { membership.page.noteUnrecorded() }
        var replay = Replay(at: now)
        if listing.isEmpty { replay.journals.isProved = true } else { replay = try reader.read(listing, at: now) }
        let opened = if let entries { entries } else { try make(listing) }
        let directory = StoreDirectory(
            fileSystem: fileSystem, path: path, identity: identity, root: root, entries: opened)
        var loaded = try finish(replay, listing, directory)
        loaded.found.lacksRecords = lacksRecords && membership.mayBeJoined
        return loaded
    }

    /// Opens an index that dead processes have published whole, as if they lived: no file is listed before the first
    /// call. What they had still to delete is deleted in the background. Nil when the files must be listed.
    private func joinTheDead(
        _ proof: LeftPage.Proof?, _ listing: RootListing, _ reader: IndexReader, _ entries: OwnedDescriptor
    ) throws(CacheError) -> LoadedStore? {
        guard mayLoadLater, membership.page.isProved, let proof, proof.uncut.isEmpty,
            let found = GroupedIndex(listing, reader, published: JournalPositions(ofDead: proof.announced)),
            found.journals.savedGeneration >= proof.savedGeneration
        else { return nil }
        let directory = StoreDirectory(
            fileSystem: fileSystem, path: path, identity: identity, root: root, entries: entries)
        // Changes without a line have left files, too.
        let lastNumber = max(found.lastNumber, proof.lastNumber)
        var loaded = loadedBesideOthers(
            found.groups(of: directory, at: now, through: lastNumber), nil, found.cleared,
            lastNumber, found.journals, JournalPositions(), directory, lacksTag: !listing.hasTag)
        loaded.journals.isProved = true
        loaded.isOfDead = true
        loaded.found.hasTrash = listing.hasTrash
        loaded.found.hasLeftFiles = true
        loaded.found.leftovers = leftovers(
            listing, savedGeneration: found.journals.savedGeneration, older: found.journals.older)
        return loaded
    }

    /// How often an index is read that others replace meanwhile.
    private static let attempts = 100
    /// How often a journal may be missing in an index that nobody has saved meanwhile.
    private static let looks = 10
    /// How long to wait for a save of another process. Milliseconds.
    private static let saveWait = 1_000

    private var damagedIndex: CacheError {
        CacheError(
            code: .directoryInUse,
            message: """
                The index of the cache is damaged. Try again when another process has saved it, or close the cache in \
                all processes; the next opening repairs it.
                """,
            path: path)
    }

    /// Reads the index as the living processes have published it. Files that it does not mention are theirs.
    ///
    /// `again`: the directory is open in this process. It may be the one that has replaced a file.
    func loadBesideOthers(again: Bool = false) throws(CacheError) -> LoadedStore {
        let page = membership.page
        var looks = 0
        for _ in 0..<Self.attempts {
            let saved = page.savedGeneration
            // First: what changes from here on is followed.
            let positions = JournalPositions.forReading(page)
            if !positions.isWhole { throw damagedIndex }
            var listing = try RootListing(of: root, in: fileSystem, path: path)
            try listing.findManifests(fileSystem)
            let found = try openEntries(listing)
            let entries = if let found { found } else { try make(listing) }
            let reader = IndexReader(fileSystem: fileSystem, root: root, entries: entries, path: path)
            let directory = StoreDirectory(
                fileSystem: fileSystem, path: path, identity: identity, root: root, entries: entries)
            if mayLoadLater, let found = GroupedIndex(listing, reader, published: positions),
                found.journals.savedGeneration >= saved
            {
                return loadedBesideOthers(
                    found.groups(of: directory, at: now, through: page.lastNumber, deletesSuperseded: again), nil,
                    found.cleared,
                    found.lastNumber, found.journals, positions, directory, lacksTag: !listing.hasTag)
            }
            let read = try reader.read(listing, at: now, published: positions)
            guard var replay = read, !replay.journals.isDamaged, replay.journals.savedGeneration >= saved else {
                // Another process may have saved meanwhile, or left, or cut off a clean-shutdown marker after its
                // length was read. Otherwise somebody has damaged or deleted a file.
                looks += 1
                if page.savedGeneration > saved || looks <= (read == nil ? Self.looks : 1) { continue }
                if !again, awaitSave(page) { continue }
                throw damagedIndex
            }
            replay.finish()
            if again { replay.markSupersededObsolete() }
            return loadedBesideOthers(
                nil, replay.shards, replay.cleared, replay.lastNumber, replay.journals, positions, directory,
                lacksTag: !listing.hasTag)
        }
        throw CacheError(
            code: .directoryInUse, message: "Other processes have replaced the index again and again.", path: path)
    }

    /// Asks the others to save the index anew, from their memory. Returns whether one has, within a short time.
    private func awaitSave(_ page: PeerPage) -> Bool {
        let saved = page.savedGeneration
        page.demandSaves()
        return Backoff.wait(milliseconds: Self.saveWait) { page.savedGeneration > saved }
    }

    private func loadedBesideOthers(
        _ groups: ColdGroups?, _ shards: [Shard]?, _ cleared: ClearMarks, _ lastNumber: UInt64,
        _ journals: LoadedJournals, _ positions: JournalPositions, _ directory: StoreDirectory, lacksTag: Bool
    ) -> LoadedStore {
        var loaded = LoadedStore(
            directory: directory, shards: shards ?? Array(repeating: Shard(), count: Index.shardCount), groups: groups,
            lastNumber: lastNumber, journals: journals, reconciliation: Reconciliation(), damagedLines: 0,
            tombstones: TombstoneFiles(), found: LoadedStore.Found())
        loaded.journals.lacksTag = lacksTag
        loaded.positions = positions
        loaded.keepGraves(cleared)
        loaded.forgetSuperseded()
        return loaded
    }

    private static func notACache(_ path: String) -> CacheError {
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
        var failures: [CacheError] = []
        if replay.isClean || listing.isEmpty {
            expired = replay.finishPurging(at: now)
        } else {
            let files = try list(directory)
            failures = files.segments.unreadable.sorted { $0.key < $1.key }.map { number, error in
                CacheError(error, doing: "read a segment", path: directory.path(ofSegment: number))
            }
            // Before any other file: entries and files that tombstones cover are dead.
            let tombstones = try read(files.names.compactMap(DirectoryLayout.number(ofTombstone:)), in: directory)
            for (number, removal) in tombstones.valid { replay.apply(removal.record(number: number)) }
            replay.finish()
            replay.journals.isLost = replay.journals.generations.isEmpty && replay.journals.savedGeneration == 0
            scan = OpeningScan(replay, files, tombstones, isShared: membership.mayBeJoined)
        }
        if !membership.mayBeJoined { scan?.deleteProvedDead(in: directory, isPowerSafe: isPowerSafe) }
        let lookedAt = try scan?.look(in: directory, at: now)
        let found = LoadedStore.Found(
            expired: expired, adopted: scan?.adopted ?? [], failures: failures + (scan?.failures ?? []),
            hasTrash: listing.hasTrash, hasLeftFiles: scan?.hasLeftFiles ?? false,
            leftovers: leftovers(
                listing, savedGeneration: replay.journals.savedGeneration, older: replay.journals.older))
        var loaded = LoadedStore(
            directory: directory, shards: scan?.shards ?? replay.shards,
            lastNumber: max(scan?.lastNumber ?? replay.lastNumber, try lastNumberInTrash(listing)),
            journals: replay.journals,
            reconciliation: lookedAt ?? Reconciliation(cleared: replay.cleared), damagedLines: replay.damagedLines,
            tombstones: scan?.tombstones ?? TombstoneFiles(), found: found)
        // No line mentions an adopted entry.
        if !found.adopted.isEmpty { loaded.journals.isIncomplete = true }
        loaded.journals.lacksTag = !listing.hasTag
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
        var journals = index.journals
        journals.lacksTag = !listing.hasTag
        return LoadedStore(
            directory: directory, shards: shards, groups: index.groups(of: directory, at: now),
            lastNumber: max(index.lastNumber, try lastNumberInTrash(listing)), journals: journals,
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
                throw CacheError(error, doing: "read a tombstone", path: directory.path(of: FileID(name)))
            }
        }
        return tombstones
    }

    /// The leftovers of a killed save: temporary manifests, and journals that the manifest has replaced.
    private func leftovers(
        _ listing: RootListing, savedGeneration: UInt64, older: [JournalPart] = []
    ) -> [DirectoryLayout] {
        listing.temporaries.map(DirectoryLayout.temporaryManifest)
            + listing.journals.filter { journal in
                journal < savedGeneration && !older.contains { $0.generation == journal }
            }.map(DirectoryLayout.journal)
    }

    private func openEntries(_ listing: RootListing) throws(CacheError) -> OwnedDescriptor? {
        try Self.openEntries(listing, root, fileSystem, path)
    }

    private static func openEntries(
        _ listing: RootListing, _ root: OwnedDescriptor, _ fileSystem: any FileSystem, _ path: String
    ) throws(CacheError) -> OwnedDescriptor? {
        guard listing.hasEntries else { return nil }
        return try translating("open the entries", at: path) { () throws(Errno) in
            OwnedDescriptor(try fileSystem.open(DirectoryLayout.entries.name, in: root.file, for: .directory))
        }
    }

    /// Creates the directory of the entries, or restores the old one after a kill in the middle of `removeAll`.
    private func make(_ listing: RootListing) throws(CacheError) -> OwnedDescriptor {
        try translating("make the entries directory", at: path) { () throws(Errno) in
            let name = DirectoryLayout.entries.name
            if let last = try lastInTrash(listing) {
                let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
                try fileSystem.rename(.number(last), in: trash, to: name, in: root.file)
            } else {
                try fileSystem.makeDirectory(name, in: root.file)
            }
            if isPowerSafe { try fileSystem.sync(root.file) }
            return OwnedDescriptor(try fileSystem.open(name, in: root.file, for: .directory))
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

    private func list(_ directory: StoreDirectory) throws(CacheError) -> StoreDirectory.Listing {
        try translating("list the entries", at: path) { () throws(Errno) in try directory.list() }
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
    /// Nobody who lives has read the index.
    var isOfDead = false
    var damagedLines: Int
    /// The tombstones that may still cover files.
    var tombstones: TombstoneFiles
    var found: Found
    /// How far the journals of other processes have been read.
    var positions = JournalPositions()

    /// Keeps what a change of another process may still come after.
    mutating func keepGraves(_ cleared: ClearMarks) {
        for position in shards.indices {
            var graves = Graves(areKept: true)
            for (key, number) in shards[position].tombstones { graves.add(key, below: number) }
            for (scope, number) in cleared.numbers { graves.add(scope, below: number) }
            for (scope, marks) in shards[position].table.ending.marks.scopes {
                for mark in marks { graves.add(mark, to: scope) }
            }
            shards[position].graves = graves
        }
    }

    /// Forgets the files that lines mention and no entry uses: the process that replaced them deletes them.
    mutating func forgetSuperseded() {
        for position in shards.indices {
            shards[position].forgetSuperseded()
            shards[position].forgetTombstones()
        }
    }

    /// Findings that are reported, or handled in the background.
    struct Found {
        /// Entries that had expired before the directory was opened.
        var expired = 0
        /// Entries that were found by their files before the first answer.
        var adopted: [Key] = []
        /// Files that could not be read.
        var failures: [CacheError] = []
        var hasTrash = false
        /// Processes that shared the directory may have left files that cannot be read now.
        var hasLeftFiles = false
        /// The index on disk has entries without files, until it is saved.
        var lacksRecords = false
        /// Files that a killed save has left.
        var leftovers: [DirectoryLayout] = []
    }
}
