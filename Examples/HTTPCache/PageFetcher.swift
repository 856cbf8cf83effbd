import Foundation
import Larder

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// What is kept of a response.
nonisolated struct Page: Codable, Sendable {
    var status: Int
    var body: Data
}

/// Gets pages from servers, with the validators of what is known.
nonisolated struct PageFetcher: Sendable {
    /// What went wrong; what is stale may be answered instead.
    enum Failure: Error, CustomStringConvertible {
        case offline
        case noHTTP
        case server(status: Int)

        var description: String {
            switch self {
            case .offline: "offline"
            case .noHTTP: "no answer in HTTP"
            case .server(let status): "the server answers \(status)"
            }
        }
    }

    let isOffline: Bool
    private let session: URLSession

    init(isOffline: Bool) {
        self.isOffline = isOffline
        // One cache is enough.
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        session = URLSession(configuration: configuration)
    }

    func fetch(_ address: String, known: Lookup<Page>?) async throws -> FetchResult<Page> {
        if isOffline { throw Failure.offline }
        guard let url = URL(string: address) else { throw URLError(.badURL) }
        var request = URLRequest(url: url)
        request.setValue(known?.metadata["etag"], forHTTPHeaderField: "If-None-Match")
        request.setValue(known?.metadata["last-modified"], forHTTPHeaderField: "If-Modified-Since")
        let (body, response) = try await session.data(for: request)
        guard let response = response as? HTTPURLResponse else { throw Failure.noHTTP }
        let freshness = Freshness(response, known: known?.metadata["cache-control"])
        switch response.statusCode {
        case 304 where known != nil:
            return .notModified(
                ttl: freshness.ttl, metadata: headers(of: response, else: known?.metadata ?? [:]),
                mustRevalidate: freshness.mustRevalidate)
        case 200:
            return .value(
                Page(status: 200, body: body), ttl: freshness.ttl, metadata: headers(of: response),
                mustRevalidate: freshness.mustRevalidate)
        case 500...: throw Failure.server(status: response.statusCode)
        default: return .value(Page(status: response.statusCode, body: body), ttl: .seconds(0))
        }
    }

    /// What is kept beside a page: a 304 replaces what it says anew.
    private func headers(of response: HTTPURLResponse, else known: [String: String] = [:]) -> [String: String] {
        var headers = known
        for name in ["etag", "last-modified", "cache-control"] {
            if let value = response.value(forHTTPHeaderField: name) { headers[name] = value }
        }
        return headers
    }
}
