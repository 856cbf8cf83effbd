import Foundation
import Larder

/// Measures how many reads a memory cache with a budget in bytes saves, and how much it holds.
@main
struct MemoryBudget {
    static let help = """
        usage: MemoryBudget [--limit BYTES] [FILE ...]

        Reads files, by default this package's own sources, 10,000 times in a random order that favors some, through a
        cache of at most BYTES, and then halves the limit. Without --limit it tries several.
        """

    static func main() {
        var arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.contains("--help") { return print(help) }
        var limits: [Int]?
        if arguments.first == "--limit" {
            guard let limit = arguments.dropFirst().first.flatMap({ Int($0) }), limit >= 0 else {
                return fail("--limit takes a number of bytes")
            }
            limits = [limit]
            arguments.removeFirst(2)
        }
        let files = arguments.isEmpty ? ownSources() : arguments.map { URL(fileURLWithPath: $0) }
        let total = files.reduce(0) { $0 + size($1) }
        print("\(files.count) files, \(total) bytes")
        for limit in limits ?? [total / 20, total / 5, total / 2, total] { read(files, limit: limit) }
    }

    private static func read(_ files: [URL], limit: Int) {
        let cache = MemoryCache<URL, Data>(
            configuration: .init(costLimit: limit, cost: \.count, removesAllInBackground: false))
        var random = UInt64(42)
        var most = 0
        for _ in 0..<10_000 {
            // The product of two random numbers favors the first files.
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let position = (Int(random >> 48) * Int(random >> 32 & 0xFFFF) * files.count) >> 32
            let file = files[position]
            if cache[file] == nil, let bytes = try? Data(contentsOf: file) { cache[file] = bytes }
            most = max(most, cache.cost)
        }
        let statistics = cache.statistics
        let percent = Int((statistics.hitRatio ?? 0) * 100)
        print("limit \(limit): \(percent) % hits, at most \(most) bytes held, \(statistics.evictions.cost) evicted")
        cache.costLimit = limit / 2
        print("  with half the limit, \(cache.cost) bytes are left, in \(cache.count) files")
    }

    private static func size(_ file: URL) -> Int {
        (try? file.resourceValues(forKeys: [.fileSizeKey]).fileSize) ?? 0
    }

    private static func ownSources() -> [URL] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Sources").standardizedFileURL
        let all = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        return (all?.compactMap { $0 as? URL } ?? []).filter { $0.pathExtension == "swift" }.sorted {
            $0.path < $1.path
        }
    }

    private static func fail(_ message: String) {
        FileHandle.standardError.write(Data("MemoryBudget: \(message)\n".utf8))
        exit(64)
    }
}
