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
/// process as the entries of a `DiskCache` do, and several processes may share the directory. A disk that fails costs
/// answers from the cache, never answers; meanwhile responses are kept in memory. Bodies are complete when a call
/// returns.
public final class HTTPCache: Sendable {
    /// The entries. Removing them is safe at any time.
    public let disk: DiskCache
    let responder: Responder
    let configuration: Configuration
    private let ownsDisk: Bool

    /// Opens the cache `name` of this program: `<Caches>/<program>/<name>`, with a limit on its size; see
    /// `DiskCache/init(name:configuration:)`.
    ///
    /// - Parameters:
    ///   - name: A single path component.
    ///   - transport: Sends requests to servers. Default: `URLSession`.
    ///   - configuration: The settings. Default: those of `Configuration`.
    /// - Throws: The errors of `DiskCache/init(name:configuration:)`.
    public convenience init(
        name: String, transport: any HTTPTransport = URLSessionTransport(), configuration: Configuration = .init()
    ) throws(CacheError) {
        self.init(
            try DiskCache(name: name, configuration: configuration.disk), "", transport, configuration, ownsDisk: true)
    }

    /// Opens the cache in a directory.
    ///
    /// - Parameters:
    ///   - directory: As for `DiskCache/init(directory:configuration:)`. It is created if it is missing.
    ///   - transport: Sends requests to servers. Default: `URLSession`.
    ///   - configuration: The settings. Default: those of `Configuration`.
    /// - Throws: The errors of `DiskCache/init(directory:configuration:)`.
    public convenience init(
        directory: URL, transport: any HTTPTransport = URLSessionTransport(), configuration: Configuration = .init()
    ) throws(CacheError) {
        self.init(
            try DiskCache(directory: directory, configuration: configuration.disk), "", transport, configuration,
            ownsDisk: true)
    }

    /// Creates a cache over a part of a directory that others use too.
    ///
    /// - Parameters:
    ///   - disk: The directory, or a namespace in it. Its opener closes it.
    ///   - namespace: As for `DiskCache/namespace(_:)`.
    ///   - transport: Sends requests to servers. Default: `URLSession`.
    ///   - configuration: The settings; the directory keeps those of its opener. Default: those of `Configuration`.
    public convenience init(
        disk: DiskCache, namespace: String, transport: any HTTPTransport = URLSessionTransport(),
        configuration: Configuration = .init()
    ) {
        self.init(disk, namespace, transport, configuration, ownsDisk: false)
    }

    /// Opens a cache with other file systems and another clock, for tests.
    package convenience init(
        directory: URL, transport: any HTTPTransport, configuration: Configuration = .init(),
        fileSystem: any FileSystem, temporaryFiles: any FileSystem = PosixFileSystem(), clock: any LarderFiles.Clock
    ) throws(CacheError) {
        let disk = try DiskCache(
            directory: directory, configuration: configuration.disk, fileSystem: fileSystem, clock: clock)
        self.init(disk, "", transport, configuration, temporaryFiles, ownsDisk: true)
    }

    private init(
        _ disk: DiskCache, _ namespace: String, _ transport: any HTTPTransport, _ configuration: Configuration,
        _ temporaryFiles: any FileSystem = PosixFileSystem(), ownsDisk: Bool
    ) {
        let store = ResponseStore(
            disk: disk, namespace: namespace, memory: configuration.memory, temporaryFiles: temporaryFiles)
        self.disk = store.disk
        self.configuration = configuration
        self.ownsDisk = ownsDisk
        responder = Responder(
            transport: transport, store: store, policy: configuration.policy,
            clock: disk.clock, spoolLimit: configuration.spoolLimit, onEvent: configuration.onEvent)
    }

    /// Counts since the cache was opened. O(1).
    public var statistics: HTTPCacheStatistics { responder.counts.withLock { $0 } }

    /// The number of requests that wait for others, for tests.
    package var waitingRequests: Int { responder.exchanges.waiting }

    /// Removes the responses of a URL: all variants, in all partitions. O(1). A request of this cache that is under way
    /// for the URL answers its caller, but is not stored.
    ///
    /// - Parameter url: The URL, as requests have it.
    /// - Throws: The errors of `DiskCache/removeAll(tagged:progress:)`. The responses are then still on the disk, but
    ///   this cache does not answer with them: it tries to remove them whenever the URL is asked for.
    public func removeResponses(for url: URL) async throws(CacheError) {
        guard let key = CacheKey(url, partition: "") else { return }
        try await responder.invalidate(key)
    }

    /// Removes all responses of this cache. O(1).
    ///
    /// - Throws: The errors of `DiskCache/removeAll(progress:)`. Everything is then still there.
    public func removeAll() async throws(CacheError) {
        responder.exchanges.revoke(nil)
        try await responder.store.removeEverything()
    }

    /// Returns when no validation is under way in the background, or when the task that waits is cancelled. A server
    /// that never ends a body is waited for as long.
    public func waitForRevalidations() async {
        await responder.revalidations.wait()
    }

    /// Waits for validations in the background, cancels those that take longer, and closes the directory if this cache
    /// has opened it. Requests then go to their servers.
    ///
    /// - Parameter limit: How long to wait for validations, and then for their cancellation. Zero: not at all. Five
    ///   seconds by default.
    /// - Throws: The errors of `DiskCache/close()`; the directory is closed anyway.
    public func close(waitingForRevalidations limit: Duration = .seconds(5)) async throws {
        responder.revalidations.close()
        await responder.revalidations.wait(atMost: limit, responder.clock)
        responder.revalidations.cancel()
        await responder.revalidations.wait(atMost: limit, responder.clock)
        guard ownsDisk else { return }
        let disk = disk
        try await BlockingWork.run { try disk.close() }
    }
}
