import Dispatch
import Foundation
import Larder
import LarderFiles

/// Two threads on one cache; the times are wall-clock times per operation of both.
extension Scenario {
    static var threads: [Scenario] { [setOnTwo, getOnTwo, segmentSetOnTwo, segmentGetOnTwo, miss(on: 2)] }

    private static let size = 1 << 10
    /// The number of operations between two readings of the clock.
    private static let turn = 500

    private static var setOnTwo: Scenario {
        Scenario(
            name: "set, two threads", size: size, unit: .us, floor: "the system calls, two threads",
            target: .ratio(1.25)
        ) { folder in
            let cache = try folder.cache()
            let bytes = Content.bytes(size)
            let data = Data(bytes)
            let floors = [try Floor(folder, size: size), try Floor(folder, size: size)].map(Unshared.init(value:))
            return Run(
                round: { round in
                    var samples = (own: Samples(), floor: Samples())
                    for part in 0..<8 {
                        let first = (8 * round + part) * turn
                        timing(on: 2, &samples.own, turn) { _, number in
                            precondition((try? cache.setData(data, forKey: Content.key(first + number))) != nil)
                        }
                        timing(on: 2, &samples.floor, turn) { thread, number in
                            floors[thread].value.set("\(first + number)", bytes)
                        }
                    }
                    return samples
                }, close: { try cache.close() })
        }
    }

    private static var segmentSetOnTwo: Scenario {
        onTwo("segment set, two threads") { folder in
            let cache = try folder.cache { $0.inlineThreshold = size }
            let data = Data(Content.bytes(size))
            return { _, number in precondition((try? cache.setData(data, forKey: Content.key(number))) != nil) }
        }
    }

    /// An operation on values of 1 KiB on two threads, beside the same on one. It gets the number of the thread, and
    /// one of its own.
    static func onTwo(
        _ name: String, _ prepare: @escaping @Sendable (Folder) throws -> @Sendable (_ thread: Int, Int) -> Void
    ) -> Scenario {
        Scenario(name: name, size: size, unit: .us, floor: "one thread") { folder in
            let operation = try prepare(folder)
            return Run { round in
                var samples = (own: Samples(), floor: Samples())
                for part in 0..<8 {
                    let first = 2 * (8 * round + part) * turn
                    timing(on: 2, &samples.own, turn) { operation($0, first + $1) }
                    timing(on: 1, &samples.floor, turn) { operation($0, first + turn + $1) }
                }
                return samples
            }
        }
    }

    private static var getOnTwo: Scenario { getOnTwo("get, two threads", target: .ratio(1 / 1.7)) }

    private static var segmentGetOnTwo: Scenario {
        getOnTwo("segment get, two threads") { $0.inlineThreshold = size }
    }

    private static func getOnTwo(
        _ name: String, target: Target = .none,
        _ configure: @escaping @Sendable (inout DiskCache.Configuration) -> Void = { _ in }
    ) -> Scenario {
        Scenario(name: name, size: size, unit: .us, floor: "one thread", target: target) { folder in
            let cache = try folder.cache(configure)
            let count = Content.operations(size)
            let data = Data(Content.bytes(size))
            for number in 0..<count { try cache.setData(data, forKey: Content.key(number)) }
            return Run(
                round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    for part in 0..<8 {
                        @Sendable func get(_ thread: Int, _ number: Int) {
                            precondition(cache.data(forKey: Content.key((part * turn + number) * 7919 % count)) != nil)
                        }
                        timing(on: 2, &samples.own, turn, get)
                        timing(on: 1, &samples.floor, turn, get)
                    }
                    return samples
                }, close: { try cache.close() })
        }
    }

    static func miss(on threads: Int) -> Scenario {
        Scenario(
            name: threads == 1 ? "miss" : "miss, two threads", unit: .ns, floor: "",
            target: .most(threads == 1 ? 350 : 500)
        ) { folder in
            let cache = try folder.cache()
            for number in 0..<10_000 { try cache.setString("v", forKey: Content.key(number)) }
            let keys = (0..<(threads == 1 ? 1_000 : 20_000)).map { Content.key(50_000 + $0) }
            return Run(
                round: { _ in
                    var samples = Samples()
                    for _ in 0..<(threads == 1 ? 100 : 10) {
                        timing(on: threads, &samples, keys.count) { _, number in
                            precondition(cache.data(forKey: keys[number]) == nil)
                        }
                    }
                    return (samples, Samples())
                }, close: { try cache.close() })
        }
    }
}

/// Adds the time per operation of `count` operations, which the threads share equally.
func timing(
    on threads: Int, _ samples: inout Samples, _ count: Int, _ operation: @Sendable (_ thread: Int, Int) -> Void
) {
    timing(&samples, batch: count) {
        if threads == 1 { return (0..<count).forEach { operation(0, $0) } }
        DispatchQueue.concurrentPerform(iterations: threads) { thread in
            for number in stride(from: thread, to: count, by: threads) { operation(thread, number) }
        }
    }
}
