import Foundation
import Larder

/// Keeps downloads in a folder of limited size, and evicts the least recently used.
@main
struct DownloadFolder {
    static let help = """
        usage: DownloadFolder [--limit BYTES] [URL or FILE ...]

        Fetches each URL once and keeps it for a week, in at most BYTES (default 1000000). Without arguments it
        "downloads" source files of this package. Run it twice, and then with --limit 50000.
        """

    static func main() {
        do {
            var arguments = CommandLine.arguments.dropFirst()
            var limit = 1_000_000
            if arguments.first == "--help" { return print(help) }
            if arguments.first == "--limit" {
                guard let bytes = arguments.dropFirst().first.flatMap({ Int($0) }), bytes > 0 else {
                    return fail(64, "--limit takes a number of bytes")
                }
                limit = bytes
                arguments = arguments.dropFirst(2)
            }
            try run(arguments.isEmpty ? ownSources() : arguments.map(url), limit: limit)
        } catch {
            fail(1, "\(error)")
        }
    }

    private static func run(_ urls: [URL], limit: Int) throws {
        var configuration = DiskCache.Configuration()
        configuration.defaultTTL = .days(7)
        configuration.sizeLimit = limit
        let folder = try DiskCache(name: "larder-downloads", configuration: configuration)
        var fetched = 0
        for url in urls {
            if folder.data(forKey: url.absoluteString) != nil { continue }
            let download = try Data(contentsOf: url)
            fetched += 1
            try keep(download, from: url, in: folder)
        }
        // The limit is enforced in the background; this waits for it.
        try folder.flush()
        let evicted = folder.statistics.evictions.size
        print("fetched \(fetched), from the folder \(urls.count - fetched), evicted \(evicted)")
        print("\(folder.count) downloads, \(folder.payloadSize) of \(limit) bytes")
        try folder.close()
    }

    private static func keep(_ download: Data, from url: URL, in folder: DiskCache) throws(CacheError) {
        do {
            try folder.setData(download, forKey: url.absoluteString)
        } catch {
            guard error.code == .tooLarge else { throw error }
            print("not kept: \(url.lastPathComponent) is larger than the limit")
        }
    }

    private static func url(_ argument: String) -> URL {
        if let url = URL(string: argument), url.scheme != nil { return url }
        return URL(fileURLWithPath: argument)
    }

    private static func ownSources() throws -> [URL] {
        let package = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let sources = package.appendingPathComponent("Sources/Larder/Store", isDirectory: true)
        return try FileManager.default.contentsOfDirectory(at: sources, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "swift" }
            .sorted { $0.path < $1.path }
    }

    private static func fail(_ code: Int32, _ message: String) {
        FileHandle.standardError.write(Data("DownloadFolder: \(message)\n".utf8))
        exit(code)
    }
}
