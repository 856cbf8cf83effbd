#if SQLite
    import LarderFiles
    import LarderFoundation

    /// A copy of the manifest of a YYCache directory, in a folder that only this user may enter. Deleted with the
    /// object.
    ///
    /// SQLite writes in the database that it opens and beside it, and follows links. So it opens this copy alone. A
    /// killed process leaves the folder to the system, among its temporary files.
    final class YYCacheCopy {
        static let manifest = "manifest.sqlite"
        static let log = "\(manifest)-wal"
        /// The database first: a log without it is nothing, but it is an older state without its log.
        static let files = [manifest, log, "\(manifest)-shm"]
        /// Bytes of each file. YYCache has values of more than 20 KB in files of their own.
        static let largest = 1 << 30

        /// Replaces the system's directory for temporary files in the tests of one task.
        @TaskLocal static var parent: String?

        /// The path of the database.
        let path: String
        /// Bytes of each file that there is.
        private(set) var sizes: [String: Int] = [:]
        private let fileSystem: any FileSystem
        private let parent: OwnedDescriptor
        private let folder: OwnedDescriptor
        private let name: FileName

        /// `sourcePath` is only for messages.
        init(
            of source: OwnedDescriptor, sourcePath: String, in fileSystem: any FileSystem
        ) throws(CacheError) {
            let parentPath = Self.parent ?? FileManager.default.temporaryDirectory.path
            let name = FileName.text("larder-import-\(FileName.number(Simulation.randomNumber()))")
            (parent, folder) = try translating("make a private folder", at: parentPath) { () throws(Errno) in
                let parent = OwnedDescriptor(try fileSystem.openDirectory(path: parentPath, creation: .never))
                // Mode 0700. A folder of this name, whoever has made it, is an error.
                try fileSystem.makeDirectory(name, in: parent.file)
                return (parent, OwnedDescriptor(try fileSystem.open(name, in: parent.file, for: .directory)))
            }
            path = "\(parentPath)/\(name)/\(Self.manifest)"
            self.name = name
            self.fileSystem = fileSystem
            // From here on `deinit` deletes the folder, after an error, too.
            for file in Self.files { try add(file, from: source, sourcePath) }
        }

        deinit {
            var names: [FileName] = []
            try? fileSystem.list(folder.file) { name, _ in
                names.append(name)
                return true
            }
            for name in names { try? fileSystem.remove(name, in: folder.file, directory: false) }
            try? fileSystem.remove(name, in: parent.file, directory: true)
        }

        private func add(_ name: String, from source: OwnedDescriptor, _ path: String) throws(CacheError) {
            let opened: (file: OwnedDescriptor, size: Int)?
            do {
                opened = try fileSystem.openRegular(.text(name), in: source.file)
            } catch .noEntry where name != Self.manifest {
                return
            } catch .noEntry {
                throw CacheError(
                    code: .notFound, message: "There is no YYCache directory: \(name) is missing.", path: path,
                    errno: Errno.noEntry.rawValue)
            } catch {
                throw CacheError(error, doing: "open \(name)", path: path)
            }
            guard let opened else {
                throw CacheError(code: .undecodable, message: "\(name) is not a regular file.", path: path)
            }
            guard opened.size <= Self.largest else {
                throw CacheError(
                    code: .undecodable, message: "\(name) has \(opened.size) bytes, more than \(Self.largest).",
                    path: path)
            }
            try translating("copy \(name)", at: path) { () throws(Errno) in
                _ = try fileSystem.copy(
                    opened.file.file, size: opened.size, as: .text(name), in: folder.file, access: .owner)
            }
            sizes[name] = opened.size
        }
    }
#endif
