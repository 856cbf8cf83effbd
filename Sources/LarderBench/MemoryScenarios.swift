import Foundation
import Larder
import LarderFiles

/// The memory tier compared with a dictionary under a lock.
extension Scenario {
    typealias Table = Lock<[String: Data]>

    static let memoryEntries = 100_000
    private static let batch = 1_000

    static var memory: [Scenario] {
        [1, 2].flatMap { threads in
            [
                comparison(
                    "memory get", .ratio(1.3), threads, of: MemoryCache<String, Data>(),
                    storing: { $0.setValue($2, forKey: $1) }
                ) { cache, key, _ in
                    precondition(cache.value(forKey: key) != nil)
                } floor: { dictionary, key, _ in
                    precondition(dictionary.withLock { $0[key] } != nil)
                },
                comparison(
                    "memory get, sliding", .none, threads,
                    of: MemoryCache<String, Data>(configuration: .init(slidingExpiry: true)),
                    storing: { $0.setValue($2, forKey: $1) }
                ) { cache, key, _ in
                    precondition(cache.value(forKey: key) != nil)
                } floor: { dictionary, key, _ in
                    precondition(dictionary.withLock { $0[key] } != nil)
                },
                comparison(
                    "memory set", .ratio(1.3), threads, of: MemoryCache<String, Data>(),
                    storing: { $0.setValue($2, forKey: $1) }
                ) { cache, key, value in
                    cache.setValue(value, forKey: key)
                } floor: { dictionary, key, value in
                    replace(key, value, in: dictionary)
                },
            ]
        }
    }

    /// Inserts a value, and releases the old one outside of the lock.
    static func replace(_ key: String, _ value: Data, in dictionary: Table) {
        let old = dictionary.withLock { $0.updateValue(value, forKey: key) }
        _ = consume old
    }

    /// Compares a store of values with a dictionary of the same values.
    static func comparison<Store: Sendable>(
        _ name: String, _ target: Target = .none, _ threads: Int = 1,
        of store: @autoclosure @escaping @Sendable () -> Store,
        storing: @escaping @Sendable (Store, String, Data) -> Void,
        own: @escaping @Sendable (Store, String, Data) -> Void,
        floor: @escaping @Sendable (Table, String, Data) -> Void
    ) -> Scenario {
        Scenario(
            name: name + (threads == 2 ? ", two threads" : ""), unit: .ns, floor: "a dictionary under a lock",
            target: target
        ) { _ in
            let keys = (0..<memoryEntries).map(Content.key).shuffled()
            // A value for each key: threads would contend for the reference count of a shared value.
            let values = keys.map { _ in Data(count: 100) }
            let (cache, dictionary) = (store(), Table([:]))
            for (key, value) in zip(keys, values) {
                storing(cache, key, value)
                dictionary.withLock { $0[key] = value }
            }
            @Sendable func timeAll(_ samples: inout Samples, _ start: Int, _ body: @Sendable (String, Data) -> Void) {
                timing(on: threads, &samples, threads * batch) { _, number in
                    body(keys[start + number], values[start + number])
                }
            }
            return Run { _ in
                var samples = (own: Samples(), floor: Samples())
                for start in stride(from: 0, to: keys.count, by: threads * batch) {
                    timeAll(&samples.own, start) { own(cache, $0, $1) }
                    // Other keys, because those of `own` are in the processor's cache by now.
                    timeAll(&samples.floor, (start + keys.count / 2) % keys.count) { floor(dictionary, $0, $1) }
                }
                return samples
            }
        }
    }
}
