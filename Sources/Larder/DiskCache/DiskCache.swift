package import LarderFiles
public import LarderFoundation

/// An expiring disk cache: bytes by key, one file per entry, with a default life of one day. Synchronous.
///
///     let disk = try DiskCache(name: "downloads")
///     try disk.setData(bytes, forKey: url.absoluteString)
///     let again = disk.data(forKey: url.absoluteString)
///
/// Reads return `nil` for a miss and never throw. A write that has returned survives the process. All handles on a
/// directory in one process share a store, and several processes may share the directory (<doc:SharingADirectory>). Any
/// string of up to 64 KiB is a key; keys are compared by their UTF-8 bytes. All methods may be called from any thread.
/// Each costs a few system calls, and no more with a million entries than with one.
public final class DiskCache: Sendable {
    /// The directory of the cache.
    public let directory: URL

    let configuration: Configuration
    let keyNamespace: Namespace
    /// Whether this handle has opened the directory. It then removes and expires all of it, not only its own part.
    private let isWhole: Bool
    let session: DiskSession
    /// The attachments that all entries of raw bytes without metadata and tags share.
    private let attachments: Attachments?

    /// Opens the cache in a directory, which is created if it is missing.
    ///
    /// Expired entries and the remains of an unclean close are cleaned up in the background. After a clean close,
    /// opening costs reading the index; after an unclean one, the directory is listed as well, about 20 ms for 100,000
    /// files. The handle belongs to the directory that the URL leads to now, even if it is renamed or reached by
    /// another path later.
    ///
    /// - Throws: `.directoryInUse` when another process has it open and does not share it, `.unsupportedDisk` when
    ///   several processes cannot share it on this disk, `.notACache` when it contains something other than a cache,
    ///   `.newerFormat`, `.differentConfiguration`, `.noSpace`, `.io`. The directory is then unchanged.
    public convenience init(directory: URL, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(in: directory, configuration, isNamed: false)
    }

    /// `isNamed`: a cache that is created gets a limit. One that has got it keeps it, however it is opened.
    convenience init(in directory: URL, _ configuration: Configuration, isNamed: Bool) throws(CacheError) {
        let files = PosixFileSystem()
        let limit = configuration.sizeLimit == nil ? DefaultSizeLimit(path: directory.path, files) : nil
        try self.init(
            directory: directory, configuration: configuration, fileSystem: files, clock: configuration.clock,
            defaultSize: isNamed ? limit?.obtain(configuration.settings) : limit?.saved)
        if isNamed, let limit, limits.sizeLimit == nil {
            session.whenObserved { [weak store, settings = configuration.settings] in
                if limit.saveNone(settings) { store?.events.post(CacheEvent(.unlimited)) }
            }
            if configuration.onEvent != nil { session.noteObserved() }
        }
    }

    /// Opens a cache with another file system and clock, for the tests.
    package init(
        directory: URL, configuration: Configuration, fileSystem: any FileSystem, clock: any Clock,
        defaultSize: Int? = nil
    ) throws(CacheError) {
        guard directory.isFileURL, !directory.path.isEmpty, !directory.path.utf8.contains(0) else {
            throw CacheError(
                code: .invalidName, message: "A cache needs the URL of a directory.", path: directory.absoluteString)
        }
        let (store, handle) = try Store.registry.open(
            path: directory.path, settings: configuration.settings, defaultSize: defaultSize, fileSystem: fileSystem,
            clock: clock, onEvent: configuration.onEvent)
        self.directory = directory
        self.configuration = configuration
        session = DiskSession(store, handle)
        keyNamespace = .none
        isWhole = true
        attachments = nil
        protectFiles()
    }

    private init(_ keyNamespace: Namespace, of cache: DiskCache) {
        directory = cache.directory
        configuration = cache.configuration
        session = cache.session
        self.keyNamespace = keyNamespace
        isWhole = false
        // Shared by all handles on the namespace, so all its entries refer to one object.
        attachments = cache.store.pool.attachments(.init(namespace: keyNamespace), metadata: [:])
    }

    /// Returns a handle on a part of the cache that has keys of its own: `"42"` in `"users"` and in `"orders"` are two
    /// entries.
    ///
    /// Every handle reads, stores, lists and counts only its own part; that of the handle which opened the directory
    /// are the entries without a namespace. `removeAll(progress:)` removes a part at once, however many entries it has;
    /// on the handle that opened the directory it removes all parts, and so does `expireAll()`. Limits, trims, sweeps,
    /// statistics and everything else belong to the directory, and closing one handle closes all. O(1).
    ///
    /// Namespaces nest: names are joined by U+001F, the unit separator, so `namespace("a").namespace("x")` is
    /// `namespace("a\u{1F}x")`. It is a part of its own: not that of `namespace("x")`, nor in that of `namespace("a")`,
    /// whose `removeAll(progress:)` leaves it alone.
    ///
    /// - Parameter name: Any string, compared by its UTF-8 bytes; "" is the part of this handle alone, without the
    ///   parts that belong to others. Joined names may have 64 KiB.
    /// - Returns: Another handle.
    public func namespace(_ name: String) -> DiskCache {
        DiskCache(keyNamespace.appending(name), of: self)
    }

    /// Closes this handle; the last one on the directory saves the index and releases the directory lock.
    ///
    /// The call waits for files that are being copied in. Afterwards reads miss and writes throw `.closed`. Without it
    /// nothing is lost, but the next opening is slower.
    ///
    /// - Throws: `.noSpace`, `.io` when the index could not be saved; the handle is closed anyway.
    public func close() throws(CacheError) {
        try session.close()
    }

    /// Returns when the manifest is saved and all background work that began earlier is done. O(n) when anything has
    /// changed. While another process saves, it waits for that for about a second.
    ///
    /// - Throws: `.closed`, `.noSpace`, `.io`.
    public func flush() throws(CacheError) {
        if isClosed { throw CacheError.closed(directory.path) }
        // Where a journal cannot be read, the work in the background may be what mends that.
        if !store.follow(), store.disk.isForked { throw CacheError.forked(directory.path) }
        try store.housekeeper.flush()
    }

    /// Counts since the directory was opened in this process. O(1); with segments it asks the size of each.
    public var statistics: CacheStatistics { store.statistics }

    /// Reads every entry, and removes those proven damaged. O(n and bytes); for tools and tests.
    ///
    /// The cache may be used meanwhile. The reads do not count as uses.
    ///
    /// - Parameter progress: Called from time to time, on the caller's thread, with the number of entries read and
    ///   their total.
    /// - Returns: The findings; they can be printed.
    /// - Throws: `.closed`, `.io` when the directory cannot be listed.
    @discardableResult
    public func verify(
        progress: (@Sendable (_ checked: Int, _ total: Int) -> Void)? = nil
    ) throws(CacheError) -> VerificationReport {
        try openStore.verify(progress: progress)
    }

    var store: Store { session.store }

    var isClosed: Bool { session.isClosed }

    /// The store, for a write.
    var openStore: Store {
        get throws(CacheError) { try withOpenStore { $0 } }
    }

    /// Runs a write with the store. Does not retain it, which is slow: the store has weak references.
    @inline(__always)
    func withOpenStore<Result>(_ body: (Store) throws(CacheError) -> Result) throws(CacheError) -> Result {
        if isClosed { throw CacheError.closed(directory.path) }
        return try session.unretainedStore.use { store throws(CacheError) in
            if !store.follow() { try store.disk.followOrThrow() }
            return try body(store)
        }
    }

    /// The store, for a read; nil once closed.
    var readableStore: Store? {
        if isClosed { return nil }
        return store.follow() ? store : nil
    }

    /// What the calls without a key remove and expire.
    var scope: ClearScope { isWhole ? .everything : .namespace(keyNamespace) }

    func key(_ text: String) -> Key { Key(text, in: keyNamespace) }

    func checked(_ text: String) throws(CacheError) -> Key {
        let length = max(text.utf8.count, keyNamespace.name.utf8.count)
        guard length <= Key.longest else {
            throw CacheError(code: .tooLarge, message: "A key or tag of \(length) bytes is longer than \(Key.longest).")
        }
        return key(text)
    }

    /// The attachments of a new entry.
    func attachments(
        _ metadata: [String: String], _ tags: [String], _ coding: Coding? = nil
    ) throws(CacheError) -> Attachments? {
        if tags.isEmpty && metadata.isEmpty && coding == nil { return attachments }
        var traits = Attachments.Traits(namespace: keyNamespace, coding: coding)
        for tag in tags { traits.tags.append(try checked(tag)) }
        return store.pool.attachments(traits, metadata: metadata)
    }

    /// The clock of the directory.
    package var clock: any LarderFiles.Clock { store.clock }

    /// The store's current time.
    var now: Timestamp { clock.now }
}

/// For tests.
extension DiskCache {
    /// A function that returns when the background work under way, the work it has begun and the events of both are
    /// done, and says false once the store is gone. It does not retain the store, and must not be called from an event
    /// handler.
    package var settling: @Sendable () -> Bool {
        { [weak store] in
            guard let store else { return false }
            var rounds = 0
            repeat {
                try? store.housekeeper.alone {}
                store.maintenance.wait()
                rounds += 1
                // Each segment is work of its own.
            } while rounds < 3 || store.maintenance.isUnderWay(.clean)
            store.events.drain()
            return true
        }
    }

    /// The name of a key's file in the directory of entries; nil when the key has no entry.
    package func entryFileName(forKey key: String) -> String? {
        guard let file = store.index.entry(self.key(key))?.file, !file.place.isInSegment else { return nil }
        return FileName.number(file.number).description
    }
}
