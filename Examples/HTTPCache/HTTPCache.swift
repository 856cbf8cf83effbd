import Foundation
import Larder

/// Gets URLs through the cache like a browser, with the validators and lives that servers send.
@main
struct HTTPCache {
    static let help = """
        usage: HTTPCache URL ... [--times N] [--reload] [--offline] [--forget]

        Gets each URL through the cache, N times, and prints its status, its source (memory, disk, network,
        revalidated 304, stale), its age, its bytes and the time taken. When a server cannot be reached, an expired
        page is returned for a week, unless it said must-revalidate. --reload always asks the servers, --offline never,
        and --forget empties the cache first.
        """

    static func main() async {
        do {
            var arguments = Array(CommandLine.arguments.dropFirst())
            if arguments.isEmpty || arguments.contains("--help") { return print(help) }
            let (reloads, isOffline) = (take("--reload", &arguments), take("--offline", &arguments))
            let forgets = take("--forget", &arguments)
            var times = 1
            if let place = arguments.firstIndex(of: "--times"), place + 1 < arguments.count {
                times = Int(arguments[place + 1]) ?? 1
                arguments.removeSubrange(place...place + 1)
            }
            let pages = try Cache<Page>(name: "larder-http-cache", coder: .propertyList)
            if forgets { try await pages.removeAll() }
            let fetcher = PageFetcher(isOffline: isOffline)
            var failures = 0
            for _ in 0..<times {
                for url in arguments {
                    let policy = (reloads ? FetchPolicy.reload : .cacheFirst)
                        .staleIfError(for: isOffline ? .forever : .days(7)).hardTimeout(.seconds(30))
                    do {
                        try await get(url, from: pages, policy, fetcher)
                    } catch {
                        failures += 1
                        print("failed  \(url): \(error)")
                    }
                }
            }
            try await pages.close()
            if failures > 0 { exit(1) }
        } catch {
            FileHandle.standardError.write(Data("HTTPCache: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func get(
        _ url: String, from pages: Cache<Page>, _ policy: FetchPolicy, _ fetcher: PageFetcher
    ) async throws {
        let began = ContinuousClock.now
        let found = try await pages.lookup(forKey: url, policy: policy) { cached in
            try await fetcher.fetch(url, known: cached)
        }
        let took = began.duration(to: .now)
        let source =
            switch found.source {
            case _ where found.isStale: "stale"
            case .fetched: "network"
            case .revalidated: "revalidated 304"
            default: found.source.description
            }
        let milliseconds = String(format: "%.2f ms", took / .milliseconds(1))
        let age = "age \(found.age.components.seconds) s"
        print("\(found.value.status)  \(source), \(age), \(found.value.body.count) bytes, \(milliseconds)  \(url)")
    }

    private static func take(_ flag: String, _ arguments: inout [String]) -> Bool {
        defer { arguments.removeAll { $0 == flag } }
        return arguments.contains(flag)
    }
}
