import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A database with a cache in front, a writer that changes the one and removes from the other, and readers: once a
/// removal has returned, no reader gets an older value.
@Suite("A storm of fetches and removals")
struct FetchStormTests {
    /// The versions of some records, and the minimum versions that every reader must see.
    final class Database: Sendable {
        struct State {
            var versions: [String: Int] = [:]
            var least: [String: Int] = [:]
        }

        private let state = Lock(State())

        func version(_ key: String) -> Int { state.withLock { $0.versions[key] ?? 0 } }
        func least(_ key: String) -> Int { state.withLock { $0.least[key] ?? 0 } }

        func change(_ key: String) -> Int {
            state.withLock { state in
                state.versions[key, default: 0] += 1
                return state.versions[key] ?? 0
            }
        }

        /// From now on every reader must see this version or a later one.
        func publish(_ key: String, _ version: Int) {
            state.withLock { $0.least[key] = version }
        }
    }

    static let keys = ["a", "b", "c"]

    static func read(_ cache: Cache<Int>, _ key: String, _ database: Database, how: Int) async throws -> Int? {
        @Sendable func fetch() async -> Int {
            let version = database.version(key)
            // The longer a fetch takes after its read, the more can happen in between.
            for _ in 0..<version % 7 { await Task.yield() }
            return version
        }
        let policies: [FetchPolicy] = [
            .cacheFirst, .reload, .cacheFirst.eagerRefresh(atFraction: 0),
            .staleWhileRevalidate(for: .days(1)), .staleIfError(for: .days(1)),
        ]
        let policy = policies[how % policies.count]
        switch how % 4 {
        case 0: return try await cache.value(forKey: key, tags: ["all"], policy: policy) { await fetch() }
        case 1:
            return try await cache.value(forKey: key, tags: ["all"], policy: policy) { cached in
                let version = await fetch()
                return cached?.value == version ? .notModified : .value(version)
            }
        case 2:
            return try await cache.values(forKeys: [key], tags: ["all"], policy: policy) { _ in [key: await fetch()] }[
                key]
        default: return try await cache.optionalValue(forKey: key, tags: ["all"], policy: policy) { await fetch() }
        }
    }

    static func remove(_ cache: Cache<Int>, _ key: String, how: Int) async throws {
        switch how % 5 {
        case 0, 1: try await cache.removeValue(forKey: key)
        case 2: try await cache.removeAll(tagged: "all")
        case 3: try await cache.removeAll()
        default: try await cache.setTimeToLive(.seconds(0), forKey: key)
        }
    }

    @Test("once a removal has returned, no reader gets an older value", arguments: Tiers.allCases)
    func removed(_ tiers: Tiers) async throws {
        let cache: Cache<Int> = try tiers.cache(in: World { $0.sweepInterval = nil })
        try await remove(from: cache, besides: cache, tiers)
    }

    @Test("the same for removals by another process", arguments: [Tiers.both, .diskAlone])
    func removedElsewhere(_ tiers: Tiers) async throws {
        let world = World.shared { $0.sweepInterval = nil }
        let remover: Cache<Int> = try tiers.cache(in: world.anotherProcess())
        try await remove(from: remover, besides: tiers.cache(in: world), tiers)
    }

    /// Readers use `cache`, while values are removed from `remover`.
    private func remove(from remover: Cache<Int>, besides cache: Cache<Int>, _ tiers: Tiers) async throws {
        let database = Database()
        let (changes, readers) = (Sample.size(3_000, usually: 600), 4)
        let isOver = Lock(false)
        let reads = try await withThrowingTaskGroup { group in
            group.addTask {
                for number in 0..<changes {
                    let key = Self.keys[number % 3]
                    let version = database.change(key)
                    try await Self.remove(remover, key, how: number / 3)
                    database.publish(key, version)
                    await Task.yield()
                }
                isOver.withLock { $0 = true }
                return 0
            }
            for reader in 0..<readers {
                group.addTask {
                    var reads = 0
                    while !isOver.withLock({ $0 }) {
                        let key = Self.keys[reads % 3]
                        let least = database.least(key)
                        let found = try await Self.read(cache, key, database, how: reads / 3 + reader)
                        #expect(found ?? -1 >= least, "\(key), read \(reads) of reader \(reader)")
                        reads += 1
                    }
                    return reads
                }
            }
            return try await group.reduce(0, +)
        }
        await until("nothing is under way") { cache.backend.flights.count == 0 }
        for key in Self.keys {
            let last = try await cache.value(forKey: key) { database.version(key) }
            #expect(last == database.version(key))
        }
        cache.disk?.checkInvariants()
        print("fetch storm, \(tiers): \(changes) changes, \(reads) reads, \(cache.statistics.fetches)")
    }

    @Test("a set value stays, whatever fetches are running", arguments: Tiers.allCases)
    func set(_ tiers: Tiers) async throws {
        let cache: Cache<Int> = try tiers.cache(in: World { $0.sweepInterval = nil })
        let isOver = Lock(false)
        try await withThrowingTaskGroup { group in
            group.addTask {
                for number in 1...1_000 {
                    try await cache.setValue(number, forKey: "k")
                    // The fetches confirm the value that they were given, so no other value can be there.
                    let found = await cache.value(forKey: "k")
                    #expect(found == number)
                }
                isOver.withLock { $0 = true }
            }
            for reader in 0..<3 {
                group.addTask {
                    while !isOver.withLock({ $0 }) {
                        _ = try await cache.value(forKey: "k", policy: .reload) { cached in
                            for _ in 0..<reader { await Task.yield() }
                            return cached == nil ? .value(0, ttl: .seconds(0)) : .notModified
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
