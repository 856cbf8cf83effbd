#if Curl
    import Foundation

    /// A transport over libcurl, with the trait `Curl`: the one to take on Linux.
    ///
    /// It reads trailers, keeps every field in its order, and adds none but `Host` and `Content-Length`. All transfers
    /// share a thread and a pool of connections, six to one host, with HTTP/2 where the server and libcurl have it. The
    /// user and password of a URL are not sent. A request waits as long as its `timeoutInterval` without any progress.
    /// The proxies of the environment are used, as by `curl`.
    public struct CurlTransport: HTTPTransport {
        /// Stops the loop with the last copy of the transport.
        private final class Owner: Sendable {
            let loop = CurlLoop()

            init() {
                loop.begin()
            }

            deinit {
                loop.stop()
            }
        }

        private let owner = Owner()

        /// Creates a transport, with a thread and a pool of connections of its own.
        public init() {}

        /// Sends a request; see ``HTTPTransport/send(_:)``. Where the request has `Accept-Encoding`, libcurl decodes
        /// the body. A coding that libcurl does not know is no failure of a GET: the request is sent once more, and its
        /// body handed out as it is, with `Content-Encoding`. Other methods fail then. A body stream of the request is
        /// read into memory first. Characters of an `ETag` are its bytes, so that it goes back as it came.
        ///
        /// - Throws: ``CurlError``, `CancellationError`.
        public func send(_ request: URLRequest) async throws -> HTTPTransportResponse {
            try CurlRequest.check(request)
            var content = request.httpBody
            if content == nil, let stream = request.httpBodyStream {
                nonisolated(unsafe) let stream = stream
                content = try await withCheckedThrowingContinuation { continuation in
                    // On a thread of its own: a stream may be as slow as whoever fills it.
                    Thread.detachNewThread { continuation.resume(with: Result { try Self.read(stream) }) }
                }
            }
            // The transfer retains the owner: the loop runs until its body has been read.
            let transfer = CurlTransfer(request, content: content) { [owner] in owner.loop.send($0, $1) }
            try Task.checkCancellation()
            return try await transfer.start()
        }

        private static func read(_ stream: InputStream) throws -> Data {
            stream.open()
            defer { stream.close() }
            var data = Data()
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = stream.read(&buffer, maxLength: buffer.count)
                if count < 0 { throw stream.streamError ?? CocoaError(.fileReadUnknown) }
                if count == 0 { return data }
                data.append(contentsOf: buffer[..<count])
            }
        }
    }
#endif
