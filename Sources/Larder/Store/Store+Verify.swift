import Dispatch
import LarderFiles

extension Store {
    /// Entries between two calls of the progress.
    private static let slice = 64

    /// Reads every entry. What is proven damaged or gone is removed, as by a read. Changes go on meanwhile.
    func verify(progress: Progress?) throws(CacheError) -> VerificationReport {
        awaitReconciliation()
        var report = VerificationReport()
        var done = 0
        let total = index.totals.count
        for shard in 0..<Index.shardCount {
            for entry in snapshot(shard) where entry.file != 0 {
                try verify(entry, &report)
                done += 1
                if done.isMultiple(of: Self.slice) { progress?(min(done, total), total) }
            }
        }
        report.orphans = try countOrphans()
        progress?(total, total)
        return report
    }

    private func verify(_ entry: IndexEntry, _ report: inout VerificationReport) throws(CacheError) {
        let key = entry.key
        let (opened, path) = try onDisk { volume throws(CacheError) in (volume.open(entry), volume.path(of: entry.file))
        }
        switch checked(opened, entry, path: path) {
        case .value:
            report.checked += 1
            report.bytes += entry.size
        case .gone:
            if forget(entry, key, as: .lost) { report.missing.append(entry.keyText) }
        case .damaged:
            if forget(entry, key, as: .corrupt) { report.damaged.append(entry.keyText) }
        case .failed(let error):
            self.report(error, of: key)
            report.unreadable.append(entry.keyText)
        }
    }

    /// Reads the whole of an open file; outside of `disk`, where nobody has to wait for it.
    private func checked(
        _ opened: StoreDirectory.Reading<SharedDescriptor>, _ entry: IndexEntry, path: String
    ) -> StoreDirectory.Reading<Void> {
        opened.then { file in
            do throws(Errno) {
                return try fileSystem.checksum(of: file.file, size: entry.size) == entry.checksum
                    ? .value(()) : .damaged
            } catch {
                return .failed(CacheError(error, doing: "read an entry", path: path))
            }
        }
    }

    /// Counts the files that nothing mentions. Those of this moment's writers are waited for.
    private func countOrphans() throws(CacheError) -> Int {
        let names = try onDisk { volume throws(CacheError) in
            try translating("list the entries", at: path) { () throws(Errno) in
                try fileSystem.numbers(.regular, in: volume.entries.file)
            }
        }
        var strangers = Set(names.lazy.filter { $0 <= Record.lastNumber })
        // Twice: a file that was replaced just now is for a moment neither in a entry nor waiting to be deleted, if it is
        // synced first.
        for _ in 1...2 where !strangers.isEmpty {
            disk.runAlone {}
            index.forEachShard { shard in
                for entry in shard.table.entries + shard.table.evacuated { strangers.remove(entry.file) }
                for file in shard.obsolete { strangers.remove(file.file) }
            }
        }
        return try onDisk { volume throws(CacheError) in
            // What was still there when it was listed may have gone since, and its entry with it.
            strangers.count { (try? fileSystem.status(of: .number($0), in: volume.entries.file)) != nil }
        }
    }
}
