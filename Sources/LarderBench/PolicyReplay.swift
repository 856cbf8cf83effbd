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

        /// What a policy of others is simulated by.
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
            let evicts = sizes == nil ? cache.count >= size : cache.size + bytes > size
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

/// The requests for keys, which are numbered from 0.
struct RequestTrace {
    let name: String
    let requests: [UInt32]
    let keyCount: Int
    /// Of each key; nil: all are the same.
    var sizes: [Int]?
    /// Requests at the beginning that do not count.
    var warmUp = 0
    /// The entries for which the cache has room; nil: several parts of the keys.
    var room: Int?

    init(_ name: String, _ requests: [UInt32], warmUp: Int = 0, room: Int? = nil) {
        self.name = name
        self.requests = requests
        keyCount = requests.max().map { Int($0) + 1 } ?? 0
        self.warmUp = warmUp
        self.room = room
    }

    /// Reads the numbers of the keys. A file beside it whose name ends with `.sizes` has their sizes.
    init(contentsOf url: URL) throws {
        let name = url.lastPathComponent.prefix { $0 != "." }
        self.init(String(name), try Self.numbers(in: url))
        let ending = url.lastPathComponent.dropFirst(name.count)
        let sizes = url.deletingLastPathComponent().appendingPathComponent("\(name).sizes\(ending)")
        guard FileManager.default.fileExists(atPath: sizes.path) else { return }
        self.sizes = try Self.numbers(in: sizes).map(Int.init)
        if self.sizes!.count < keyCount { throw BenchFailure("\(sizes.path) has too few sizes") }
    }

    /// The content of a file of little-endian numbers of 4 bytes, which may be compressed by gzip.
    private static func numbers(in url: URL) throws -> [UInt32] {
        var data = try Data(contentsOf: url)
        if url.pathExtension == "gz" {
            let (process, output) = (Process(), Pipe())
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["gzip", "-dc", url.path]
            process.standardOutput = output
            try process.run()
            data = output.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            if process.terminationStatus != 0 { throw BenchFailure("\(url.path) cannot be decompressed") }
        }
        let bytes = [UInt8](data)
        let numbers = stride(from: 0, to: bytes.count / 4 * 4, by: 4).map { place in
            bytes[place..<place + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        }
        if numbers.isEmpty { throw BenchFailure("\(url.path) has no numbers of 4 bytes") }
        return numbers
    }

    /// Patterns with a name. Each fits a cache of 1,000 entries.
    static func patterns() -> [RequestTrace] {
        let loop = (0..<60).flatMap { _ in UInt32(0)..<1100 }
        let zigzag = (0..<60).flatMap { turn in turn % 2 == 0 ? Array(UInt32(0)..<1500) : (UInt32(0)..<1500).reversed()
        }
        let thrice = stride(from: UInt32(0), to: 20_000, by: 333).flatMap { first in
            (0..<3).flatMap { _ in first..<first + 333 }
        }
        var generator = SeededNumbers(state: 1)
        // A hot set that fits, one pass over other keys, and the hot set once more.
        let hot = (0..<20_000).map { _ in UInt32.random(in: 0..<900, using: &generator) }
        let again = (0..<900).map { _ in UInt32.random(in: 0..<900, using: &generator) }
        return [
            RequestTrace("loop over 1.1 x the room", loop, warmUp: loop.count / 2, room: 1000),
            RequestTrace("hot set after a scan", hot + (900..<5900) + again, warmUp: hot.count + 5000, room: 1000),
            RequestTrace("back and forth", zigzag, warmUp: zigzag.count / 2, room: 1000),
            RequestTrace("thrice and never again", thrice, warmUp: thrice.count / 2, room: 1000),
        ]
    }

    /// The hits of the best policy: whoever is needed last goes, or is not stored. O(n log n).
    func optimalHits(_ room: Int) -> Int {
        let never = requests.count
        var next = [Int](repeating: never, count: requests.count)
        var last = [Int](repeating: never, count: keyCount)
        for place in requests.indices.reversed() {
            next[place] = last[Int(requests[place])]
            last[Int(requests[place])] = place
        }
        // The times at which the stored keys are needed next, by their places in a tree of counts: the largest goes.
        var stored = LargestFirst(requests.count + 1)
        var needed = [Int](repeating: -1, count: keyCount)
        var (hits, count) = (0, 0)
        for place in requests.indices {
            let key = Int(requests[place])
            if needed[key] >= 0 {
                if place >= warmUp { hits += 1 }
                stored.remove(needed[key])
                count -= 1
                needed[key] = -1
            }
            if next[place] == never { continue }
            if count == room {
                guard let latest = stored.largest, latest > next[place] else { continue }
                stored.remove(latest)
                needed[Int(requests[latest])] = -1
                count -= 1
            }
            stored.insert(next[place])
            needed[key] = next[place]
            count += 1
        }
        return hits
    }
}

/// A set of numbers that knows its largest: a tree of bits, 64 children each.
private struct LargestFirst {
    private var levels: [[UInt64]] = []

    init(_ count: Int) {
        var count = count
        repeat {
            count = (count + 63) / 64
            levels.append([UInt64](repeating: 0, count: count))
        } while count > 1
    }

    mutating func insert(_ number: Int) {
        var number = number
        for level in levels.indices {
            levels[level][number / 64] |= 1 << UInt64(number % 64)
            number /= 64
        }
    }

    mutating func remove(_ number: Int) {
        var number = number
        for level in levels.indices {
            levels[level][number / 64] &= ~(1 << UInt64(number % 64))
            if levels[level][number / 64] != 0 { return }
            number /= 64
        }
    }

    var largest: Int? {
        var number = 0
        for level in levels.reversed() {
            if level[number] == 0 { return nil }
            number = number * 64 + 63 - level[number].leadingZeroBitCount
        }
        return number
    }
}

/// SplitMix64.
struct SeededNumbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
