import Dispatch
import Foundation
import Larder

/// The front door compared with the tiers.
extension Scenario {
    private static let batch = 1_000

    static var front: [Scenario] {
        [
            Scenario(
                name: "async memory hit", unit: .ns, floor: "the memory tier's get", target: .above(100)
            ) { folder in
                let (cache, keys) = try await filled(folder)
                guard let memory = cache.memory else { throw BenchFailure("there is no memory tier") }
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for _ in 0..<100 {
                            await timing(&samples.own, batch: batch) {
                                for key in keys { expect(await cache.value(forKey: key)) }
                            }
                            timing(&samples.floor, batch: batch) {
                                for key in keys { expect(memory.value(forKey: key)) }
                            }
                        }
                        return samples
                    }, close: { try await cache.close() })
            },
            Scenario(name: "fetch-through hit", unit: .ns, floor: "the plain async read", target: .above(100)) {
                folder in
                let (cache, keys) = try await filled(folder)
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for _ in 0..<100 {
                            try await timing(&samples.own, batch: batch) {
                                for key in keys {
                                    _ = try await cache.value(forKey: key) {
                                        throw BenchFailure("\(key) is missing")
                                    }
                                }
                            }
                            await timing(&samples.floor, batch: batch) {
                                for key in keys { expect(await cache.value(forKey: key)) }
                            }
                        }
                        return samples
                    }, close: { try await cache.close() })
            },
            Scenario(
                name: "stale hit in an outage", unit: .ns, floor: "a fresh fetch-through hit", target: .ratio(2)
            ) { folder in
                let (cache, keys) = try await filled(folder)
                let stale = try await expired(in: cache, failing: true)
                return staleRun(cache, stale, keys, .staleIfError(for: .days(1)).retryThrottle(.seconds(3_600)))
            },
            Scenario(
                name: "stale hit while fetching", unit: .ns, floor: "a fresh fetch-through hit", target: .ratio(2)
            ) { folder in
                let (cache, keys) = try await filled(folder)
                let stale = try await expired(in: cache, failing: false)
                return staleRun(cache, stale, keys, .staleWhileRevalidate(for: .days(1)))
            },
            Scenario(
                name: "async disk hit", size: 1 << 10, unit: .us,
                floor: "the disk tier's get, one hop to a serial dispatch queue and back", target: .ratio(1.25),
                hasWakes: true
            ) { folder in
                let (cache, keys) = try await filled(folder, memory: false)
                guard let disk = cache.disk else { throw BenchFailure("there is no disk tier") }
                // A concurrent queue would take its threads from the pool that runs tasks.
                let queue = DispatchQueue(label: "floor", qos: .userInitiated)
                return Run(
                    round: { round in
                        @Sendable func own(_ key: String) async { expect(await cache.value(forKey: key)) }
                        @Sendable func floor(_ key: String) async {
                            await withCheckedContinuation { continuation in
                                queue.async {
                                    expect(disk.data(forKey: key))
                                    continuation.resume()
                                }
                            }
                        }
                        var samples = (own: Samples(), floor: Samples())
                        for part in 0..<10 {
                            let keys = keys[part * 100..<(part + 1) * 100]
                            // The second side finds other threads awake, so each side is second half of the time, and
                            // warms up first.
                            for isOwn in (part + round).isMultiple(of: 2) ? [true, false] : [false, true] {
                                for key in keys.prefix(20) { isOwn ? await own(key) : await floor(key) }
                                for key in keys {
                                    if isOwn {
                                        await timing(&samples.own) { await own(key) }
                                    } else {
                                        await timing(&samples.floor) { await floor(key) }
                                    }
                                }
                            }
                        }
                        return samples
                    }, close: { try await cache.close() })
            },
        ]
    }

    /// Expired values that are kept: their fetches have failed, or never end.
    private static func expired(in cache: Cache<Data>, failing: Bool) async throws -> [String] {
        let keys = (0..<batch).map { "stale " + Content.key($0) }
        let kept = FetchPolicy.cacheFirst.keepStale(for: .days(1))
        for key in keys {
            _ = try await cache.value(forKey: key, ttl: TimeToLive(.milliseconds(1)), policy: kept) {
                Data(count: 1 << 10)
            }
        }
        try await Task.sleep(for: .milliseconds(10))
        for key in keys {
            if failing {
                let policy = FetchPolicy.staleIfError(for: .days(1)).retryThrottle(.seconds(3_600))
                _ = try await cache.value(forKey: key, policy: policy) { throw BenchFailure("an outage") }
            } else {
                _ = try await cache.value(forKey: key, policy: .staleWhileRevalidate(for: .days(1))) {
                    try await Task.sleep(for: .seconds(3_600))
                    throw BenchFailure("never")
                }
            }
        }
        return keys
    }

    private static func staleRun(
        _ cache: Cache<Data>, _ stale: [String], _ fresh: [String], _ policy: FetchPolicy
    ) -> Run {
        Run(
            round: { _ in
                var samples = (own: Samples(), floor: Samples())
                for _ in 0..<100 {
                    try await timing(&samples.own, batch: batch) {
                        for key in stale {
                            _ = try await cache.value(forKey: key, policy: policy) { throw BenchFailure("fetched") }
                        }
                    }
                    try await timing(&samples.floor, batch: batch) {
                        for key in fresh {
                            _ = try await cache.value(forKey: key, policy: policy) { throw BenchFailure("fetched") }
                        }
                    }
                }
                return samples
            }, close: { try await cache.close(waitingForFetches: .zero) })
    }

    private static func expect(_ value: Data?) {
        precondition(value != nil, "a stored value is missing")
    }

    private static func filled(_ folder: Folder, memory: Bool = true) async throws -> (Cache<Data>, [String]) {
        var configuration = Cache<Data>.Configuration()
        if !memory { configuration.memory = nil }
        let cache = try Cache<Data>(directory: folder.own, configuration: configuration)
        let keys = (0..<batch).map(Content.key)
        for key in keys { try await cache.setValue(Data(count: 1 << 10), forKey: key) }
        return (cache, keys)
    }
}
