import LarderFiles

/// Looks for files that no line of a complete index mentions, by their numbers instead of by listing all names.
///
/// A change takes its number, creates its file, and is recorded. So a killed process leaves such files only under
/// numbers that no line proves to have been taken: shortly below the last one, because calls run side by side, or
/// shortly above it.
struct SuspectProbe {
    /// A number this far below the last one does not belong to a call that was under way at the end.
    static let concurrency = 2 * Reconciliation.concurrency

    let directory: StoreDirectory

    /// Returns the suspects, sorted, and the highest number that they or unfinished copies prove to have been taken; nil
    /// when there are too many, or when there is a tombstone, whose record is then missing.
    func suspects(
        above saved: UInt64, through last: UInt64, taken: Set<UInt64>
    ) -> (files: [FileID], last: UInt64)? {
        var found: [FileID] = []
        var highest = last
        let lowest = max(saved, last > Self.concurrency ? last - Self.concurrency : 0) + 1
        var number = lowest
        var end = last + Reconciliation.reach
        do {
            while number <= end, number <= Record.lastNumber {
                defer { number += 1 }
                if taken.contains(number) { continue }
                if try exists(DirectoryLayout.tombstoneNumber(number)) { return nil }
                let isFile = try exists(number)
                if isFile { found.append(FileID(number)) }
                guard try isFile || number > last && exists(DirectoryLayout.stagedNumber(number)) else { continue }
                highest = max(highest, number)
                end = max(end, number + Reconciliation.reach)
                if found.count > OpeningScan.mostAtOnce { return nil }
            }
            // In segments, numbers lead nowhere: their ends are read.
            let segments = try directory.segments.list(unsettled: true)
            if !segments.unreadable.isEmpty { return nil }
            for file in segments.entries
            where file.number >= lowest && !taken.contains(file.number) { found.append(file) }
        } catch {
            return nil
        }
        if found.count > OpeningScan.mostAtOnce { return nil }
        return (found.sorted(), found.reduce(highest) { max($0, $1.number) })
    }

    private func exists(_ number: UInt64) throws(Errno) -> Bool {
        do {
            return try directory.fileSystem.status(of: .number(number), in: directory.entries.file).kind == .regular
        } catch .noEntry {
            return false
        }
    }
}
