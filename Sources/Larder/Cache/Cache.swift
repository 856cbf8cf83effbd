public import Foundation
import LarderFiles

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
/// Values are stored by ``setValue(_:forKey:ttl:metadata:tags:)``, or fetched through the cache: once, however many
/// calls wait. A hit in memory decodes nothing, reads no file and does not suspend; a hit on disk is promoted to
/// memory. Both tiers change together: after a call has returned, no cache of the directory in this process has an
/// older value, whoever made the change. Either tier may be left out. The promises of ``DiskCache`` hold here too:
/// reads return `nil` for a miss and never throw, a write that has returned survives the process, and one that throws
/// has left the old value in place, in both tiers.
public final class Cache<Value: Sendable>: Sendable {
    /// The memory tier; nil without one. Use it to inspect, trim and clear: a value stored in it directly is not on
    /// disk, and fetches under way do not notice changes made there.
    public let memory: MemoryCache<String, Value>?
    /// The disk tier, with this cache's namespace; nil without one. Changes made there are changes here.
    public let disk: DiskCache?
    let backend: any CacheBackend<Value>
    let fetcher: Fetcher<Value>
    @usableFromInline let staleGate: StaleGate
    /// The events of a cache without a disk tier.
    let ownEvents: EventCenter?
    /// Reading renews lives, so the disk has to know of hits in memory.
    @usableFromInline let slides: Bool
    let defaultTTL: TimeToLive
    /// Whether this cache opened the directory, and closes it.
    let ownsDisk: Bool
    /// Run when the cache is released.
    private let endings: [@Sendable () -> Void]

    /// Opens a cache in a directory, which is created when it is missing.
    ///
    /// - Parameters:
    ///   - directory: As for ``DiskCache/init(directory:configuration:)``.
    ///   - coder: Turns values into bytes and back. May be left out for Codable values (JSON), strings and data.
    ///   - configuration: The settings of both tiers.
    /// - Throws: The errors of ``DiskCache/init(directory:configuration:)``.
    public convenience init(
        directory: URL, coder: Coder<Value>, configuration: Configuration = .init()
    ) throws(CacheError) {
        let disk = try DiskCache(directory: directory, configuration: configuration.disk)
        self.init(disk: disk, coder: coder, configuration: configuration, ownsDisk: true)
    }

    /// Opens the cache `name` in the user's caches directory.
    ///
    /// - Throws: The errors of ``DiskCache/init(name:configuration:)``.
    public convenience init(
        name: String, coder: Coder<Value>, configuration: Configuration = .init()
    ) throws(CacheError) {
        let disk = try DiskCache(name: name, configuration: configuration.disk)
        self.init(disk: disk, coder: coder, configuration: configuration, ownsDisk: true)
    }

    /// Creates a cache over a part of a directory, so that several types of values can share one.
    ///
    /// - Parameters:
    ///   - disk: The directory, or a namespace in it. Whoever opened it closes it.
    ///   - namespace: As for ``DiskCache/namespace(_:)``: inside that of `disk`; "" is that of `disk` itself.
    ///   - coder: Turns values into bytes and back. May be left out for Codable values (JSON), strings and data.
    ///   - configuration: The settings. Those of the disk tier are ignored.
    public convenience init(
        disk: DiskCache, namespace: String, coder: Coder<Value>, configuration: Configuration = .init()
    ) {
        self.init(disk: disk.namespace(namespace), coder: coder, configuration: configuration, ownsDisk: false)
    }

    private init(disk: DiskCache, coder: Coder<Value>, configuration: Configuration, ownsDisk: Bool) {
        self.ownsDisk = ownsDisk
        self.disk = disk
        let memory = configuration.memory.map {
            MemoryCache(configuration: $0, clock: disk.store.clock, isAttached: true)
        }
        self.memory = memory
        let tier = memory.map { MemoryTierAdapter($0, of: disk.keyNamespace) }
        let backend = TieredBackend(
            disk: disk, coder: coder, tier: tier, cost: configuration.costInMemory,
            defaultTTL: configuration.defaultTTL)
        self.backend = backend
        fetcher = Fetcher(backend: backend)
        staleGate = StaleGate(backend)
        slides = disk.store.settings.slidingExpiry
        defaultTTL = configuration.defaultTTL
        ownEvents = nil
        var endings: [@Sendable () -> Void] = []
        if let tier { endings.append(disk.attach(tier)) }
        if let onEvent = configuration.onEvent { endings.append(disk.observe(onEvent)) }
        self.endings = endings
    }

    /// Creates a cache without a disk tier.
    public convenience init(memoryOnly configuration: MemoryCache<String, Value>.Configuration) {
        self.init(memoryOnly: configuration, clock: configuration.clock)
    }

    init(memoryOnly configuration: MemoryCache<String, Value>.Configuration, clock: any LarderFiles.Clock) {
        let events = EventCenter()
        let memory = MemoryCache<String, Value>(configuration: configuration, clock: clock) { removals in
            switch removals {
            case .cleared(let count): events.post(CacheEvent(.cleared, count: count))
            case .left(let key, let cause): events.post(CacheEvent(cause.kind, keys: [key], limit: cause.limit))
            }
        }
        self.memory = memory
        disk = nil
        let backend = MemoryBackend(memory, events: events)
        self.backend = backend
        fetcher = Fetcher(backend: backend)
        staleGate = StaleGate(backend)
        ownEvents = events
        ownsDisk = false
        slides = false
        defaultTTL = configuration.defaultTTL
        endings = []
    }

    deinit {
        for ending in endings { ending() }
    }
}

extension Cache {
    /// The settings of a cache.
    public struct Configuration: Sendable {
        /// The memory tier; nil: none. With a disk tier, lives and time are those of the disk, and values pushed out by
        /// a change there are released in the background, or on the main queue. A tier without limits by default.
        public var memory: MemoryCache<String, Value>.Configuration? = .init()
        /// The disk tier, where the cache opens the directory itself.
        public var disk = DiskCache.Configuration()
        /// The life of values stored without one. By default that of the disk tier, which is one day unless changed.
        public var defaultTTL: TimeToLive = .default
        /// Returns the cost of a value in memory, given its bytes on disk, in the unit of `memory.costLimit`. Called
        /// with no lock held. By default `memory.cost`, or else the bytes on disk.
        public var cost: (@Sendable (_ value: Value, _ size: Int) -> Int)?
        /// Receives every failure and every removal with its cause, in this cache's namespace, or without one in the
        /// whole directory. None by default.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// Creates the defaults.
        public init() {}

        var costInMemory: (@Sendable (_ value: Value, _ size: Int) -> Int)? {
            if let cost { return cost }
            return memory?.cost.map { cost in { value, _ in cost(value) } }
        }
    }
}

extension Cache.Configuration: CustomStringConvertible {
    /// The settings of each tier.
    public var description: String {
        "defaultTTL: \(defaultTTL); memory (\(memory.map { "\($0)" } ?? "none")); disk (\(disk))"
    }
}

extension Cache where Value: Codable {
    /// Opens a cache of Codable values: strings are stored as UTF-8, data as it is, everything else as JSON. See
    /// ``init(directory:coder:configuration:)``.
    public convenience init(directory: URL, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(directory: directory, coder: .standard, configuration: configuration)
    }

    /// Opens a cache of Codable values: strings are stored as UTF-8, data as it is, everything else as JSON. See
    /// ``init(name:coder:configuration:)``.
    public convenience init(name: String, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(name: name, coder: .standard, configuration: configuration)
    }

    /// Creates a cache of Codable values: strings are stored as UTF-8, data as it is, everything else as JSON. See
    /// ``init(disk:namespace:coder:configuration:)``.
    public convenience init(disk: DiskCache, namespace: String, configuration: Configuration = .init()) {
        self.init(disk: disk, namespace: namespace, coder: .standard, configuration: configuration)
    }
}
