import Foundation
import Larder
import LarderFiles
import LarderTesting

/// A process of a story: its disk, its caches, and its threads.
///
/// `@unchecked Sendable`: the threads of a simulation take turns.
final class SimulatedProcess: @unchecked Sendable {
    /// The number of the process in the story. The next one in its place has the same.
    let place: Int
    let files: MemoryFileSystem
    let clock: SimulatedClock
    private let simulator: Simulator
    private let executor: AnyTaskExecutor
    private let setting: Story.Setting
    private(set) var disk: DiskCache?
    private var root: Cache<Data>?
    private var namespaced: Cache<Data>?
    /// The moment of its death.
    var death: Int?
    /// The moment at which `close` was called.
    var closing: Int?
    /// The calls of each thread that have not begun.
    private var calls: [[(group: Int, body: @Sendable () -> Void)]]
    private(set) var busy = 0
    /// What the cache has reported.
    private(set) var failures: [String] = []

    static let directory = URL(fileURLWithPath: "/cache", isDirectory: true)
    static let namespace = "space"

    init(_ place: Int, _ files: MemoryFileSystem, _ time: ManualClock, _ simulator: Simulator, _ setting: Story.Setting)
    {
        self.place = place
        self.files = files
        self.simulator = simulator
        self.setting = setting
        clock = SimulatedClock(time, simulator, process: files.process)
        executor = AnyTaskExecutor(simulator, process: files.process)
        calls = Array(repeating: [], count: setting.callers)
        if setting.countsAccesses { files.countAccesses() }
    }

    var isLiving: Bool { death == nil && !files.isDead }
    var isOpen: Bool { isLiving && disk != nil && closing == nil }

    func open() throws {
        var configuration = DiskCache.Configuration()
        configuration.sharing = setting.isShared ? .processes : .exclusive
        configuration.slidingExpiry = setting.slides
        configuration.durability = setting.isPowerSafe ? .powerSafe : .killSafe
        configuration.manifestFormat = setting.isPropertyList ? .propertyList : .json
        configuration.countLimit = setting.countLimit
        configuration.eviction = setting.seed.isMultiple(of: 2) ? .adaptive : .leastRecentlyUsed
        configuration.entriesPerGroup = 3
        if setting.hasSegments {
            configuration.inlineThreshold = 400
            configuration.segmentLength = 4_096
        }
        configuration.onEvent = { [weak self] event in
            guard let self, isLiving else { return }
            if [.failed, .corrupt].contains(event.kind) { failures.append("\(event)") }
        }
        let disk = try DiskCache(
            directory: Self.directory, configuration: configuration, fileSystem: files, clock: clock)
        var front = Cache<Data>.Configuration()
        if !setting.hasMemory { front.memory = nil }
        root = Cache(disk: disk, namespace: "", configuration: front)
        namespaced = Cache(disk: disk, namespace: Self.namespace, configuration: front)
        self.disk = disk
    }

    /// Runs `body` on a thread of the process, after the calls that this one has begun or will.
    func perform(on caller: Int, group: Int = 0, _ body: @escaping @Sendable () -> Void) {
        let caller = caller % calls.count
        calls[caller].append((group, body))
        if calls[caller].count == 1 { next(caller) }
    }

    private func next(_ caller: Int) {
        busy += 1
        simulator.begin("caller \(caller)", process: files.process, group: calls[caller][0].group) { [self] in
            calls[caller][0].body()
            calls[caller].removeFirst()
            busy -= 1
            if !calls[caller].isEmpty { next(caller) }
        }
    }

    /// Lets go of the caches.
    func release() {
        (disk, root, namespaced) = (nil, nil, nil)
    }

    static func name(_ key: Int) -> String { "key \(key)" }

    func cache(_ key: Int) -> Cache<Data> { key % 2 == 0 ? root! : namespaced! }

    func part(_ key: Int) -> DiskCache { key % 2 == 0 ? disk! : disk!.namespace(Self.namespace) }

    /// Waits for an async call.
    func await<Result: Sendable>(_ body: @escaping @concurrent @Sendable () async throws -> Result) throws -> Result {
        let outcome = Lock<Swift.Result<Result, any Error>?>(nil)
        executor.begin(.medium) {
            do {
                let result = try await body()
                outcome.withLock { $0 = .success(result) }
            } catch {
                outcome.withLock { $0 = .failure(error) }
            }
        }
        Simulation.thread?.wait { outcome.withLock { $0 != nil } }
        return try outcome.withLock { $0! }.get()
    }
}

/// The bytes of values: every third one is long, and all say their number and their length.
enum Payload {
    static func data(_ value: Int) -> Data {
        let count = value % 3 == 0 ? 900 : value % 40
        return Data("\(value) \(count) ".utf8) + Data(repeating: UInt8(truncatingIfNeeded: value), count: count)
    }

    /// Nil when the bytes are not those of any value.
    static func value(_ data: Data) -> Int? {
        let word = data.prefix(20).prefix { $0 != UInt8(ascii: " ") }
        guard let value = Int(String(decoding: word, as: UTF8.self)), data == self.data(value) else { return nil }
        return value
    }
}
