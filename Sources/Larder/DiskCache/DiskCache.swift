public import Foundation
package import LarderFiles

/// An expiring disk cache: bytes by key, a file per entry, one day by default. Synchronous.
///
///     let disk = try DiskCache(name: "downloads")
///     try disk.setData(bytes, forKey: url.absoluteString)
///     let again = disk.data(forKey: url.absoluteString)
///
/// Reads return `nil` for a miss and never throw. A write that has returned survives the process. Every handle on one
/// directory in one process shares one store; a second process is refused. Any string is a key, up to 64 KiB; keys are
/// compared by their UTF-8 bytes. All methods may be called from any thread; each costs a few system calls, and the
/// same at a million entries as at one.
public final class DiskCache: Sendable {
    /// The directory of the cache.
    public let directory: URL

    let configuration: Configuration
    let space: Namespace
    let session: DiskSession
    /// What entries without metadata share.
    private let attachments: Attachments?

    /// Opens the cache `name` in the user's caches directory.
    ///
    /// - Parameters:
    ///   - name: One path component.
    ///   - configuration: How it behaves.
    /// - Throws: `.invalidName`; and what `init(directory:configuration:)` throws.
    public convenience init(name: String, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(directory: CachesDirectory.url(for: name), configuration: configuration)
    }

    /// Opens the cache in a directory, which is made when it is missing.
    ///
    /// Expired entries, and the leftovers of an unclean close, are cleaned up in the background. After a clean close
    /// the cost is that of reading the index; after an unclean one the directory is listed as well, some 20 ms for
    /// 100,000 files. The handle belongs to the directory that the URL leads to now, however that is renamed or found
    /// later.
    ///
    /// - Throws: `.directoryInUse` when another process has it open, `.notACache` when it holds something else,
    ///   `.newerFormat`, `.differentConfiguration`, `.noSpace`, `.io`. The directory is then as it was.
    public convenience init(directory: URL, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(
            directory: directory, configuration: configuration, fileSystem: PosixFileSystem(),
            clock: configuration.clock)
    }

    /// Opens a cache in another world: the tests' file system and clock.
    package init(
        directory: URL, configuration: Configuration, fileSystem: any FileSystem, clock: any Clock
    ) throws(CacheError) {
        guard directory.isFileURL, !directory.path.isEmpty, !directory.path.utf8.contains(0) else {
            throw CacheError(
                code: .invalidName, message: "A cache needs the URL of a directory.", path: directory.absoluteString)
        }
        let (store, handle) = try Store.open(
            path: directory.path, settings: configuration.settings, fileSystem: fileSystem, clock: clock,
            onEvent: configuration.onEvent)
        self.directory = directory
        self.configuration = configuration
        session = DiskSession(store, handle)
        space = .none
        attachments = nil
    }

    private init(_ space: Namespace, of cache: DiskCache) {
        directory = cache.directory
        configuration = cache.configuration
        session = cache.session
        self.space = space
        // Shared by all handles on the namespace, so that its entries have one object in common.
        attachments = cache.store.pool.attachments(.init(namespace: space), metadata: [:])
    }

    /// Returns a handle on a part of the cache that has keys of its own: `"42"` in `"users"` and in `"orders"` are two
    /// entries.
    ///
    /// What it reads, stores and lists is its own. So are its `count` and `size`; and `removeAll(progress:)` removes
    /// its entries alone, at once whatever their number. Limits, trims, sweeps, statistics and the rest are those of
    /// the directory, and closing one handle closes both. Namespaces do not nest. O(1).
    ///
    /// - Parameter name: Any string of at most 64 KiB, compared by its UTF-8 bytes; "" is what has no namespace.
    /// - Returns: Another handle.
    public func namespace(_ name: String) -> DiskCache {
        DiskCache(Namespace(name), of: self)
    }

    /// Ends the use of this handle; the last one on the directory saves the index and lets the directory go.
    ///
    /// Files that are being copied in are waited for. Afterwards reads miss and writes throw `.closed`. Nothing is lost
    /// without it: it makes the next opening quicker.
    ///
    /// - Throws: `.noSpace`, `.io` when the index could not be saved; the handle is closed all the same.
    public func close() throws(CacheError) {
        try session.close()
    }

    /// Returns when the manifest is saved and every chore begun before is done. O(n) when anything has changed.
    ///
    /// - Throws: `.closed`, `.noSpace`, `.io`.
    public func flush() throws(CacheError) {
        try openStore.flush()
    }

    /// What the cache has done since its directory was opened in this process. O(1).
    public var statistics: CacheStatistics { store.statistics }

    /// Reads every entry, and removes what is proven damaged. O(n and bytes); for tools and tests.
    ///
    /// Others may go on using the cache meanwhile. No use is counted.
    ///
    /// - Parameter progress: Told, from time to time and on the caller's thread, how many entries of how many have been
    ///   read.
    /// - Returns: What was found; print it.
    /// - Throws: `.closed`, `.io` when the directory cannot be listed.
    @discardableResult
    public func verify(
        progress: (@Sendable (_ checked: Int, _ total: Int) -> Void)? = nil
    ) throws(CacheError) -> VerificationReport {
        try openStore.verify(progress: progress)
    }

    var store: Store { session.store }

    var isClosed: Bool { session.isClosed }

    /// The machine, for a write.
    var openStore: Store {
        get throws(CacheError) {
            if isClosed { throw CacheError.closed(directory.path) }
            return store
        }
    }

    /// The machine, for a read; nil once closed.
    var readableStore: Store? { isClosed ? nil : store }

    func key(_ text: String) -> Key { Key(text, in: space) }

    func checked(_ text: String) throws(CacheError) -> Key {
        let length = max(text.utf8.count, space.name.utf8.count)
        guard length <= Key.longest else {
            throw CacheError(code: .tooLarge, message: "A key or tag of \(length) bytes is longer than \(Key.longest).")
        }
        return key(text)
    }

    /// What is kept beside the payload of a new entry.
    func attachments(_ metadata: [String: String], _ tags: [String]) throws(CacheError) -> Attachments? {
        if tags.isEmpty && metadata.isEmpty { return attachments }
        var traits = Attachments.Traits(namespace: space)
        for tag in tags { traits.tags.append(try checked(tag)) }
        return store.pool.attachments(traits, metadata: metadata)
    }

    /// The time by which this cache lives.
    var now: Timestamp { store.clock.now }
}

extension DiskCache {
    private static let sharedCache = Lock<DiskCache?>(nil)

    /// The cache of this program, in `<Caches>/<bundle identifier, or the program's name>/Larder`.
    ///
    /// Opened by the first use, and again after it has been closed. A failure is not remembered.
    public static var shared: DiskCache {
        get throws(CacheError) {
            try sharedCache.withLock { cache throws(CacheError) in
                if let cache, !cache.isClosed { return cache }
                let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
                let directory = try CachesDirectory.url(for: program).appendingPathComponent(
                    "Larder", isDirectory: true)
                let opened = try DiskCache(directory: directory)
                cache = opened
                return opened
            }
        }
    }
}

/// Where the platform wants caches to be.
enum CachesDirectory {
    /// Takes the place of the platform's, for the tests of one task.
    @TaskLocal static var root: URL?

    /// Returns the URL of one name in it.
    static func url(for name: String) throws(CacheError) -> URL {
        guard !name.isEmpty, name != ".", name != "..",
            !name.utf8.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") })
        else {
            throw CacheError(
                code: .invalidName, message: "A cache's name is one path component; \"\(name)\" is none.", path: name)
        }
        let platform = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first
        guard let caches = root ?? platform else {
            throw CacheError(
                code: .invalidName, message: "There is no caches directory on this system; name one.", path: name)
        }
        return caches.appendingPathComponent(name, isDirectory: true)
    }
}
