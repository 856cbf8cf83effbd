import Foundation
import Larder

/// The disk tier compared with the system calls that it cannot avoid.
extension Scenario {
    static let sizes = [64, 100, 1 << 10, 4 << 10, 20 << 10, 1 << 20]

    static var disk: [Scenario] {
        sizes.map { set($0) } + sizes.map { get($0) } + [miss(on: 1)]
    }

    static var replacing: [Scenario] {
        [limits] + sizes.map { set($0, overwriting: true) } + [remove, purge]
    }

    /// New keys in every round, or the keys of the warm-up round again and again.
    private static func set(_ size: Int, overwriting: Bool = false) -> Scenario {
        let target: Target =
            switch size {
            case 1 << 10, 4 << 10: .ratio(1.25)
            case 20 << 10: .ratio(1.5)
            case 1 << 20: .ratio(1.2)
            default: .ratio(1.3)
            }
        return Scenario(
            name: overwriting ? "overwrite" : "set", size: size, unit: .us, floor: Floor.setting(size), target: target
        ) { folder in
            let (cache, floor) = (try folder.cache(), try Floor(folder, size: size))
            let (bytes, count) = (Content.bytes(size), Content.operations(size))
            let data = Data(bytes)
            return Run(
                round: { round in
                    try turns(count) { number in
                        try cache.setData(data, forKey: Content.key(overwriting ? number : round * count + number))
                    } floor: { number in
                        floor.set("\(round * count + number)", bytes)
                    }
                }, close: { try cache.close() })
        }
    }

    private static func get(_ size: Int) -> Scenario {
        let target: Target =
            switch size {
            case 1 << 10, 4 << 10: .ratio(1.25)
            case 20 << 10: .ratio(1.4)
            case 1 << 20: .ratio(1.2)
            default: .ratio(1.25)
            }
        return Scenario(name: "get", size: size, unit: .us, floor: Floor.getting(size), target: target) { folder in
            let (cache, floor) = (try folder.cache(), try Floor(folder, size: size))
            let count = Content.operations(size)
            try fill(cache, floor, size, count)
            return Run(
                round: { _ in
                    turns(count) { number in
                        precondition(cache.data(forKey: Content.key(number * 7919 % count)) != nil)
                    } floor: { number in
                        floor.get("\(number * 7919 % count)")
                    }
                }, close: { try cache.close() })
        }
    }

    /// Stores the same values under numbers on both sides.
    static func fill(_ cache: DiskCache, _ floor: Floor, _ size: Int, _ count: Int) throws {
        let bytes = Content.bytes(size)
        for number in 0..<count {
            try cache.setData(Data(bytes), forKey: Content.key(number))
            floor.set("\(number)", bytes)
        }
    }

    private static var remove: Scenario {
        let size = 1 << 10
        return Scenario(
            name: "remove", size: size, unit: .us, floor: "unlink, append 100 bytes", target: .ratio(1.5)
        ) { folder in
            let (cache, floor) = (try folder.cache(), try Floor(folder, size: size))
            let count = Content.operations(size)
            return Run(
                round: { _ in
                    try fill(cache, floor, size, count)
                    return try turns(count) { number in
                        try cache.removeValue(forKey: Content.key(number))
                    } floor: { number in
                        floor.remove("\(number)")
                    }
                }, close: { try cache.close() })
        }
    }

    /// New keys in a full cache: each set evicts one entry.
    private static var limits: Scenario {
        let size = 1 << 10
        return Scenario(
            name: "set, one evicted", size: size, unit: .us,
            floor: "create, write, close, append 250 bytes; unlink, append 100", target: .ratio(1.25)
        ) { folder in
            let count = Content.operations(size)
            let cache = try folder.cache { $0.countLimit = count }
            let floor = try Floor(folder, size: size)
            let (bytes, data) = (Content.bytes(size), Data(Content.bytes(size)))
            try fill(cache, floor, size, count)
            return Run(
                round: { round in
                    try turns(count) { number in
                        try cache.setData(data, forKey: Content.key((round + 1) * count + number))
                    } floor: { number in
                        floor.set("\((round + 1) * count + number)", bytes)
                        floor.remove("\(round * count + number)")
                    }
                }, close: { try cache.close() })
        }
    }

    /// Half of the entries have expired; the time is per removed entry, including its file.
    private static var purge: Scenario {
        let size = 1 << 10
        return Scenario(name: "purge", size: size, unit: .us, floor: "unlink", target: .ratio(1.7)) { folder in
            let time = BenchClock()
            let cache = try folder.cache { $0.now = { time.now } }
            let floor = try Floor(folder, size: size)
            let (data, count) = (Data(Content.bytes(size)), Content.operations(size))
            return Run(
                round: { round in
                    for number in 0..<2 * count {
                        let ttl: TimeToLive = number < count ? .seconds(1) : .forever
                        try cache.setData(data, forKey: Content.key(number), ttl: ttl)
                        if number < count { floor.set("\(round)-\(number)", [UInt8](data)) }
                    }
                    try cache.flush()
                    time.advance(by: 2)
                    var samples = (own: Samples(), floor: Samples())
                    try timing(&samples.own, batch: count) {
                        precondition(cache.removeExpired() == count)
                        try cache.flush()
                    }
                    timing(&samples.floor, batch: count) {
                        for number in 0..<count { floor.unlink("\(round)-\(number)") }
                    }
                    return samples
                }, close: { try cache.close() })
        }
    }
}
