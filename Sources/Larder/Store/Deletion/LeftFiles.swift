import LarderFiles

/// Deletes the files that dead processes have left: values that were not published, copies, and replaced values that
/// they had not deleted yet.
///
/// A file with a number below that of every change under way is an entry's, or waits in some process to be deleted, or
/// was left. So it can go unless the index mentions it. Then the tombstones below that number cover nothing any more.
final class LeftFiles: StoreOwner {
    private static let slice = 256

    let context: StoreContext

    init(_ context: StoreContext) {
        self.context = context
    }

    /// Does so in the background, if any process has died since the last time and no other process does it.
    func deleteInBackground() {
        guard let others = disk.others.object, others.page.hasUncleanedDeaths else { return }
        maintenance.begin(.leftFiles) { [weak self] in
            self?.delete(beside: others)
            return false
        }
    }

    /// O(files and entries).
    private func delete(beside others: Follower) {
        let deaths = others.page.deaths
        // The dead have taken no higher number.
        let last = others.page.lastNumber
        _ = others.membership.perform(.clean) {
            guard deaths != others.page.cleanedDeaths else { return }
            let settled = others.page.lowestOpen
            guard others.follow() else { return }
            index.loadAll()
            guard let replacements = index.replacements else { return }
            let hasMarks = index.hasMarks
            guard let (listed, listing) = list() else { return }
            // Tombstones may cover what cannot be read.
            let mustSpare = hasMarks || !listing.segments.unreadable.isEmpty
            let found = files(of: listing)
            // The oldest file first, or a lost index would bring it back; the tombstones last, and none until the ends
            // of all lives are on disk. So `left` is emptied from its end.
            let tombstones = mustSpare ? [] : found.tombstones.filter { $0.number < settled }
            var left =
                tombstones.map(\.file) + found.unmentioned.filter { $0.number < settled }.map(\.file).sorted(by: >)
            // Otherwise the next sweep looks again: a change under way has a lower number than what was left.
            var isDone =
                !mustSpare
                && (found.tombstones + found.unmentioned).allSatisfy { $0.number < settled || $0.number > last }
            // The index must have been whole, and the same, all the time.
            guard others === disk.others.object, !provisional.isSet, !index.hasUnloaded.isSet,
                index.replacements == replacements
            else { return }
            while !left.isEmpty {
                let isDeleted: Void? = reporter.attempt { () throws(CacheError) in
                    try disk.run { directory throws(CacheError) in
                        if directory !== listed {
                            (left, isDone) = ([], false)
                            return
                        }
                        for file in left.suffix(Self.slice).reversed() {
                            try translating("delete an orphan", at: directory.path(of: file)) { () throws(Errno) in
                                try directory.delete(file, ofKey: nil, isPowerSafe: settings.isPowerSafe)
                            }
                        }
                        reporter.count { [count = min(left.count, Self.slice)] in $0.orphansDeleted += count }
                    }
                }
                if isDeleted == nil || context.isEnding.isSet { return }
                left.removeLast(min(left.count, Self.slice))
            }
            if isDone { others.page.noteCleaned(deaths) }
        }
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

    /// The tombstones, and the files that nothing mentions, each with the number of its change.
    private func files(of listing: StoreDirectory.Listing) -> (tombstones: [Numbered], unmentioned: [Numbered]) {
        var used: Set<FileID> = []
        index.forEachShard { shard in
            for entry in shard.table.entries where entry.file != 0 { used.insert(entry.file) }
            for entry in shard.table.evacuated { used.insert(entry.file) }
        }
        var found: (tombstones: [Numbered], unmentioned: [Numbered]) = ([], [])
        for name in listing.names {
            if let number = DirectoryLayout.number(ofTombstone: name) {
                found.tombstones.append((FileID(name), number))
                continue
            }
            // Files that are set aside stay.
            let number = DirectoryLayout.number(ofStaged: name) ?? name
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
