import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Callers that join a fetch at an odd moment", .timeLimit(.minutes(10)))
struct FetchEdgeTests {
    @Test("a cache-only policy fetches nothing, with or without early refresh", arguments: Tiers.allCases)
    func cacheOnly(_ tiers: Tiers) async throws {
        let world = World()
        let cache: Cache<String> = try tiers.cache(in: world)
        try await cache.setValue("v", forKey: "k", ttl: .hours(1))
        world.clock.advance(by: .seconds(1800))
        let fetched = Lock(0)
        _ = try await cache.value(forKey: "k", policy: .cacheOnly.eagerRefresh(atFraction: 0.1)) {
            fetched.withLock { $0 += 1 }
            return "w"
        }
        await cache.waitForFetches()
        #expect(fetched.withLock { $0 } == 0)
    }

    @Test("a caller that joins a batch gets no value that expired before its call")
    func expiredFromFlight() async throws {
        let (world, decodes) = (World { $0.sweepInterval = nil }, JoinedReadTests.Decodes())
        let cache = Cache<String>(disk: try world.open(), namespace: "n", coder: decodes.coder)
        try world.open().namespace("n").setString("c", forKey: "c")
        decodes.hold()
        let gate = HandDrivenSource<String>()
        let batch = begin {
            try await cache.values(forKeys: ["a", "b", "c"]) { keys in
                let value = try await gate.fetch()
                return Dictionary(uniqueKeysWithValues: keys.map { ($0, value) })
            }
        }
        await until("decode") { decodes.count == 1 }
        try await cache.setValue("old", forKey: "a", ttl: .seconds(10))
        decodes.letGo()
        await until("fetch") { gate.begun == 1 }
        world.clock.advance(by: .seconds(3600))
        #expect(await cache.value(forKey: "a") == nil)
        let late = begin { try await cache.lookup(forKey: "a") { "new" } }
        await until("joined") { cache.statistics.fetches.coalesced == 1 || cache.statistics.fetches.begun == 2 }
        await gate.answer("b")
        _ = try await batch.value
        let found = try await late.value
        #expect(found.value == "new")
    }

    @Test("a caller that joins a batch gets no value that was removed before its call")
    func removedFromFlight() async throws {
        let (world, decodes) = (
            World {
                $0.sweepInterval = nil; $0.sizeLimit = 100
            }, JoinedReadTests.Decodes()
        )
        let cache = Cache<String>(disk: try world.open(), namespace: "n", coder: decodes.coder)
        try world.open().namespace("n").setString("c", forKey: "c")
        decodes.hold()
        let gate = HandDrivenSource<String>()
        let batch = begin {
            try await cache.values(forKeys: ["a", "b", "c"]) { keys in
                let value = try await gate.fetch()
                return Dictionary(uniqueKeysWithValues: keys.map { ($0, value) })
            }
        }
        await until("decode") { decodes.count == 1 }
        let large = String(repeating: "v", count: 101)
        #expect(try await cache.value(forKey: "a", tags: ["t"]) { large } == large)
        decodes.letGo()
        await until("fetch") { gate.begun == 1 }
        try await cache.removeAll(tagged: "t")
        #expect(await cache.value(forKey: "a") == nil)
        let late = begin { try await cache.lookup(forKey: "a") { "new" } }
        await until("joined") { cache.statistics.fetches.coalesced == 1 || cache.statistics.fetches.begun == 3 }
        await gate.answer("b")
        _ = try await batch.value
        let found = try await late.value
        #expect(found.value == "new")
    }

    @Test("without a disk, a fetch that began before a tag was cleared leaves nothing")
    func tagRaceExact() async throws {
        var configuration = MemoryCache<String, Int>.Configuration()
        configuration.sweepInterval = nil
        let cache = Cache<Int>(memoryOnly: configuration)
        for n in 0..<50_000 { try await cache.setValue(n, forKey: "o\(n)", tags: ["other"]) }
        var stale = 0
        for _ in 0..<20 {
            let gate = HandDrivenSource<Int>()
            let call = begin { try await cache.value(forKey: "k", tags: ["t"]) { try await gate.fetch() } }
            await until("begun") { gate.begun == 1 }
            let isIn = Lock(false)
            // Answers only once the clear has been called.
            let clear = Task.detached {
                isIn.withLock { $0 = true }
                try await cache.removeAll(tagged: "t")
            }
            await until("called") { isIn.withLock { $0 } }
            await gate.answer(1)
            _ = try await clear.value
            _ = try await call.value
            if await cache.value(forKey: "k") != nil { stale += 1 }
            try await cache.removeValue(forKey: "k")
        }
        #expect(stale == 0)
    }

    @Test("a fetch that waits for all fetches does not affect others")
    func waitInFetch() async throws {
        let cache: Cache<String> = try Tiers.memoryAlone.cache(in: World())
        let gate = HandDrivenSource<Void>()
        let second = begin {
            try await cache.value(forKey: "b") {
                try await gate.fetch()
                return try await cache.value(forKey: "a") { "never" }
            }
        }
        await until("b") { gate.begun == 1 }
        let first = begin {
            try await cache.value(forKey: "a") {
                await cache.waitForFetches()
                return "A"
            }
        }
        #expect(await first.failure == nil, "it returns at once")
        await gate.answer(())
        #expect(await second.failure == nil)
    }

    @Test("no cycle goes through a fetch that has returned")
    func afterFetch() async throws {
        let gate = DispatchSemaphore(value: 0)
        let isFirst = Lock(true)
        let coder = Coder<String> { value in
            if isFirst.withLock({ isFirst in
                defer { isFirst = false }; return isFirst
            }) {
                gate.wait()
            }
            return Data(value.utf8)
        } decode: {
            String(decoding: $0, as: UTF8.self)
        }
        let cache = Cache<String>(disk: try World().open(), namespace: "n", coder: coder)
        let source = HandDrivenSource<Void>()
        let a = begin {
            try await cache.value(forKey: "a") {
                Task {
                    try await cache.value(forKey: "b") {
                        try await source.fetch()
                        return try await cache.value(forKey: "a") { "never" }
                    }
                }
                await until("b") { source.begun == 1 }
                return "A"
            }
        }
        await until("it is stored") { cache.backend.flights.all.contains { !$0.mayWait } }
        let b = begin { try await cache.value(forKey: "b") { "never" } }
        await until("joined") { cache.statistics.fetches.coalesced == 1 }
        await source.answer(())
        await until("b asks for a") { cache.statistics.fetches.coalesced == 2 }
        gate.signal()
        _ = try await a.value
        #expect(await b.failure == nil)
    }

    @Test("a refused call leaves nothing behind")
    func refused() async throws {
        let world = World()
        let cache: Cache<String> = try Tiers.both.cache(in: world)
        let sizes = Lock<[Int]>([])
        _ = try await cache.value(forKey: "k", tags: ["mine"]) {
            for n in 0..<1000 {
                _ = try? await cache.value(forKey: "k", tags: ["t\(n % 3)"]) { "never" }
            }
            sizes.withLock { $0.append(Flight.current?.callerCount ?? 0) }
            return "v"
        }
        #expect(sizes.withLock { $0[0] } == 1)
        #expect(await cache.entry(forKey: "k")?.tags == ["mine"])
    }

    @Test("a caller that shares a read gets the life that was set meanwhile")
    func slidingLife() async throws {
        let world = World {
            $0.sweepInterval = nil; $0.slidingExpiry = true
        }
        let decodes = JoinedReadTests.Decodes()
        let cache = Cache<String>(disk: try world.open(), namespace: "n", coder: decodes.coder)
        let bare = try world.open().namespace("n")
        try bare.setString("v", forKey: "k", ttl: .hours(10))
        decodes.hold()
        let first = begin { await cache.lookup(forKey: "k") }
        await until("decode") { decodes.count == 1 }
        try await cache.setTimeToLive(.seconds(10), forKey: "k")
        let second = begin { await cache.lookup(forKey: "k") }
        let name = (cache.backend as! TieredBackend<String>)
        await until("joined") { name.reads.callers(.init(key: name.key("k"), orStale: false)) == 2 }
        decodes.letGo(2)
        _ = try await first.value
        let found = try await second.value
        #expect(found?.expiresAt == bare.entry(forKey: "k")?.expiresAt)
    }

    @Test("a caller without a timeout is not affected by one that timed out before its fetch ran")
    func zeroTimeout() async throws {
        let cache: Cache<Int> = try Tiers.memoryAlone.cache(in: World())
        let failures = Lock((hurried: 0, others: 0))
        await withTaskGroup { group in
            for number in 0..<2_000 {
                let isHurried = number.isMultiple(of: 2)
                let policy = isHurried ? FetchPolicy.reload.hardTimeout(.zero) : .reload
                group.addTask {
                    let value = try? await cache.value(forKey: "k", policy: policy) { number }
                    guard value == nil else { return }
                    failures.withLock { if isHurried { $0.hurried += 1 } else { $0.others += 1 } }
                }
            }
        }
        #expect(failures.withLock { $0 } == (1_000, 0))
    }

    @Test("a stored value is not a failure, though the rest of its batch is late")
    func batchTimeout() async throws {
        let gate = DispatchSemaphore(value: 0)
        let coder = Coder<String> { value in
            if value == "b" { gate.wait() }
            return Data(value.utf8)
        } decode: {
            String(decoding: $0, as: UTF8.self)
        }
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n", coder: coder)
        let source = HandDrivenSource<Void>()
        let batch = begin {
            try await cache.values(forKeys: ["a", "b"], policy: .cacheFirst.hardTimeout(.seconds(10))) {
                keys in
                try await source.fetch()
                return Dictionary(uniqueKeysWithValues: keys.map { ($0, $0) })
            }
        }
        await until("begun") { source.begun == 1 }
        let single = begin { try await cache.value(forKey: "a") { "never" } }
        await until("joined") { cache.statistics.fetches.coalesced == 1 }
        await source.answer(())
        #expect(try await single.value == "a")
        world.clock.advance(by: .seconds(11))
        gate.signal()
        #expect((await batch.failure as? CacheError)?.code == .timedOut, "b was late")
    }
}
