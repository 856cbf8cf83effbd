import LarderFoundation

/// Redirects (RFC 9110, section 15.4).
enum Redirect {
    /// Fields that say who the caller is. They do not go to another origin than the one they were meant for.
    private static let credentials = ["Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "Host"]
    /// Fields about a body besides those whose names begin with "Content-", for a request that has none any more.
    private static let content = ["Digest", "Expect", "Last-Modified", "Repr-Digest", "Trailer", "Transfer-Encoding"]

    /// Returns the request that a redirect leads to; nil for any other response, and for one that cannot be followed:
    /// without a usable `Location`, or with a body that can be sent once only.
    static func next(after request: URLRequest, status: Int, fields: [HTTPField]) -> URLRequest? {
        guard [301, 302, 303, 307, 308].contains(status), let url = request.url,
            let location = fields.values(of: "Location").first, let origin = Origin(url),
            let target = target(location, url), let targetOrigin = Origin(target)
        else { return nil }
        var next = request
        next.url = target
        let method = request.httpMethod ?? "GET"
        // 303: get another resource. 301 and 302 after a POST do the same, as all clients do; 307 and 308 repeat the
        // request (RFC 9110, sections 15.4.2 to 15.4.9).
        let becomesGet = status == 303 && method != "HEAD" && method != "GET" || status < 303 && method == "POST"
        if becomesGet {
            next.httpMethod = "GET"
            next.httpBody = nil
            next.httpBodyStream = nil
        } else if request.httpBodyStream != nil {
            return nil
        }
        for name in (request.allHTTPHeaderFields ?? [:]).keys {
            func isOne(of names: [String]) -> Bool { names.contains { HTTPField.isEqual($0, name) } }
            let isDropped =
                becomesGet && (name.lowercased().hasPrefix("content-") || isOne(of: content))
                || targetOrigin != origin && isOne(of: credentials)
            if isDropped { next.setValue(nil, forHTTPHeaderField: name) }
        }
        return next
    }

    /// The URL, with the fragment of the original one if it has none (RFC 9110, section 10.2.2). Nobody but the caller
    /// may set userinfo: a location with a host has none, any other keeps the caller's (RFC 3986, section 5.2.2).
    private static func target(_ location: String, _ url: URL) -> URL? {
        guard let resolved = URL(string: location, relativeTo: url)?.absoluteURL,
            var components = URLComponents(url: resolved, resolvingAgainstBaseURL: true)
        else { return nil }
        if URL(string: location)?.host != nil { (components.user, components.password) = (nil, nil) }
        if components.fragment == nil { components.fragment = url.fragment }
        return components.url
    }
}
