import Foundation
import LarderHTTP

/// Gets URLs through the cache like a browser, and prints how it handled each.
@main
struct CachedPages {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let urls = arguments.filter { !$0.hasPrefix("--") }.compactMap { URL(string: $0) }
        if urls.isEmpty { return print("usage: CachedPages URL ... [--reload] [--offline] [--forget]") }
        #if Curl
            let transport = CurlTransport()
        #else
            let transport = URLSessionTransport()
        #endif
        let web = try HTTPCache(name: "larder-cached-pages", transport: transport)
        if arguments.contains("--forget") { try await web.removeAll() }
        let isOffline = arguments.contains("--offline")
        let mode: HTTPCacheMode = isOffline ? .onlyIfCached : arguments.contains("--reload") ? .noCache : .default
        var failures: Int32 = 0
        for url in urls {
            do {
                let (data, response) = try await web.data(from: url, mode: mode)
                print("\(response.status)  \(response.cacheStatus), \(data.count) bytes  \(url)")
            } catch {
                failures += 1
                print("failed  \(url): \(error)")
            }
        }
        try await web.close()
        if failures > 0 { exit(1) }
    }
}
