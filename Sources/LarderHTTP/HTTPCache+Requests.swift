import Larder
import LarderFiles
public import LarderFoundation

extension HTTPCache {
    /// Answers a request, from the cache or from its server.
    ///
    /// - Parameters:
    ///   - request: Its `cachePolicy` is the mode of calls without one.
    ///   - mode: How the request uses the cache. Default: as `cachePolicy` says.
    ///   - partition: Separates the responses of several accounts: a request sees only those that were stored with the
    ///     same partition. Any string. Default: "".
    /// - Returns: The body and the response.
    /// - Throws: ``HTTPCacheError``, `CancellationError`, and any error of the transport when there is no response that
    ///   may be the answer instead. A server's error status is a response.
    public func data(
        for request: URLRequest, mode: HTTPCacheMode? = nil, partition: String = ""
    ) async throws -> (Data, HTTPCacheResponse) {
        let (content, response) = try await content(for: request, mode: mode, partition: partition)
        return (try await content.data(), response)
    }

    /// Answers the request for a URL; see ``data(for:mode:partition:)``.
    public func data(
        from url: URL, mode: HTTPCacheMode? = nil, partition: String = ""
    ) async throws -> (Data, HTTPCacheResponse) {
        try await data(for: URLRequest(url: url), mode: mode, partition: partition)
    }

    /// Answers a request with a file, which then belongs to the caller. A body of more than
    /// ``Configuration/spoolLimit`` bytes is never in memory as a whole: it is copied from the network to the file, and
    /// between the file and the cache. Where the file system can share blocks (APFS, btrfs, xfs), and the temporary
    /// directory is on that of the cache, such a copy costs no bytes.
    ///
    /// - Parameters:
    ///   - request: As for ``data(for:mode:partition:)``.
    ///   - mode: As for ``data(for:mode:partition:)``.
    ///   - partition: As for ``data(for:mode:partition:)``.
    /// - Returns: A file in the system's temporary directory, to be moved or deleted, and the response.
    /// - Throws: As ``data(for:mode:partition:)``.
    public func download(
        for request: URLRequest, mode: HTTPCacheMode? = nil, partition: String = ""
    ) async throws -> (URL, HTTPCacheResponse) {
        let (content, response) = try await content(
            for: request, mode: mode, partition: partition, largeBodies: .files)
        return (try await content.file(in: responder.store.temporaryFiles).keep(), response)
    }

    /// RFC 9110, section 15.4, recommends a limit; this one is Fetch's.
    private static let maximumRedirects = 20

    private func content(
        for request: URLRequest, mode: HTTPCacheMode?, partition: String, largeBodies: Hop.LargeBodies = .data
    ) async throws -> (Content, HTTPCacheResponse) {
        var request = request
        let mode = mode ?? HTTPCacheMode(request.cachePolicy)
        for _ in 0...Self.maximumRedirects {
            let (answer, url) = try await hop(request, mode, partition, largeBodies)
            guard configuration.followsRedirects,
                let next = Redirect.next(after: request, status: answer.status, fields: answer.fields)
            else {
                let fields = answer.fields + [HTTPField("Cache-Status", answer.cacheStatus.description)]
                let response = HTTPCacheResponse(
                    url: url, status: answer.status, fields: fields, cacheStatus: answer.cacheStatus)
                return (answer.body, response)
            }
            request = next
        }
        throw HTTPCacheError(
            .tooManyRedirects, "The request was redirected more than \(Self.maximumRedirects) times.")
    }

    private func hop(
        _ request: URLRequest, _ mode: HTTPCacheMode, _ partition: String, _ largeBodies: Hop.LargeBodies
    ) async throws -> (HopAnswer, URL) {
        guard var head = HTTPRequestHead(request) else {
            throw HTTPCacheError(.unsupportedURL, "A request without a URL cannot be sent.")
        }
        // A part of a compressed body cannot be decoded: a range is one of the body as it is, as browsers ask for it.
        let codings = head.fields.has("Range") ? [HTTPField("Accept-Encoding", "identity")] : []
        // A name may occur several times in each of these.
        for added in [codings, configuration.requestFields, Self.directives(of: mode)] {
            let known = head.fields
            head.fields += added.filter { !known.has($0.name) }
        }
        try Self.check(head)
        let hop = Hop(request: request, head: head, mode: mode, partition: partition, largeBodies: largeBodies)
        return (try await responder.answer(hop), head.url)
    }

    /// Refuses what would be more than one request on the connection.
    private static func check(_ head: HTTPRequestHead) throws {
        guard HTTPField.isToken(head.method) else {
            throw HTTPCacheError(.invalidRequest, "The method \(head.method.debugDescription) is no token.")
        }
        if let field = head.fields.first(where: { !$0.isWritable }) {
            throw HTTPCacheError(
                .invalidRequest, "The field \(field.name.debugDescription) of the request cannot be written.")
        }
    }

    /// The fields by which a mode asks the caches on the way for the server's answer, as Fetch does.
    private static func directives(of mode: HTTPCacheMode) -> [HTTPField] {
        switch mode {
        case .noCache: [HTTPField("Cache-Control", "max-age=0")]
        case .reload, .noStore: [HTTPField("Cache-Control", "no-cache"), HTTPField("Pragma", "no-cache")]
        default: []
        }
    }
}

extension HTTPCacheMode {
    /// The mode that Foundation's policy asks for.
    init(_ policy: URLRequest.CachePolicy) {
        switch policy {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: self = .reload
        case .returnCacheDataElseLoad: self = .forceCache
        case .returnCacheDataDontLoad: self = .onlyIfCached
        case .reloadRevalidatingCacheData: self = .noCache
        default: self = .default
        }
    }
}
