public import Foundation
import LarderFiles

extension DiskCache {
    /// Takes over what EGOCache has stored in a directory: every value whose life is not over, with its expiry date.
    ///
    /// The directory is read and left as it is. What the cache already has a fresh value for is skipped, so importing again
    /// does no harm. Where several keys share one file, the one with the latest date has it. Strings and data read as they
    /// were stored, property lists with `propertyList(forKey:)`, objects with `archivedObject(_:forKey:)`.
    /// O(entries and bytes).
    ///
    /// - Returns: What was imported, and what was skipped and why; print it.
    /// - Throws: `.notFound` when there is no `EGOCache.plist`, `.undecodable` when it is no property list, `.io`, `.closed`.
    @discardableResult
    public func importEGOCache(from directory: URL) throws(CacheError) -> ImportReport {
        let store = try openStore
        guard directory.isFileURL, !directory.path.utf8.contains(0) else {
            throw CacheError(
                code: .invalidName, message: "An import needs the URL of a directory.", path: directory.absoluteString)
        }
        let now = now
        let source = try EGOCacheDirectory(path: directory.path, in: store.fileSystem)
        var report = ImportReport()
        for candidate in source.candidates(at: now, &report) {
            do throws(CacheError) {
                let size = try take(candidate, from: source, into: store, at: now, &report)
                guard let size else { continue }
                report.imported.append(candidate.key)
                report.importedBytes += size
            } catch {
                if error.code == .closed { throw error }
                report.skipped.append(.init(candidate.key, .failed, detail: error.description))
            }
        }
        report.skipped.sort { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        return report
    }

    /// Returns the bytes taken over; nil when there was a reason not to.
    private func take(
        _ candidate: EGOCacheDirectory.Candidate, from source: EGOCacheDirectory, into store: Store, at now: Timestamp,
        _ report: inout ImportReport
    ) throws(CacheError) -> Int? {
        let key = try checked(candidate.key)
        let opened = try translating("open a file", at: candidate.name.description) { () throws(Errno) in
            try source.open(candidate)
        }
        guard let opened else {
            report.skipped.append(.init(candidate.key, .notAFile))
            return nil
        }
        let life = Life(expires: Timestamp(candidate.date), ttl: Life.unlimited)
        let isStored = try store.setCopy(
            of: opened.file, size: opened.size,
            SetRequest(key: key, life: life, attachments: try attachments([:], []), now: now, condition: .ifNotFresh))
        if !isStored { report.skipped.append(.init(candidate.key, .alreadyStored)) }
        return isStored ? opened.size : nil
    }
}
