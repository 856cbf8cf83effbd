#if SQLite
    import LarderFiles
    public import LarderFoundation

    extension DiskCache {
        /// Imports the values that YYCache has stored in a directory, as raw data.
        ///
        ///     let report = try disk.importYYCache(from: oldDirectory, ttl: .days(7))
        ///
        /// Values stored as objects are keyed archives: nothing is unarchived, `archivedObject(_:forKey:)` does so when
        /// it reads them. Extended data is not imported. Keys that have a fresh value in the cache are skipped, so
        /// importing again does no harm. The values that YYCache used last are imported last, so limits evict the
        /// others first.
        ///
        /// The directory may be hostile. SQLite reads a copy of the database and its log, in a folder among the
        /// temporary files that is deleted afterwards; each file may have 1 GiB, and the table a million rows. Rows are
        /// skipped unless they are as YYCache writes them, such as those whose value is not of the stated size. Nothing
        /// else may have the directory open: close its caches first, in this process, too, where SQLite would lose its
        /// locks.
        ///
        /// It is part of the trait `SQLite`, which needs SQLite 3.31 or later (Debian: libsqlite3-dev). It needs a real
        /// disk: on one in memory, as tests have, it throws. O(rows and bytes); in memory O(rows and keys), and one
        /// inline value.
        ///
        /// - Parameters:
        ///   - directory: The directory of a `YYCache` or `YYDiskCache`, which has `manifest.sqlite`.
        ///   - ttl: How long each value is kept, from the import on; YYCache knows no lives. With zero or less all are
        ///     skipped as expired. Default: one day.
        ///   - removesSources: Whether the files of imported values are deleted at the end, and the manifest, too, when
        ///     no row was skipped. A deletion that fails is reported as an event. Default: false, nothing is changed.
        /// - Returns: The imported keys, and the skipped ones with reasons; it can be printed.
        /// - Throws: `.notFound` when there is no `manifest.sqlite`; `.undecodable` when it is damaged, too large or
        ///   not YYCache's; `.invalidName`, `.io`, `.noSpace`, `.closed`. Unless the cache was closed meanwhile, nothing
        ///   was imported.
        @discardableResult
        public func importYYCache(
            from directory: URL, ttl: TimeToLive = .days(1), removesSources: Bool = false
        ) throws(CacheError) -> ImportReport {
            let store = try openStore
            guard directory.isFileURL, !directory.path.utf8.contains(0) else {
                throw CacheError(
                    code: .invalidName, message: "An import needs the URL of a directory.",
                    path: directory.absoluteString)
            }
            let now = now
            let source = try YYCacheDirectory(path: directory.path, in: store.fileSystem.forCallers)
            var report = ImportReport()
            let candidates = try source.candidates(&report, accept: checked)
            var imported: [YYCacheDirectory.Candidate] = []
            for candidate in candidates {
                let key = candidate.key
                do throws(CacheError) {
                    guard let life = ttl.life(from: now, default: configuration.defaultTTL) else {
                        report.skipped.append(.init(key.text, .expired))
                        continue
                    }
                    let request = SetRequest(
                        key: key, life: life, attachments: try attachments([:], []), now: now, condition: .ifNotFresh)
                    if let reason = try importValue(candidate, from: source, into: store, request) {
                        report.skipped.append(.init(key.text, reason))
                    } else {
                        imported.append(candidate)
                    }
                } catch {
                    if error.code == .closed { throw error }
                    report.skipped.append(.init(key.text, .failed, detail: error.description))
                }
            }
            report.imported = imported.map(\.key.text).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            report.importedBytes = imported.reduce(0) { $0 + $1.size }
            report.skipped.sort { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            if removesSources {
                remove(imported, andManifest: report.skipped.isEmpty, from: source, reportingTo: store.reporter)
            }
            return report
        }

        /// Returns the reason why the value was skipped; nil: it was imported.
        private func importValue(
            _ candidate: YYCacheDirectory.Candidate, from source: YYCacheDirectory, into store: Store,
            _ request: SetRequest
        ) throws(CacheError) -> ImportReport.Reason? {
            guard let file = candidate.file else {
                let isStored = try source.withInlineData(of: candidate) { bytes throws(CacheError) in
                    try store.set(bytes, request)
                }
                store.cleaner.awaitIfBehind()
                return isStored ? nil : .alreadyStored
            }
            let opened = try translating("open a file", at: file.name.description) { () throws(Errno) in
                try source.open(file, size: candidate.size)
            }
            guard let opened else { return .notAFile }
            return try store.setCopy(of: opened, size: candidate.size, request) ? nil : .alreadyStored
        }

        private func remove(
            _ imported: [YYCacheDirectory.Candidate], andManifest removesManifest: Bool, from source: YYCacheDirectory,
            reportingTo reporter: Reporter
        ) {
            for candidate in imported {
                guard let file = candidate.file else { continue }
                do {
                    try source.remove(file)
                } catch {
                    reporter.report(CacheError(error, doing: "delete an imported file", path: file.name.description))
                }
            }
            guard removesManifest else { return }
            do {
                try source.removeManifest()
            } catch {
                reporter.report(CacheError(error, doing: "delete an imported manifest", path: YYCacheCopy.manifest))
            }
        }
    }
#endif
