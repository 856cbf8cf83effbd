import LarderFiles

extension DiskCache {
    /// Opens the cache `name` of this program: `<Caches>/<program>/<name>`.
    ///
    /// The program is its bundle identifier on Apple platforms, where it has one, and the name of its executable
    /// otherwise. So two programs of one user have two caches; ``init(name:program:configuration:)`` names another
    /// program, and ``init(directory:configuration:)`` is for directories that programs share. A cache of Larder 0.1.0,
    /// in `<Caches>/<name>`, is used where it is.
    ///
    /// A cache that is created without ``Configuration/sizeLimit`` gets one: a tenth of the free space, but 16 MiB to
    /// 1 GiB. It is kept in the file `sizeLimit` of the directory, which is written before anything else: also when the
    /// opening then fails. ``Configuration/unlimited`` has none.
    ///
    /// - Parameters:
    ///   - name: A single path component.
    ///   - configuration: The settings.
    /// - Throws: `.invalidName`, also where the user has no directory for caches or the system does not tell the
    ///   executable; and the errors of `init(directory:configuration:)`.
    public convenience init(name: String, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(in: CachesDirectory.url(for: name, of: ProgramName.current), configuration, isNamed: true)
    }

    /// Opens the cache `name` of a program of this user; see ``init(name:configuration:)``.
    ///
    /// - Parameters:
    ///   - name: A single path component.
    ///   - program: A single path component.
    ///   - configuration: The settings.
    /// - Throws: As ``init(name:configuration:)``.
    public convenience init(
        name: String, program: String, configuration: Configuration = .init()
    ) throws(CacheError) {
        try self.init(in: CachesDirectory.url(for: name, of: program), configuration, isNamed: true)
    }

    private static let sharedCache = Lock<DiskCache?>(nil)

    /// The program's own cache: the one with the name `Larder`.
    ///
    /// It is opened on first use, and again after it has been closed. A failure to open it is not remembered.
    public static var shared: DiskCache {
        get throws(CacheError) {
            try sharedCache.withLock { cache throws(CacheError) in
                if let cache, !cache.isClosed { return cache }
                let opened = try DiskCache(in: CachesDirectory.shared, .init(), isNamed: true)
                cache = opened
                return opened
            }
        }
    }
}
