import Foundation
import Larder
import LarderFiles

/// The memory tier beside a dictionary under a lock, and the front door beside the tiers.
extension Scenario {
    private static let entries = 100_000
    private static let batch = 1_000

    private static var keys: [String] {
        (0..<entries).map { "https://example.org/a/path/to/item/\(100_000 + $0)" }.shuffled()
    }

    static var memory: [Scenario] {
        [
            comparison("memory get", .ratio(1.3)) { cache, key, _ in
                precondition(cache.value(forKey: key) != nil)
            } floor: { dictionary, key, _ in
                precondition(dictionary.withLock { $0[key] } != nil)
            },
            comparison("memory set", .ratio(1.3)) { cache, key, value in
                cache.setValue(value, forKey: key)
            } floor: { dictionary, key, value in
                let old = dictionary.withLock { dictionary in
                    let old = dictionary[key]
                    dictionary[key] = value
                    return old
                }
                _ = consume old
            },
        ]
    }

    private static func comparison(
        _ name: String, _ target: Target,
        own: @escaping @Sendable (MemoryCache<String, Data>, String, Data) -> Void,
        floor: @escaping @Sendable (Lock<[String: Data]>, String, Data) -> Void
    ) -> Scenario {
        Scenario(name: name, unit: .ns, floor: "a dictionary under a lock", target: target) { _ in
            let (keys, value) = (keys, Data(count: 1_000))
            let cache = MemoryCache<String, Data>()
            let dictionary = Lock<[String: Data]>([:])
            for key in keys {
                cache.setValue(value, forKey: key)
                dictionary.withLock { $0[key] = value }
            }
            return Run { _ in
                var samples = (own: Samples(), floor: Samples())
                for start in stride(from: 0, to: keys.count, by: batch) {
                    let part = keys[start..<start + batch]
                    timing(&samples.own, batch: batch) { for key in part { own(cache, key, value) } }
                    // Other keys: those would be in the processor's cache by now.
                    let other = (start + keys.count / 2) % keys.count
                    let otherPart = keys[other..<other + batch]
                    timing(&samples.floor, batch: batch) { for key in otherPart { floor(dictionary, key, value) } }
                }
                return samples
            }
        }
    }

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
            Scenario(
                name: "fetch-through hit", unit: .ns, floor: "the plain async read", target: .none
            ) { folder in
                let (cache, keys) = try await filled(folder)
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for _ in 0..<100 {
                            try await timing(&samples.own, batch: batch) {
                                for key in keys {
                                    _ = try await cache.value(forKey: key) {
                                        throw BenchFailure("\(key) was not there")
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
                name: "async disk hit", size: 1 << 10, unit: .us, floor: "the disk tier's get", target: .none
            ) { folder in
                let (cache, keys) = try await filled(folder, memory: false)
                guard let disk = cache.disk else { throw BenchFailure("there is no disk tier") }
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for key in keys {
                            await timing(&samples.own) { expect(await cache.value(forKey: key)) }
                            timing(&samples.floor) { expect(disk.data(forKey: key)) }
                        }
                        return samples
                    }, close: { try await cache.close() })
            },
        ]
    }

    private static func expect(_ value: Data?) {
        precondition(value != nil, "what was stored is there")
    }

    private static func filled(_ folder: Folder, memory: Bool = true) async throws -> (Cache<Data>, [String]) {
        var configuration = Cache<Data>.Configuration()
        if !memory { configuration.memory = nil }
        let cache = try Cache<Data>(directory: folder.cache, configuration: configuration)
        let keys = Array(keys.prefix(batch))
        for key in keys { try await cache.setValue(Data(count: 1 << 10), forKey: key) }
        return (cache, keys)
    }
}
