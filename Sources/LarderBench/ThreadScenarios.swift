import Dispatch
import Foundation
import Larder
import LarderFiles

/// Two threads on one cache; the times are those of the clock on the wall, for each operation of both.
extension Scenario {
    static var threads: [Scenario] { [setOnTwo, getOnTwo, missOnTwo] }

    private static let size = 1 << 10
    /// Operations of each thread between two looks at the clock.
    private static let turn = 250

    /// Adds the time that each of `2 * count` operations took, of which two threads did half.
    static func onTwo(_ samples: inout Samples, _ count: Int, _ operation: @Sendable (_ thread: Int, Int) -> Void) {
        timing(&samples, batch: 2 * count) {
            DispatchQueue.concurrentPerform(iterations: 2) { thread in
                for number in 0..<count { operation(thread, number) }
            }
        }
    }

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
                        onTwo(&samples.own, turn) { thread, number in
                            let key = Content.key(2 * (first + number) + thread)
                            precondition((try? cache.setData(data, forKey: key)) != nil)
                        }
                        onTwo(&samples.floor, turn) { thread, number in
                            floors[thread].value.set("\(2 * (first + number) + thread)", bytes)
                        }
                    }
                    return samples
                }, close: { try cache.close() })
        }
    }

    private static var getOnTwo: Scenario {
        Scenario(
            name: "get, two threads", size: size, unit: .us, floor: "one thread", target: .ratio(1 / 1.7)
        ) { folder in
            let cache = try folder.cache()
            let count = Content.operations(size)
            try fill(cache, try Floor(folder, size: size), size, count)
            return Run(
                round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    for part in 0..<8 {
                        @Sendable func get(_ number: Int) {
                            precondition(cache.data(forKey: Content.key((part * turn + number) * 7919 % count)) != nil)
                        }
                        onTwo(&samples.own, turn) { thread, number in get(2 * number + thread) }
                        timing(&samples.floor, batch: 2 * turn) { for number in 0..<2 * turn { get(number) } }
                    }
                    return samples
                }, close: { try cache.close() })
        }
    }

    private static var missOnTwo: Scenario {
        Scenario(name: "miss, two threads", unit: .ns, floor: "", target: .most(500)) { folder in
            let cache = try folder.cache()
            for number in 0..<10_000 { try cache.setString("v", forKey: Content.key(number)) }
            let keys = (0..<20_000).map { Content.key(50_000 + $0) }
            return Run(
                round: { _ in
                    var samples = Samples()
                    for _ in 0..<10 {
                        onTwo(&samples, keys.count / 2) { thread, number in
                            precondition(cache.data(forKey: keys[2 * number + thread]) == nil)
                        }
                    }
                    return (samples, Samples())
                }, close: { try cache.close() })
        }
    }
}
