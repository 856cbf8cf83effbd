import Foundation
import Larder
import LarderFiles

/// Costs that must not grow with the number of entries, and some that must.
extension Scenario {
    static let counts = [1_000, 10_000, 100_000, 1_000_000]

    static var growth: [Scenario] {
        counts.map { setAmong($0) } + [setAmong(1_000_000, inSegments: true)]
            + [100_000, 1_000_000].map { setWhileSaving($0) } + [setWhileSaving(1_000_000, inSegments: true)]
    }

    private static let size = 1 << 10

    /// New keys in a cache of this many entries; both sides grow alike.
    private static func setAmong(_ entries: Int, inSegments: Bool = false) -> Scenario {
        let count = 400
        let ratio = inSegments ? 1.2 : 1.3
        return Scenario(
            name: (inSegments ? "segment " : "") + "set, \(Figure.short(entries)) entries", size: size,
            entries: entries, unit: .us, floor: growthFloor, target: entries == 1_000_000 ? .ratio(ratio) : .none
        ) { folder in
            try SyntheticDirectory(folder.own, entries: entries).write()
            try SyntheticDirectory(folder.floor, entries: 1_000).write()
            var configuration = DiskCache.Configuration()
            if inSegments { configuration.inlineThreshold = size }
            let cache = try DiskCache(directory: folder.own, configuration: configuration)
            let small = try DiskCache(directory: folder.floor, configuration: configuration)
            let data = Data(Content.bytes(size))
            return Run(
                round: { round in
                    try turns(count) { number in
                        try cache.setData(data, forKey: Content.key(1 + entries + round * count + number))
                    } floor: { number in
                        try small.setData(data, forKey: Content.key(1 + entries + round * count + number))
                    }
                },
                close: {
                    try cache.close()
                    try small.close()
                })
        }
    }

    static let growthFloor = "the same beside 1k entries"

    /// 10,000 sets while the manifest is rewritten again and again, and short segments are cleaned.
    private static func setWhileSaving(_ entries: Int, inSegments: Bool = false) -> Scenario {
        Scenario(
            name: (inSegments ? "segment " : "") + "set, \(Figure.short(entries)) entries, saving", size: size,
            entries: entries, unit: .us, floor: "", target: .longest(5_000_000), isForMemory: true, mostRounds: 2
        ) { folder in
            try SyntheticDirectory(folder.own, entries: entries).write()
            let cache = try folder.cache {
                guard inSegments else { return }
                $0.inlineThreshold = size
                $0.segmentLength = 1 << 20
            }
            let data = Data(Content.bytes(size))
            // Few keys leave more to clean.
            let keys = inSegments ? 2_000 : entries
            return Run(
                round: { round in
                    let saving = Lock(true)
                    let saver = Task.detached {
                        while saving.withLock({ $0 }) { try cache.flush() }
                    }
                    var samples = Samples()
                    for number in 0..<10_000 {
                        try timing(&samples) { try cache.setData(data, forKey: Content.key(number * 7919 % keys)) }
                    }
                    saving.withLock { $0 = false }
                    try await saver.value
                    return (samples, Samples())
                }, close: { try cache.close() })
        }
    }
}
