import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("One read and one decode of a key at a time")
struct JoinedReadTests {
    /// Strings whose decodings are counted, and wait for a gate.
    final class Decodes: Sendable {
        private let state = Lock((count: 0, isHeld: false))
        private let gate = DispatchSemaphore(value: 0)

        var count: Int { state.withLock { $0.count } }

        func hold() {
            state.withLock { $0.isHeld = true }
        }

        func letGo(_ number: Int = 1) {
            state.withLock { $0.isHeld = false }
            for _ in 0..<number { gate.signal() }
        }

        var coder: Coder<String> {
            Coder {
                Data($0.utf8)
            } decode: { data in
                let isHeld = self.state.withLock { state in
                    state.count += 1
                    return state.isHeld
                }
                if isHeld { self.gate.wait() }
                return String(decoding: data, as: UTF8.self)
            }
        }
    }

    /// The ways to ask for a value.
    enum Call: CaseIterable, Sendable {
        case read, fetch, batch

        func value(_ cache: Cache<String>, _ key: String) async throws -> String? {
            switch self {
            case .read: await cache.value(forKey: key)
            case .fetch: try await cache.value(forKey: key) { "fetched" }
            case .batch: try await cache.values(forKeys: [key, "other"]) { _ in [:] }[key]
            }
        }
    }

    private func cache(_ decodes: Decodes, in world: World, hasMemory: Bool = true) throws -> Cache<String> {
        var configuration = Cache<String>.Configuration()
        if !hasMemory { configuration.memory = nil }
        return Cache(disk: try world.open(), namespace: "n", coder: decodes.coder, configuration: configuration)
    }

    @Test("any number of callers of a key on disk make one read and one decode", arguments: Call.allCases)
    func many(_ call: Call) async throws {
        let callers = Sample.size(10_000, usually: 500)
        let (world, decodes) = (World(), Decodes())
        let cache = try cache(decodes, in: world)
        try world.open().namespace("n").setString("v", forKey: "k")
        let before = try world.open().statistics.hits
        decodes.hold()
        let values = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<callers { group.addTask { try await call.value(cache, "k") } }
            await until("all wait") { cache.backend.isRead(by: callers, "k") }
            decodes.letGo(callers)
            return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        #expect(values == ["v": callers])
        #expect(decodes.count == 1)
        #expect(try world.open().statistics.hits == before + 1)
        let statistics = cache.statistics
        #expect(statistics.memoryHits + statistics.diskHits == callers && statistics.misses <= callers)
    }

    @Test("so do callers that get a stale value")
    func stale() async throws {
        let (world, decodes) = (World { $0.sweepInterval = nil }, Decodes())
        let policy = FetchPolicy.staleWhileRevalidate(for: .hours(1))
        var cache = try cache(decodes, in: world)
        _ = try await cache.value(forKey: "k", ttl: .seconds(1), policy: policy) { "v" }
        world.clock.advance(by: .seconds(1))
        cache = try self.cache(decodes, in: world)
        let source = HandDrivenSource<String>()
        try await withThrowingTaskGroup { [cache] group in
            for _ in 0..<3000 {
                group.addTask { try await cache.lookup(forKey: "k", policy: policy) { try await source.fetch() } }
            }
            for try await found in group { #expect(found.value == "v" && found.isStale) }
        }
        #expect(decodes.count == 1)
        #expect(source.begun == 1)
        // From now on it comes from memory.
        let found = try await cache.lookup(forKey: "k", policy: policy) { "never" }
        #expect(found.source == .memory && found.isStale)
        await source.answer("new")
        await cache.waitForFetches()
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test(
        "a call after a change gets no value read before the change", arguments: Call.allCases,
        [true, false])
    func changedMeanwhile(_ call: Call, _ hasMemory: Bool) async throws {
        for change in ["set", "remove", "clear", "shorter life", "expires"] {
            let (world, decodes) = (World { $0.sweepInterval = nil }, Decodes())
            let cache = try cache(decodes, in: world, hasMemory: hasMemory)
            let bare = try world.open().namespace("n")
            try bare.setString("old", forKey: "k", ttl: .seconds(100))
            decodes.hold()
            let first = begin { try await call.value(cache, "k") }
            await until("it is decoded") { decodes.count == 1 }
            switch change {
            case "set": try bare.setString("new", forKey: "k")
            case "remove": try bare.removeValue(forKey: "k")
            case "clear": try bare.removeAll()
            case "shorter life": try bare.setTimeToLive(.seconds(1), forKey: "k")
            default: break
            }
            let second = begin { await cache.lookup(forKey: "k") }
            // It has joined the read, or begun its own.
            await until("it waits") { cache.backend.isRead(by: 2, "k") || decodes.count == 2 }
            if change == "expires" { world.clock.advance(by: .seconds(100)) }
            if change == "shorter life" { world.clock.advance(by: .seconds(1)) }
            decodes.letGo(2)
            #expect(try await first.value == "old", "it began before the change")
            #expect(try await second.value?.value == (change == "set" ? "new" : nil), "\(change)")
        }
    }

    @Test("undecodable bytes are a miss for all callers, reported once")
    func undecodable() async throws {
        let world = World()
        let (log, decodes) = (EventLog(), Lock(0))
        var configuration = Cache<String>.Configuration()
        configuration.onEvent = log.note
        let gate = DispatchSemaphore(value: 0)
        let coder = Coder<String> {
            Data($0.utf8)
        } decode: { _ in
            decodes.withLock { $0 += 1 }
            gate.wait()
            throw SourceFailure()
        }
        let disk = try world.open()
        let cache = Cache(disk: disk, namespace: "n", coder: coder, configuration: configuration)
        try disk.namespace("n").setString("v", forKey: "k")
        let callers = (0..<5).map { _ in begin { await cache.value(forKey: "k") } }
        await until("all wait") { cache.backend.isRead(by: 5, "k") }
        gate.signal()
        for caller in callers { #expect(try await caller.value == nil) }
        #expect(decodes.withLock { $0 } == 1)
        #expect(log.events(of: disk).map(\.error?.code) == [.undecodable])
    }

    @Test("a cancelled caller leaves with a miss; a read that nobody waits for any more reads and decodes nothing")
    func cancelled() async throws {
        let limiter = IOLimiter(SystemClock(), limit: 1)
        let reads = JoinedReads<String>(limiter)
        let mayEnd = DispatchSemaphore(value: 0)
        limiter.enqueue(.high) { mayEnd.wait() }
        let begun = Lock<[String]>([])
        let missing = JoinedReads<String>.Outcome.missed(nil)
        func read(_ text: String) -> Task<Bool, any Error> {
            LarderTests.begin {
                let outcome = await reads.value(.init(key: Key(text), orStale: false)) {
                    begun.withLock { $0.append(text) }
                    return missing
                }
                return outcome.isShared
            }
        }
        let name = { JoinedReads<String>.Name(key: Key($0), orStale: false) }
        let (alone, one) = (read("a"), read("b"))
        await until("they wait") { reads.callers(name("a")) == 1 && reads.callers(name("b")) == 1 }
        let two = read("b")
        await until("it joins") { reads.callers(name("b")) == 2 }
        // At once, though the reads wait.
        alone.cancel()
        one.cancel()
        _ = try await (alone.value, one.value)
        #expect(reads.callers(name("b")) == 1)
        mayEnd.signal()
        #expect(try await two.value)
        #expect(begun.withLock { $0 } == ["b"])
        // A later read of the key is not affected.
        _ = try await read("a").value
        #expect(begun.withLock { $0 } == ["b", "a"])
    }

    @Test("a cancelled plain read decodes nothing, and keeps nothing from others", arguments: [true, false])
    func cancelledValue(_ hasMemory: Bool) async throws {
        let (world, decodes) = (World(), Decodes())
        let cache = try cache(decodes, in: world, hasMemory: hasMemory)
        try world.open().namespace("n").setString("v", forKey: "k")
        let task = begin {
            while !Task.isCancelled { await Task.yield() }
            return await cache.value(forKey: "k")
        }
        task.cancel()
        #expect(try await task.value == nil)
        #expect(decodes.count == 0)
        #expect(await cache.value(forKey: "k") == "v")
    }

    @Test("a caller of higher priority moves up a read that waits for its turn")
    func priority() async throws {
        let limiter = IOLimiter(SystemClock(), limit: 1)
        let reads = JoinedReads<String>(limiter)
        let (isRunning, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let order = Lock<[String]>([])
        limiter.enqueue(.high) {
            isRunning.signal()
            mayEnd.wait()
        }
        func read(_ text: String, _ priority: TaskPriority) -> Task<Void, Never> {
            Task(priority: priority) {
                _ = await reads.value(.init(key: Key(text), orStale: false)) {
                    order.withLock { $0.append(text) }
                    return .missed(nil)
                }
            }
        }
        var tasks = [read("a", .background)]
        await until("a waits") { reads.callers(.init(key: Key("a"), orStale: false)) == 1 }
        tasks.append(read("b", .medium))
        await until("b waits") { reads.callers(.init(key: Key("b"), orStale: false)) == 1 }
        tasks.append(read("a", .high))
        await until("a is wanted twice") { reads.callers(.init(key: Key("a"), orStale: false)) == 2 }
        mayEnd.signal()
        for task in tasks { await task.value }
        #expect(order.withLock { $0 } == ["a", "b"])
    }
}

extension CacheBackend {
    /// True when `callers` callers share a read of a key.
    fileprivate func isRead(by callers: Int, _ key: String) -> Bool {
        (self as? TieredBackend<Value>)?.reads.callers(.init(key: self.key(key), orStale: false)) == callers
    }
}
