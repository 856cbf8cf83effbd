import LarderFiles

/// Damage that is found while the cache is in use: a damaged group of the manifest is loaded, or the journal of another
/// process cannot be read.
///
/// The files decide, and intact lines are hints, as after an opening with a damaged index. Only entries from earlier
/// sessions are affected: the changes of this one are known.
extension Reconciler {
    /// Makes the index provisional, and has the files listed in the background. Called while a group is loaded.
    func distrustIndex() {
        let isNew = provisional.distrust(through: info.lastNumberBefore)
        // From here on, removals must keep their tombstones: the index may not know all files of a key.
        if isNew { index.forEachShard { $0.rememberTombstones() } }
        begin()
    }

    /// Loads the rest of the index, lists the files, and notes what has to be examined. Returns false when the files
    /// cannot be listed; the sweep then tries again.
    ///
    /// Beside other processes the files do not say what is dead: each of them deletes some later. The index is then read
    /// anew. While that fails, and until this process is alone, its calls find nothing of earlier sessions.
    func listFiles() -> Bool {
        let others = disk.others.object
        guard others.membership.keepOut() else {
            _ = others.reread()
            return false
        }
        guard others.skipUnread() else { return false }
        _ = provisional.distrust(through: info.lastNumberBefore)
        info.demandSave()
        index.loadAll()
        let isListed = reporter.attempt { () throws(CacheError) in
            guard let (listed, listing) = try list() else { return false }
            return try disk.run { directory throws(CacheError) in
                // Another directory may have been opened meanwhile.
                guard let last = provisional.distrusted, directory === listed else { return true }
                try info.removeShutdownMarker()
                var search = LeftoverSearch(listing, of: directory, through: last)
                search.take(index)
                index.forEachShard { $0.rememberTombstones() }
                provisional.take(search.findings(isDamaged: true))
                provisional.noteLeftoversFound()
                reporter.count { $0.damagedLines += 1 }
                return true
            }
        }
        return isListed ?? false
    }

    /// Lists all files and the content of the segments, and reports segments that cannot be read; nil when the session
    /// ends meanwhile. O(files, and bytes in segments), outside of the disk queue.
    func list() throws(CacheError) -> (StoreDirectory, StoreDirectory.Listing)? {
        let directory = try disk.run { $0 }
        let listing = try translating("list the entries", at: path) { () throws(Errno) in
            try directory.list { !context.isEnding.isSet }
        }
        guard let listing else { return nil }
        for (number, error) in listing.segments.unreadable.inOrder(of: { $0.key }) {
            reporter.report(CacheError(error, doing: "read a segment", path: directory.path(ofSegment: number)))
        }
        return (directory, listing)
    }
}
