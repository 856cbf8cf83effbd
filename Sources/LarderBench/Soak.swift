import Foundation
import Larder
import LarderFiles

/// Random operations on values in segments, with a size limit. Fails when the segments take more of the disk than
/// promised: half as much again as their live entries, and two segments.
enum Soak {
    /// Bytes.
    private static let segment = 64 << 20
    private static let sizeLimit = 256 << 20
    private static let keys = 400_000
    /// Operations between two looks at the disk.
    private static let step = 20_000

    /// How keys are chosen.
    enum Workload: String, CaseIterable {
        /// A few keys are used most of the time.
        case skewed
        /// All keys are used as often.
        case even
        /// Each value gets a key of its own; what is read or removed was stored lately.
        case fresh

        fileprivate func key(_ number: Int, isNew: Bool, using generator: inout some RandomNumberGenerator) -> String {
            switch self {
            case .skewed:
                let isHot = Int.random(in: 0..<10, using: &generator) < 7
                return Content.key(Int.random(in: 0..<(isHot ? keys / 20 : keys), using: &generator))
            case .even: return Content.key(Int.random(in: 0..<keys, using: &generator))
            case .fresh:
                return Content.key(isNew ? number : max(0, number - Int.random(in: 0..<keys, using: &generator)))
            }
        }
    }

    static func run(_ workload: Workload, _ operations: Int, in folder: Folder) throws {
        let cache = try folder.cache {
            $0.inlineThreshold = 4 << 10
            $0.sizeLimit = sizeLimit
        }
        var generator = SystemRandomNumberGenerator()
        let payload = Data(Content.bytes(4 << 10))
        var sets = Samples()
        var stored = 0
        var mostUsed = 0.0
        for number in 1...operations {
            let operation = Int.random(in: 0..<100, using: &generator)
            let key = workload.key(number, isNew: operation < 55, using: &generator)
            switch operation {
            case 0..<55:
                let size = Int.random(in: 1...(4 << 10), using: &generator)
                let ttl: TimeToLive = size.isMultiple(of: 8) ? .seconds(2) : .days(1)
                try timing(&sets) { try cache.setData(payload.prefix(size), forKey: key, ttl: ttl) }
                stored += size
            case 55..<90: _ = cache.data(forKey: key)
            case 90..<97: try cache.removeValue(forKey: key)
            default: try cache.setTimeToLive(.hours(2), forKey: key)
            }
            if number.isMultiple(of: step) { mostUsed = max(mostUsed, try use(of: cache, after: number)) }
        }
        try cache.flush()
        let segments = cache.statistics.segments
        let amplification = 1 + Double(segments.movedBytes) / Double(max(stored, 1))
        print(
            """
            \(workload.rawValue) keys, \(operations) operations, \(cache.count) entries of \(cache.payloadSize) bytes, \
            \(cache.statistics.evictions.total) evicted
            segments: \(segments)
            write amplification: \(twoDigits(amplification)); the most disk used: \(twoDigits(mostUsed)) of what is promised
            us for a set: median \(twoDigits(sets.median / 1000)), 99 of 100 \(twoDigits(sets.percentile(0.99) / 1000)), \
            999 of 1000 \(twoDigits(sets.percentile(0.999) / 1000)), slowest \(twoDigits(sets.longest / 1000))
            """)
        try cache.close()
    }

    /// Stores values of 100 bytes, deletes the index, and opens the cache again.
    static func rebuild(_ entries: Int, in folder: Folder) throws {
        let payload = Data(Content.bytes(100))
        var cache = try folder.cache { $0.inlineThreshold = payload.count }
        for number in 1...entries { try cache.setData(payload, forKey: Content.key(number)) }
        try cache.close()
        let used = (segments: try bytes(in: folder.own) { $0.contains("segments/") }, all: try bytes(in: folder.own))
        try SyntheticDirectory(folder.own, entries: entries).removeIndex()
        var (first, all) = (Samples(), Samples())
        try timing(&all) {
            cache = try timing(&first) {
                let cache = try folder.cache { $0.inlineThreshold = payload.count }
                _ = cache.data(forKey: Content.key(entries / 2))
                return cache
            }
            try cache.flush()
        }
        guard cache.count == entries else { throw BenchFailure("\(cache.count) of \(entries) are back") }
        print(
            """
            \(entries) entries of 100 bytes: \(used.all / entries) bytes of disk for each, \
            \(used.segments / entries) of them in segments
            without an index: first call after \(twoDigits(first.median / 1e6)) ms, \
            all back after \(twoDigits(all.median / 1e9)) s
            """)
        try cache.close()
    }

    /// The disk space of the files whose path `isCounted`.
    private static func bytes(in folder: URL, where isCounted: (String) -> Bool = { _ in true }) throws -> Int {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter(isCounted).reduce(0) { sum, path in
            var status = stat()
            guard stat(folder.appendingPathComponent(path).path, &status) == 0 else {
                throw BenchFailure("cannot look at \(path)")
            }
            return sum + Int(status.st_blocks) * 512
        }
    }

    /// The share of the promised disk space that is used. Throws when it is all.
    private static func use(of cache: DiskCache, after number: Int) throws -> Double {
        let segments = cache.statistics.segments
        // Of each entry: its header, and a record of about 230 bytes.
        let live = cache.payloadSize + cache.count * 300
        let used = segments.liveBytes + segments.deadBytes
        let promised = live * 3 / 2 + 2 * segment
        if used > promised {
            throw BenchFailure("after \(number) operations segments take \(used) bytes, \(live) of them live")
        }
        return Double(used) / Double(promised)
    }

    private static func twoDigits(_ number: Double) -> String { String(format: "%.2f", number) }
}
