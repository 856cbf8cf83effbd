import Foundation
import LarderHTTP

/// Gets URLs through the cache like a browser, and prints how it handled each.
///
///     CachedPages URL ... [--reload] [--offline] [--forget]
@main
struct CachedPages {
    static func main() async throws {
        #if Curl
            let web = try HTTPCache(name: "larder-cached-pages", transport: CurlTransport())
        #else
            let web = try HTTPCache(name: "larder-cached-pages")
        #endif
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.contains("--forget") { try await web.removeAll() }
        let mode = arguments.compactMap { ["--offline": HTTPCacheMode.onlyIfCached, "--reload": .noCache][$0] }.first
        for url in arguments.filter({ !$0.hasPrefix("--") }).compactMap({ URL(string: $0) }) {
            do {
                let (data, response) = try await web.data(from: url, mode: mode)
                print("\(response.status)  \(response.cacheStatus), \(data.count) bytes  \(url)")
            } catch {
                print("failed  \(url): \(error)")
            }
        }
        try await web.close()
    }
}
