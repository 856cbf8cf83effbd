import Foundation
import Larder

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The stored part of a response.
nonisolated struct Page: Codable, Sendable {
    var status: Int
    var body: Data
}

/// Gets pages from servers, with the validators of known pages.
nonisolated struct PageFetcher: Sendable {
    /// A failure for which a stale page may be returned.
    enum Failure: Error, CustomStringConvertible {
        case offline
        case noHTTP
        case server(status: Int)

        var description: String {
            switch self {
            case .offline: "offline"
            case .noHTTP: "not an HTTP response"
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

    /// The metadata of a page; a 304 replaces the headers that it has.
    private func headers(of response: HTTPURLResponse, else known: [String: String] = [:]) -> [String: String] {
        var headers = known
        for name in ["etag", "last-modified", "cache-control"] {
            if let value = response.value(forHTTPHeaderField: name) { headers[name] = value }
        }
        return headers
    }
}
