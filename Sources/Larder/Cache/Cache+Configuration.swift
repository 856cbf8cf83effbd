import LarderFiles

extension Cache {
    /// The settings of a cache.
    ///
    ///     var settings = Cache<User>.Configuration(fetchPolicy: .staleIfError(for: .days(1)))
    ///     settings.memory?.countLimit = 1000
    public struct Configuration: Sendable {
        /// The memory tier; nil: none. With a disk tier, lives and time are those of the disk, and values removed by a
        /// change there are released in the background, or on the main queue.
        ///
        /// Default: a tier with no limits of its own. With a disk tier, where costs are bytes unless a function says
        /// otherwise, a tier without `costLimit` gets one: an eighth of the memory of the machine, or of the control
        /// group on Linux, at most 256 MiB. `costLimit = .max` is no limit.
        public var memory: MemoryCache<String, Value>.Configuration? = .init()
        /// The disk tier, where the cache opens the directory itself.
        public var disk = DiskCache.Configuration()
        /// The life of values stored without one. Default: that of the disk tier, which is one day unless changed.
        public var defaultTTL: TimeToLive = .default
        /// The longest time that a value stays in memory before it is read from disk again. Ignored without a disk
        /// tier. Default: nil, its whole life.
        public var memoryTTL: Duration?
        /// The policy of calls that fetch and name none. Default: `.cacheFirst`.
        public var fetchPolicy: FetchPolicy = .cacheFirst
        /// How long values are kept beyond their expiry, to be revalidated or returned stale by a call that allows it.
        /// The windows of `fetchPolicy` count too. Default: nil, only as long as a policy says.
        public var keepStale: TimeToLive?
        /// The maximum number of fetches that run at a time, at least 1: a smaller number counts as 1. Others wait for
        /// a slot, those of higher priority first. A fetch that another fetch waits for takes no slot, as that would be
        /// a deadlock. Default: nil, no limit.
        public var maximumConcurrentFetches: Int?
        /// Whether a directory that cannot be opened gives a cache in memory instead of an error: it is in use, the
        /// disk is full or cannot be shared, the system refuses. An event of the kind `failed` gives the reason. A
        /// directory that is not a cache, or was written by a newer version, is an error all the same, as is a wrong
        /// name. The limits of the disk then hold in memory; its size limit only where costs are bytes, so set
        /// `memory.costLimit` otherwise. Default: false.
        public var fallsBackToMemory = false
        /// A store that several machines share, below memory and disk: it is asked after a disk miss, and told of every
        /// change made through the cache. A cache without a disk tier ignores it, with an event. See
        /// <doc:SeveralMachines>. Default: nil.
        public var remoteTier: (any RemoteTier)?
        /// How the remote tier is used. Default: 100 ms for each call, no lease, and the other defaults of
        /// ``RemoteTierPolicy``.
        public var remoteTierPolicy = RemoteTierPolicy()
        /// Whether hits, misses, fetches and stale answers are events as well, of this cache alone. Each read then
        /// allocates an event, even a hit in memory. Default: false.
        public var reportsReads = false
        /// Returns the cost of a value in memory, given the bytes of its payload, in the unit of `memory.costLimit`.
        /// Called with no lock held. A cache that falls back to memory encodes each value to know its bytes; one that
        /// is created in memory only gives 0. Default: `memory.cost`, or else the bytes of the payload.
        public var cost: (@Sendable (_ value: Value, _ size: Int) -> Int)?
        /// Receives every failure and every removal with its cause, in this cache's namespace, or without one in the
        /// whole directory. Default: nil.
        public var onEvent: (@Sendable (CacheEvent) -> Void)?

        /// Creates a configuration; every setting that is left out has its default.
        public init(
            memory: MemoryCache<String, Value>.Configuration? = .init(), disk: DiskCache.Configuration = .init(),
            defaultTTL: TimeToLive = .default, memoryTTL: Duration? = nil, fetchPolicy: FetchPolicy = .cacheFirst,
            keepStale: TimeToLive? = nil, maximumConcurrentFetches: Int? = nil, fallsBackToMemory: Bool = false,
            reportsReads: Bool = false, cost: (@Sendable (_ value: Value, _ size: Int) -> Int)? = nil,
            remoteTier: (any RemoteTier)? = nil, remoteTierPolicy: RemoteTierPolicy = .init(),
            onEvent: (@Sendable (CacheEvent) -> Void)? = nil
        ) {
            self.memory = memory
            self.disk = disk
            self.defaultTTL = defaultTTL
            self.memoryTTL = memoryTTL
            self.fetchPolicy = fetchPolicy
            self.keepStale = keepStale
            self.maximumConcurrentFetches = maximumConcurrentFetches
            self.fallsBackToMemory = fallsBackToMemory
            self.reportsReads = reportsReads
            self.cost = cost
            self.remoteTier = remoteTier
            self.remoteTierPolicy = remoteTierPolicy
            self.onEvent = onEvent
        }

        /// The settings of a memory tier that does the work of a disk tier: with the limits of both, as far as their
        /// units agree. `size` returns the bytes of a value; it encodes, so it is only called where a cost depends on
        /// them.
        func withoutDisk(_ size: @escaping @Sendable (Value) throws -> Int) -> Configuration {
            var configuration = self
            var memory = memory ?? .init()
            memory.slidingExpiry = disk.slidingExpiry
            memory.countLimit = [memory.countLimit, disk.countLimit].compactMap(\.self).min()
            memory.ageLimit = [memory.ageLimit, disk.ageLimit].compactMap(\.self).min()
            let bytes: @Sendable (Value) -> Int = { (try? size($0)) ?? 0 }
            if let cost {
                memory.cost = { cost($0, bytes($0)) }
            } else if memory.cost == nil {
                // Only here costs are bytes, as the limit of the disk is.
                let limit = [memory.costLimit ?? Self.usualCostLimit, disk.sizeLimit].compactMap(\.self).min()
                memory.costLimit = limit == .max ? nil : limit
                if memory.costLimit != nil || memory.entryCostLimit != nil { memory.cost = bytes }
            }
            configuration.cost = nil
            configuration.memory = memory
            configuration.defaultTTL = defaultTTL.or(disk.defaultTTL)
            return configuration
        }

        /// The settings of a memory tier that costs bytes. Without a limit it gets one: an eighth of the memory that
        /// the process may use, at most 256 MiB.
        var memoryBesideDisk: MemoryCache<String, Value>.Configuration? {
            guard var memory else { return nil }
            if costInMemory == nil { memory.costLimit = memory.costLimit ?? Self.usualCostLimit }
            return memory
        }

        private static var usualCostLimit: Int { min(SystemMemory.limit / 8, 256 << 20) }

        var costInMemory: (@Sendable (_ value: Value, _ size: Int) -> Int)? {
            if let cost { return cost }
            return memory?.cost.map { cost in { value, _ in cost(value) } }
        }

        func defaults(ttl: TimeToLive) -> CacheDefaults {
            CacheDefaults(ttl: ttl, keepStale: keepStale, policy: fetchPolicy.resolved(.cacheFirst))
        }

        var fetchLimiter: FetchLimiter? { maximumConcurrentFetches.map { FetchLimiter(limit: $0) } }
    }
}

extension CacheError.Code {
    /// Whether a cache may do without a directory that cannot be opened for this reason.
    var allowsFallback: Bool { [.directoryInUse, .unsupportedDisk, .noSpace, .io].contains(self) }
}

extension Cache.Configuration: CustomStringConvertible {
    /// The settings that differ from the defaults, and those of each tier.
    public var description: String {
        var parts = ["defaultTTL: \(defaultTTL)"]
        if let memoryTTL { parts.append("memoryTTL: \(Wording.duration(memoryTTL))") }
        let policy = "\(fetchPolicy)"
        if policy != "cacheFirst" { parts.append("fetchPolicy (\(policy))") }
        if let keepStale { parts.append("keepStale: \(keepStale)") }
        if let maximumConcurrentFetches { parts.append("maximumConcurrentFetches: \(maximumConcurrentFetches)") }
        if fallsBackToMemory { parts.append("fallsBackToMemory") }
        if reportsReads { parts.append("reportsReads") }
        if remoteTier != nil { parts.append("remoteTier (\(remoteTierPolicy))") }
        parts.append("memory (\(memory.map { "\($0)" } ?? "none"))")
        parts.append("disk (\(disk))")
        return parts.joined(separator: "; ")
    }
}
