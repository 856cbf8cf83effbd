import Foundation
import Larder

/// Counts the words in the files of a directory, and caches the results for the next run.
@main
struct QuickStart {
    static func main() {
        do {
            let options = try Options(Array(CommandLine.arguments.dropFirst()))
            switch options.command {
            case .help: print(Options.help)
            case .list: try list(try openCache())
            case .clear: try clear(try openCache())
            case .count(let directory): try count(directory, options.ttl, try openCache())
            }
        } catch let failure as Failure {
            failure.exit()
        } catch let error as CacheError where error.code == .directoryInUse {
            Failure(code: 75, message: "another program has the cache for itself; try again when it is done").exit()
        } catch {
            Failure(code: 1, message: "\(error)").exit()
        }
    }

    private static func openCache() throws -> DiskCache {
        try DiskCache(name: "larder-quickstart")
    }

    private static func count(_ directory: URL, _ ttl: TimeToLive, _ cache: DiskCache) throws {
        let start = ContinuousClock.now
        var computed = 0
        var cached = 0
        var table = Table(headings: ["file", "lines", "words", "most frequent words"])
        for file in try TextFile.all(in: directory) {
            // The date in the metadata shows whether the file has changed since it was counted.
            let isCurrent = cache.entry(forKey: file.key)?.metadata["modified"] == file.modified
            if isCurrent, let words = cache.value(WordCount.self, forKey: file.key) {
                cached += 1
                table.add(file.name, words)
            } else if let words = file.count() {
                computed += 1
                try cache.setValue(words, forKey: file.key, ttl: ttl, metadata: ["modified": file.modified])
                table.add(file.name, words)
            }
        }
        try cache.close()
        table.print()
        let elapsed = start.duration(to: .now) / .milliseconds(1)
        print("computed \(computed), from cache \(cached), in \(Int(elapsed.rounded())) ms")
    }

    private static func list(_ cache: DiskCache) throws {
        var table = Table(headings: ["key", "bytes", "expires"])
        for entry in cache.entries().sorted(by: { $0.key < $1.key }) {
            table.add([entry.key, "\(entry.payloadSize)", entry.expiresAt.map { "\($0)" } ?? "never"])
        }
        try cache.close()
        table.print()
    }

    private static func clear(_ cache: DiskCache) throws {
        let count = cache.count
        try cache.removeAll()
        try cache.close()
        print("removed \(count)")
    }
}
