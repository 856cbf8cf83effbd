#if Curl
    import CCurl
    import Foundation

    /// A request in libcurl's options.
    enum CurlRequest {
        /// Fields that libcurl adds unless it is told not to.
        private static let unwanted = ["Accept", "Accept-Encoding", "Content-Type", "Expect", "User-Agent"]

        /// The codings that this libcurl has been built with.
        private static let codings: Set<String> = {
            let features = ccurl_features()
            var codings: Set = ["identity"]
            if features & Int(CURL_VERSION_LIBZ) != 0 { codings.formUnion(["gzip", "x-gzip", "deflate"]) }
            if features & Int(CURL_VERSION_BROTLI) != 0 { codings.insert("br") }
            if features & Int(CURL_VERSION_ZSTD) != 0 { codings.insert("zstd") }
            return codings
        }()

        /// Whether libcurl knows all codings of a response.
        static func decodes(_ fields: [HTTPField]) -> Bool {
            fields.members(of: "Content-Encoding").allSatisfy { codings.contains($0.lowercased()) }
        }

        /// Refuses what would be more than one request on the connection.
        static func check(_ request: URLRequest) throws {
            let fields = request.allHTTPHeaderFields ?? [:]
            guard HTTPField.isToken(request.httpMethod ?? "GET"),
                fields.allSatisfy({ HTTPField($0.key, $0.value).isWritable })
            else {
                throw CurlError(
                    code: Int(CURLE_BAD_FUNCTION_ARGUMENT.rawValue),
                    message: "The method is no token, or a field cannot be written.")
            }
        }

        /// Sets the options of a handle for a request, and returns the fields, to be freed with the handle.
        static func configure(
            _ handle: UnsafeMutableRawPointer, _ request: URLRequest, _ content: Data?, isRaw: Bool
        ) -> UnsafeMutablePointer<curl_slist>? {
            ccurl_set_string(handle, CURLOPT_URL, url(of: request) ?? "")
            ccurl_set_long(handle, CURLOPT_PATH_AS_IS, 1)
            ccurl_set_long(handle, CURLOPT_PROTOCOLS, ccurl_http)
            ccurl_set_long(handle, CURLOPT_FOLLOWLOCATION, 0)
            ccurl_set_long(handle, CURLOPT_NOSIGNAL, 1)
            ccurl_set_long(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
            let seconds = seconds(of: request)
            ccurl_set_long(handle, CURLOPT_CONNECTTIMEOUT, seconds)
            ccurl_set_long(handle, CURLOPT_LOW_SPEED_LIMIT, 1)
            ccurl_set_long(handle, CURLOPT_LOW_SPEED_TIME, seconds)
            let method = request.httpMethod ?? "GET"
            if let content {
                content.withUnsafeBytes { bytes in
                    ccurl_set_size(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count))
                    if let start = bytes.baseAddress { ccurl_set_pointer(handle, CURLOPT_COPYPOSTFIELDS, start) }
                }
            }
            // Without bytes there is nothing to point to. A method that has content says when there is none (RFC 9110,
            // section 8.6).
            let isEmpty = content?.isEmpty ?? ["POST", "PUT", "PATCH"].contains(method)
            if isEmpty { ccurl_set_string(handle, CURLOPT_COPYPOSTFIELDS, "") }
            if method == "HEAD" {
                ccurl_set_long(handle, CURLOPT_NOBODY, 1)
            } else if method != "GET" || content != nil {
                ccurl_set_string(handle, CURLOPT_CUSTOMREQUEST, method)
            }
            // Once it has this option, libcurl decodes what it knows, and fails where it does not know the coding.
            if let accepted = request.value(forHTTPHeaderField: "Accept-Encoding"), !isRaw {
                ccurl_set_string(handle, CURLOPT_ACCEPT_ENCODING, accepted)
            }
            let fields = fields(of: request)
            ccurl_set_pointer(handle, CURLOPT_HTTPHEADER, fields)
            return fields
        }

        /// The time-out, as URLSession counts it: the time without any progress. Seconds.
        static func seconds(of request: URLRequest) -> Int { Int(max(1, min(request.timeoutInterval, 1e9))) }

        /// Without the user and password, of which libcurl would make a field, and without the fragment.
        private static func url(of request: URLRequest) -> String? {
            guard let url = request.url, var parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
                return nil
            }
            (parts.user, parts.password, parts.fragment) = (nil, nil, nil)
            return parts.string
        }

        private static func fields(of request: URLRequest) -> UnsafeMutablePointer<curl_slist>? {
            var list: UnsafeMutablePointer<curl_slist>?
            let fields = request.allHTTPHeaderFields ?? [:]
            for (name, value) in fields {
                // A semicolon sends a field without a value; a colon would remove it.
                let line = value.isEmpty ? "\(name);" : "\(name): \(value)"
                list = (EntityTags.bytes(of: line, named: name) + [0]).withUnsafeBytes { bytes in
                    curl_slist_append(list, bytes.bindMemory(to: CChar.self).baseAddress)
                }
            }
            for name in unwanted where request.value(forHTTPHeaderField: name) == nil {
                list = curl_slist_append(list, "\(name):")
            }
            return list
        }
    }

    /// The text of fields with entity tags. A tag is opaque bytes, which the server wants back as they were (RFC 9110,
    /// section 8.8.3); so its characters are these bytes, while other values are UTF-8 where they can be.
    enum EntityTags {
        private static let names = ["ETag", "If-Match", "If-None-Match", "If-Range"]

        private static func isOne(_ name: String) -> Bool { names.contains { HTTPField.isEqual($0, name) } }

        /// The text of a line of a response.
        static func text(ofLine bytes: [UInt8]) -> String {
            let name = String(decoding: bytes.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self)
            if !isOne(name), let text = String(validating: bytes, as: UTF8.self) { return text }
            return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        }

        /// The bytes of a line of a request.
        static func bytes(of line: String, named name: String) -> [UInt8] {
            let scalars = line.unicodeScalars
            guard isOne(name), scalars.allSatisfy({ $0.value <= 0xFF }) else { return Array(line.utf8) }
            return scalars.map { UInt8($0.value) }
        }
    }

    extension URLRequest {
        var acceptsCodings: Bool { value(forHTTPHeaderField: "Accept-Encoding") != nil }
    }
#endif
