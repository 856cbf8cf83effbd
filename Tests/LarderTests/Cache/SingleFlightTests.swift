import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Fetching through the cache: one flight for all waiting callers")
struct SingleFlightTests {
    typealias Source = HandDrivenSource<String>

    @Test("a fresh value is returned; otherwise the value is fetched, stored and returned", arguments: Tiers.allCases)
    func fetches(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let calls = Lock(0)
        func value() async throws -> String {
            try await cache.value(forKey: "k", ttl: .seconds(10)) {
                let number = calls.withLock { calls in
                    calls += 1
                    return calls
                }
                return "v\(number)"
            }
        }
        #expect(try await value() == "v1")
        #expect(try await value() == "v1")
        #expect(await cache.value(forKey: "k") == "v1")
        world.clock.advance(by: .milliseconds(9_999))
        #expect(try await value() == "v1")
        world.clock.advance(by: .milliseconds(1))
        #expect(await cache.value(forKey: "k") == nil)
        #expect(try await value() == "v2")
        let statistics = cache.statistics.fetches
        #expect(statistics.begun == 2 && statistics.failed == 0 && statistics.coalesced == 0)
        #expect(cache.backend.flights.count == 0)
    }

    @Test("any number of callers on one key make one fetch", arguments: Tiers.allCases)
    func many(_ tiers: Tiers) async throws {
        let callers = Sample.size(10_000, usually: 1_000)
        let cache: Cache<String> = try tiers.cache(in: World())
        let source = Source()
        let values = try await withThrowingTaskGroup { group in
            for _ in 0..<callers { group.addTask { try await cache.value(forKey: "k") { try await source.fetch() } } }
            await until("all have joined") { cache.statistics.fetches.coalesced == callers - 1 }
            await source.answer("v")
            var values: [String: Int] = [:]
            for try await value in group { values[value, default: 0] += 1 }
            return values
        }
        #expect(values == ["v": callers])
        #expect(source.begun == 1)
        #expect(cache.backend.flights.count == 0)
    }

    @Test(
        "of ten thousand callers many are cancelled at any moment, and the others get the value of one fetch",
        arguments: Sample.few(1, of: [1, 2, 3] as [UInt64]))
    func cancellationStorm(_ seed: UInt64) async throws {
        print("cancellation storm: seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source()
        let stays = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 1 }
        var callers: [(task: Task<String, any Error>, isCancelled: Bool)] = []
        for _ in 0..<10_000 {
            let task = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
            let isCancelled = Bool.random(using: &generator)
            callers.append((task, isCancelled))
            if isCancelled, Bool.random(using: &generator) { task.cancel() }
            if Int.random(in: 0..<100, using: &generator) == 0 { await Task.yield() }
        }
        for caller in callers where caller.isCancelled { caller.task.cancel() }
        // Cancelled callers leave at once, while the fetch is still running.
        var left = 0
        for caller in callers where caller.isCancelled {
            let failure = await caller.task.failure
            if failure is CancellationError { left += 1 }
        }
        #expect(left == callers.count { $0.isCancelled })
        await source.answer("v")
        var answered = 0
        for caller in callers where !caller.isCancelled {
            if try await caller.task.value == "v" { answered += 1 }
        }
        #expect(answered == callers.count - left)
        #expect(try await stays.value == "v")
        #expect(source.begun == 1 && source.cancelled == 0)
        #expect(cache.backend.flights.count == 0)
    }

    @Test("the fetch is cancelled with its last caller, and the next call begins another", arguments: Tiers.allCases)
    func lastCaller(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let source = Source()
        let callers = (0..<3).map { _ in begin { try await cache.value(forKey: "k") { try await source.fetch() } } }
        await until("all have joined") { cache.statistics.fetches.coalesced == 2 }
        await until("the fetch has begun") { source.begun == 1 }
        callers[0].cancel()
        callers[1].cancel()
        #expect(await callers[0].failure is CancellationError)
        #expect(await callers[1].failure is CancellationError)
        #expect(source.cancelled == 0)
        callers[2].cancel()
        #expect(await callers[2].failure is CancellationError)
        await until("the fetch was cancelled") { source.cancelled == 1 }
        let next = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await source.answer("v")
        #expect(try await next.value == "v")
        #expect(source.begun == 2)
        #expect(cache.statistics.fetches.failed == 0, "an abandoned fetch has not failed")
    }

    @Test("a fetch that ignores its cancellation stores nothing")
    func deaf() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source(isDeaf: true)
        let first = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 1 }
        first.cancel()
        #expect(await first.failure is CancellationError)
        let second = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("another has begun") { source.begun == 2 }
        await source.answer("old")
        await source.answer("new")
        #expect(try await second.value == "new")
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test("a fetch configured to outlive its callers continues, and its value is stored")
    func outlivesCallers() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source()
        let policy = FetchPolicy.cacheFirst.outlivesCallers()
        let caller = begin { try await cache.value(forKey: "k", policy: policy) { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 1 }
        caller.cancel()
        #expect(await caller.failure is CancellationError)
        let joining = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("it has joined") { cache.statistics.fetches.coalesced == 1 }
        joining.cancel()
        #expect(await joining.failure is CancellationError)
        await source.answer("v")
        await until("it is stored") { await cache.value(forKey: "k") == "v" }
        #expect(source.begun == 1 && source.cancelled == 0)
    }

    @Test("a cancelled caller begins no fetch, but gets a fresh value")
    func cancelledBefore() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source()
        let gate = HandDrivenSource<Void>(isDeaf: true)
        let caller = begin {
            try await gate.fetch()
            return try await cache.value(forKey: "k") { try await source.fetch() }
        }
        await until("it waits") { gate.begun == 1 }
        caller.cancel()
        await gate.answer(())
        #expect(await caller.failure is CancellationError)
        #expect(source.begun == 0)
        try await cache.setValue("v", forKey: "k")
        let served = begin {
            try? await gate.fetch()
            return try await cache.value(forKey: "k") { try await source.fetch() }
        }
        served.cancel()
        await gate.answer(())
        #expect(try await served.value == "v")
    }

    @Test("an error reaches all waiting callers, and is not cached", arguments: Tiers.allCases)
    func errors(_ tiers: Tiers) async throws {
        let world = World()
        let cache: Cache<String> = try tiers.cache(in: world)
        let events = cache.events
        let source = Source()
        let callers = (0..<20).map { _ in begin { try await cache.value(forKey: "k") { try await source.fetch() } } }
        await until("all have joined") { cache.statistics.fetches.coalesced == 19 }
        await source.answer(.failure(SourceFailure(number: 7)))
        for caller in callers { #expect(await caller.failure as? SourceFailure == SourceFailure(number: 7)) }
        let again = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await source.answer("v")
        #expect(try await again.value == "v")
        #expect(source.begun == 2 && cache.statistics.fetches.failed == 1)
        for await event in events where event.kind == .fetchFailed {
            #expect(event.keys == ["k"] && event.error?.code == .fetchFailed)
            #expect(event.error?.message.contains("SourceFailure(number: 7)") == true)
            break
        }
    }

    /// The changes that others make to the key during a fetch.
    enum Meanwhile: CaseIterable, Sendable {
        case set, remove, removeAll, removeNothing, bareSet, bareRemove, bareRemoveAll, otherType, tag, noLife
    }

    @Test("a fetch does not overwrite a set or a removal made while it runs", arguments: Meanwhile.allCases)
    func meanwhile(_ change: Meanwhile) async throws {
        let world = World()
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        let bare = disk.namespace("n")
        let source = Source()
        if change != .removeNothing { try await cache.setValue("old", forKey: "k", ttl: .seconds(1)) }
        world.clock.advance(by: .seconds(2))
        let caller = begin {
            try await cache.value(forKey: "k", tags: ["t"]) { try await source.fetch() }
        }
        await until("the fetch has begun") { source.begun == 1 }
        var left: String?
        switch change {
        case .set: try await cache.setValue("mine", forKey: "k"); left = "mine"
        case .remove, .removeNothing: try await cache.removeValue(forKey: "k")
        case .removeAll: try await cache.removeAll()
        case .bareSet: try bare.setString("mine", forKey: "k"); left = "mine"
        case .bareRemove: try bare.removeValue(forKey: "k")
        case .bareRemoveAll: try disk.removeAll()
        case .otherType:
            let other = Cache<Int>(disk: disk, namespace: "n")
            #expect(try await other.value(forKey: "k") { 5 } == 5)
        case .tag: try await cache.removeAll(tagged: "t")
        case .noLife: try await cache.setTimeToLive(.seconds(0), forKey: "k")
        }
        let late = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await source.answer("fetched")
        #expect(try await caller.value == "fetched", "its callers still get it")
        #expect(await cache.value(forKey: "k") == left)
        if change == .otherType { #expect(bare.value(Int.self, forKey: "k") == 5) }
        if left == nil {
            await source.answer("later")
            #expect(
                try await late.value == "later", "a call after the removal does not get a value fetched before it")
            #expect(await cache.value(forKey: "k") == "later")
        } else {
            #expect(try await late.value == left)
        }
        #expect(cache.backend.flights.count == 0)
    }

    @Test(
        "without a disk too, a fetch does not overwrite a set or a removal made while it runs",
        arguments: ["set", "remove", "all", "tag", "no life"])
    func meanwhileInMemory(_ change: String) async throws {
        let cache: Cache<String> = try Tiers.memoryAlone.cache(in: World())
        let source = Source()
        let caller = begin { try await cache.value(forKey: "k", tags: ["t"]) { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 1 }
        switch change {
        case "set": try await cache.setValue("mine", forKey: "k")
        case "remove": try await cache.removeValue(forKey: "k")
        case "all": try await cache.removeAll()
        case "no life": try await cache.setTimeToLive(.seconds(0), forKey: "k")
        default: try await cache.removeAll(tagged: "t")
        }
        await source.answer("fetched")
        #expect(try await caller.value == "fetched")
        #expect(await cache.value(forKey: "k") == (change == "set" ? "mine" : nil))
    }

    @Test("caches that share a directory and a namespace share flights; other types and namespaces do not")
    func shared() async throws {
        let world = World()
        let source = Source()
        let numbers = HandDrivenSource<Int>()
        let one = Cache<String>(disk: try world.open(), namespace: "n")
        let two = Cache<String>(disk: try world.open(), namespace: "n")
        let other = Cache<String>(disk: try world.open(), namespace: "m")
        let number = Cache<Int>(disk: try world.open(), namespace: "n")
        let first = begin { try await one.value(forKey: "k") { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 1 }
        let second = begin { try await two.value(forKey: "k") { try await source.fetch() } }
        await until("it has joined") { two.statistics.fetches.coalesced == 1 }
        let third = begin { try await other.value(forKey: "k") { try await source.fetch() } }
        let fourth = begin { try await number.value(forKey: "k") { try await numbers.fetch() } }
        await until("they have begun") { source.begun == 2 && numbers.begun == 1 }
        await source.answer("a")
        #expect(try await (first.value, second.value) == ("a", "a"))
        await source.answer("b")
        #expect(try await third.value == "b")
        await numbers.answer(5)
        #expect(try await fourth.value == 5)
        #expect(await two.value(forKey: "k") == "a", "the number came later and does not overwrite it")
    }

    @Test(
        "a failing disk does not fail the call, be it full, broken or closed",
        arguments: [0, 1, 2])
    func failingDisk(_ failure: Int) async throws {
        let world = World()
        let log = EventLog()
        let disk = try world.open()
        var configuration = Cache<String>.Configuration()
        configuration.onEvent = log.note
        let cache = Cache<String>(disk: disk, namespace: "n", configuration: configuration)
        switch failure {
        case 0: world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
        case 1: world.files.inject { _, _ in .fail(.io) }
        default: try disk.close()
        }
        for number in 1...10 {
            let found = try await cache.lookup(forKey: "k", ttl: .seconds(10)) { "v\(number)" }
            #expect(found.value == "v1", "in memory alone")
            #expect(found.source == (number == 1 ? .fetched : .memory))
        }
        #expect(disk.namespace("n").keys() == [])
        world.clock.advance(by: .seconds(10))
        #expect(try await cache.value(forKey: "k") { "v11" } == "v11", "with its life")
        let optional = try await cache.optionalValue(forKey: "none") { nil }
        #expect(optional == nil)
        if failure < 2 {
            #expect(log.events(of: disk).contains { $0.kind == .failed })
            world.files.inject { _, _ in nil }
            cache.memoryTier?.removeAll()
            let third = try await cache.value(forKey: "k") { "v3" }
            let fourth = try await cache.value(forKey: "k") { "v4" }
            #expect(third == "v3" && fourth == "v3")
            #expect(disk.namespace("n").string(forKey: "k") == "v3")
        } else {
            #expect(await code { try await cache.removeValue(forKey: "k") } == .closed)
            #expect(await cache.value(forKey: "k") == nil, "the removal counts even so")
        }
    }

    @Test("a value larger than the size limit is in memory alone, until a call sets or removes the key")
    func tooLargeForDisk() async throws {
        let world = World { $0.sizeLimit = 100 }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        let other = Cache<String>(disk: disk, namespace: "n")
        let large = String(repeating: "v", count: 101)
        for policy in [FetchPolicy.cacheFirst, .staleIfError(for: .hours(1))] {
            let calls = Lock(0)
            @Sendable func value() async throws -> String {
                try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) {
                    if calls.withLock({ calls in
                        calls += 1; return calls
                    }) > 1 {
                        throw SourceFailure()
                    }
                    return large
                }
            }
            #expect(try await value() == large)
            #expect(try await value() == large)
            world.clock.advance(by: .seconds(10))
            if policy.staleIfError == nil {
                #expect(await begin { try await value() }.failure is SourceFailure)
            } else {
                #expect(try await value() == large, "stale, from memory")
            }
            #expect(calls.withLock { $0 } == 2)
        }
        _ = try await cache.value(forKey: "k", policy: .reload) { large }
        #expect(await cache.value(forKey: "k") == large)
        #expect(try await cache.removeValue(forKey: "k"))
        #expect(await cache.value(forKey: "k") == nil)
        _ = try await cache.value(forKey: "k") { large }
        try await other.setValue("small", forKey: "k", ttl: .seconds(5))
        #expect(await cache.value(forKey: "k") == "small")
        // The value that expires on disk is older than the one in memory alone.
        _ = try await cache.value(forKey: "k", policy: .reload) { large }
        world.clock.advance(by: .seconds(5))
        disk.removeExpired()
        #expect(await cache.value(forKey: "k") == large)
        #expect(await other.value(forKey: "k") == nil)
        try await other.removeAll()
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("an unencodable value is returned, and the failure is reported")
    func unencodable() async throws {
        let world = World()
        let disk = try world.open()
        let log = EventLog()
        var configuration = Cache<String>.Configuration()
        configuration.onEvent = log.note
        let coder = Coder<String>(
            encode: { _ in throw SourceFailure() }, decode: { String(decoding: $0, as: UTF8.self) })
        let cache = Cache(disk: disk, namespace: "n", coder: coder, configuration: configuration)
        #expect(try await cache.value(forKey: "k") { "v" } == "v")
        #expect(log.events(of: disk).map(\.error?.code) == [.unencodable])
    }

    @Test(
        "a value with a zero life is fetched each time, as is a key too long for a disk without memory",
        arguments: Tiers.allCases)
    func unkept(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let calls = Lock(0)
        @Sendable func fetch() -> String {
            calls.withLock { calls in
                calls += 1
                return "v\(calls)"
            }
        }
        try await cache.setValue("old", forKey: "k", ttl: .forever)
        let reloaded = try await cache.lookup(forKey: "k", ttl: .seconds(0), policy: .reload) { fetch() }
        #expect(reloaded.value == "v1" && reloaded.source == .fetched && !reloaded.isStale)
        #expect(await cache.value(forKey: "k") == nil, "do not keep: the old value is removed")
        #expect(try await cache.value(forKey: "k", ttl: .seconds(-1)) { fetch() } == "v2")
        if tiers != .memoryAlone {
            let long = String(repeating: "k", count: 70_000)
            #expect(try await cache.value(forKey: long) { fetch() } == "v3")
            #expect(try await cache.value(forKey: long) { fetch() } == (tiers == .both ? "v3" : "v4"))
        }
    }

    @Test("a reload that joins a flight that finds the value in the cache still fetches")
    func reloadJoining() async throws {
        let world = World { $0.sweepInterval = nil }
        let (gate, decodings) = (DispatchSemaphore(value: 0), Lock(0))
        let coder = Coder<String> {
            Data($0.utf8)
        } decode: { data in
            decodings.withLock { $0 += 1 }
            gate.wait()
            return String(decoding: data, as: UTF8.self)
        }
        var configuration = Cache<String>.Configuration()
        configuration.memory = nil
        let cache = Cache(disk: try world.open(), namespace: "n", coder: coder, configuration: configuration)
        try await cache.setValue("b", forKey: "b")
        // It looks for "a" later, which is set while it decodes "b".
        let batch = begin { try await cache.values(forKeys: ["a", "b"]) { _ in ["a": "batch"] } }
        await until("b is decoded") { decodings.withLock { $0 } == 1 }
        try await cache.setValue("set", forKey: "a")
        gate.signal()
        await until("a is decoded") { decodings.withLock { $0 } == 2 }
        let reload = begin { try await cache.lookup(forKey: "a", policy: .reload) { "reloaded" } }
        let reloads = begin { try await cache.values(forKeys: ["a"], policy: .reload) { _ in ["a": "reloaded too"] } }
        await until("they have joined") { cache.statistics.fetches.coalesced == 2 }
        gate.signal()
        for _ in 0..<10 { gate.signal() }
        let found = try await reload.value
        #expect(found.source == .fetched && found.value.hasPrefix("reloaded"))
        #expect(try await reloads.value["a"]?.hasPrefix("reloaded") == true)
        #expect(try await batch.value == ["a": "set", "b": "b"])
    }

    @Test("one read is one miss, in each tier that it misses")
    func misses() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        try disk.namespace("n").setString("v", forKey: "k")
        #expect(try await cache.value(forKey: "k") { "w" } == "v")
        #expect(cache.statistics.memory?.misses == 1 && cache.statistics.diskHits == 1 && cache.statistics.misses == 0)
        #expect(try await cache.value(forKey: "l") { "w" } == "w")
        #expect(cache.statistics.memory?.misses == 2 && cache.statistics.misses == 1)
        #expect(try await cache.value(forKey: "l") { "w" } == "w")
        #expect(cache.statistics.memoryHits == 1 && cache.statistics.memory?.misses == 2)
    }

    @Test("without a disk tier, values evicted by a fetch are released inline if so configured")
    func inline() async throws {
        let released = Lock(0)
        var configuration = MemoryCache<String, String>.Configuration()
        configuration.release = .inline
        configuration.onRemove = { _, _, _ in released.withLock { $0 += 1 } }
        let cache = Cache<String>(memoryOnly: configuration)
        func expect(_ number: Int, sourceLocation: SourceLocation = #_sourceLocation) {
            #expect(released.withLock { $0 } == number, sourceLocation: sourceLocation)
        }
        try await cache.setValue("v", forKey: "k")
        _ = try await cache.value(forKey: "k", ttl: .seconds(0), policy: .reload) { "not kept" }
        expect(1)
        try await cache.setValue("v", forKey: "k")
        _ = try await cache.optionalValue(forKey: "k", policy: .reload) { nil }
        expect(2)
    }

    @Test("a caller of higher priority raises the priority of the fetch")
    func priority() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source()
        let seen = Lock<TaskPriority?>(nil)
        let slow = Task(priority: .background) {
            try await cache.value(forKey: "k") {
                let value = try await source.fetch()
                seen.withLock { $0 = Task.currentPriority }
                return value
            }
        }
        await until("the fetch has begun") { source.begun == 1 }
        let urgent = Task(priority: .high) { try await cache.value(forKey: "k") { "not fetched" } }
        await until("it has joined") { cache.statistics.fetches.coalesced == 1 }
        await source.answer("v")
        #expect(try await (slow.value, urgent.value) == ("v", "v"))
        #expect(seen.withLock { $0 } == .high)
    }

    @Test("an abandoned fetch that never ends keeps no directory open", arguments: [true, false])
    func deserted(_ isTimedOut: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let source = Source(isDeaf: true)
        weak var store: Store?
        do {
            let cache: Cache<String> = try Tiers.both.cache(in: world)
            store = cache.disk?.store
            let policy = FetchPolicy.cacheFirst.hardTimeout(.seconds(5))
            let call = begin { [cache] in
                try await cache.value(forKey: "k", policy: policy) { try await source.fetch() }
            }
            await until("the fetch has begun") { source.begun == 1 }
            if isTimedOut { world.clock.advance(by: .seconds(5)) } else { call.cancel() }
            _ = await call.result
        }
        await until("the directory is closed") { store == nil }
        await source.answer("too late")
    }

    @Test("a pending timeout keeps no directory open")
    func timeoutKeepsNothing() async throws {
        let world = World { $0.sweepInterval = nil }
        weak var store: Store?
        do {
            let cache: Cache<String> = try Tiers.both.cache(in: world)
            store = cache.disk?.store
            let policy = FetchPolicy.staleIfError(for: .days(1)).hardTimeout(.seconds(60)).softTimeout(.seconds(9))
            for ttl in [1, 1000] as [Double] {
                // The fetch holds a reference to the cache, too.
                let value = try await cache.value(forKey: "k", ttl: .seconds(ttl), policy: policy) { [cache] in
                    cache.memory == nil ? "w" : "v"
                }
                #expect(value == "v")
                world.clock.advance(by: .seconds(2))
            }
        }
        await until("the directory is closed") { store == nil }
        world.clock.advance(by: .seconds(100))
    }

    @TaskLocal private static var trace = "none"

    @Test("a fetch has the task-local values of the call that began it, whatever other callers wait")
    func taskLocals() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let source = Source()
        let first = begin {
            try await Self.$trace.withValue("first") {
                try await cache.value(forKey: "k") { try await source.fetch() + Self.trace }
            }
        }
        await until("it is asked") { source.begun == 1 }
        let second = begin {
            try await Self.$trace.withValue("second") { try await cache.value(forKey: "k") { "never" } }
        }
        await until("it has joined") { cache.statistics.fetches.coalesced == 1 }
        await source.answer("by ")
        #expect(try await (first.value, second.value) == ("by first", "by first"))
    }
}
