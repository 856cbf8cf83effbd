import LarderFiles

/// Reads every entry, and removes those that are proven damaged or missing.
struct Verifier {
    typealias Progress = @Sendable (_ checked: Int, _ total: Int) -> Void

    /// Entries between two calls of the progress.
    private static let slice = 64

    let context: StoreContext
    let recovery: Recovery

    /// Changes continue meanwhile. O(entries and bytes).
    func verify(progress: Progress?) throws(CacheError) -> VerificationReport {
        context.index.loadAll()
        recovery.awaitScan()
        var report = VerificationReport()
        var checked = 0
        let total = context.index.totals.count
        for shard in 0..<Index.shardCount {
            for entry in context.index.snapshot(shard) {
                try verify(entry, &report)
                checked += 1
                if checked.isMultiple(of: Self.slice) { progress?(min(checked, total), total) }
            }
        }
        // Before and after: a process that joins or leaves meanwhile may have used the files that were listed.
        let wasAlone = context.disk.isAlone
        let unknown = try countUnknown()
        if wasAlone, context.disk.isAlone { report.orphans = unknown } else { report.owed = unknown }
        progress?(total, total)
        return report
    }

    private func verify(_ entry: IndexEntry, _ report: inout VerificationReport) throws(CacheError) {
        let key = entry.key
        let (reading, path) = try context.disk.run { directory in
            // Values in segments are short.
            let reading: StoreDirectory.Reading<OwnedDescriptor?> =
                entry.file.place.isInSegment
                ? directory.payload(of: entry).then { _ in .value(nil) } : directory.open(entry).then { .value($0) }
            return (reading, directory.path(of: entry.file))
        }
        switch check(reading, entry, path: path) {
        case .value:
            report.checked += 1
            report.bytes += entry.size
        case .gone:
            if recovery.removeUnreadable(entry, key, as: .lost) { report.missing.append(entry.keyText) }
        case .damaged:
            if recovery.removeUnreadable(entry, key, as: .corrupt) { report.damaged.append(entry.keyText) }
        case .failed(let error):
            context.reporter.report(error, of: key)
            report.unreadable.append(entry.keyText)
        }
    }

    /// Reads a whole open file, outside of the disk queue, so no barrier waits for it.
    private func check(
        _ opened: StoreDirectory.Reading<OwnedDescriptor?>, _ entry: IndexEntry, path: String
    ) -> StoreDirectory.Reading<Void> {
        opened.then { file in
            guard let file else { return .value(()) }
            do throws(Errno) {
                let checksum = try context.fileSystem.checksum(of: file.file, size: entry.size)
                return checksum == entry.checksum ? .value(()) : .damaged
            } catch {
                return .failed(CacheError(error, doing: "read an entry", path: path))
            }
        }
    }

    /// Counts the files that neither the index nor the tombstones mention, after waiting for running writes.
    private func countUnknown() throws(CacheError) -> Int {
        // The entries of segments that cannot be read have been reported.
        let directory = try context.disk.run { $0 }
        let listing = try translating("list the entries", at: context.path) { () throws(Errno) in
            try directory.list()
        }
        var unknown = Set(listing.entries)
        // Twice: a file that was just replaced is for a moment neither an entry's nor obsolete, if it is synced first.
        for _ in 1...2 where !unknown.isEmpty {
            context.disk.runAlone {}
            context.index.forEachShard { shard in
                for entry in shard.table.entries + shard.table.evacuated { unknown.remove(entry.file) }
                for file in shard.debts.files + shard.debts.aside { unknown.remove(file.file) }
            }
        }
        return try context.disk.run { current in
            // The cache was cleared meanwhile.
            if current !== directory { return 0 }
            // A listed file may have been deleted since, and its entry with it.
            return unknown.count { directory.mayExist($0) }
        }
    }
}
