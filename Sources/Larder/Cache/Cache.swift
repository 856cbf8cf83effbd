public import LarderFiles
public import LarderFoundation

/// A cache of typed values in two tiers: decoded in memory, and as files on disk.
///
///     nonisolated struct User: Codable, Sendable {
///         var id: String
///         var name: String
///     }
///
///     let users = try Cache<User>(name: "users")
///     let user = try await users.value(forKey: id, ttl: .hours(1)) { try await api.user(id) }
///
/// The type is `nonisolated` because the cache decodes in the background; otherwise it belongs to the main actor where
/// that is the default, as in a new Xcode app.
///
/// Values are stored by ``setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``, or fetched through the cache: once,
/// however many calls wait. A hit in memory decodes nothing, reads no file and does not suspend; a hit on disk is
/// promoted to memory. Both tiers change together: after a call has returned, no cache of the directory in this process
/// has an older value, whoever made the change. Either tier may be left out. The promises of ``DiskCache`` hold here
/// too: reads return `nil` for a miss and never throw, a write that has returned survives the process, and one that
/// throws has left the old value in place, in both tiers.
public final class Cache<Value: Sendable>: Sendable {
    @usableFromInline let memoryTier: MemoryCache<String, Value>?
    /// The disk tier, with this cache's namespace; nil without one. Changes made there are changes here.
    public let disk: DiskCache?
    let backend: any CacheBackend<Value>
    /// The connection with the remote tier; nil without one.
    let remoteLink: RemoteLink?
    let fetcher: Fetcher<Value>
    @usableFromInline let staleGate: StaleGate
    /// The events of a cache without a disk tier.
    let ownEvents: EventCenter?
    /// Whether a hit in memory concerns others: the disk, where reading renews lives, or listeners.
    @usableFromInline let reportsHits: Bool
    /// The other processes that may change the directory: each hit in memory of a shared one asks them.
    private let others: ReplaceableReference<Follower>?
    /// Nil where no other process can change the directory: it would wake the processor for nothing.
    let poll: ChangePoll?
    let watchers: KeyWatchers
    /// Set where a hit in memory must ask the others, or belongs to the parent of this process.
    @usableFromInline let mustAsk: ForkFlag
    /// The policy of calls without one.
    @usableFromInline let defaultPolicy: FetchPolicy
    @usableFromInline let defaultMemoryUse: FetchPolicy.MemoryUse
    let reader: ReadReporting?
    let maximumConcurrentFetches: Int?
    /// Whether this cache opened the directory, and closes it.
    let ownsDisk: Bool
    /// Run when the cache is released.
    private let endings: [@Sendable () -> Void]

    /// Opens a cache in a directory, which is created when it is missing.
    ///
    /// - Parameters:
    ///   - directory: As for ``DiskCache/init(directory:configuration:)``.
    ///   - coder: Turns values into bytes and back. May be left out for Codable values (JSON), strings and bytes.
    ///   - configuration: The settings of both tiers.
    /// - Throws: The errors of ``DiskCache/init(directory:configuration:)``.
    public convenience init(
        directory: URL, coder: Coder<Value>, configuration: Configuration = .init()
    ) throws(CacheError) {
        try self.init(coder: coder, configuration: configuration) { () throws(CacheError) in
            try DiskCache(directory: directory, configuration: configuration.disk)
        }
    }

    /// Opens the cache `name` of this program: `<Caches>/<program>/<name>`, with a limit on its size; see
    /// ``DiskCache/init(name:configuration:)``.
    ///
    /// - Throws: The errors of ``DiskCache/init(name:configuration:)``.
    public convenience init(
        name: String, coder: Coder<Value>, configuration: Configuration = .init()
    ) throws(CacheError) {
        try self.init(coder: coder, configuration: configuration) { () throws(CacheError) in
            try DiskCache(name: name, configuration: configuration.disk)
        }
    }

    /// Creates a cache over the directory that `open` opens, or in memory where that is allowed.
    convenience init(
        coder: Coder<Value>, configuration: Configuration, clock: (any LarderFiles.Clock)? = nil,
        opening open: () throws(CacheError) -> DiskCache
    ) throws(CacheError) {
        let failure: CacheError
        do throws(CacheError) {
            let disk = try open()
            self.init(disk: disk, coder: coder, configuration: configuration, ownsDisk: true)
            return
        } catch {
            guard configuration.fallsBackToMemory, error.code.allowsFallback else { throw error }
            failure = error
        }
        self.init(
            withoutDisk: configuration.withoutDisk { try coder.encode($0).data.count },
            clock: clock ?? configuration.disk.clock)
        ownEvents?.post(CacheEvent(.failed, error: failure))
    }

    /// Creates a cache over a part of a directory, so that several types of values can share one.
    ///
    /// - Parameters:
    ///   - disk: The directory, or a namespace in it. Its opener closes it.
    ///   - namespace: As for ``DiskCache/namespace(_:)``: inside that of `disk`; "" is that of `disk` itself.
    ///   - coder: Turns values into bytes and back. May be left out for Codable values (JSON), strings and bytes.
    ///   - configuration: The settings. Those of the disk tier are ignored.
    public convenience init(
        disk: DiskCache, namespace: String, coder: Coder<Value>, configuration: Configuration = .init()
    ) {
        self.init(disk: disk.namespace(namespace), coder: coder, configuration: configuration, ownsDisk: false)
    }

    /// Opens a cache with another file system and clock, for tests.
    package convenience init(
        directory: URL, coder: Coder<Value>, configuration: Configuration, fileSystem: any FileSystem,
        clock: any LarderFiles.Clock
    ) throws(CacheError) {
        try self.init(coder: coder, configuration: configuration, clock: clock) { () throws(CacheError) in
            try DiskCache(
                directory: directory, configuration: configuration.disk, fileSystem: fileSystem, clock: clock)
        }
    }

    private init(
        memory: MemoryCache<String, Value>?, disk: DiskCache?, backend: some CacheBackend<Value>,
        watchers: KeyWatchers, ownEvents: EventCenter?, reader: ReadReporting?, configuration: Configuration,
        remoteLink: RemoteLink? = nil, ownsDisk: Bool = false, endings: [@Sendable () -> Void] = []
    ) {
        memoryTier = memory
        self.disk = disk
        self.backend = backend
        self.remoteLink = remoteLink
        self.watchers = watchers
        self.ownEvents = ownEvents
        self.reader = reader
        self.ownsDisk = ownsDisk
        self.endings = endings + [{ watchers.end() }]
        fetcher = Fetcher(backend: backend, limiter: configuration.fetchLimiter)
        staleGate = StaleGate(backend)
        let settings = disk?.store.settings
        reportsHits = settings?.slidingExpiry == true || reader != nil
        mustAsk = disk?.store.disk.mustAsk ?? ForkFlag()
        others = disk?.store.disk.others
        poll = disk.flatMap { $0.store.settings.isShared ? ChangePoll($0.store) : nil }
        defaultPolicy = backend.defaults.policy
        defaultMemoryUse = backend.defaults.policy.memoryUse
        maximumConcurrentFetches = configuration.maximumConcurrentFetches
    }

    /// Whether a value in memory may be returned without asking others. Brings their changes into the memory first.
    @inlinable
    @inline(__always)
    func mayReadMemory() -> Bool { !reportsHits && (!mustAsk.isSet || follow()) }

    /// Brings the changes of other processes into the memory. Returns false in a forked child process.
    @usableFromInline
    func follow() -> Bool {
        others?.use { $0.follow() } ?? true
    }

    private convenience init(disk: DiskCache, coder: Coder<Value>, configuration: Configuration, ownsDisk: Bool) {
        let memory = configuration.memoryBesideDisk.map {
            MemoryCache(configuration: $0, clock: disk.store.clock, isAttached: true)
        }
        let tier = memory.map { MemoryTierAdapter($0, of: disk.keyNamespace) }
        let reader = configuration.reportsReads ? ReadReporting() : nil
        let link = configuration.remoteTier.map { RemoteLink($0, configuration.remoteTierPolicy, disk: disk) }
        var mayEnterMemory: (@Sendable (IndexEntry, Key) -> Bool)?
        if let link { mayEnterMemory = { entry, key in link.mayEnterMemory(entry, key) } }
        let watchers = KeyWatchers(of: disk.keyNamespace, disk.store.clock)
        let backend = TieredBackend(
            disk: disk, coder: coder, tier: tier, watchers: watchers, cost: configuration.costInMemory,
            defaults: configuration.defaults(ttl: configuration.defaultTTL.or(disk.configuration.defaultTTL)),
            memoryTTL: configuration.memoryTTL.map { max(0, $0.milliseconds) }, reader: reader,
            mayEnterMemory: mayEnterMemory)
        var endings: [@Sendable () -> Void] = []
        if let tier { endings.append(disk.attach(tier)) }
        if let onEvent = configuration.onEvent { endings.append(disk.observe(onEvent, reader: reader)) }
        if let link {
            endings.append { link.stop() }
            self.init(
                memory: memory, disk: disk, backend: RemoteBackend(local: backend, link: link), watchers: watchers,
                ownEvents: nil, reader: reader, configuration: configuration, remoteLink: link, ownsDisk: ownsDisk,
                endings: endings)
            link.begin()
        } else {
            self.init(
                memory: memory, disk: disk, backend: backend, watchers: watchers, ownEvents: nil, reader: reader,
                configuration: configuration, ownsDisk: ownsDisk, endings: endings)
        }
    }

    /// Creates a cache without a disk tier.
    ///
    ///     let users = Cache<User>(memoryOnly: .init(countLimit: 100))
    ///
    /// - Parameters:
    ///   - memory: The settings of the memory tier.
    ///   - configuration: The other settings: policy, limit on fetches, events. Those of both tiers are ignored.
    public convenience init(
        memoryOnly memory: MemoryCache<String, Value>.Configuration, configuration: Configuration = .init()
    ) {
        self.init(memoryOnly: memory, configuration: configuration, clock: memory.clock)
    }

    /// Creates a cache without a disk tier, with another clock, for tests.
    package convenience init(
        memoryOnly memory: MemoryCache<String, Value>.Configuration, configuration: Configuration = .init(),
        clock: any LarderFiles.Clock
    ) {
        var configuration = configuration
        configuration.memory = memory
        configuration.defaultTTL = configuration.defaultTTL.or(memory.defaultTTL)
        self.init(withoutDisk: configuration, clock: clock)
    }

    private convenience init(withoutDisk configuration: Configuration, clock: any LarderFiles.Clock) {
        let events = EventCenter(clock)
        if let onEvent = configuration.onEvent { _ = events.add(onEvent) }
        var settings = configuration.memory ?? .init()
        settings.defaultTTL = configuration.defaultTTL.or(configuration.disk.defaultTTL)
        if let cost = configuration.costInMemory { settings.cost = { cost($0, 0) } }
        let watchers = KeyWatchers(clock)
        let memory = MemoryCache<String, Value>(configuration: settings, clock: clock) { removals in
            switch removals {
            case .cleared(let count, let cause):
                watchers.invalidateAll()
                events.post(CacheEvent(cause.kind, count: count))
            case .left(let key, let cause):
                watchers.note(key)
                // Of invalidated ones the backend has posted one event for all.
                if cause != .invalidated { events.post(CacheEvent(cause.kind, keys: [key], limit: cause.limit)) }
            }
        }
        let reader = configuration.reportsReads ? ReadReporting() : nil
        let backend = MemoryBackend(
            memory, watchers: watchers, events: events, defaults: configuration.defaults(ttl: settings.defaultTTL),
            reader: reader)
        self.init(
            memory: memory, disk: nil, backend: backend, watchers: watchers, ownEvents: events, reader: reader,
            configuration: configuration)
        if configuration.remoteTier != nil {
            let message = "A cache without a disk tier does not use its remote tier."
            events.post(CacheEvent(.remoteTierLost, error: CacheError(code: .remoteTier, message: message)))
        }
    }

    deinit {
        for ending in endings { ending() }
    }

    /// Waits for background work and events, as ``DiskCache/settling`` does, for tests.
    package var settling: @Sendable () -> Bool {
        if let disk { return disk.settling }
        return { [weak ownEvents] in ownEvents?.drain() != nil }
    }
}

extension Cache where Value: Codable {
    /// Opens a cache of Codable values: strings are stored as UTF-8, bytes as they are, everything else as JSON. See
    /// ``init(directory:coder:configuration:)``.
    public convenience init(directory: URL, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(directory: directory, coder: .standard, configuration: configuration)
    }

    /// Opens a cache with another file system and clock, for tests.
    package convenience init(
        directory: URL, configuration: Configuration, fileSystem: any FileSystem, clock: any LarderFiles.Clock
    ) throws(CacheError) {
        try self.init(
            directory: directory, coder: .standard, configuration: configuration, fileSystem: fileSystem, clock: clock)
    }

    /// Opens a cache of Codable values: strings are stored as UTF-8, bytes as they are, everything else as JSON. See
    /// ``init(name:coder:configuration:)``.
    public convenience init(name: String, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(name: name, coder: .standard, configuration: configuration)
    }

    /// Creates a cache of Codable values: strings are stored as UTF-8, bytes as they are, everything else as JSON. See
    /// ``init(disk:namespace:coder:configuration:)``.
    public convenience init(disk: DiskCache, namespace: String, configuration: Configuration = .init()) {
        self.init(disk: disk, namespace: namespace, coder: .standard, configuration: configuration)
    }
}
