import Foundation
import LarderHTTP

/// One request through a cache, and how it was handled: the status, the member of Cache-Status, the size of the body,
/// and the fields of the response.
struct SingleRequest {
    let directory: URL

    /// Arguments: the method, the URL, and lines of request fields.
    func run(_ arguments: ArraySlice<String>) async throws {
        #if Curl
            let transport = CurlTransport()
        #else
            let transport = URLSessionTransport()
        #endif
        let cache = try HTTPCache(directory: directory, transport: transport)
        var words = arguments
        guard let method = words.popFirst(), let url = words.popFirst().flatMap({ URL(string: $0) }) else {
            throw HTTPChild.Usage()
        }
        var request = URLRequest(url: url)
        request.httpMethod = method
        for line in words {
            let parts = line.split(separator: ":", maxSplits: 1)
            request.setValue(parts.last.map(String.init), forHTTPHeaderField: parts.first.map(String.init) ?? "")
        }
        let (data, response) = try await cache.data(for: request)
        print("\(response.status)  \(response.cacheStatus), \(data.count) bytes")
        for field in response.fields { print(field) }
        try await cache.close()
    }
}
