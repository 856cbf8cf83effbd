import Foundation
import Larder
import LarderFiles
import LarderTesting

/// Replays the requests of a trace through a cache, and prints how many hits each eviction policy has, beside models of
/// other caches' policies and the best that any could have.
///
/// A miss stores the value. Hits count from the first request on, with an empty cache. A trace whose values have sizes
/// is replayed twice: with a limit on their count, and with one on the sum of the sizes.
struct PolicyReplay {
    let traces: [RequestTrace]
    /// Through `DiskCache`, on a disk in memory with a clock of its own, rather than `MemoryCache`.
    var isOnDisk = false
    /// How often the disk cache is closed and opened again.
    var sessions = 1

    /// The parts of the keys of a trace for which the cache has room.
    private static let parts = [0.01, 0.05, 0.1, 0.25, 0.5]

    /// The hit ratios of a trace, one for each size of the cache.
    struct Outcome {
        let trace: String
        let countsSizes: Bool
        var sizes: [Int] = []
        var ratios: [Policy: [Double]] = [:]
    }

    enum Policy: String, CaseIterable {
        case leastRecentlyUsed = "LRU"
        case s3FIFO = "S3-FIFO"
        case sieve = "SIEVE"
        case adaptiveReplacement = "ARC"
        case windowTinyLFU = "W-TinyLFU"
        case adaptive
        /// Belady's: evicts what is needed last, or does not store it at all.
        case optimal = "OPT"

        /// The model of another cache's policy; nil for those that run in a cache.
        var model: (any PolicyModel.Type)? {
            switch self {
            case .leastRecentlyUsed, .adaptive, .optimal: nil
            case .s3FIFO: S3FIFO.self
            case .sieve: Sieve.self
            case .adaptiveReplacement: AdaptiveReplacement.self
            case .windowTinyLFU: WindowTinyLFU.self
            }
        }
    }

    func run() throws -> [Outcome] {
        // Hashes decide which keys the history forgets first: the same run must have the same hits.
        HashSeed.fixed.withLock { $0 = 1 }
        showRow("hit ratio, %", "entries", Policy.allCases.map(\.rawValue) + ["adaptive - LRU"])
        let outcomes = try traces.flatMap { trace in
            [try replay(trace, sizes: nil)] + (try trace.sizes.map { [try replay(trace, sizes: $0)] } ?? [])
        }
        let counted = outcomes.filter { !$0.countsSizes }
        let gains = Policy.allCases.map { policy in
            counted.flatMap { zip($0.ratios[policy]!, $0.ratios[.leastRecentlyUsed]!).map(-) }
        }
        if gains[0].count > 1 {
            showRow("mean over LRU", "", gains.map { Self.signed($0.reduce(0, +) / Double($0.count)) })
            showRow("worst", "", gains.map { Self.signed($0.min()!) })
        }
        return outcomes
    }

    private func replay(_ trace: RequestTrace, sizes: [Int]?) throws -> Outcome {
        var outcome = Outcome(trace: trace.name + (sizes == nil ? "" : " (bytes)"), countsSizes: sizes != nil)
        let keys = (0..<trace.keyCount).map { "\($0)" }
        let whole = sizes?.reduce(0, +) ?? trace.keyCount
        for part in Self.parts {
            let size = trace.room ?? max(1, Int(Double(whole) * part))
            outcome.sizes.append(size)
            for policy in Policy.allCases {
                let hits: Int
                switch policy {
                case .leastRecentlyUsed: hits = try self.hits(trace, keys, size, sizes, .leastRecentlyUsed)
                case .adaptive: hits = try self.hits(trace, keys, size, sizes, .adaptive)
                // With sizes nobody can compute the best, and the models have none.
                default:
                    if sizes != nil { continue }
                    hits = policy.model.map { trace.hits(of: $0, size) } ?? trace.optimalHits(size)
                }
                let ratio = 100 * Double(hits) / Double(trace.requests.count - trace.warmUp)
                outcome.ratios[policy, default: []].append(ratio)
            }
            show(outcome)
            if trace.room != nil { break }
        }
        return outcome
    }

    private func hits(
        _ trace: RequestTrace, _ keys: [String], _ size: Int, _ sizes: [Int]?, _ policy: EvictionPolicy
    ) throws -> Int {
        if isOnDisk { return try hitsOnDisk(trace, keys, size, sizes, policy) }
        let cache = MemoryCache<String, Bool>(
            configuration: .init(
                countLimit: sizes == nil ? size : nil, costLimit: sizes == nil ? nil : size, eviction: policy,
                release: .inline))
        var before = 0
        for (number, request) in trace.requests.enumerated() {
            if number == trace.warmUp { before = Int(cache.statistics.hits) }
            let key = keys[Int(request)]
            if cache.value(forKey: key) == nil { cache.setValue(true, forKey: key, cost: sizes?[Int(request)] ?? 0) }
        }
        return Int(cache.statistics.hits) - before
    }

    /// The same with a limit on the number of entries or on their bytes, and a second between two requests.
    private func hitsOnDisk(
        _ trace: RequestTrace, _ keys: [String], _ size: Int, _ sizes: [Int]?, _ policy: EvictionPolicy
    ) throws -> Int {
        let world = TestWorld()
        let configuration = DiskCache.Configuration(
            defaultTTL: .forever, sweepInterval: nil, countLimit: sizes == nil ? size : nil,
            sizeLimit: sizes == nil ? nil : size, eviction: policy)
        var cache = try world.diskCache(configuration: configuration)
        var hits = 0
        for (number, request) in trace.requests.enumerated() {
            if number > 0, number % max(1, trace.requests.count / sessions) == 0 {
                try cache.close()
                cache = try world.diskCache(configuration: configuration)
            }
            world.clock.set(milliseconds: world.clock.milliseconds + 1_000)
            let key = keys[Int(request)]
            if cache.data(forKey: key) != nil {
                if number >= trace.warmUp { hits += 1 }
                continue
            }
            let bytes = sizes?[Int(request)] ?? 0
            if bytes > size { continue }
            let evicts = sizes == nil ? cache.count >= size : cache.payloadSize + bytes > size
            try cache.setData(Data(count: bytes), forKey: key)
            // The same run must have the same hits: nothing is evicted while others are read.
            if evicts { world.settle() }
        }
        try cache.close()
        return hits
    }

    private func show(_ outcome: Outcome) {
        let last = outcome.sizes.count - 1
        let gain = outcome.ratios[.adaptive]![last] - outcome.ratios[.leastRecentlyUsed]![last]
        showRow(
            outcome.trace, "\(outcome.sizes[last])",
            Policy.allCases.map { outcome.ratios[$0].map { Self.fixed($0[last]) } ?? "-" } + [Self.signed(gain)])
    }

    /// Prints at once: a large trace takes minutes for each row.
    private func showRow(_ name: String, _ entries: String, _ cells: [String]) {
        let widths = Policy.allCases.map { _ in -10 } + [-16]
        print(name.padded(to: 24) + entries.padded(to: -9) + zip(cells, widths).map { $0.padded(to: $1) }.joined())
        fflush(nil)
    }

    private static func fixed(_ number: Double) -> String { String(format: "%.2f", number) }
    private static func signed(_ number: Double) -> String { String(format: "%+.2f", number) }
}

extension String {
    /// With spaces to a width; before it, if the width is negative.
    fileprivate func padded(to width: Int) -> String {
        let spaces = String(repeating: " ", count: max(0, abs(width) - count))
        return width < 0 ? spaces + self : self + spaces
    }
}
