import Foundation
import LarderFiles

/// A transport over `URLSession`.
///
/// On Linux, `URLSession` ends the process over a chunked response with a trailer, loses one of two fields
/// `Cache-Control`, and adds fields of its own; take `CurlTransport` there.
public struct URLSessionTransport: HTTPTransport {
    /// A session keeps its delegate until it is invalidated: here with the last copy of the transport, once the tasks
    /// that are under way have ended.
    private final class Owner: Sendable {
        let session: URLSession
        let tasks = SessionTasks()

        init(_ configuration: URLSessionConfiguration) {
            session = URLSession(configuration: configuration, delegate: tasks, delegateQueue: nil)
        }

        deinit {
            session.finishTasksAndInvalidate()
        }
    }

    private let owner: Owner

    /// Creates a transport.
    ///
    /// - Parameter configuration: It is copied. Its cache and its cookies are not used: the cache is above, and cookies
    ///   are fields that the caller sets. Default: an ephemeral one.
    public init(configuration: URLSessionConfiguration = .ephemeral) {
        guard let configuration = configuration.copy() as? URLSessionConfiguration else {
            preconditionFailure("a copy has another type")
        }
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        owner = Owner(configuration)
    }

    /// Sends a request; see ``HTTPTransport/send(_:)``.
    ///
    /// - Throws: `URLError`, `CancellationError`.
    public func send(_ request: URLRequest) async throws -> HTTPTransportResponse {
        var request = request
        request.cachePolicy = .reloadIgnoringLocalCacheData
        request.httpShouldHandleCookies = false
        try Task.checkCancellation()
        let task = owner.session.dataTask(with: request)
        return try await withTaskCancellationHandler {
            try await owner.tasks.start(task)
        } onCancel: {
            owner.tasks.cancel(task)
        }
    }
}

/// The tasks of a session, and the streams that their bodies go to.
private final class SessionTasks: NSObject, URLSessionDataDelegate {
    private struct Exchange {
        var continuation: CheckedContinuation<HTTPTransportResponse, any Error>?
        let stream: AsyncThrowingStream<Data, any Error>
        let parts: AsyncThrowingStream<Data, any Error>.Continuation
    }

    private static let decoded: Set = ["gzip", "x-gzip", "deflate", "br", "zstd"]

    private let exchanges = Lock<[Int: Exchange]>([:])

    func start(_ task: URLSessionDataTask) async throws -> HTTPTransportResponse {
        let (stream, parts) = AsyncThrowingStream.makeStream(of: Data.self)
        parts.onTermination = { reason in
            if case .cancelled = reason { task.cancel() }
        }
        return try await withCheckedThrowingContinuation { continuation in
            exchanges.withLock {
                $0[task.taskIdentifier] = Exchange(continuation: continuation, stream: stream, parts: parts)
            }
            // Cancelled before it was noted.
            if Task.isCancelled { return end(task, CancellationError()) }
            task.resume()
        }
    }

    /// On Linux, the delegate never hears of a task that is cancelled while it begins.
    func cancel(_ task: URLSessionTask) {
        task.cancel()
        end(task, CancellationError())
    }

    private func end(_ task: URLSessionTask, _ failure: (any Error)?) {
        guard let exchange = exchanges.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
        exchange.parts.finish(throwing: failure)
        exchange.continuation?.resume(throwing: failure ?? URLError(.badServerResponse))
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        respond(dataTask, response)
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        exchanges.withLock { $0[dataTask.taskIdentifier]?.parts }?.yield(data)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        if error == nil, let response = task.response { respond(task, response) }
        end(task, (error as? URLError)?.code == .cancelled ? CancellationError() : error)
    }

    /// Hands out the response when its fields are there.
    private func respond(_ task: URLSessionTask, _ response: URLResponse) {
        // An interim response comes before the one that counts (RFC 9110, section 15.2).
        guard let response = response as? HTTPURLResponse, response.statusCode >= 200 else { return }
        let waiting = exchanges.withLock { exchanges in
            defer { exchanges[task.taskIdentifier]?.continuation = nil }
            return exchanges[task.taskIdentifier]
        }
        guard let waiting, let continuation = waiting.continuation else { return }
        var fields = response.allHeaderFields.compactMap { name, value in
            (name as? String).map { HTTPField($0, "\(value)") }
        }
        fields.sort { $0.name < $1.name }
        // The session has decoded the body, unless it does not know the coding.
        let codings = fields.members(of: "Content-Encoding").map { $0.lowercased() }
        if !codings.isEmpty, codings.allSatisfy(Self.decoded.contains) {
            fields.remove("Content-Encoding")
            fields.remove("Content-Length")
        }
        continuation.resume(
            returning: HTTPTransportResponse(
                status: response.statusCode, fields: fields, body: HTTPBody(waiting.stream)))
    }
}

/// The error of Foundation for an answer that does not come in time.
enum TransportTimeout {
    static var error: any Error { URLError(.timedOut) }
}
