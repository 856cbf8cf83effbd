public import LarderFoundation

/// A request that the cache itself could not answer. Errors of the transport are thrown as they are.
public struct HTTPCacheError: Error, Hashable, Sendable {
    /// The kind of failure.
    public var code: Code
    /// A sentence for people.
    public var message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The kinds of failure. More may be added.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The name of the code.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// The request has no `http` or `https` URL with a host.
        public static let unsupportedURL = Code("unsupportedURL")
        /// The method is no token, or a field has a line break or an impossible name: the message would mean something
        /// else.
        public static let invalidRequest = Code("invalidRequest")
        /// More than twenty redirects followed each other.
        public static let tooManyRedirects = Code("tooManyRedirects")
        /// The temporary file of a large body could not be written or read.
        public static let temporaryFile = Code("temporaryFile")
    }
}

extension HTTPCacheError: LocalizedError {
    /// The message: the text that `localizedDescription` gives a user interface.
    public var errorDescription: String? { message }
}

extension HTTPCacheError: CustomStringConvertible {
    /// The message, followed by the code.
    public var description: String { "\(message) [\(code)]" }
}
