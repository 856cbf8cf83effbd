import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Negative entries: absence is cached too")
struct AbsentTests {
    @Test("a known absence is not fetched again during its life", arguments: Tiers.allCases)
    func remembered(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let calls = Lock(0)
        let answer = Lock<String?>(nil)
        @Sendable func value(_ policy: FetchPolicy = .cacheFirst) async throws -> String? {
            try await cache.optionalValue(forKey: "k", ttl: .seconds(100), absentTTL: .seconds(10), policy: policy) {
                calls.withLock { $0 += 1 }
                return answer.withLock { $0 }
            }
        }
        for _ in 0..<3 { #expect(try await value() == nil) }
        #expect(calls.withLock { $0 } == 1)
        // It is a miss for a plain read.
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.lookup(forKey: "k") == nil)
        #expect(await !cache.hasValue(forKey: "k"))
        #expect(await cache.entry(forKey: "k") == nil)
        #expect(await cache.keys() == [])
        #expect(try await value(.cacheOnly) == nil)
        #expect(await code { try await cache.value(forKey: "k", policy: .cacheOnly) { "not fetched" } } == .notFound)
        #expect(try await !cache.setTimeToLive(.days(1), forKey: "k"))
        #expect(try await !cache.removeValue(forKey: "other"))
        world.clock.advance(by: .milliseconds(9_999))
        #expect(try await value() == nil)
        #expect(calls.withLock { $0 } == 1)
        world.clock.advance(by: .milliseconds(1))
        answer.withLock { $0 = "there" }
        #expect(try await value() == "there")
        #expect(try await value() == "there")
        #expect(calls.withLock { $0 } == 2)
        // The value becomes absent again.
        answer.withLock { $0 = nil }
        #expect(try await value(.reload) == nil)
        #expect(await cache.value(forKey: "k") == nil)
        #expect(try await value() == nil)
        #expect(calls.withLock { $0 } == 3)
        // A later set or removal counts.
        try await cache.setValue("mine", forKey: "k")
        #expect(try await value() == "mine")
        #expect(try await value(.reload) == nil)
        #expect(try await !cache.removeValue(forKey: "k"), "there was no value")
        answer.withLock { $0 = "fetched" }
        #expect(try await value() == "fetched")
        #expect(calls.withLock { $0 } == 5)
        #expect(try await value(.reload) == "fetched")
        answer.withLock { $0 = nil }
        #expect(try await value(.reload) == nil)
        try await cache.removeAll()
        answer.withLock { $0 = "again" }
        #expect(try await value() == "again")
    }

    @Test("a zero life does not cache it; revalidation may report it too", arguments: Tiers.allCases)
    func forgotten(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let calls = Lock(0)
        for _ in 0..<2 {
            let value = try await cache.optionalValue(forKey: "k", absentTTL: .seconds(0)) {
                calls.withLock { $0 += 1 }
                return nil
            }
            #expect(value == nil)
        }
        #expect(calls.withLock { $0 } == 2)
        for _ in 0..<2 {
            let code = await code {
                try await cache.value(forKey: "k") { cached in
                    calls.withLock { $0 += 1 }
                    return .absent(ttl: .days(1))
                }
            }
            #expect(code == .notFound)
        }
        #expect(calls.withLock { $0 } == 3)
    }

    @Test("a fetched value that is not stored ends it", arguments: Tiers.allCases)
    func ended(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        #expect(try await cache.optionalValue(forKey: "k", absentTTL: .hours(1)) { nil } == nil)
        #expect(try await cache.value(forKey: "k", ttl: .seconds(0), policy: .reload) { "v" } == "v")
        #expect(try await cache.optionalValue(forKey: "k") { "w" } == "w")
    }

    @Test("it survives restarts and the loss of the index, expires there too, and obeys limits")
    func onDisk() async throws {
        var world = World {
            $0.sweepInterval = nil
            $0.eviction = .leastRecentlyUsed
            $0.countLimit = 20
        }
        var disk = try world.open()
        _ = try await Cache<String>(disk: disk, namespace: "n").optionalValue(forKey: "k", absentTTL: .seconds(100)) {
            nil
        }
        for lost in ["nothing", "manifest", "journal"] {
            try disk.flush()
            world.restart()
            for name in world.names where name.hasPrefix(lost) { world.remove(name) }
            disk = try world.open()
            disk.settle()
            let known = try await Cache<String>(disk: disk, namespace: "n").optionalValue(forKey: "k") { "fetched" }
            #expect(known == nil, "without \(lost)")
            #expect(disk.namespace("n").data(forKey: "k") == nil)
            #expect(disk.namespace("n").count == 1 && disk.namespace("n").payloadSize == 0)
            disk.checkInvariants()
        }
        #expect(disk.statistics.stores == 0, "it is not a value")
        for number in 0..<30 { try disk.namespace("n").setString("v", forKey: "\(number)") }
        disk.settle()
        let asked = Lock(0)
        let evicted = try await Cache<String>(disk: disk, namespace: "n").optionalValue(
            forKey: "k", absentTTL: .seconds(50)
        ) {
            asked.withLock { $0 += 1 }
            return nil
        }
        #expect(evicted == nil && asked.withLock { $0 } == 1, "the least recently used entry is evicted, of any kind")
        world.clock.advance(by: .seconds(100))
        let later = try await Cache<String>(disk: disk, namespace: "n").optionalValue(forKey: "k") { "fetched" }
        #expect(later == "fetched")
    }

    @Test("a reload asks the source even if the flight that it joins finds a known absence", arguments: Tiers.allCases)
    func reloadJoining(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World { $0.sweepInterval = nil })
        #expect(try await cache.optionalValue(forKey: "k") { nil } == nil)
        // Another call missed before the absence was stored, and its flight is about to check again.
        let options = FetchOptions(ttl: .default, tags: [], policy: .cacheFirst)
        let key = cache.backend.key("k")
        let type = ObjectIdentifier(String.self)
        let joining = cache.backend.flights.join([key], of: type) {
            Flight(of: type, to: $0, at: cache.backend.clock.now, tags: [], outlivesCallers: false)
        }
        let flight = try #require(joining?.new)
        let reload = begin { try await cache.optionalValue(forKey: "k", policy: .reload) { "there by now" } }
        let reloads = begin { try await cache.values(forKeys: ["k"], policy: .reload) { _ in ["k": "there by now"] } }
        await until("they have joined") { cache.statistics.fetches.coalesced == 2 }
        cache.fetcher.begin(flight, FetchRequest(key, options) { _ in .absent() })
        #expect(try await reload.value == "there by now")
        #expect(try await reloads.value == ["k": "there by now"])
    }

    @Test("a cache-only call throws notFound for an unknown key")
    func cacheOnly() async throws {
        let cache: Cache<String> = try Tiers.both.cache(in: World())
        let unknown = await code { try await cache.optionalValue(forKey: "k", policy: .cacheOnly) { "not fetched" } }
        #expect(unknown == .notFound)
    }

    @Test(
        "a call that needs a value runs its own fetch after another found it absent", arguments: Tiers.allCases
    )
    func shared(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let source = HandDrivenSource<String?>()
        let optional = begin { try await cache.optionalValue(forKey: "k") { try await source.fetch() } }
        await until("it is asked") { source.begun == 1 }
        let strict = begin { try await cache.value(forKey: "k") { "fetched" } }
        await until("it has joined") { cache.statistics.fetches.coalesced == 1 }
        await source.answer(nil)
        #expect(try await optional.value == nil)
        #expect(try await strict.value == "fetched")
        #expect(try await cache.optionalValue(forKey: "k") { nil } == "fetched")
        // The same for an absence known for a long time.
        #expect(try await cache.optionalValue(forKey: "k", policy: .reload) { nil } == nil)
        #expect(try await cache.values(forKeys: ["k"]) { _ in ["k": "not fetched"] } == [:])
        #expect(try await cache.value(forKey: "k") { "there" } == "there")
    }
}
