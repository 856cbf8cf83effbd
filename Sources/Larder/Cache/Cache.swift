public import Foundation
import LarderFiles

/// A cache of typed values in two tiers: decoded in memory, and as files on disk.
///
///     let users = try Cache<User>(name: "users")
///     let user = try await users.value(forKey: id, ttl: .hours(1)) { try await api.user(id) }
///
/// Values are stored by ``setValue(_:forKey:ttl:metadata:tags:)``, or fetched through the cache: once, however many calls wait.
/// A hit in memory decodes nothing, reads nothing and does not suspend; a hit on disk is promoted. Both tiers change together: after
/// a call has returned, no cache of the directory in this process has an older value, whoever made the change. Either tier may be
/// left out. What is said of ``DiskCache`` holds here too: reads return `nil` for a miss and never throw, a write that has
/// returned survives the process, and one that throws has left the old value in place, in both tiers.
public final class Cache<Value: Sendable>: Sendable {
    /// The memory tier; nil without one. For looking, trimming and clearing: what is stored in it directly is not on disk, and fetches
    /// that are under way do not know what is done to it.
    public let memory: MemoryCache<String, Value>?
    /// The disk tier, with this cache's namespace; nil without one. What is changed there is changed here.
    public let disk: DiskCache?
    let front: any CacheBackend<Value>
    let fetcher: Fetcher<Value>
    /// Those of a cache without a disk tier.
    let ownEvents: EventCenter?
    /// Reading renews lives: the disk has to know of hits in memory.
    @usableFromInline let slides: Bool
    let defaultTTL: TimeToLive
    private let endings: [@Sendable () -> Void]

    /// Opens a cache in a directory, which is made when it is missing.
    ///
    /// - Parameters:
    ///   - directory: As for ``DiskCache/init(directory:configuration:)``.
    ///   - coder: How values become bytes. May be left out for Codable values (JSON), strings and data.
    ///   - configuration: How it behaves.
    /// - Throws: What ``DiskCache/init(directory:configuration:)`` throws.
    public convenience init(
        directory: URL, coder: Coder<Value>, configuration: Configuration = .init()
    ) throws(CacheError) {
        let disk = try DiskCache(directory: directory, configuration: configuration.disk)
        self.init(disk: disk, space: .none, coder: coder, configuration: configuration)
    }

    /// Opens the cache `name` in the user's caches directory.
    ///
    /// - Throws: What ``DiskCache/init(name:configuration:)`` throws.
    public convenience init(
        name: String, coder: Coder<Value>, configuration: Configuration = .init()
    ) throws(CacheError) {
        let disk = try DiskCache(name: name, configuration: configuration.disk)
        self.init(disk: disk, space: .none, coder: coder, configuration: configuration)
    }

    /// Creates a cache over a part of a directory, so that several types of values can share one.
    ///
    /// - Parameters:
    ///   - disk: The directory. It is closed by who has opened it.
    ///   - namespace: As for ``DiskCache/namespace(_:)``.
    ///   - coder: How values become bytes. May be left out for Codable values (JSON), strings and data.
    ///   - configuration: How it behaves; what it says of the disk tier is not asked for.
    public convenience init(
        disk: DiskCache, namespace: String, coder: Coder<Value>, configuration: Configuration = .init()
    ) {
        self.init(disk: disk, space: Namespace(namespace), coder: coder, configuration: configuration)
    }

    private init(disk: DiskCache, space: Namespace, coder: Coder<Value>, configuration: Configuration) {
        let disk = disk.namespace(space.name)
        self.disk = disk
        let memory = configuration.memory.map {
            MemoryCache(configuration: $0, clock: disk.store.clock, isAttached: true)
        }
        self.memory = memory
        let attached = memory.map { MemoryTierAdapter($0, of: space) }
        let front = TieredBackend(
            disk: disk, coder: coder, attached: attached, cost: configuration.costInMemory,
            defaultTTL: configuration.defaultTTL)
        self.front = front
        fetcher = Fetcher(front: front)
        slides = disk.store.settings.slidingExpiry
        defaultTTL = configuration.defaultTTL
        ownEvents = nil
        var endings: [@Sendable () -> Void] = []
        if let attached { endings.append(disk.attach(attached)) }
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
        let front = MemoryBackend(memory, events: events)
        self.front = front
        fetcher = Fetcher(front: front)
        ownEvents = events
        slides = false
        defaultTTL = configuration.defaultTTL
        endings = []
    }

    deinit {
        for ending in endings { ending() }
    }
}

extension Cache {
    /// How a cache behaves.
    public struct Configuration: Sendable {
        /// The memory tier; nil: none. Where there is a disk tier, lives and time are those of the disk, and what a change there
        /// pushes out is released in the background, or on the main queue. Without limits.
        public var memory: MemoryCache<String, Value>.Configuration? = .init()
        /// The directory, where the cache opens it itself.
        public var disk = DiskCache.Configuration()
        /// The life of values stored without one. That of the disk tier: one day, unless changed.
        public var defaultTTL: TimeToLive = .default
        /// Returns the weight of a value in memory, given its bytes on disk; in whatever unit `memory.costLimit` has. Called with no
        /// lock held. What `memory.cost` says, or else the bytes on disk.
        public var cost: (@Sendable (_ value: Value, _ size: Int) -> Int)?
        /// Is told of every failure and every removal with its cause, in this cache's namespace; without one, in the whole
        /// directory. None.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// Creates the defaults.
        public init() {}

        var costInMemory: (@Sendable (_ value: Value, _ size: Int) -> Int)? {
            if let cost { return cost }
            return memory?.cost.map { cost in { value, _ in cost(value) } }
        }
    }
}

// Values that say themselves how they become bytes need no coder.

extension Cache where Value: Codable {
    /// Opens a cache of Codable values: strings are kept as UTF-8, data as it is, all else as JSON. See
    /// ``init(directory:coder:configuration:)``.
    public convenience init(directory: URL, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(directory: directory, coder: .standard, configuration: configuration)
    }

    /// Opens a cache of Codable values: strings are kept as UTF-8, data as it is, all else as JSON. See
    /// ``init(name:coder:configuration:)``.
    public convenience init(name: String, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(name: name, coder: .standard, configuration: configuration)
    }

    /// Creates a cache of Codable values: strings are kept as UTF-8, data as it is, all else as JSON. See
    /// ``init(disk:namespace:coder:configuration:)``.
    public convenience init(disk: DiskCache, namespace: String, configuration: Configuration = .init()) {
        self.init(disk: disk, namespace: namespace, coder: .standard, configuration: configuration)
    }
}

extension Coder where Value: Codable & SendableMetatype {
    /// The coder of values that come without one.
    fileprivate static var standard: Coder {
        Coder<String>.string as? Coder ?? Coder<Data>.data as? Coder ?? .json
    }
}
