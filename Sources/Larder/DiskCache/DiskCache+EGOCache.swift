import LarderFiles
public import LarderFoundation

extension DiskCache {
    /// Imports the values that EGOCache has stored in a directory and that have not expired, with their expiry dates.
    ///
    /// The directory is read and not changed. Keys that have a fresh value in the cache are skipped, so importing again
    /// does no harm. If several keys share a file, the key with the latest date gets it. Strings and data can be read
    /// as they were stored, property lists with `propertyList(forKey:)`, objects with `archivedObject(_:forKey:)`.
    /// O(entries and bytes).
    ///
    /// - Returns: The imported keys, and the skipped ones with reasons; it can be printed.
    /// - Throws: `.notFound` when there is no `EGOCache.plist`, `.undecodable` when it is not a property list, `.io`,
    ///   `.closed`.
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
                let size = try importFile(candidate, from: source, into: store, at: now, &report)
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

    /// Returns the number of bytes imported; nil if the key was skipped, which is then in the report.
    private func importFile(
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

/// A directory written by EGOCache: `EGOCache.plist`, which maps keys to expiry dates, and a file of raw bytes per key.
///
/// A file is named after its key with `/` replaced by `_`, so several keys may share one file; on a file system that
/// ignores case or normalizes Unicode, more keys may. The content of the directory is untrusted: links are not
/// followed, and names never become paths.
struct EGOCacheDirectory {
    static let list = "EGOCache.plist"
    /// Bytes of the list, enough for about half a million rows.
    private static let largestList = 64 << 20

    private let fileSystem: any FileSystem
    private let directory: OwnedDescriptor
    private let rows: [PropertyList.Pair]

    /// A key whose file can be imported.
    struct Candidate {
        let key: String
        let date: Date
        let name: FileName
    }

    init(path: String, in fileSystem: any FileSystem) throws(CacheError) {
        self.fileSystem = fileSystem
        let opened: OwnedDescriptor
        do {
            opened = OwnedDescriptor(try fileSystem.openDirectory(path: path, creation: .never))
        } catch .noEntry {
            throw Self.missing(path)
        } catch {
            throw CacheError(error, doing: "open the directory", path: path)
        }
        directory = opened
        guard let bytes = try Self.readList(in: opened, fileSystem, path: path),
            case .dictionary(let rows)? = PropertyList(bytes)
        else {
            throw CacheError(
                code: .undecodable, message: "\(Self.list) is not a property list of expiry dates.", path: path)
        }
        self.rows = rows.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }

    private static func missing(_ path: String) -> CacheError {
        CacheError(
            code: .notFound, message: "There is no EGOCache directory: \(list) is missing.", path: path,
            errno: Errno.noEntry.rawValue)
    }

    /// Returns nil when the list is not a regular file or is too large.
    private static func readList(
        in directory: OwnedDescriptor, _ fileSystem: any FileSystem, path: String
    ) throws(CacheError) -> Data? {
        do {
            guard let (file, size) = try fileSystem.openRegular(.text(list), in: directory.file), size <= largestList
            else { return nil }
            var bytes = [UInt8](repeating: 0, count: size)
            let count = try fileSystem.read(file.file, at: 0, into: &bytes)
            return Data(bytes.prefix(count))
        } catch .noEntry {
            throw missing(path)
        } catch {
            throw CacheError(error, doing: "read \(list)", path: path)
        }
    }

    /// Returns the keys that can be imported, and adds the others to the report.
    func candidates(at now: Timestamp, _ report: inout ImportReport) -> [Candidate] {
        var owners: [FileIdentity: Int] = [:]
        var candidates: [Candidate?] = []
        for row in rows {
            do throws(Skip) {
                let (candidate, identity) = try candidate(row, at: now)
                candidates.append(candidate)
                guard let owner = owners[identity], let other = candidates[owner] else {
                    owners[identity] = candidates.count - 1
                    continue
                }
                let isNewer = candidate.date > other.date
                let (winner, loser) = isNewer ? (candidate, other) : (other, candidate)
                report.skipped.append(.init(loser.key, .sharedFile, detail: winner.key.debugDescription))
                candidates[isNewer ? owner : candidates.count - 1] = nil
                if isNewer { owners[identity] = candidates.count - 1 }
            } catch {
                report.skipped.append(.init(row.key, error.reason, detail: error.detail))
            }
        }
        return candidates.compactMap(\.self)
    }

    private struct Skip: Error {
        let reason: ImportReport.Reason
        var detail: String?
    }

    private func candidate(
        _ row: PropertyList.Pair, at now: Timestamp
    ) throws(Skip) -> (Candidate, FileIdentity) {
        // Byte by byte: a slash with a combining accent is a different character to Swift, but a slash to the file
        // system.
        let slash = UInt8(ascii: "/")
        let name = String(decoding: row.key.utf8.map { $0 == slash ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
        guard !["", ".", "..", Self.list].contains(name), !name.utf8.contains(0) else {
            throw Skip(reason: .invalidName)
        }
        guard case .date(let date) = row.value, !date.timeIntervalSince1970.isNaN else {
            throw Skip(reason: .notADate)
        }
        if Timestamp(date) <= now { throw Skip(reason: .expired) }
        let status: FileStatus
        do {
            status = try fileSystem.status(of: .text(name), in: directory.file)
        } catch .noEntry, .nameTooLong {
            throw Skip(reason: .missingFile)
        } catch {
            throw Skip(reason: .failed, detail: error.description)
        }
        guard status.kind == .regular else { throw Skip(reason: .notAFile) }
        return (Candidate(key: row.key, date: date, name: .text(name)), status.identity)
    }

    /// Opens the file of a candidate; nil when it is no longer a regular file.
    func open(_ candidate: Candidate) throws(Errno) -> (file: OwnedDescriptor, size: Int)? {
        try fileSystem.openRegular(candidate.name, in: directory.file)
    }
}
