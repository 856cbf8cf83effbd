import LarderFiles

/// Deletes the files that dead processes have left: values that were not published, copies, and replaced values that
/// they had not deleted yet.
///
/// A file with a number below that of every change under way is an entry's, or waits in some process to be deleted, or
/// was left. So it can go unless the index mentions it. Then the tombstones below that number cover nothing any more.
final class LeftFiles: StoreOwner {
    private static let slice = 256

    let context: StoreContext
    /// True while a thread deletes.
    private let isBusy = Lock(false)

    init(_ context: StoreContext) {
        self.context = context
    }

    /// Does so in the background, if any process has died since the last time and no other process does it.
    func deleteInBackground() {
        let others = disk.others.object
        if !others.page.hasUncleanedDeaths { return }
        maintenance.begin(.leftFiles) { [weak self] in
            self?.delete(beside: others)
            return false
        }
    }

    /// Deletes what living processes have still to delete, too: files are set aside for that, and there are many, or
    /// the disk has no room. Call it outside of the queues. O(files and entries).
    func deleteForRoom() {
        if index.hasFilesAside { deleteEverythingDead() }
    }

    /// The same in the background, for the tombstones that wait for such files, too.
    func deleteForRoomInBackground() {
        maintenance.begin(.leftFiles) { [weak self] in
            self?.deleteEverythingDead()
            return false
        }
    }

    private func deleteEverythingDead() {
        let others = disk.others.object
        others.membership.buryTheDead()
        delete(beside: others, forRoom: true)
    }

    /// How long to wait for changes that are under way. Milliseconds.
    private static let patience = 100

    /// O(files and entries).
    ///
    /// `forRoom`: also when nobody has died, and where the process is stopped that does it. What is dead stays dead, so
    /// two may do it at a time.
    private func delete(beside others: Follower, forRoom: Bool = false) {
        let isFree = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        if !isFree { return }
        defer { isBusy.withLock { $0 = false } }
        let isDone: Void? = others.membership.perform(.clean) { deleteDead(beside: others, forRoom) }
        if isDone == nil, forRoom { deleteDead(beside: others, forRoom) }
    }

    private func deleteDead(beside others: Follower, _ forRoom: Bool) {
        let deaths = others.page.deaths
        // The dead have taken no higher number.
        let last = others.page.lastNumber
        guard forRoom || deaths != others.page.cleanedDeaths else { return }
        let settled = others.page.lowestOpen
        guard others.follow() else { return }
        index.loadAll()
        guard let replacements = index.replacements else { return }
        // They need tombstones: cleared entries are still there, and so are expired ones whose files do not say so.
        let hasCovered = index.hasMarks || index.hasCleared
        guard let (listed, listing) = list() else { return }
        // Tombstones may cover what cannot be read.
        let mustSpare = hasCovered || !listing.segments.unreadable.isEmpty
        var found = files(of: listing)
        // A change whose record is not synced may be taken back, and needs what it has replaced.
        let changed = others.page.lastNumber
        guard Backoff.wait(milliseconds: Self.patience, until: { others.page.lowestOpen > changed }),
            others.follow()
        else { return }
        let used = usedFiles
        found.unmentioned.removeAll { used.contains($0.file) }
        // A segment that cannot be read may have older files of the keys of which these are the last.
        if !listing.segments.unreadable.isEmpty {
            found.unmentioned.removeAll {
                $0.file.place.isInSegment || DirectoryLayout.number(ofAside: $0.file.number) != nil
            }
        }
        // A file that hides others goes after them: otherwise a lost index would bring those back. Tombstones go last,
        // and only when the ends of all lives are on disk.
        let tombstones = mustSpare ? [] : found.tombstones.filter { $0.number < settled }.map(\.file)
        var (plain, hiding): ([FileID], [FileID]) = ([], [])
        for (file, number) in found.unmentioned where number < settled {
            let isLast = DirectoryLayout.number(ofAside: file.number) != nil || listing.segments.last.contains(file)
            if isLast { hiding.append(file) } else { plain.append(file) }
        }
        // Otherwise the next sweep looks again: a change under way has a lower number than what was left.
        let isWhole =
            !mustSpare
            && (found.tombstones + found.unmentioned).allSatisfy { $0.number < settled || $0.number > last }
        guard let rounds = rounds(of: plain.sorted(), in: listed) else { return }
        // The index must have been whole, and the same, all the time.
        guard others === disk.others.object, !provisional.isSet, !index.hasUnloaded.isSet,
            index.replacements == replacements
        else { return }
        for part in rounds + [hiding.sorted(), tombstones] {
            guard part.isEmpty || delete(part, from: listed) else { return }
        }
        if isWhole { others.page.noteCleaned(deaths) }
    }

    /// The files, each after a sync that follows the older ones of its key: a power cut undoes some deletions, and not
    /// those before. One round where changes are not power-safe. Nil when a file cannot be read.
    private func rounds(of files: [FileID], in directory: StoreDirectory) -> [[FileID]]? {
        if !settings.isPowerSafe { return [files] }
        var rounds: [[FileID]] = []
        var counts: [Key: Int] = [:]
        for file in files {
            let key: Key?
            do throws(Errno) {
                // A torn one is nobody's value.
                key = try directory.footer(of: file)?.entry?.key
            } catch {
                if error == .noEntry { continue }
                return nil
            }
            let round = key.map { counts[$0, default: 0] } ?? 0
            if let key { counts[key] = round + 1 }
            if round == rounds.count { rounds.append([]) }
            rounds[round].append(file)
        }
        return rounds
    }

    /// Deletes files in their order. With power-safe changes, no power cut can undo it once it returns. False when it
    /// cannot, or not yet.
    private func delete(_ files: [FileID], from listed: StoreDirectory) -> Bool {
        for start in stride(from: 0, to: files.count, by: Self.slice) {
            let slice = files[start...].prefix(Self.slice)
            let isDeleted = reporter.attempt { () throws(CacheError) in
                try disk.run { directory throws(CacheError) in
                    guard directory === listed else { return false }
                    for file in slice {
                        try translating("delete an orphan", at: directory.path(of: file)) { () throws(Errno) in
                            try directory.delete(file, ofKey: nil, isPowerSafe: settings.isPowerSafe)
                        }
                    }
                    index.forgetAside(Set(slice))
                    reporter.count { $0.orphansDeleted += slice.count }
                    return true
                }
            }
            if isDeleted != true || context.isEnding.isSet { return false }
        }
        guard settings.isPowerSafe else { return true }
        let isSynced: Void? = reporter.attempt { () throws(CacheError) in
            try translating("sync the directory", at: path) { () throws(Errno) in try listed.syncNames(ofAll: true) }
        }
        return isSynced != nil
    }

    /// Outside of the disk queue; nil when the session ends meanwhile.
    private func list() -> (StoreDirectory, StoreDirectory.Listing)? {
        reporter.attempt { () throws(CacheError) in
            let directory = try disk.run { $0 }
            let listing = try translating("list the entries", at: path) { () throws(Errno) in
                try directory.list { !context.isEnding.isSet }
            }
            return listing.map { (directory, $0) }
        } ?? nil
    }

    private var usedFiles: Set<FileID> {
        var used: Set<FileID> = []
        index.forEachShard { shard in
            for entry in shard.table.entries where entry.file != 0 { used.insert(entry.file) }
            for entry in shard.table.evacuated { used.insert(entry.file) }
        }
        return used
    }

    /// The tombstones, and the files that nothing mentions, each with the number of its change.
    private func files(of listing: StoreDirectory.Listing) -> (tombstones: [Numbered], unmentioned: [Numbered]) {
        let used = usedFiles
        var found: (tombstones: [Numbered], unmentioned: [Numbered]) = ([], [])
        for name in listing.names {
            if let number = DirectoryLayout.number(ofTombstone: name) {
                found.tombstones.append((FileID(name), number))
                continue
            }
            let number = DirectoryLayout.number(ofStaged: name) ?? DirectoryLayout.number(ofAside: name) ?? name
            if number > 0, number <= Record.lastNumber, !used.contains(FileID(name)) {
                found.unmentioned.append((FileID(name), number))
            }
        }
        for file in listing.segments.entries where !used.contains(file) {
            found.unmentioned.append((file, file.number))
        }
        return found
    }

    private typealias Numbered = (file: FileID, number: UInt64)
}
