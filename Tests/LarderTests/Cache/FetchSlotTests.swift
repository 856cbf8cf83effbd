import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Fetches that nobody waits for need a slot", .timeLimit(.minutes(10)))
struct FetchSlotTests {
    @Test("refreshes in the background that a fetch sets off take slots", arguments: Tiers.allCases)
    func backgroundWithinFetch(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world, .init(maximumConcurrentFetches: 1))
        for number in 0..<5 {
            try await cache.setValue("old", forKey: "\(number)", ttl: .seconds(10), keepStale: .hours(1))
        }
        world.clock.advance(by: .seconds(20))
        let (outer, inner) = (HandDrivenSource<String>(), HandDrivenSource<String>())
        let call = begin {
            try await cache.value(forKey: "outer") {
                for number in 0..<5 {
                    _ = try await cache.value(forKey: "\(number)", policy: .staleWhileRevalidate(for: .hours(1))) {
                        try await inner.fetch()
                    }
                }
                return try await outer.fetch()
            }
        }
        await until("the others run or wait") { inner.begun == 5 || cache.fetcher.limiter?.waitingCount == 5 }
        #expect(inner.begun == 0, "one fetch at a time, and nobody waits for these")
        await outer.answer("v")
        _ = try await call.value
        for _ in 0..<5 { await inner.answer("new") }
        await cache.waitForFetches()
    }

    @Test("fetches ahead that a fetch sets off take slots")
    func prefetchWithinFetch() async throws {
        let cache = Cache<String>(memoryOnly: .init(), configuration: .init(maximumConcurrentFetches: 2))
        let (outer, inner) = (HandDrivenSource<String>(), HandDrivenSource<String>())
        let call = begin {
            try await cache.value(forKey: "outer") {
                cache.prefetch(["1", "2", "3"]) { _ in try await inner.fetch() }
                return try await outer.fetch()
            }
        }
        await until("they run or wait") { inner.begun + (cache.fetcher.limiter?.waitingCount ?? 0) >= 2 }
        #expect(inner.begun == 1, "two at a time, with the outer one")
        await outer.answer("v")
        _ = try await call.value
        for _ in 0..<3 { await inner.answer("new") }
        await cache.waitForFetches()
    }

    @Test("a fetch that has never run was not begun", arguments: Tiers.allCases)
    func begunNeverRun(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World(), .init(maximumConcurrentFetches: 1))
        let source = HandDrivenSource<String>()
        let first = begin { try await cache.value(forKey: "first") { try await source.fetch() } }
        await until("it has the slot") { source.begun == 1 }
        for number in 0..<5 {
            let call = begin { try await cache.value(forKey: "\(number)") { "never" } }
            await until("it waits") { cache.fetcher.limiter?.waitingCount == 1 }
            call.cancel()
            _ = await call.failure
            await until("it has left") { cache.fetcher.limiter?.waitingCount == 0 }
        }
        #expect(cache.statistics.fetches.begun == 1)
        await source.answer("v")
        _ = try await first.value
    }
}
