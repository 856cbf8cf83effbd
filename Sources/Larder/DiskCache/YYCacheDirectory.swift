#if SQLite
    import LarderFiles
    import LarderFoundation

    /// A directory written by YYCache: `manifest.sqlite` with a row for each key, and in `data/` a file for each long
    /// value.
    ///
    /// All of it is untrusted: links are not followed, and names never become paths.
    final class YYCacheDirectory {
        /// The longest file. YYCache counts in 32 bits.
        private static let longestFile = Int(Int32.max)

        private let fileSystem: any FileSystem
        private let directory: OwnedDescriptor
        private let data: Result<OwnedDescriptor, Errno>
        private let manifest: YYCacheManifest

        /// A row that can be imported.
        struct Candidate {
            let key: Key
            let size: Int
            /// Nil: the value is in the row.
            let file: File?
            fileprivate let id: Int64
            /// Seconds since 1970. They only decide which comes first.
            fileprivate let modified: Int64
            fileprivate let used: Int64

            struct File {
                let name: FileName
                fileprivate let identity: FileIdentity
            }
        }

        init(path: String, in fileSystem: any FileSystem) throws(CacheError) {
            self.fileSystem = fileSystem
            let opened: OwnedDescriptor
            do {
                opened = OwnedDescriptor(try fileSystem.openDirectory(path: path, creation: .never))
            } catch .noEntry {
                throw CacheError(
                    code: .notFound, message: "There is no YYCache directory.", path: path,
                    errno: Errno.noEntry.rawValue)
            } catch {
                throw CacheError(error, doing: "open the directory", path: path)
            }
            directory = opened
            data = Result { () throws(Errno) in
                OwnedDescriptor(try fileSystem.open(.text("data"), in: opened.file, for: .directory))
            }
            manifest = try YYCacheManifest(YYCacheCopy(of: opened, sourcePath: path, in: fileSystem), path: path)
        }

        private struct Skip: Error {
            let reason: ImportReport.Reason
            var detail: String?
        }

        /// Returns the rows that can be imported, the least recently used first, and adds the others to the report.
        func candidates(
            _ report: inout ImportReport, accept: (String) throws(CacheError) -> Key
        ) throws(CacheError) -> [Candidate] {
            var found: [Candidate] = []
            try manifest.forEachRow { row in
                do throws(Skip) {
                    found.append(try candidate(row, accept))
                } catch {
                    report.skipped.append(.init(Self.title(row), error.reason, detail: error.detail))
                }
            }
            // The latest first: of rows with one key or one file, it has what was stored last.
            found.sort { ($0.modified, $0.id) > ($1.modified, $1.id) }
            var keys: Set<Key> = []
            var owners: [FileIdentity: Key] = [:]
            var candidates: [Candidate] = []
            for candidate in found {
                let key = candidate.key
                if !keys.insert(key).inserted {
                    report.skipped.append(.init(key.text, .duplicate))
                } else if let file = candidate.file, let owner = owners[file.identity] {
                    report.skipped.append(.init(key.text, .sharedFile, detail: owner.text.debugDescription))
                } else {
                    if let file = candidate.file { owners[file.identity] = key }
                    candidates.append(candidate)
                }
            }
            return candidates.sorted { ($0.used, $0.id) < ($1.used, $1.id) }
        }

        /// What a report calls a row.
        private static func title(_ row: YYCacheManifest.Row) -> String {
            guard case .text(let bytes) = row.key else { return "row \(row.id)" }
            return String(decoding: bytes.prefix(Key.longest), as: UTF8.self)
        }

        private func candidate(
            _ row: YYCacheManifest.Row, _ accept: (String) throws(CacheError) -> Key
        ) throws(Skip) -> Candidate {
            // YYCache stores no empty key, and none beyond a zero.
            guard let text = row.key.text, !text.isEmpty, !text.utf8.contains(0), let key = try? accept(text) else {
                throw Skip(reason: .invalidKey)
            }
            guard let size = row.size, size >= 0, let modified = row.modified, let used = row.used else {
                throw Skip(reason: .invalidRow)
            }
            func candidate(_ file: Candidate.File?) -> Candidate {
                Candidate(key: key, size: Int(size), file: file, id: row.id, modified: modified, used: used)
            }
            switch row.filename {
            case .null, .text([]):
                guard let length = row.inlineSize, length >= 0 else { throw Skip(reason: .invalidRow) }
                guard length <= YYCacheManifest.largestValue else { throw Skip(reason: .tooLarge) }
                guard length == size else { throw Skip(reason: .wrongSize) }
                return candidate(nil)
            case .text:
                guard let name = row.filename.text, ![".", ".."].contains(name),
                    !name.utf8.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") })
                else { throw Skip(reason: .invalidName) }
                guard size <= Self.longestFile else { throw Skip(reason: .tooLarge) }
                return candidate(.init(name: .text(name), identity: try identity(of: .text(name), size: Int(size))))
            case .integer, .other:
                throw Skip(reason: .invalidName)
            }
        }

        /// Returns the identity of a file of that size.
        private func identity(of name: FileName, size: Int) throws(Skip) -> FileIdentity {
            let status: FileStatus
            do {
                status = try fileSystem.status(of: name, in: data.get().file)
            } catch .noEntry, .nameTooLong {
                throw Skip(reason: .missingFile)
            } catch {
                throw Skip(reason: .failed, detail: error.description)
            }
            guard status.kind == .regular else { throw Skip(reason: .notAFile) }
            guard status.size == size else { throw Skip(reason: .wrongSize) }
            return status.identity
        }

        /// Opens the file of a candidate; nil when it is no longer the file that was found.
        func open(_ file: Candidate.File, size: Int) throws(Errno) -> OwnedDescriptor? {
            guard let opened = try fileSystem.openRegular(file.name, in: data.get().file), opened.size == size,
                try fileSystem.status(of: opened.file.file).identity == file.identity
            else { return nil }
            return opened.file
        }

        /// Calls `body` with the value in the row of a candidate.
        func withInlineData<Result>(
            of candidate: Candidate, _ body: (UnsafeRawBufferPointer) throws(CacheError) -> Result
        ) throws(CacheError) -> Result {
            try manifest.withInlineData(ofRow: candidate.id, size: candidate.size, body)
        }

        /// Deletes the file of a candidate, unless another one has taken its name.
        func remove(_ file: Candidate.File) throws(Errno) {
            let data = try data.get()
            do throws(Errno) {
                let status = try fileSystem.status(of: file.name, in: data.file)
                guard status.kind == .regular, status.identity == file.identity else { return }
                try fileSystem.remove(file.name, in: data.file, directory: false)
            } catch {
                if error != .noEntry { throw error }
            }
        }

        /// Deletes the database with its log and index, but no folder.
        func removeManifest() throws(Errno) {
            for name in YYCacheCopy.files { try fileSystem.removeRegular(.text(name), in: directory.file) }
        }
    }
#endif
