public import Larder
package import LarderFiles
public import LarderFoundation

/// A private HTTP cache after RFC 9111: requests go through it to their servers, and it answers those that it may.
///
///     let web = try HTTPCache(name: "web")
///     let (data, response) = try await web.data(for: URLRequest(url: url))
///     print(response.cacheStatus)  // Larder; hit; ttl=376
///
/// Responses are kept as long as they can be used or validated, within the limits of the disk tier. They survive the
/// process as the entries of a `DiskCache` do, several processes may share the directory, and a disk that
/// fails costs answers from the cache, never answers. Bodies are complete when a call returns.
public final class HTTPCache: Sendable {
    /// The entries. Removing them is safe at any time.
    public let disk: DiskCache
    let responder: Responder
    let configuration: Configuration
    private let ownsDisk: Bool

    /// Opens the cache `name` in the user's caches directory.
    ///
    /// - Parameters:
    ///   - name: A single path component.
    ///   - transport: Sends requests to servers. Default: `URLSession`.
    ///   - configuration: The settings.
    /// - Throws: The errors of `DiskCache/init(name:configuration:)`.
    public convenience init(
        name: String, transport: any HTTPTransport = URLSessionTransport(), configuration: Configuration = .init()
    ) throws(CacheError) {
        self.init(
            try DiskCache(name: name, configuration: configuration.disk), "", transport, configuration,
            WallClock(configuration.disk.now), ownsDisk: true)
    }

    /// Opens the cache in a directory, which is created if it is missing.
    ///
    /// - Throws: The errors of `DiskCache/init(directory:configuration:)`.
    public convenience init(
        directory: URL, transport: any HTTPTransport = URLSessionTransport(), configuration: Configuration = .init()
    ) throws(CacheError) {
        self.init(
            try DiskCache(directory: directory, configuration: configuration.disk), "", transport, configuration,
            WallClock(configuration.disk.now), ownsDisk: true)
    }

    /// Creates a cache over a part of a directory that others use too.
    ///
    /// - Parameters:
    ///   - disk: The directory, or a namespace in it. Its opener closes it.
    ///   - namespace: As for `DiskCache/namespace(_:)`.
    ///   - transport: Sends requests to servers. Default: `URLSession`.
    ///   - configuration: The settings. Of those of the disk tier, only its clock counts, which has to be the one that
    ///     the directory was opened with.
    public convenience init(
        disk: DiskCache, namespace: String, transport: any HTTPTransport = URLSessionTransport(),
        configuration: Configuration = .init()
    ) {
        self.init(
            disk, namespace, transport, configuration, WallClock(configuration.disk.now), ownsDisk: false)
    }

    /// Opens a cache with another file system and clock, for tests.
    package convenience init(
        directory: URL, transport: any HTTPTransport, configuration: Configuration = .init(),
        fileSystem: any FileSystem, clock: any LarderFiles.Clock
    ) throws(CacheError) {
        let disk = try DiskCache(
            directory: directory, configuration: configuration.disk, fileSystem: fileSystem, clock: clock)
        self.init(disk, "", transport, configuration, clock, ownsDisk: true)
    }

    private init(
        _ disk: DiskCache, _ namespace: String, _ transport: any HTTPTransport, _ configuration: Configuration,
        _ clock: any LarderFiles.Clock, ownsDisk: Bool
    ) {
        let store = ResponseStore(disk: disk, namespace: namespace, memory: configuration.memory)
        self.disk = store.disk
        self.configuration = configuration
        self.ownsDisk = ownsDisk
        responder = Responder(
            transport: transport, store: store, policy: configuration.policy, clock: clock,
            spoolLimit: configuration.spoolLimit)
    }

    /// Counts since the cache was opened. O(1).
    public var statistics: HTTPCacheStatistics { responder.counts.withLock { $0 } }

    /// Removes the responses of a URL: all variants, in all partitions. O(1). A request that is under way for the URL
    /// answers its caller, but is not stored.
    public func removeResponses(for url: URL) async {
        guard let key = CacheKey(url, partition: "") else { return }
        responder.exchanges.revoke(key.url)
        await responder.store.removeAll(key)
    }

    /// Removes all responses of this cache. O(1).
    ///
    /// - Throws: The errors of `DiskCache/removeAll(progress:)`. Everything is then still there.
    public func removeAll() async throws(CacheError) {
        responder.exchanges.revoke(nil)
        try await responder.store.cache.removeAll()
    }

    /// Returns when no validation is under way in the background.
    public func waitForRevalidations() async {
        await responder.revalidations.wait()
    }

    /// Waits for validations in the background, and closes the directory if this cache has opened it. Requests then go
    /// to their servers.
    ///
    /// - Throws: The errors of `DiskCache/close()`; the directory is closed anyway.
    public func close() async throws {
        await waitForRevalidations()
        guard ownsDisk else { return }
        let disk = disk
        try await BlockingWork.run { try disk.close() }
    }
}

extension LarderFiles.WallClock {
    fileprivate init(_ now: @escaping @Sendable () -> Date) {
        self.init { Timestamp(milliseconds: Int64((now().timeIntervalSince1970 * 1000).rounded(.up))) }
    }
}
