public import Foundation
public import Larder
import LarderFiles

/// The world of the caches in a test: a disk in memory, and a clock that the test moves.
///
///     let world = TestWorld()
///     let names: Cache<String> = try world.cache()
///     try await names.setValue("Ann", forKey: "42", ttl: .minutes(10))
///     world.advance(by: .seconds(600))
///     let name = await names.value(forKey: "42")  // nil
///
/// The caches are real ones; only their file system and their clock are the world's. Two caches of the same name share
/// one directory. Each world has its own disk, so tests can run in parallel. Nothing sleeps, and nothing is left
/// behind. All methods may be called from any thread, but not from a cache's event handler.
public final class TestWorld: Sendable {
    struct State {
        private(set) var files: MemoryFileSystem
        private(set) var faults = FaultPlan()
        /// The clock of the process.
        private(set) var clock: any LarderFiles.Clock
        /// By number: functions that wait for the background work of a cache of this process; false once the cache has
        /// been deallocated.
        var settlings: [Int: @Sendable () -> Bool] = [:]
        private var lastNumber = 0

        init(_ clock: ManualClock, _ simulator: Simulator?) {
            files = MemoryFileSystem(simulator: simulator)
            self.clock = clock
            start(on: files, clock, simulator)
        }

        /// Begins another process.
        mutating func start(on files: MemoryFileSystem, _ clock: ManualClock, _ simulator: Simulator?) {
            let faults = FaultPlan()
            files.inject { _, operation in faults.fault(in: operation) }
            self.files = files
            self.faults = faults
            self.clock = simulator.map { SimulatedClock(clock, $0, process: files.process) } ?? clock
            settlings = [:]
        }

        mutating func add(_ settling: @escaping @Sendable () -> Bool) {
            lastNumber += 1
            settlings[lastNumber] = settling
        }
    }

    package let clock: ManualClock
    /// Decides what runs; nil: everything runs by itself.
    package let simulator: Simulator?
    let state: Lock<State>

    /// Creates a world with an empty disk of unlimited size, whose caches work in the background by themselves.
    ///
    /// - Parameter now: The initial time, rounded to milliseconds. Default: 2025-11-20 10:00:00 UTC.
    public convenience init(now: Date = Date(timeIntervalSince1970: 1_763_632_800)) {
        self.init(now: now, nil)
    }

    /// Creates a world in which nothing runs by itself: the test runs what is ready, one step after another, in an
    /// order that the seed decides. The same seed gives the same run, unless the program has made caches outside of
    /// such worlds before: keys have random hashes then.
    ///
    /// Call the caches of such a world within ``run(_:)``; elsewhere, asynchronous calls wait until somebody runs it.
    ///
    /// - Parameters:
    ///   - seed: Determines the order of the steps.
    ///   - now: The initial time, rounded to milliseconds. Default: 2025-11-20 10:00:00 UTC.
    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    public convenience init(seed: UInt64, now: Date = Date(timeIntervalSince1970: 1_763_632_800)) {
        let simulator = Simulator(seed: seed)
        simulator.patience = 10_000
        self.init(now: now, simulator)
    }

    private init(now: Date, _ simulator: Simulator?) {
        clock = ManualClock(milliseconds: Int64((now.timeIntervalSince1970 * 1000).rounded()))
        self.simulator = simulator
        state = Lock(State(clock, simulator))
    }

    deinit {
        simulator?.abandon()
    }

    /// Opens a cache of Codable values on the world's disk and clock, as `Cache(name:configuration:)` does.
    ///
    /// - Parameters:
    ///   - type: The type of the values.
    ///   - name: The name of the directory. Default: `cache`.
    ///   - configuration: The settings; their `now` is ignored. Default: the defaults.
    /// - Returns: The cache.
    /// - Throws: The errors of `Cache.init(directory:configuration:)`.
    public func cache<Value: Codable & Sendable>(
        of type: Value.Type = Value.self, name: String = "cache", configuration: Cache<Value>.Configuration = .init()
    ) throws(CacheError) -> Cache<Value> {
        let cache = try opened { (files, clock) throws(CacheError) in
            try Cache<Value>(
                directory: Self.directory(name), configuration: configuration, fileSystem: files, clock: clock)
        }
        settle(cache.settling)
        return cache
    }

    /// Opens a cache of any values on the world's disk and clock, as `Cache(name:coder:configuration:)` does.
    ///
    /// - Parameters:
    ///   - type: The type of the values.
    ///   - name: The name of the directory. Default: `cache`.
    ///   - coder: Turns values into bytes and back.
    ///   - configuration: The settings; their `now` is ignored. Default: the defaults.
    /// - Returns: The cache.
    /// - Throws: The errors of `Cache.init(directory:coder:configuration:)`.
    public func cache<Value: Sendable>(
        of type: Value.Type = Value.self, name: String = "cache", coder: Coder<Value>,
        configuration: Cache<Value>.Configuration = .init()
    ) throws(CacheError) -> Cache<Value> {
        let cache = try opened { (files, clock) throws(CacheError) in
            try Cache(
                directory: Self.directory(name), coder: coder, configuration: configuration, fileSystem: files,
                clock: clock)
        }
        settle(cache.settling)
        return cache
    }

    /// Opens a disk cache on the world's disk and clock, as `DiskCache(directory:configuration:)` does: without a limit
    /// of its own.
    ///
    /// - Parameters:
    ///   - name: The name of the directory. Default: `cache`.
    ///   - configuration: The settings; their `now` is ignored. Default: the defaults.
    /// - Returns: The cache.
    /// - Throws: The errors of `DiskCache.init(directory:configuration:)`.
    public func diskCache(
        name: String = "cache", configuration: DiskCache.Configuration = .init()
    ) throws(CacheError) -> DiskCache {
        let cache = try opened { (files, clock) throws(CacheError) in
            try DiskCache(
                directory: Self.directory(name), configuration: configuration, fileSystem: files, clock: clock)
        }
        settle(cache.settling)
        return cache
    }

    /// Creates a memory cache on the world's clock.
    ///
    /// - Parameters:
    ///   - keys: The type of the keys.
    ///   - values: The type of the values.
    ///   - configuration: The settings; their `now` is ignored, and values that would be released in the background are
    ///     released at once. Default: the defaults.
    /// - Returns: The cache.
    public func memoryCache<Key: Hashable & Sendable, Value: Sendable>(
        of keys: Key.Type = Key.self, _ values: Value.Type = Value.self,
        configuration: MemoryCache<Key, Value>.Configuration = .init()
    ) -> MemoryCache<Key, Value> {
        MemoryCache(configuration: Self.inline(configuration), clock: state.withLock { $0.clock })
    }

    /// Creates a cache without a disk tier on the world's clock, as `Cache(memoryOnly:configuration:)` does.
    ///
    /// - Parameters:
    ///   - type: The type of the values.
    ///   - memory: The settings of the memory tier; their `now` is ignored, and values that would be released in the
    ///     background are released at once. Default: the defaults.
    ///   - configuration: The other settings. Default: the defaults.
    /// - Returns: The cache.
    public func memoryOnlyCache<Value: Sendable>(
        of type: Value.Type = Value.self, memory: MemoryCache<String, Value>.Configuration = .init(),
        configuration: Cache<Value>.Configuration = .init()
    ) -> Cache<Value> {
        let cache = Cache(
            memoryOnly: Self.inline(memory), configuration: configuration, clock: state.withLock { $0.clock })
        settle(cache.settling)
        return cache
    }

    private static func inline<Key, Value>(
        _ configuration: MemoryCache<Key, Value>.Configuration
    ) -> MemoryCache<Key, Value>.Configuration {
        var configuration = configuration
        if configuration.release == .background { configuration.release = .inline }
        return configuration
    }

    static func directory(_ name: String) -> URL {
        URL(fileURLWithPath: "/\(name)", isDirectory: true)
    }

    /// Opens a cache of the current process; in a world with a seed on a thread of the simulation, like all its work.
    private func opened<Opened: Sendable>(
        _ open: @escaping @Sendable (MemoryFileSystem, any LarderFiles.Clock) throws(CacheError) -> Opened
    ) throws(CacheError) -> Opened {
        let (files, clock) = state.withLock { ($0.files, $0.clock) }
        guard let simulator else { return try open(files, clock) }
        return try simulator.perform("open", process: files.process) { () throws(CacheError) in
            try open(files, clock)
        }
    }

    /// The disk of the current process.
    package var files: MemoryFileSystem { state.withLock { $0.files } }
    var faults: FaultPlan { state.withLock { $0.faults } }

    /// Notes a cache to wait for.
    private func settle(_ settling: @escaping @Sendable () -> Bool) {
        state.withLock { $0.add(settling) }
    }
}
