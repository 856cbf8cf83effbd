import LarderFiles

/// Deletes files that no entry uses; owns the tombstone files, which keep removed entries dead until then.
final class FileReaper: Sendable {
    /// The number of obsolete files of one shard at which the writer helps. It bounds their memory.
    private static let mostWaiting = 256
    /// The number of obsolete files of one shard at which background work is requested; fewer wait for the next save.
    private static let fewWaiting = 16
    private static let slice = 256

    private let fileSystem: any FileSystem
    private let path: String
    private let isPowerSafe: Bool
    private let index: Index
    private let disk: DiskQueue
    private let info: CommitQueue
    private let provisional: ProvisionalState
    private let reporter: Reporter
    private let maintenance: MaintenanceQueue
    private let tombstones: Lock<TombstoneFiles>
    /// Called when many files have been set aside since the last call, or many tombstones wait for those of others.
    let hidesMany = Hook()
    /// Called when others may set files aside because this process has some to delete.
    let othersWait = Hook()
    /// Called when files stay aside because others have some to delete.
    let othersOwe = Hook()
    private let aside = Lock((files: 0, bytes: 0))
    /// Held while the files of a shard are deleted. Two threads with the same list could set a file aside after the
    /// other has deleted it, and forget one that the other has just set aside.
    private let deleting = (0..<Index.shardCount).map { _ in Lock(()) }
    /// Files, and bytes.
    private static let manyAside = (files: 1024, bytes: 8 << 20)
    /// How many tombstones were kept when `hidesMany` was called last.
    private let kept = Lock(0)

    init(_ tombstones: TombstoneFiles, _ context: StoreContext, info: CommitQueue) {
        fileSystem = context.fileSystem
        path = context.path
        isPowerSafe = context.settings.isPowerSafe
        index = context.index
        disk = context.disk
        provisional = context.provisional
        reporter = context.reporter
        maintenance = context.maintenance
        self.info = info
        self.tombstones = Lock(tombstones)
    }
}

/// Obsolete files.
extension FileReaper {
    /// Schedules the deletion of replaced files after a write: in the background when some have accumulated, at once
    /// when there are too many.
    func deleteReplaced(shard: Int) {
        let count = index.withShard(at: shard) { $0.debts.count }
        if count > Self.mostWaiting {
            _ = try? disk.run { directory throws(CacheError) in deleteObsolete(in: directory, shard: shard) }
        } else if count > Self.fewWaiting {
            beginDeleting()
        } else if count > 0, !disk.isAlone {
            othersWait()
        }
    }

    /// Deletes every obsolete file and then the tombstones, in the background.
    func deleteAllInBackground() {
        if index.hasDebts || hasTombstones { beginDeleting() }
    }

    private func beginDeleting() {
        if maintenance.isWaiting(.delete) { return }
        let position = Lock(0)
        maintenance.begin(.delete) { [weak self] in
            guard let self else { return false }
            var deleted = 0
            while deleted < Self.slice, case let shard = position.withLock({ $0 }), shard < Index.shardCount {
                let part = (try? disk.run { directory in deleteObsolete(in: directory, shard: shard) }) ?? 0
                if part < Self.slice { position.withLock { $0 += 1 } }
                deleted += part
            }
            if deleted >= Self.slice { return true }
            deleteNeedlessTombstones()
            if index.hasFilesAside { othersOwe() }
            return false
        }
    }

    /// Deletes the obsolete files of one shard, all of them, before it returns.
    func deleteObsolete(shard: Int) {
        _ = reporter.attempt { () throws(CacheError) in
            try disk.run { directory throws(CacheError) in
                while deleteObsolete(in: directory, shard: shard) > 0 {}
            }
        }
    }

    /// The same for all shards.
    func deleteAllObsolete() {
        if index.hasDebts { for shard in 0..<Index.shardCount { deleteObsolete(shard: shard) } }
    }

    /// Deletes a slice of the obsolete files of each shard. Returns their number. Call it in a block of the disk queue.
    func deleteObsolete(in directory: StoreDirectory) -> Int {
        (0..<Index.shardCount).reduce(0) { $0 + deleteObsolete(in: directory, shard: $1) }
    }

    /// The same for one shard. A file that cannot be deleted stays obsolete.
    ///
    /// Deletes nothing during reconciliation: an obsolete file may be the only proof that an older one of its key is
    /// dead. Nor the last file of a key while another process may have an older one: that is set aside.
    @discardableResult
    func deleteObsolete(in directory: StoreDirectory, shard: Int) -> Int {
        deleting[shard].lock()
        defer { deleting[shard].unlock() }
        // Both at once: copies are held before they wait.
        let (waiting, aside, held) = index.withShard(at: shard) { shard in
            provisional.isReconciling
                ? ([], [], [])
                : (Array(shard.debts.files.prefix(Self.slice)), shard.debts.aside, directory.segments.held)
        }
        if waiting.isEmpty, aside.isEmpty { return 0 }
        // Afterwards: what was removed by then is known to others, and no older file can be added.
        var unread = provisional.hasLeftovers ? 0 : provisional.lowestUnread ?? .max
        let payable = aside.lazy.filter { $0.file < unread && self.isBelowOthers($0) }.prefix(Self.slice)
        let due = aside.isEmpty ? [] : Array(payable)
        if waiting.isEmpty, due.isEmpty { return 0 }
        do {
            try info.removeShutdownMarker()
        } catch {
            reporter.report(error)
            return 0
        }
        // A file that nobody can read does not make all others stay.
        if unread < .max, index.asideCount > Self.manyAside.files { unread = .max }
        // Deletions and marks of other processes must be on disk before a last file goes.
        if isPowerSafe, disk.hasHadOthers, !due.isEmpty || waiting.contains(where: \.isLast) {
            do throws(Errno) {
                try directory.syncNames(ofAll: true)
            } catch {
                reporter.report(CacheError(error, doing: "sync the directory", path: path))
                return 0
            }
        }
        var (deleted, hidden): ([Debts.File], [Debts.File]) = ([], [])
        var failure: CacheError?
        var stuck: Set<UInt64> = []
        // In order, so no newer file of a key goes before an older one: if the index were lost, the older one would be
        // adopted.
        for file in waiting where !stuck.contains(file.hash) {
            if held.contains(file.file.place.segment) {
                stuck.insert(file.hash)
                continue
            }
            do {
                if try delete(file, in: directory, hiding: file.file >= unread) { hidden.append(file) }
                deleted.append(file)
            } catch {
                stuck.insert(file.hash)
                failure = CacheError(error, doing: "delete a file", path: directory.path(of: file.file))
            }
        }
        let own = index.withShard(at: shard) { shard in
            shard.debts.settle(deleted, hiding: hidden)
            return shard.debts.lowest
        }
        // Some are of unknown keys.
        let hasOther = index.withShard(at: 0) { $0.debts.files.contains { $0.keyHash == nil } }
        var forgotten: Set<Debts.File> = []
        for file in due where (own == 0 || file.file < own) && !hasOther {
            do {
                try directory.deleteAside(file.file, ofKey: file.hash, isPowerSafe: isPowerSafe)
                forgotten.insert(file)
            } catch {
                failure = CacheError(error, doing: "delete a file", path: directory.path(of: file.file))
            }
        }
        if !forgotten.isEmpty {
            index.withShard(at: shard) { [forgotten] in $0.debts.forgetAside(where: forgotten.contains) }
        }
        if let failure { reporter.report(failure) }
        return deleted.count + forgotten.count
    }

    /// Deletes a dead file; sets it aside if it is the last one of its key, and another process may have an older one.
    /// Returns whether it did. Call it when the removal is published. `mustHide`: there may be an older one that is not
    /// known.
    private func delete(
        _ file: Debts.File, in directory: StoreDirectory, hiding mustHide: Bool = false
    ) throws(Errno) -> Bool {
        if file.isLast, mustHide || !isBelowOthers(file) {
            guard let size = try directory.setAside(file, isPowerSafe: isPowerSafe) else { return false }
            noteAside(size)
            return true
        }
        try directory.delete(file.file, ofKey: file.keyHash, isPowerSafe: isPowerSafe)
        return false
    }

    /// False when another process may have an older file of the key.
    private func isBelowOthers(_ file: Debts.File) -> Bool {
        if file.file < disk.lowestElsewhere { return true }
        guard let key = file.last?.key else { return false }
        return file.file < disk.lowestElsewhere(inStripe: key.stripe)
    }

    private func noteAside(_ size: Int) {
        let areMany = aside.withLock { aside in
            aside = (aside.files + 1, aside.bytes + size)
            guard aside.files > Self.manyAside.files || aside.bytes > Self.manyAside.bytes else { return false }
            aside = (0, 0)
            return true
        }
        if areMany { hidesMany() }
    }

    /// Deletes the obsolete files of a removed key, the oldest first, and then the last one, or sets that aside. Call
    /// it with the stripe of the key.
    func delete(
        _ obsolete: [Debts.File], _ last: FileID?, of key: Key, in directory: StoreDirectory
    ) throws(CacheError) {
        func delete(_ file: Debts.File, isOwed: Bool) throws(CacheError) {
            do throws(Errno) {
                if isPowerSafe, file.isLast, disk.hasHadOthers { try directory.syncNames(ofAll: true) }
                let isHidden = try self.delete(file, in: directory)
                if !isHidden, !isOwed { return }
                index.withShard(of: key) { $0.debts.settle(isOwed ? [file] : [], hiding: isHidden ? [file] : []) }
            } catch {
                throw CacheError(error, doing: "remove an entry", path: directory.path(of: file.file))
            }
        }
        if !obsolete.isEmpty {
            deleting[key.shard].lock()
            defer { deleting[key.shard].unlock() }
            for file in obsolete { try delete(file, isOwed: true) }
        }
        guard let last else { return }
        if !isPowerSafe, last < disk.lowestElsewhere {
            // Most of the time.
            try translating("remove an entry", at: directory.path(of: last)) { () throws(Errno) in
                try directory.delete(last)
            }
        } else {
            try delete(.last(last, of: key), isOwed: false)
        }
    }

    /// Keeps the files of a removed key dead that cannot be deleted, also if the index is lost. False when it cannot.
    func cover(_ last: FileID, of key: Key, in directory: StoreDirectory) -> Bool {
        let isPlaced = (try? directory.placeAside(last.number, of: key, isPowerSafe)) == true
        return index.withShard(of: key) { shard in
            let wasPlaced = shard.debts.aside.contains { $0.file == last }
            // Even if it is not whole: it must be deleted.
            if !wasPlaced { shard.debts.settle([], hiding: [.last(last, of: key)]) }
            return isPlaced || wasPlaced
        }
    }

    /// Returns when a power cut cannot bring back removed values of a key, or with nil of any: a removal that finds
    /// nothing relies on deletions in the background, which are not synced. Only where changes are power-safe.
    func syncDeletions(of key: Key?, in directory: StoreDirectory) throws(CacheError) {
        guard isPowerSafe else { return }
        try translating("sync the directory", at: path) { () throws(Errno) in
            // Nobody has noted the deletions of others.
            if disk.hasHadOthers { return try directory.syncNames(ofAll: true) }
            try directory.syncDeletions(ofKey: key?.hash)
        }
    }

    /// The same after files were deleted in the place of a tombstone.
    private func syncDeletions(in directory: StoreDirectory) throws(CacheError) {
        if isPowerSafe {
            try translating("sync the directory", at: path) { () throws(Errno) in try directory.syncNames() }
        }
    }

    /// Deletes the file of a value that could not be stored. It is truncated first: without a footer it is never
    /// adopted. Returns false when it is deleted later.
    @discardableResult
    func deleteUncommitted(_ file: FileID, of key: Key, in directory: StoreDirectory) -> Bool {
        if !file.place.isInSegment,
            let open = try? fileSystem.open(.number(file.number), in: directory.entries.file, for: .updating)
        {
            try? fileSystem.truncate(open, to: 0)
        }
        do {
            try directory.delete(file, ofKey: key.hash, isPowerSafe: isPowerSafe)
            return true
        } catch {
            index.withShard(of: key) { $0.markObsolete(file, of: key) }
            return false
        }
    }
}

/// Tombstones.
extension FileReaper {
    var hasTombstones: Bool { tombstones.withLock { !$0.isEmpty } }

    var tombstoneCount: Int { tombstones.withLock { $0.count } }

    func hasTombstone(of key: Key) -> Bool { tombstones.withLock { $0.hasTombstone(of: key) } }

    /// Replaces all tombstones along with the directory. Call it in a barrier of the disk queue.
    func replaceTombstones(_ fresh: TombstoneFiles = TombstoneFiles()) {
        tombstones.withLock { $0 = fresh }
    }

    /// Notes a tombstone that has only now become readable.
    func noteTombstone(_ number: UInt64, of removal: EntryFile.Removal) {
        tombstones.withLock { _ = $0.insert(number, of: removal) }
    }

    /// Writes a tombstone with a new number, and returns the number. It covers nothing until `finishTombstone`: what
    /// others cannot see yet must not be done by the next opening after a kill.
    ///
    /// On a full disk there is none for a scope, if every file is known: `commit` then does to the files what it would
    /// do.
    func placeTombstone(
        of removal: EntryFile.Removal, in directory: StoreDirectory
    ) throws(CacheError) -> UInt64 {
        let extent: CommitQueue.Extent = if case .key(let key) = removal { .key(key) } else { .all }
        while true {
            let number = try info.takeNumber(extent)
            do throws(Errno) {
                try writeTombstone(number, of: removal, in: directory)
                return number
            } catch .exists {
                continue
            } catch {
                let name = DirectoryLayout.tombstoneNumber(number)
                let error = CacheError(error, doing: "place a tombstone", path: directory.path(of: FileID(name)))
                if error.code != .noSpace { throw error }
                if case .key = removal { throw error }
                if deleteObsolete(in: directory) > 0 { continue }
                // The next loss of the index would bring back an older file that is left.
                if provisional.mayHaveUnread || index.obsoleteCount > 0 { throw error }
                return number
            }
        }
    }

    /// The entries whose files are deleted first, each group from the oldest file on.
    private func entries(coveredBy removal: EntryFile.Removal, below number: UInt64) -> [IndexEntry] {
        // Another process may have stored a value with a higher number meanwhile, or renewed one.
        let covered = (0..<Index.shardCount).flatMap { index.snapshot($0) }.filter { entry in
            removal.covers(entry) && max(entry.file.number, entry.change) < number
        }
        return covered.sorted { left, right in
            let isKept = (left.isKept(after: removal), right.isKept(after: removal))
            return isKept.0 == isKept.1 ? left.file < right.file : isKept.1
        }
    }

    /// Does to the file of one entry what a tombstone would do.
    private func carryOut(
        _ removal: EntryFile.Removal, number: UInt64, on entry: IndexEntry, in directory: StoreDirectory
    ) throws(Errno) {
        guard case .expiry(_, let time) = removal, entry.isKept(after: removal) else {
            let file = Debts.File.last(entry.file, of: entry.key)
            if try delete(file, in: directory) {
                index.withShard(of: entry.key) { $0.debts.settle([], hiding: [file]) }
            }
            return
        }
        let life = Life.ended(at: min(time, entry.life.expires))
        if entry.life == life { return }
        do throws(Errno) {
            _ = try directory.writeSlot(life, number, of: entry, isPowerSafe: isPowerSafe)
        } catch {
            if error != .noEntry { throw error }
        }
    }

    private func writeTombstone(
        _ number: UInt64, of removal: EntryFile.Removal, in directory: StoreDirectory
    ) throws(Errno) {
        let name = DirectoryLayout.tombstoneNumber(number)
        let file = try fileSystem.open(.number(name), in: directory.entries.file, for: .creating)
        do throws(Errno) {
            var bytes = EntryFile.tombstone(of: removal, number: number)
            for position in EntryFile.check(inTombstone: bytes) { bytes[position] = 0 }
            try fileSystem.write(bytes, to: file, at: 0)
        } catch {
            // Without its footer a tombstone covers nothing.
            try? fileSystem.truncate(file, to: 0)
            deleteTombstone(number, in: directory)
            throw error
        }
        // The last tombstone of the kind covers everything that an older one covers.
        if let replaced = tombstones.withLock({ $0.insert(number, of: removal) }) {
            tombstones.withLock { $0.remove(replaced: replaced) }
            deleteTombstone(replaced, in: directory)
        }
    }

    /// Completes the tombstone of a change that others can see by now, in place: that needs no room.
    func finishTombstone(
        _ number: UInt64, of removal: EntryFile.Removal, in directory: StoreDirectory
    ) throws(CacheError) {
        let name = DirectoryLayout.tombstoneNumber(number)
        try translating("finish a tombstone", at: directory.path(of: FileID(name))) { () throws(Errno) in
            let bytes = EntryFile.tombstone(of: removal, number: number)
            let check = EntryFile.check(inTombstone: bytes)
            let file = try fileSystem.open(.number(name), in: directory.entries.file, for: .updating)
            try fileSystem.write(Array(bytes[check]), to: file, at: check.lowerBound)
            if isPowerSafe {
                try fileSystem.sync(file)
                try directory.syncNames()
            }
        }
    }

    /// Commits the removal of a scope that a tombstone covers. Call it in a barrier of the disk queue. Returns the reason
    /// why a power cut, or the loss of the index, may undo the change, which is otherwise done.
    ///
    /// Where the disk had no room for the tombstone, the files are changed as it would have, after the record. Where the
    /// record cannot be written either, before it, if nobody else is there. A process that joins later does not look for
    /// tombstones: the files tell it.
    func commit(
        _ removal: EntryFile.Removal, number: UInt64, in directory: StoreDirectory, isAlone: Bool,
        publish: () -> Void
    ) throws(CacheError) -> CacheError? {
        let isPlaced = tombstones.withLock { $0.numbers.contains(number) }
        let covered = isPlaced ? [] : entries(coveredBy: removal, below: number)
        func cover() throws(CacheError) {
            if isPlaced { return try finishTombstone(number, of: removal, in: directory) }
            try carryOut(removal, number: number, on: covered, in: directory)
        }
        let change = Changes(removal.record(number: number))
        var ticket: CommitQueue.Ticket?
        do throws(CacheError) {
            ticket = try info.commit(change, publish: publish)
        } catch {
            let mayBeJoined = disk.others.object.membership.mayBeJoined
            do throws(CacheError) {
                guard isAlone, !mayBeJoined || removal.isOfScope && error.code == .noSpace else { throw error }
                try cover()
            } catch {
                if isPlaced { takeBackTombstone(number, in: directory) }
                throw error
            }
            if isPlaced, mayBeJoined {
                while deleteObsolete(in: directory) > 0 {}
                _ = reporter.attempt { () throws(CacheError) in
                    let covered = entries(coveredBy: removal, below: number)
                    try carryOut(removal, number: number, on: covered, in: directory)
                }
            }
            info.commitIfPossible(change, publish: publish)
            return nil
        }
        do throws(CacheError) {
            try cover()
        } catch {
            _ = reporter.attempt { () throws(CacheError) in try info.wait(for: ticket) }
            return .uncovered(error)
        }
        do throws(CacheError) {
            try info.wait(for: ticket)
            return nil
        } catch {
            return error
        }
    }

    /// Does to the files of entries what a tombstone would do. The first failure ends it.
    private func carryOut(
        _ removal: EntryFile.Removal, number: UInt64, on entries: [IndexEntry], in directory: StoreDirectory
    ) throws(CacheError) {
        if entries.isEmpty { return }
        for entry in entries {
            try translating("remove an entry", at: directory.path(of: entry.file)) { () throws(Errno) in
                try carryOut(removal, number: number, on: entry, in: directory)
            }
        }
        try syncDeletions(in: directory)
    }

    /// Withdraws the tombstone of a removal that failed.
    func takeBackTombstone(_ number: UInt64, in directory: StoreDirectory) {
        let name = DirectoryLayout.tombstoneNumber(number)
        tombstones.withLock { $0.remove([number]) }
        if let file = try? fileSystem.open(.number(name), in: directory.entries.file, for: .updating) {
            try? fileSystem.truncate(file, to: 0)
        }
        deleteTombstone(number, in: directory)
    }

    /// Deletes a tombstone that covers nothing; if that fails, it is deleted with the others.
    private func deleteTombstone(_ number: UInt64, in directory: StoreDirectory) {
        do {
            try directory.delete(FileID(DirectoryLayout.tombstoneNumber(number)))
        } catch {
            tombstones.withLock { $0.insert(unread: number) }
        }
    }

    /// Deletes the tombstones whose files have all been deleted, and those of expiries whose ends are all on disk.
    ///
    /// In one block of the disk queue, so that no clear or change of directory intervenes. The journal or manifest must
    /// record the removals first: otherwise entries without files would be reported as lost.
    func deleteNeedlessTombstones() {
        if !hasTombstones { return }
        _ = reporter.attempt { () throws(CacheError) in
            try disk.run { directory throws(CacheError) in
                guard !provisional.mayNeedTombstones, !info.mustSave else { return }
                // Other processes may be moving values that they cover, and may have done so. Dead ones may have left
                // files that they cover.
                let settled = min(disk.others.object.page.lowestOpen, disk.lowestElsewhere)
                disk.others.object.membership.buryTheDead()
                if disk.hasLeftFiles { return }
                try disk.followOrThrow()
                let needless = needlessTombstones(below: settled)
                var deleted: Set<UInt64> = []
                defer { tombstones.withLock { [deleted] in $0.remove(deleted) } }
                for number in needless {
                    let name = DirectoryLayout.tombstoneNumber(number)
                    try translating("delete a tombstone", at: directory.path(of: FileID(name))) { () throws(Errno) in
                        if isPowerSafe, deleted.isEmpty { try directory.syncNames() }
                        try directory.delete(FileID(name))
                    }
                    deleted.insert(number)
                }
                noteKept(tombstoneCount - deleted.count)
            }
        }
    }

    private func noteKept(_ count: Int) {
        let areMany = kept.withLock { kept in
            kept = min(kept, count)
            guard count - kept > Self.manyAside.files else { return false }
            kept = count
            return true
        }
        if areMany { hidesMany() }
    }

    private func needlessTombstones(below settled: UInt64) -> [UInt64] {
        var oldest = settled
        var unwritten: [IndexEntry] = []
        index.forEachShard { shard in
            if shard.table.hasCleared || shard.table.hasMarks { oldest = 0 }
            if shard.debts.lowest > 0 { oldest = min(oldest, shard.debts.lowest) }
            unwritten += shard.table.ending.unwritten.values.compactMap { shard.table.entry($0) }
        }
        let needed = oldest == 0 ? [] : tombstones.withLock { $0.expiries(neededBy: unwritten) }
        return tombstones.withLock { tombstones in
            // Of the expiries of a scope, a dead file needs only the last.
            let outdated = oldest == 0 ? [] : tombstones.outdatedExpiries
            return tombstones.numbers.filter { !needed.contains($0) && ($0 < oldest || outdated.contains($0)) }
                .sorted()
        }
    }
}

extension IndexEntry {
    /// True when an expiry keeps the file.
    fileprivate func isKept(after removal: EntryFile.Removal) -> Bool {
        guard case .expiry = removal else { return false }
        return !isAbsent && update.keptStale > 0
    }
}

extension CacheError {
    /// A removal is done and recorded, but its files could be neither deleted nor covered.
    static func uncovered(_ failure: CacheError) -> CacheError {
        CacheError(
            code: failure.code,
            message: "The change is done, but the loss of the index would undo it. " + failure.message,
            path: failure.path, errno: failure.errno)
    }
}
