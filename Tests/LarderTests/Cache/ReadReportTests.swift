import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Reads and fetches are reported once", .ownCaches, .timeLimit(.minutes(10)))
struct ReadReportTests {
    @Test("a stale value that a read allows is an event, and not a miss", arguments: Tiers.allCases)
    func staleReadEvent(_ tiers: Tiers) async throws {
        let (world, log) = (World { $0.sweepInterval = nil }, EventLog())
        let cache: Cache<String> = try tiers.cache(in: world, .init(reportsReads: true, onEvent: log.note))
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10), keepStale: .hours(1))
        world.clock.advance(by: .seconds(20))
        #expect(await cache.value(forKey: "k", allowingStale: true) == "v")
        _ = cache.settling()
        let kinds: [CacheEvent.Kind] = log.all.map(\.kind)
        let reads: [CacheEvent.Kind] = kinds.filter { $0 == .missed || $0 == .answeredStale }
        #expect(reads == [CacheEvent.Kind.answeredStale])
        #expect(cache.statistics.misses == 0, "'not even with a stale value'")
    }

    @Test("a call that is answered with a known absence is an event", arguments: Tiers.allCases)
    func absenceEvent(_ tiers: Tiers) async throws {
        let (world, log) = (World { $0.sweepInterval = nil }, EventLog())
        let cache: Cache<String> = try tiers.cache(in: world, .init(reportsReads: true, onEvent: log.note))
        #expect(try await cache.optionalValue(forKey: "k") { nil } == nil)
        _ = cache.settling()
        let before = log.all.count
        #expect(try await cache.optionalValue(forKey: "k") { "not asked" } == nil)
        _ = cache.settling()
        #expect(log.all.count > before)
    }

    @Test("a fetched value is reported before its caller goes on", arguments: Tiers.allCases)
    func orderOfEvents(_ tiers: Tiers) async throws {
        let (world, log) = (World { $0.sweepInterval = nil }, EventLog())
        let cache: Cache<String> = try tiers.cache(in: world, .init(reportsReads: true, onEvent: log.note))
        for number in 0..<200 {
            _ = try await cache.value(forKey: "\(number)") { "v" }
            _ = await cache.value(forKey: "\(number)")
        }
        _ = cache.settling()
        let kinds = log.all.map(\.kind).filter { [.missed, .fetched, .hit].contains($0) }
        #expect(kinds == (0..<200).flatMap { _ in [CacheEvent.Kind.missed, .fetched, .hit] })
    }

    @Test("a value whose fetch times out while it is stored is not reported", arguments: [Tiers.both, .diskAlone])
    func lateValue(_ tiers: Tiers) async throws {
        let (world, log) = (World { $0.sweepInterval = nil }, EventLog())
        let cache: Cache<String> = try tiers.cache(in: world, .init(reportsReads: true, onEvent: log.note))
        let (hold, isHeld) = (MemoryFileSystem.Hold(), Flag())
        world.files.inject { _, operation in
            guard operation == .write, !isHeld.isSet else { return nil }
            isHeld.set()
            return .hold(hold)
        }
        weak var fetch: Probe?
        do {
            let probe = Probe {}
            fetch = probe
            let caller = begin {
                try await cache.value(forKey: "k", policy: .cacheFirst.hardTimeout(.seconds(5))) {
                    withExtendedLifetime(probe) { "v" }
                }
            }
            await until("the value is being stored") { isHeld.isSet }
            world.clock.advance(by: .seconds(5))
            #expect((await caller.failure as? CacheError)?.code == .timedOut)
        }
        hold.free.signal()
        await until("the fetch has ended") { fetch == nil }
        _ = cache.settling()
        #expect(log.all.allSatisfy { $0.kind != .fetched })
    }

    @Test("a cache that falls back to memory renews lives as the directory would")
    func fallbackSliding() async throws {
        let clock = ManualClock()
        var settings = Cache<Int>.Configuration(defaultTTL: .seconds(100), fallsBackToMemory: true)
        settings.disk.slidingExpiry = true
        let cache = try Cache<Int>(coder: .json, configuration: settings, clock: clock) { () throws(CacheError) in
            throw CacheError(code: .io, message: "It is so.")
        }
        try await cache.setValue(1, forKey: "k")
        clock.advance(by: .seconds(60))
        #expect(await cache.value(forKey: "k") == 1)
        clock.advance(by: .seconds(60))
        #expect(await cache.value(forKey: "k") == 1)
    }

    @Test("a failure of another type's source throttles nobody else")
    func failureOfOtherType() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let (texts, numbers) = (Cache<String>(disk: disk, namespace: "n"), Cache<Int>(disk: disk, namespace: "n"))
        try await texts.setValue("v", forKey: "k", ttl: .seconds(10), keepStale: .hours(1))
        world.clock.advance(by: .seconds(20))
        let policy = FetchPolicy.staleIfError(for: .hours(1)).retryThrottle(.seconds(60))
        _ = try? await numbers.value(forKey: "k", policy: policy) { throw SourceFailure() }
        #expect(try await texts.value(forKey: "k", policy: policy) { "new" } == "new")
    }

    @Test("a value is not released under the lock of the flights")
    func withdrawnOutcome() async throws {
        let flights = Flights()
        let wasLocked = Lock(false)
        let flight = Flight(of: ObjectIdentifier(Int.self), to: ["k"], at: .now, tags: [], outlivesCallers: true)
        let joining = flights.join(["k"], of: ObjectIdentifier(Int.self)) { _ in flight }
        let waiters = try #require(joining?.waiters)
        func finish() {
            let probe = Probe {
                // On a thread of its own: the pool may be busy.
                let done = DispatchSemaphore(value: 0)
                Thread.detachNewThread {
                    _ = flights.count
                    done.signal()
                }
                if done.wait(timeout: .hang) == .timedOut { wasLocked.withLock { $0 = true } }
            }
            _ = flight.finish([.found(probe)])
        }
        finish()
        _ = flights.withdraw(waiters[0], [])
        #expect(!wasLocked.withLock { $0 })
    }
}
