import LarderFiles
import LarderFoundation

/// The platform's directory for caches, and the places of caches in it.
enum CachesDirectory {
    /// Replaces the platform's directory in the tests of one task.
    @TaskLocal static var root: URL?

    /// The directory of the program's own cache. 0.1.0 took the name of the program from its arguments on Linux.
    static var shared: URL {
        get throws(CacheError) {
            try url(for: "Larder", of: ProgramName.current, old: [ProgramName.inArguments, "Larder"])
        }
    }

    /// Returns the directory of the cache `name` of a program: its folder in that of the program, or the place that
    /// 0.1.0 gave to all programs, when only that is a cache.
    static func url(for name: String, of program: String?, old: [String]? = nil) throws(CacheError) -> URL {
        try check(name)
        guard let program else {
            throw CacheError(
                code: .invalidName,
                message: """
                    The system does not tell the name of this program; on Linux, `/proc` is missing. Open the cache \
                    with `DiskCache(name:program:)`, or with the URL of a directory.
                    """,
                path: name)
        }
        try check(program)
        guard let caches = root ?? UserDirectories.caches.map({ URL(fileURLWithPath: $0, isDirectory: true) }) else {
            throw CacheError(
                code: .invalidName,
                message: """
                    This user has no directory for caches: neither `XDG_CACHE_HOME` nor `HOME` is an absolute path, and \
                    the system knows no home. Open the cache with the URL of a directory.
                    """,
                path: name)
        }
        let files = PosixFileSystem()
        let folder = caches.appendingPathComponent(program, isDirectory: true)
        let place = folder.appendingPathComponent(name, isDirectory: true)
        if DirectoryLayout.isOurs(name), try Opener.isCache(at: folder.path, in: files) {
            throw CacheError(
                code: .invalidName, message: "\"\(name)\" is a part of the cache \"\(program)\" of Larder 0.1.0.",
                path: name)
        }
        if try Opener.hasEntries(at: place.path, in: files) { return place }
        let former = (old ?? [name]).reduce(caches) { $0.appendingPathComponent($1, isDirectory: true) }
        return try Opener.isCache(at: former.path, in: files) ? former : place
    }

    private static func check(_ name: String) throws(CacheError) {
        guard !name.isEmpty, name != ".", name != "..",
            !name.utf8.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") })
        else {
            throw CacheError(
                code: .invalidName,
                message: "The name of a cache or program must be a single path component; \"\(name)\" is not.",
                path: name)
        }
    }
}
