import Foundation
import Larder

/// The disk tier beside the system calls that it cannot avoid.
extension Scenario {
    private static let sizes = [100, 1 << 10, 20 << 10, 1 << 20]

    static var disk: [Scenario] {
        sizes.map { set($0) } + sizes.map { set($0, overwriting: true) } + sizes.map { get($0) } + [miss, remove]
    }

    /// Operations of a round, in turns of some of each.
    private static func operations(_ size: Int) -> Int { size >= 1 << 20 ? 40 : size > 1 << 10 ? 500 : 2_000 }
    private static let turn = 20

    private static func key(_ number: Int) -> String { "https://example.org/a/path/to/item/\(100_000 + number)" }

    private static func payload(_ size: Int) -> [UInt8] {
        (0..<size).map { _ in UInt8.random(in: 0...255) }
    }

    private static func opened(_ folder: Folder) throws -> DiskCache {
        try DiskCache(directory: folder.cache)
    }

    /// Runs turns of both until there are so many operations of each.
    private static func turns(
        _ count: Int, own: (Int) throws -> Void, floor: (Int) throws -> Void
    ) rethrows -> (own: Samples, floor: Samples) {
        var samples = (own: Samples(), floor: Samples())
        for start in stride(from: 0, to: count, by: turn) {
            for number in start..<min(start + turn, count) { try timing(&samples.own) { try own(number) } }
            for number in start..<min(start + turn, count) { try timing(&samples.floor) { try floor(number) } }
        }
        return samples
    }

    /// New keys in every round, or those of the round that is not measured again and again.
    private static func set(_ size: Int, overwriting: Bool = false) -> Scenario {
        let target: Target =
            switch size {
            case 1 << 10: .ratio(1.25)
            case 1 << 20 where !overwriting: .ratio(1.2)
            default: .none
            }
        return Scenario(
            name: overwriting ? "overwrite" : "set", size: size, unit: .us,
            floor: "create, write, close, append 250 bytes", target: target
        ) { folder in
            let (cache, floor) = (try opened(folder), try Floor(folder, size: size))
            let (bytes, count) = (payload(size), operations(size))
            let data = Data(bytes)
            return Run(
                round: { round in
                    try turns(count) { number in
                        try cache.setData(data, forKey: key(overwriting ? number : round * count + number))
                    } floor: { number in
                        floor.set("\(round * count + number)", bytes)
                    }
                }, close: { try cache.close() })
        }
    }

    private static func get(_ size: Int) -> Scenario {
        let target: Target =
            switch size {
            case 1 << 10: .ratio(1.25)
            case 20 << 10: .ratio(1.4)
            case 1 << 20: .ratio(1.2)
            default: .none
            }
        return Scenario(
            name: "get", size: size, unit: .us, floor: "open, fstat, read, close", target: target
        ) { folder in
            let (cache, floor) = (try opened(folder), try Floor(folder, size: size))
            let (bytes, count) = (payload(size), operations(size))
            for number in 0..<count {
                try cache.setData(Data(bytes), forKey: key(number))
                floor.set("\(number)", bytes)
            }
            return Run(
                round: { _ in
                    turns(count) { number in
                        precondition(cache.data(forKey: key(number * 7919 % count)) != nil)
                    } floor: { number in
                        floor.get("\(number * 7919 % count)")
                    }
                }, close: { try cache.close() })
        }
    }

    private static var miss: Scenario {
        Scenario(name: "miss", unit: .ns, floor: "", target: .time(350)) { folder in
            let cache = try opened(folder)
            for number in 0..<10_000 { try cache.setString("v", forKey: key(number)) }
            let keys = (0..<1_000).map { key(50_000 + $0) }
            return Run(
                round: { _ in
                    var samples = Samples()
                    for _ in 0..<100 {
                        timing(&samples, batch: keys.count) {
                            for key in keys { precondition(cache.data(forKey: key) == nil) }
                        }
                    }
                    return (samples, Samples())
                }, close: { try cache.close() })
        }
    }

    private static var remove: Scenario {
        let size = 1 << 10
        return Scenario(
            name: "remove", size: size, unit: .us, floor: "unlink, append 100 bytes", target: .none
        ) { folder in
            let (cache, floor) = (try opened(folder), try Floor(folder, size: size))
            let (bytes, count) = (payload(size), operations(size))
            return Run(
                round: { _ in
                    for number in 0..<count {
                        try cache.setData(Data(bytes), forKey: key(number))
                        floor.set("\(number)", bytes)
                    }
                    return try turns(count) { number in
                        try cache.removeValue(forKey: key(number))
                    } floor: { number in
                        floor.remove("\(number)")
                    }
                }, close: { try cache.close() })
        }
    }
}
