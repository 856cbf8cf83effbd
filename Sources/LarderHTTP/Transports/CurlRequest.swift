#if Curl
    import CCurl
    import Foundation

    /// A request in libcurl's options.
    enum CurlRequest {
        /// Fields that libcurl adds unless it is told not to.
        private static let unwanted = ["Accept", "Accept-Encoding", "Content-Type", "Expect", "User-Agent"]

        /// Sets the options of a handle for a request, and returns the fields, to be freed with the handle.
        static func configure(
            _ handle: UnsafeMutableRawPointer, _ request: URLRequest, _ content: Data?
        ) -> UnsafeMutablePointer<curl_slist>? {
            ccurl_set_string(handle, CURLOPT_URL, url(of: request) ?? "")
            ccurl_set_long(handle, CURLOPT_PATH_AS_IS, 1)
            ccurl_set_long(handle, CURLOPT_PROTOCOLS, ccurl_http)
            ccurl_set_long(handle, CURLOPT_FOLLOWLOCATION, 0)
            ccurl_set_long(handle, CURLOPT_NOSIGNAL, 1)
            ccurl_set_long(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
            // As URLSession counts: the time without any progress.
            let seconds = Int(max(1, min(request.timeoutInterval, 1e9)))
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
            // Without bytes there is nothing to point to.
            if content?.isEmpty == true { ccurl_set_string(handle, CURLOPT_COPYPOSTFIELDS, "") }
            if method == "HEAD" {
                ccurl_set_long(handle, CURLOPT_NOBODY, 1)
            } else if method != "GET" || content != nil {
                ccurl_set_string(handle, CURLOPT_CUSTOMREQUEST, method)
            }
            let accepted = request.value(forHTTPHeaderField: "Accept-Encoding")
            if let accepted { ccurl_set_string(handle, CURLOPT_ACCEPT_ENCODING, accepted) }
            let fields = fields(of: request)
            ccurl_set_pointer(handle, CURLOPT_HTTPHEADER, fields)
            return fields
        }

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
            for (name, value) in fields where HTTPField(name, value).isWritable {
                // A semicolon sends a field without a value; a colon would remove it.
                list = curl_slist_append(list, value.isEmpty ? "\(name);" : "\(name): \(value)")
            }
            for name in unwanted where request.value(forHTTPHeaderField: name) == nil {
                list = curl_slist_append(list, "\(name):")
            }
            return list
        }
    }
#endif
