#if Curl
    import CCurl
    import Foundation
    import LarderFiles

    /// One request over libcurl, and the parts of its response.
    ///
    /// The thread of the loop calls libcurl and its callbacks; the reader of the body takes parts. Between them is at
    /// most `limit` bytes and one part of libcurl's: the connection is not read while the reader is slow.
    final class CurlTransfer: Sendable {
        /// Bytes.
        private static let limit = 1 << 20
        /// Bytes of all heads and trailers. Without it, a server could send fields for ever.
        private static let headLimit = 4 << 20

        private struct State {
            var response: CheckedContinuation<HTTPTransportResponse, any Error>?
            var reader: CheckedContinuation<Data?, any Error>?
            var status = 0
            var fields: [HTTPField] = []
            var isAnswered = false
            var headSize = 0
            var mustRepeat = false
            var isRaw = false
            var parts = Data()
            var isPaused = false
            /// How the transfer ended; nil while it is under way.
            var end: Result<Void, any Error>?
        }

        /// A message to the loop.
        enum Command: Sendable {
            case start, proceed, cancel
        }

        let request: URLRequest
        let content: Data?
        private let state = Lock(State())
        private let send: @Sendable (Command, CurlTransfer) -> Void

        init(_ request: URLRequest, content: Data?, send: @escaping @Sendable (Command, CurlTransfer) -> Void) {
            self.request = request
            self.content = content
            self.send = send
        }

        /// Sends the request and returns the response once its fields are there.
        func start() async throws -> HTTPTransportResponse {
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    state.withLock { $0.response = continuation }
                    send(.start, self)
                }
            } onCancel: {
                send(.cancel, self)
            }
        }

        /// Returns the parts that have arrived, or waits for one; nil at the end.
        func next() async throws -> Data? {
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    read(continuation)
                }
            } onCancel: {
                send(.cancel, self)
            }
        }

        private func read(_ continuation: CheckedContinuation<Data?, any Error>) {
            let (ready, wasPaused) = state.withLock { state -> (Result<Data?, any Error>?, Bool) in
                defer { state.isPaused = false }
                if !state.parts.isEmpty {
                    defer { state.parts = Data() }
                    return (.success(state.parts), state.isPaused)
                }
                if let end = state.end { return (end.map { nil }, false) }
                state.reader = continuation
                return (nil, state.isPaused)
            }
            if wasPaused { send(.proceed, self) }
            if let ready { continuation.resume(with: ready) }
        }

        func cancel() {
            send(.cancel, self)
        }

        // MARK: On the thread of the loop

        /// Whether the body is handed out as it is.
        var isRaw: Bool { state.withLock { $0.isRaw } }

        /// Prepares to send the request once more when the server has used a coding that libcurl does not know, which
        /// would fail: this time nothing is decoded. Returns false otherwise.
        func repeatsRaw() -> Bool {
            state.withLock { state in
                guard state.mustRepeat, state.end == nil else { return false }
                (state.mustRepeat, state.isRaw) = (false, true)
                (state.status, state.fields, state.headSize) = (0, [], 0)
                return true
            }
        }

        var hasEnded: Bool { state.withLock { $0.end != nil } }

        /// A line of the head, or of a trailer, which comes after the response was handed out. Returns false when the
        /// heads are too long.
        func receive(line: UnsafeRawBufferPointer) -> Bool {
            let isTooLong = state.withLock { state in
                state.headSize += line.count
                return state.headSize > Self.headLimit
            }
            if isTooLong {
                finish(
                    .failure(
                        CurlError(
                            code: 100, message: "The fields of the response have more than \(Self.headLimit) bytes.")))
                return false
            }
            let bytes = line.filter { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
            // A value need not be UTF-8 (RFC 9110, section 5.5).
            let text = EntityTags.text(ofLine: bytes)
            let waiting = state.withLock { state -> (CheckedContinuation<HTTPTransportResponse, any Error>, State)? in
                if state.isAnswered { return nil }
                if text.hasPrefix("HTTP/") {
                    // An interim response came before.
                    state.status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
                    state.fields = []
                } else if let first = bytes.first, " \t".utf8.contains(first) {
                    // A folded line continues the one before (RFC 9112, section 5.2).
                    guard let last = state.fields.indices.last else { return nil }
                    state.fields[last].value += " " + HTTPField.trimmed(text)
                } else if !text.isEmpty {
                    if let field = HTTPField(line: text) { state.fields.append(field) }
                } else if state.status >= 200, request.acceptsCodings, request.httpMethod == "GET", !state.isRaw,
                    !CurlRequest.decodes(state.fields)
                {
                    state.mustRepeat = true
                } else if state.status >= 200, let continuation = state.response {
                    state.isAnswered = true
                    state.response = nil
                    return (continuation, state)
                }
                return nil
            }
            if state.withLock({ $0.mustRepeat }) { return false }
            guard let (continuation, state) = waiting else { return true }
            var fields = state.fields
            if request.acceptsCodings, !state.isRaw, CurlRequest.decodes(fields), fields.has("Content-Encoding") {
                fields.remove("Content-Encoding")
                fields.remove("Content-Length")
            }
            let body = HTTPBody(CurlParts(self))
            continuation.resume(
                returning: HTTPTransportResponse(status: state.status, fields: fields, body: body))
            return true
        }

        /// Returns false when the reader is too slow: libcurl then keeps the part.
        func receive(part: UnsafeRawBufferPointer) -> Bool {
            let (reader, isTaken) = state.withLock { state -> (CheckedContinuation<Data?, any Error>?, Bool) in
                if let reader = state.reader {
                    state.reader = nil
                    return (reader, true)
                }
                if state.parts.count >= Self.limit {
                    state.isPaused = true
                    return (nil, false)
                }
                state.parts.append(contentsOf: part)
                return (nil, true)
            }
            reader?.resume(returning: Data(part))
            return isTaken
        }

        func finish(_ end: Result<Void, any Error>) {
            let (response, reader) = state.withLock { state in
                if state.end == nil { state.end = end }
                defer { (state.response, state.reader) = (nil, nil) }
                return (state.response, state.reader)
            }
            switch end {
            case .success:
                response?.resume(throwing: CurlError(code: 0, message: "The response has no head."))
            case .failure(let error): response?.resume(throwing: error)
            }
            reader?.resume(with: end.map { nil })
        }
    }

    /// The body of a response. A body that nobody reads any more ends its transfer.
    private final class CurlParts: AsyncSequence, Sendable {
        typealias Element = Data

        private let transfer: CurlTransfer

        init(_ transfer: CurlTransfer) {
            self.transfer = transfer
        }

        deinit {
            transfer.cancel()
        }

        func makeAsyncIterator() -> Iterator { Iterator(parts: self) }

        struct Iterator: AsyncIteratorProtocol {
            fileprivate let parts: CurlParts

            mutating func next() async throws -> Data? { try await parts.transfer.next() }
        }
    }
#endif
