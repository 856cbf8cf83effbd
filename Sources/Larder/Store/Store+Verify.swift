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
            for row in snapshot(shard) where row.file != 0 {
                try verify(row, &report)
                done += 1
                if done.isMultiple(of: Self.slice) { progress?(min(done, total), total) }
            }
        }
        report.orphans = try countOrphans()
        progress?(total, total)
        return report
    }

    private func verify(_ row: Row, _ report: inout VerificationReport) throws(CacheError) {
        let key = row.name
        let (opened, path) = try onDisk { volume throws(CacheError) in (volume.open(row), volume.path(of: row.file)) }
        switch checked(opened, row, path: path) {
        case .value:
            report.checked += 1
            report.bytes += row.size
        case .gone:
            if forget(row, key, as: .lost) { report.missing.append(row.key) }
        case .damaged:
            if forget(row, key, as: .corrupt) { report.damaged.append(row.key) }
        case .failed(let error):
            self.report(error, of: key)
            report.unreadable.append(row.key)
        }
    }

    /// Reads the whole of an open file; outside of `disk`, where nobody has to wait for it.
    private func checked(
        _ opened: Volume.Reading<SharedDescriptor>, _ row: Row, path: String
    ) -> Volume.Reading<Void> {
        opened.then { file in
            do throws(Errno) {
                return try fileSystem.checksum(of: file.file, size: row.size) == row.checksum ? .value(()) : .damaged
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
        // Twice: a file that was replaced just now is for a moment neither in a row nor waiting to be deleted, if it is
        // synced first.
        for _ in 1...2 where !strangers.isEmpty {
            disk.runAlone {}
            index.forEachShard { shard in
                for row in shard.manifest.rows + shard.manifest.evacuated { strangers.remove(row.file) }
                for file in shard.doomed { strangers.remove(file.file) }
            }
        }
        return try onDisk { volume throws(CacheError) in
            // What was still there when it was listed may have gone since, and its row with it.
            strangers.count { (try? fileSystem.status(of: .number($0), in: volume.entries.file)) != nil }
        }
    }
}
