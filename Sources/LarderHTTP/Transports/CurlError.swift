#if Curl
    import CCurl

    /// A transfer of ``CurlTransport`` that has failed.
    public struct CurlError: Error, Hashable, Sendable, CustomStringConvertible {
        /// libcurl's code, such as 7 for a server that refuses connections; 0 for a response without a head.
        public let code: Int
        /// libcurl's text.
        public let message: String

        init(code: Int, message: String) {
            (self.code, self.message) = (code, message)
        }

        init(_ result: CURLcode) {
            self.init(code: Int(result.rawValue), message: String(cString: curl_easy_strerror(result)))
        }

        /// The text, followed by the code.
        public var description: String { "\(message) [curl \(code)]" }
    }
#endif
