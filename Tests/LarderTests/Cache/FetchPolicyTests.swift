import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("A fetch policy decides which answers a call accepts")
struct FetchPolicyTests {
    typealias Source = HandDrivenSource<String>

    /// The content of the cache when the call is made.
    enum Have: CaseIterable, Sendable {
        case nothing, fresh, staleLittle, staleLong, tooStale
    }

    /// The outcome of a call: a value, fresh or stale, or an error; and whether the source was asked.
    struct Ending: Equatable, CustomStringConvertible {
        var value: String?
        var isStale = false
        var fetches = 0

        var description: String { "\(value ?? "error")\(isStale ? ", stale" : ""), \(fetches) fetches" }
    }

    static let windows = FetchPolicy.staleWhileRevalidate(for: .seconds(10)).staleIfError(for: .seconds(100))

    static let policies: [(String, FetchPolicy)] = [
        ("cacheFirst", .cacheFirst), ("reload", .reload), ("cacheOnly", .cacheOnly),
        ("staleWhileRevalidate", .staleWhileRevalidate(for: .seconds(10))),
        ("staleIfError", .staleIfError(for: .seconds(100))), ("both", windows),
        ("reload, staleIfError", .reload.staleIfError(for: .seconds(100))),
        ("cacheOnly, both", .cacheOnly.staleWhileRevalidate(for: .seconds(10)).staleIfError(for: .seconds(100))),
    ]

    /// The table of the article "Fetching through the cache": the answer of each policy.
    static func expected(_ policy: FetchPolicy, _ have: Have, fails: Bool) -> Ending {
        let fetched = Ending(value: fails ? nil : "new", fetches: 1)
        let old = Ending(value: "old")
        switch (policy.source, have) {
        case (.cacheOnly, .fresh), (.cacheFirst, .fresh): return old
        case (.cacheOnly, _): return Ending()
        case (.cacheFirst, .staleLittle) where policy.staleWhileRevalidate != nil:
            return Ending(value: "old", isStale: true, fetches: 1)
        case (.reload, .fresh) where fails && policy.staleIfError != nil: return Ending(value: "old", fetches: 1)
        case (_, .staleLittle), (_, .staleLong):
            if fails && policy.staleIfError != nil { return Ending(value: "old", isStale: true, fetches: 1) }
            return fetched
        default: return fetched
        }
    }

    @Test(
        "the table: each policy, each state, with a source that answers or fails", arguments: policies, Tiers.allCases)
    func table(_ policy: (name: String, policy: FetchPolicy), _ tiers: Tiers) async throws {
        for have in Have.allCases {
            for fails in [false, true] {
                let world = World()
                let cache: Cache<String> = try tiers.cache(in: world)
                if have != .nothing {
                    let keeping = FetchPolicy.staleIfError(for: .seconds(1000))
                    _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: keeping) { "old" }
                }
                let passed: Int =
                    switch have {
                    case .nothing, .fresh: 9
                    case .staleLittle: 19
                    case .staleLong: 109
                    case .tooStale: 110
                    }
                world.clock.advance(by: .seconds(passed))
                let before = cache.statistics.fetches.begun
                var ending = Ending()
                do {
                    let found = try await cache.lookup(forKey: "k", policy: policy.policy) {
                        if fails { throw SourceFailure() }
                        return "new"
                    }
                    (ending.value, ending.isStale) = (found.value, found.isStale)
                } catch let error as CacheError {
                    #expect(error.code == .notFound && policy.policy.source == .cacheOnly)
                } catch {
                    #expect(error is SourceFailure)
                }
                await until("the background fetch has ended") { cache.backend.flights.count == 0 }
                ending.fetches = cache.statistics.fetches.begun - before
                let expected = Self.expected(policy.policy, have, fails: fails)
                #expect(ending == expected, "\(policy.name), \(have), \(fails ? "failing" : "answering")")
                let left: String? = ending.fetches > 0 && !fails ? "new" : have == .fresh ? "old" : nil
                let plain = await cache.value(forKey: "k")
                #expect(plain == left)
            }
        }
    }

    @Test("a stale value stays on disk until its window ends, and no plain read returns it")
    func keptStale() async throws {
        var world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        var cache = Cache<String>(disk: disk, namespace: "n")
        let policy = FetchPolicy.staleIfError(for: .seconds(90)).staleWhileRevalidate(for: .seconds(5))
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { "v" }
        let expiry = world.clock.date.addingTimeInterval(10)
        let entry = try #require(disk.namespace("n").entry(forKey: "k"))
        #expect(entry.expiresAt == expiry && entry.keptUntil == expiry.addingTimeInterval(90))
        world.clock.advance(by: .seconds(10))
        @Sendable func failing(_ cache: Cache<String>) async throws -> Lookup<String> {
            try await cache.lookup(forKey: "k", policy: .staleIfError(for: .forever)) { throw SourceFailure() }
        }
        for round in 0..<3 {
            #expect(await cache.value(forKey: "k") == nil)
            #expect(await cache.lookup(forKey: "k") == nil)
            let isThere = await (cache.hasValue(forKey: "k"), cache.entry(forKey: "k") != nil, cache.keys() == [])
            #expect(isThere == (false, false, true))
            let bare = disk.namespace("n")
            #expect(bare.data(forKey: "k") == nil && bare.keys() == [] && bare.entries().isEmpty)
            #expect(try !bare.setTimeToLive(.days(1), forKey: "k"))
            #expect(disk.removeExpired() == 0)
            #expect(bare.count == 1)
            let stale = try await failing(cache)
            #expect(stale.value == "v" && stale.isStale && stale.age == .seconds(10 + 20 * round))
            #expect(stale.expiresAt == expiry)
            if round == 0 { try disk.close() }
            world.restart()
            disk = try world.open()
            cache = Cache(disk: disk, namespace: "n")
            world.clock.advance(by: .seconds(20))
        }
        world.clock.advance(by: .milliseconds(29_999))
        #expect(try await failing(cache).value == "v")
        world.clock.advance(by: .milliseconds(1))
        let tooLate = begin { [cache] in try await failing(cache) }
        #expect(await tooLate.failure is SourceFailure)
        #expect(disk.removeExpired() == 1)
        #expect(disk.count == 0)
        disk.checkInvariants()
    }

    @Test(
        "stale while revalidating: all are answered at once, and one background fetch runs", arguments: Tiers.allCases)
    func revalidatingBehind(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        let policy = FetchPolicy.staleWhileRevalidate(for: .seconds(100))
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { "old" }
        world.clock.advance(by: .seconds(20))
        let events = cache.events
        for _ in 0..<100 {
            let found = try await cache.lookup(forKey: "k", ttl: .seconds(10), policy: policy) {
                try await source.fetch()
            }
            #expect(found.value == "old" && found.isStale)
        }
        await until("the fetch has begun") { source.begun == 1 }
        let strict = begin { try await cache.value(forKey: "k") { "not fetched" } }
        await until("it has joined") { cache.statistics.fetches.coalesced == 1 }
        await source.answer("new")
        #expect(try await strict.value == "new")
        await until("it is stored") { await cache.value(forKey: "k") == "new" }
        #expect(source.begun == 1 && cache.statistics.fetches.staleAnswers == 100)
        for await event in events {
            #expect(event.kind == .replaced && event.keys == ["k"], "events report the change")
            break
        }
    }

    @Test("a failed background fetch is reported, and the next call tries again")
    func failingBehind() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let policy = FetchPolicy.staleWhileRevalidate(for: .seconds(100))
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { "old" }
        world.clock.advance(by: .seconds(20))
        for number in 1...3 {
            let events = cache.events
            let value = try await cache.value(forKey: "k", policy: policy) { throw SourceFailure(number: number) }
            #expect(value == "old")
            for await event in events {
                #expect(event.kind == .fetchFailed && event.error?.message.contains("\(number)") == true)
                break
            }
            await until("it has ended") { cache.backend.flights.count == 0 }
        }
        #expect(cache.statistics.fetches.failed == 3)
    }

    @Test(
        "stale if error: all callers waiting for a failed fetch get the stale value",
        arguments: Tiers.allCases)
    func ifError(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        let policy = FetchPolicy.staleIfError(for: .seconds(100))
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { "old" }
        world.clock.advance(by: .seconds(20))
        let lenient = (0..<10).map { _ in
            begin { try await cache.value(forKey: "k", policy: policy) { try await source.fetch() } }
        }
        let strict = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("all have joined") { cache.statistics.fetches.coalesced == 10 }
        await source.answer(.failure(SourceFailure()))
        for caller in lenient { #expect(try await caller.value == "old") }
        #expect(await strict.failure is SourceFailure, "each caller's own policy decides")
        #expect(source.begun == 1)
        // A removed value is never returned, stale or not.
        let late = begin { try await cache.value(forKey: "k", policy: policy) { try await source.fetch() } }
        await until("the fetch has begun") { source.begun == 2 }
        try await cache.removeValue(forKey: "k")
        await source.answer(.failure(SourceFailure()))
        #expect(await late.failure is SourceFailure)
    }

    @Test("a soft timeout returns the stale value, and the late value is stored", arguments: Tiers.allCases)
    func softTimeout(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        let policy = FetchPolicy.staleIfError(for: .seconds(100)).softTimeout(.seconds(1))
        func call() -> Task<String, any Error> {
            begin { try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { try await source.fetch() } }
        }
        // Without a stale value it waits.
        let first = call()
        await until("the fetch has begun") { source.begun == 1 }
        world.clock.advance(by: .seconds(2))
        await source.answer("old")
        #expect(try await first.value == "old")
        world.clock.advance(by: .seconds(20))
        let timers = world.clock.scheduledCount
        let hurried = call()
        let cancelled = call()
        await until("they wait") { cache.statistics.fetches.coalesced == 1 && source.begun == 2 }
        await until("the timeouts are set") { world.clock.scheduledCount == timers + 2 }
        world.clock.advance(by: .milliseconds(999))
        #expect(cache.statistics.fetches.staleAnswers == 0)
        cancelled.cancel()
        #expect(await cancelled.failure is CancellationError)
        world.clock.advance(by: .milliseconds(1))
        #expect(try await hurried.value == "old")
        #expect(source.cancelled == 0, "the fetch continues without waiting callers")
        await source.answer("new")
        await until("it is stored") { await cache.value(forKey: "k") == "new" }
    }

    @Test("a hung fetch frees its key at the hard timeout", arguments: Tiers.allCases)
    func hardTimeout(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let hung = Source(isDeaf: true)
        let policy = FetchPolicy.cacheFirst.hardTimeout(.seconds(5))
        let callers = (0..<5).map { _ in
            begin { try await cache.value(forKey: "k", policy: policy) { try await hung.fetch() } }
        }
        await until("all have joined") { cache.statistics.fetches.coalesced == 4 && hung.begun == 1 }
        world.clock.advance(by: .milliseconds(4_999))
        #expect(cache.backend.flights.count == 1)
        world.clock.advance(by: .milliseconds(1))
        for caller in callers {
            let failure = await caller.failure as? CacheError
            #expect(failure?.code == .timedOut)
        }
        #expect(hung.cancelled == 1 && cache.backend.flights.count == 0)
        let lenient = policy.staleIfError(for: .days(1))
        let next = try await cache.value(forKey: "k", ttl: .seconds(10), policy: lenient) { "new" }
        #expect(next == "new")
        await hung.answer("late")
        #expect(await cache.value(forKey: "k") == "new", "a value that comes after the timeout is dropped")
        // A stale value is returned instead.
        world.clock.advance(by: .seconds(20))
        let second = begin {
            try await cache.value(forKey: "k", policy: lenient) { try await hung.fetch() }
        }
        await until("it hangs") { hung.begun == 2 }
        world.clock.advance(by: .seconds(5))
        #expect(try await second.value == "new")
        #expect(cache.statistics.fetches.failed == 2)
        await hung.answer("late")
    }

    @Test(
        "a fetch whose late result is kept goes on after the hard timeout, and later calls join it",
        arguments: Tiers.allCases)
    func lateResult(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let slow = Source()
        let policy = FetchPolicy.cacheFirst.hardTimeout(.seconds(5), keepsLateResult: true)
        @Sendable func value() async throws -> String {
            try await cache.value(forKey: "k", policy: policy) { try await slow.fetch() }
        }
        let first = (0..<3).map { _ in begin { try await value() } }
        await until("all have joined") { cache.statistics.fetches.coalesced == 2 && slow.begun == 1 }
        world.clock.advance(by: .seconds(5))
        for caller in first { #expect((await caller.failure as? CacheError)?.code == .timedOut) }
        #expect(slow.cancelled == 0 && cache.statistics.fetches.failed == 0)
        // One that comes later waits for its own time, in the same fetch.
        let timers = world.clock.scheduledCount
        let (second, third) = (begin { try await value() }, begin { try await value() })
        await until("they wait") { world.clock.scheduledCount == timers + 2 }
        world.clock.advance(by: .milliseconds(4_999))
        second.cancel()
        #expect(await second.failure is CancellationError)
        await slow.answer("late")
        #expect(try await third.value == "late")
        #expect(slow.begun == 1)
        await cache.waitForFetches()
        #expect(await cache.value(forKey: "k") == "late")
        // A stale value is the answer where the policy allows one.
        world.clock.advance(by: .days(2))
        try await cache.setValue("old", forKey: "k", ttl: .seconds(1), keepStale: .hours(1))
        world.clock.advance(by: .seconds(2))
        let stale = begin {
            try await cache.value(forKey: "k", policy: policy.staleIfError(for: .hours(1))) { try await slow.fetch() }
        }
        await until("it is asked") { slow.begun == 2 }
        world.clock.advance(by: .seconds(5))
        #expect(try await stale.value == "old")
        await slow.answer("new")
        await cache.waitForFetches()
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test("a caller that joins a fetch waits no longer than its own timeout")
    func joinersTimeout() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let source = Source()
        let patient = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("it is asked") { source.begun == 1 }
        let timers = world.clock.scheduledCount
        let hurried = begin {
            try await cache.value(forKey: "k", policy: .cacheFirst.hardTimeout(.seconds(1))) { "not fetched" }
        }
        await until("the timeout is set") { world.clock.scheduledCount == timers + 1 }
        world.clock.advance(by: .seconds(1))
        let failure = await hurried.failure as? CacheError
        #expect(failure?.code == .timedOut)
        #expect(cache.statistics.fetches.failed == 0, "the fetch continues for the other")
        await source.answer("v")
        #expect(try await patient.value == "v")
    }

    @Test("a call has one timeout, however many flights it joins")
    func oneTimeout() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let (batch, own) = (HandDrivenSource<[String: String]>(), Source())
        let others = begin { try await cache.values(forKeys: ["k"]) { _ in try await batch.fetch() } }
        await until("it is asked") { batch.begun == 1 }
        let timers = world.clock.scheduledCount
        let caller = begin {
            try await cache.value(forKey: "k", policy: .cacheFirst.hardTimeout(.seconds(10))) {
                try await own.fetch()
            }
        }
        await until("it has joined, with a timeout") { world.clock.scheduledCount == timers + 1 }
        world.clock.advance(by: .seconds(9))
        await batch.answer([:])
        #expect(try await others.value == [:])
        await until("it asks for itself, and has its timeouts") {
            own.begun == 1 && world.clock.scheduledCount == timers + 2
        }
        world.clock.advance(by: .seconds(1))
        let failure = await caller.failure as? CacheError
        #expect(failure?.code == .timedOut)
        await until("its last caller has left") { own.cancelled == 1 }
    }

    @Test("after a failure the source is spared for a while if there is a stale value")
    func throttle() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let calls = Lock(0)
        let policy = FetchPolicy.staleIfError(for: .seconds(100)).retryThrottle(.seconds(5))
        @Sendable func call(_ policy: FetchPolicy, fails: Bool = true) async throws -> String {
            try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) {
                calls.withLock { $0 += 1 }
                if fails { throw SourceFailure() }
                return "v"
            }
        }
        #expect(await begin { try await call(policy) }.failure is SourceFailure)
        #expect(await begin { try await call(policy) }.failure is SourceFailure, "an error is not cached")
        #expect(try await call(policy, fails: false) == "v")
        #expect(calls.withLock { $0 } == 3)
        world.clock.advance(by: .seconds(20))
        for _ in 0..<10 { #expect(try await call(policy) == "v") }
        #expect(calls.withLock { $0 } == 4)
        world.clock.advance(by: .milliseconds(4_999))
        #expect(try await call(policy) == "v")
        #expect(calls.withLock { $0 } == 4)
        world.clock.advance(by: .milliseconds(1))
        #expect(try await call(policy) == "v")
        #expect(calls.withLock { $0 } == 5)
        // Background fetches, too.
        let behind = policy.staleWhileRevalidate(for: .seconds(100))
        for _ in 0..<10 { #expect(try await call(behind) == "v") }
        await until("nothing is under way") { cache.backend.flights.count == 0 }
        #expect(calls.withLock { $0 } == 5)
        // A call without such a policy asks the source.
        #expect(await begin { try await call(.cacheFirst) }.failure is SourceFailure)
        #expect(calls.withLock { $0 } == 6)
        world.clock.advance(by: .seconds(6))
        #expect(try await call(policy, fails: false) == "v")
        world.clock.advance(by: .seconds(20))
        #expect(try await call(policy, fails: false) == "v")
        #expect(calls.withLock { $0 } == 8)
    }

    @Test("failures are remembered while they matter, up to a maximum number")
    func failures() {
        var log = FailureLog()
        func name(_ number: Int) -> FailureLog.Name { .init(key: Key("\(number)"), type: ObjectIdentifier(Int.self)) }
        let now = Timestamp(milliseconds: 1_000)
        for number in 0..<3 * FailureLog.most {
            let end = now.advanced(byMilliseconds: number.isMultiple(of: 3) ? 100 : 1)
            _ = log.note(name(number), .init(error: SourceFailure(), begin: now, end: end))
            #expect(log.count <= FailureLog.most)
            #expect(log.error(of: name(number), at: now) != nil)
        }
        let last = name(3 * FailureLog.most - 3)
        #expect(
            log.error(of: last, at: now.advanced(byMilliseconds: 99)) != nil
                && log.error(of: last, at: now.advanced(byMilliseconds: 100)) == nil
        )
        #expect(log.remove(last) is SourceFailure)
        #expect(log.error(of: last, at: now) == nil)
    }

    @Test("early refresh: a value is fetched again in the background before it expires", arguments: Tiers.allCases)
    func eagerRefresh(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        let policy = FetchPolicy.cacheFirst.eagerRefresh(atFraction: 0.75)
        @Sendable func call() async throws -> String {
            try await cache.value(forKey: "k", ttl: .seconds(100), policy: policy) { try await source.fetch() }
        }
        let first = begin { try await call() }
        await source.answer("v1")
        #expect(try await first.value == "v1")
        world.clock.advance(by: .milliseconds(74_999))
        for _ in 0..<5 { #expect(try await call() == "v1") }
        #expect(source.begun == 1 && cache.backend.flights.count == 0)
        world.clock.advance(by: .milliseconds(1))
        for _ in 0..<5 { #expect(try await call() == "v1") }
        await until("one has begun") { source.begun == 2 }
        await source.answer("v2")
        await until("it is stored") { await cache.value(forKey: "k") == "v2" }
        world.clock.advance(by: .seconds(74))
        #expect(try await call() == "v2")
        #expect(source.begun == 2, "the life restarted")
        // A value with an endless life is never refreshed early.
        try await cache.setValue("eternal", forKey: "k", ttl: .forever)
        world.clock.advance(by: .seconds(1_000_000))
        #expect(try await call() == "eternal")
        await until("nothing is under way") { cache.backend.flights.count == 0 }
        #expect(source.begun == 2)
    }

    @Test("jitter shortens lives by up to its fraction, and spreads them")
    func jitter() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        let now = world.clock.date
        for number in 0..<1000 {
            _ = try await cache.value(
                forKey: "\(number)", ttl: .seconds(100), policy: .cacheFirst.jitter(0.2)
            ) { "v" }
        }
        let lives = disk.namespace("n").entries().compactMap { $0.expiresAt?.timeIntervalSince(now) }
        #expect(lives.count == 1000)
        #expect(lives.allSatisfy { $0 >= 80 && $0 <= 100 })
        // A thousand draws from twenty thousand milliseconds: a tenth of the range is empty once in 10^45 times.
        for tenth in 0..<10 {
            #expect(lives.contains { $0 >= 80 + Double(tenth) * 2 && $0 <= 82 + Double(tenth) * 2 }, "tenth \(tenth)")
        }
    }

    @Test("jitter never lengthens or ends a life, whatever the random number")
    func jitterBounds() {
        let now = Timestamp(milliseconds: 1_000)
        for part in [0.0, 0.5, 1.0] {
            let policy = FetchPolicy.cacheFirst.jitter(part)
            for ttl in [1, 2, 100_000] as [Int64] {
                for life in [
                    Life(expires: now.advanced(byMilliseconds: ttl), ttl: ttl),
                    Life(expires: now.advanced(byMilliseconds: ttl), ttl: Life.unlimited),
                ] {
                    let longest = policy.jittered(life, from: now) { $0.lowerBound }
                    #expect(longest == life)
                    let shortest = policy.jittered(life, from: now) { $0.upperBound }
                    let least = max(1, ttl - Int64(Double(ttl) * part))
                    #expect(shortest.expires.millisecondsSince(now) == least)
                    #expect(shortest.ttl == (life.ttl == Life.unlimited ? Life.unlimited : least))
                }
            }
            #expect(policy.jittered(.forever, from: now) { $0.upperBound } == .forever)
            let longest = Life(expires: Timestamp(milliseconds: .max - 1), ttl: .max - 1)
            let cut = policy.jittered(longest, from: Timestamp(milliseconds: 0)) { $0.upperBound }
            #expect(cut.expires.milliseconds >= 1)
        }
        #expect(FetchPolicy.cacheFirst.jitter(-3).jitter == 0)
        #expect(FetchPolicy.cacheFirst.jitter(3).jitter == 1)
        #expect(FetchPolicy.cacheFirst.jitter(.nan).jitter == 0)
    }

    @Test("windows may be any life: forever, until a date, or zero")
    func windows() {
        let (expiry, now) = (Timestamp(milliseconds: 1_000), Timestamp(milliseconds: 5_000))
        func allows(_ window: TimeToLive, at now: Timestamp = now) -> Bool {
            FetchPolicy.staleIfError(for: window).allowsStale(
                .failed, expires: expiry, at: now, defaultTTL: .seconds(3))
        }
        #expect(allows(.forever) && allows(.seconds(4.001)) && !allows(.seconds(4)) && !allows(.seconds(-1)))
        #expect(allows(.until(Date(timeIntervalSince1970: 5.001))) && !allows(.until(Date(timeIntervalSince1970: 5))))
        #expect(!allows(.default) && allows(.default, at: Timestamp(milliseconds: 3_999)))
        let kept = FetchPolicy.staleIfError(for: .forever).keptStale(
            after: expiry, revalidates: false, configured: nil, defaultTTL: .default)
        var entry = RecordTests.entry
        entry.attachments = Attachments(.init(keptStale: kept))
        #expect(kept == Life.unlimited && entry.keptUntil.milliseconds == Life.unlimited)
        entry.life = Life(expires: now, ttl: 1)
        #expect(entry.keptUntil.milliseconds == Life.unlimited)
    }

    @Test("once a fetch is known to be late, no caller waits for it again", arguments: Tiers.allCases)
    func knownToBeLate(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let source = Source()
        let policy = FetchPolicy.staleIfError(for: .seconds(100)).softTimeout(.seconds(1))
        @Sendable func value(_ policy: FetchPolicy) async throws -> String {
            try await cache.value(forKey: "k", policy: policy) { try await source.fetch() }
        }
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy) { "old" }
        world.clock.advance(by: .seconds(10))
        let timers = world.clock.scheduledCount
        let first = begin { try await value(policy) }
        await until("it waits") { world.clock.scheduledCount == timers + 1 }
        world.clock.advance(by: .seconds(1))
        #expect(try await first.value == "old")
        // The clock does not advance: a waiting caller would wait forever.
        for _ in 0..<3 { #expect(try await value(policy) == "old") }
        // A caller with a longer timeout waits for the rest of it.
        let patient = begin { try await value(policy.softTimeout(.seconds(3))) }
        await until("it waits") { world.clock.scheduledCount == timers + 1 }
        world.clock.advance(by: .milliseconds(1_999))
        #expect(cache.statistics.fetches.staleAnswers == 4)
        world.clock.advance(by: .milliseconds(1))
        #expect(try await patient.value == "old")
        #expect(source.begun == 1)
        await source.answer("new")
        await cache.waitForFetches()
        #expect(try await value(policy) == "new")
    }

    @Test("a hard timeout of zero begins no fetch", arguments: Tiers.allCases)
    func noTime(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let calls = Lock(0)
        for timeout in [Duration.zero, .seconds(-1)] {
            for _ in 0..<300 {
                let caller = begin {
                    try await cache.value(forKey: "k", policy: .cacheFirst.hardTimeout(timeout)) {
                        calls.withLock { $0 += 1 }
                        return "never"
                    }
                }
                #expect((await caller.failure as? CacheError)?.code == .timedOut)
            }
        }
        #expect(calls.withLock { $0 } == 0)
        #expect(cache.backend.flights.count == 0)
        try await cache.setValue("v", forKey: "k")
        #expect(try await cache.value(forKey: "k", policy: .cacheFirst.hardTimeout(.zero)) { "never" } == "v")
    }

    @Test("a timeout takes no memory once its fetch has ended in any way", arguments: Tiers.allCases)
    func timersEnd(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let policy = FetchPolicy.staleIfError(for: .hours(1)).softTimeout(.seconds(100)).hardTimeout(.seconds(300))
        let timers = world.clock.scheduledCount
        for number in 0..<500 {
            let key = "\(number % 10)"
            try? await withThrowingTaskGroup { group in
                for _ in 0..<3 {
                    group.addTask {
                        _ = try await cache.value(forKey: key, ttl: .seconds(1), policy: policy) {
                            if number % 3 == 1 { throw SourceFailure() }
                            await Task.yield()
                            return "v"
                        }
                    }
                }
                if number % 3 == 2 { group.cancelAll() }
                try await group.waitForAll()
            }
            if number % 10 == 9 { world.clock.advance(by: .seconds(1)) }
        }
        await cache.waitForFetches()
        // The debounced save of the disk, and the sweeps of the tiers.
        await until("no timer is left") { world.clock.scheduledCount <= timers + 1 }
    }

    @Test("in an outage stale answers come from memory: nothing is read or decoded", arguments: [true, false])
    func outage(_ isThrottled: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let decodes = Lock(0)
        let coder = Coder<String> {
            Data($0.utf8)
        } decode: { data in
            decodes.withLock { $0 += 1 }
            return String(decoding: data, as: UTF8.self)
        }
        let disk = try world.open()
        let cache = Cache(disk: disk, namespace: "n", coder: coder)
        let windows = FetchPolicy.staleWhileRevalidate(for: .hours(1)).staleIfError(for: .hours(1))
        let policy = isThrottled ? windows.retryThrottle(.seconds(60)) : windows
        _ = try await cache.value(forKey: "k", ttl: .seconds(1), policy: policy) { "v" }
        world.clock.advance(by: .seconds(1))
        let before = disk.statistics.hits
        for _ in 0..<3000 {
            #expect(try await cache.value(forKey: "k", policy: policy) { throw SourceFailure() } == "v")
        }
        await cache.waitForFetches()
        #expect(decodes.withLock { $0 } == 0 && disk.statistics.hits == before)
        let statistics = cache.statistics
        #expect(statistics.fetches.staleAnswers == 3000 && statistics.memoryHits == 3000 && statistics.misses == 1)
        if isThrottled { #expect(statistics.fetches.begun == 2) }
        // A value that must be revalidated is not an answer, nor is one beyond its window or a removed one.
        world.clock.advance(by: .seconds(1))
        let strict = FetchPolicy.staleIfError(for: .seconds(1)).retryThrottle(.seconds(60))
        #expect(
            await begin { try await cache.value(forKey: "k", policy: strict) { throw SourceFailure() } }.failure
                is SourceFailure)
        try disk.namespace("n").removeValue(forKey: "k")
        #expect(
            await begin { try await cache.value(forKey: "k", policy: policy) { throw SourceFailure() } }.failure
                is SourceFailure)
        for tiers in [Tiers.both, .memoryAlone] {
            let other: Cache<String> = try tiers.cache(in: World { $0.sweepInterval = nil })
            _ = try await other.value(forKey: "k", ttl: .seconds(0.001), policy: policy) { _ in
                .value("v", mustRevalidate: true)
            }
            (other.backend.clock as? ManualClock)?.advance(by: .seconds(1))
            for _ in 0..<2 {
                #expect(
                    await begin { try await other.value(forKey: "k", policy: policy) { throw SourceFailure() } }.failure
                        is SourceFailure)
            }
        }
    }

    @Test("misses are the reads that got no answer, in each tier", arguments: Tiers.allCases)
    func misses(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let policy = FetchPolicy.staleWhileRevalidate(for: .hours(1))
        for number in 0..<50 {
            _ = try await cache.value(forKey: "\(number)", ttl: .seconds(1), policy: policy) { "v" }
        }
        var statistics = cache.statistics
        #expect(statistics.misses == 50 && statistics.memoryHits + statistics.diskHits == 0)
        if tiers != .memoryAlone { #expect(statistics.disk?.misses == 50) }
        if tiers != .diskAlone { #expect(statistics.memory?.misses == 50) }
        world.clock.advance(by: .seconds(1))
        for number in 0..<50 {
            _ = try await cache.value(forKey: "\(number)", policy: policy) { throw SourceFailure() }
        }
        await cache.waitForFetches()
        statistics = cache.statistics
        #expect(statistics.fetches.staleAnswers == 50)
        #expect(statistics.misses == 50, "a stale answer is not a miss")
        if tiers != .memoryAlone { #expect(statistics.disk?.misses == 50) }
    }
}
