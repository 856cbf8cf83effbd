import Foundation
import LarderTesting

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
        var generator = SeededGenerator(seed: 1)
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
