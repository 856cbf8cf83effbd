package import LarderFiles
public import LarderFoundation

extension HTTPCachePolicy {
    /// Returns the request that asks whether a stored response is still valid: with its validators (section 4.3.1).
    public func validation(of response: HTTPResponseHead, for request: HTTPRequestHead) -> HTTPRequestHead {
        var request = request
        if let etag = response.etag { request.fields.set("If-None-Match", etag) }
        if response.date("Last-Modified") != nil, let modified = response.fields.values(of: "Last-Modified").first {
            request.fields.set("If-Modified-Since", modified)
        }
        return request
    }

    /// Returns a stored response as a 304 updates it; nil when the 304 is about another one (sections 4.3.4 and 3.2).
    public func updated(_ stored: HTTPResponseHead, by news: HTTPResponseHead) -> HTTPResponseHead? {
        // A validator names the response to update. By weak comparison, as the server did (RFC 9110, section 13.1.2),
        // although a strong one should name only strong ones: nginx compresses `"a"` as `W/"a"`, and confirms that as
        // `"a"`. Only one response was asked about.
        if let etag = news.etag {
            guard let known = stored.etag, Self.opaque(etag) == Self.opaque(known) else { return nil }
        } else if stored.etag == nil, let date = news.date("Last-Modified"), date != stored.date("Last-Modified") {
            // Such as an older file that has come back: unchanged since our date, but another one.
            return nil
        }
        return merged(stored, news)
    }

    static func opaque(_ etag: String) -> Substring { etag.hasPrefix("W/") ? etag.dropFirst(2) : etag[...] }

    /// Returns a stored response as the 200 to a HEAD updates it; nil when they describe different contents, so that
    /// the stored one counts as stale (section 4.3.5).
    ///
    /// - Parameters:
    ///   - stored: A response to a GET.
    ///   - news: The response to a HEAD. Any but a 200 updates nothing.
    ///   - size: The bytes of the stored body, for a stored response without `Content-Length`. Default: nil, unknown.
    /// - Returns: The updated response.
    public func updated(
        _ stored: HTTPResponseHead, byHead news: HTTPResponseHead, size: Int? = nil
    ) -> HTTPResponseHead? {
        guard news.status == 200, stored.status == 200 else { return nil }
        for name in ["ETag", "Last-Modified", "Content-Length"] {
            guard let value = news.fields.value(of: name) else { continue }
            var known = stored.fields.value(of: name)
            // A transport that decodes a body removes its length.
            if name == "Content-Length" { known = known ?? size.map(String.init) }
            if value != known { return nil }
        }
        return merged(stored, news)
    }

    /// Returns a stored response as a stale one, older than any lifetime. A 304 makes it younger again.
    package func stale(_ stored: HTTPResponseHead) -> HTTPResponseHead {
        var stale = stored
        stale.fields.set("Age", String(CacheControl.longest))
        return stale
    }

    /// Returns whether the loss of an update does no harm: the response as it was stored is never reused where the
    /// updated one is not.
    package func mayLose(
        _ updated: HTTPResponseHead, over stored: HTTPResponseHead, at now: Timestamp
    ) -> Bool {
        ["Cache-Control", "Vary"].allSatisfy { updated.fields.values(of: $0) == stored.fields.values(of: $0) }
            && remaining(of: stored, at: now) <= remaining(of: updated, at: now)
    }

    private func merged(_ stored: HTTPResponseHead, _ news: HTTPResponseHead) -> HTTPResponseHead {
        // Fields in `Connection` belong to this message: those of the stored one stay.
        let received = storable(news).fields.filter { field in
            !Self.fixed.contains { HTTPField.isEqual($0, field.name) }
        }
        // Age and Date describe one transfer: those of the earlier one do not hold any more.
        let replaced = Set((received.map(\.name) + ["Age", "Date"]).map { $0.lowercased() })
        let kept = stored.fields.filter { !replaced.contains($0.name.lowercased()) }
        return HTTPResponseHead(
            status: stored.status, fields: kept + received, requested: news.requested, received: news.received,
            lead: news.lead)
    }

    /// Fields about the stored bytes, which an update leaves alone (section 3.2). An entity tag does not become strong
    /// because it was compared weakly.
    private static let fixed = ["Content-Length", "Content-Encoding", "Content-Range", "ETag"]

    /// Returns a response as it is stored: without the fields of one connection (section 3.1; RFC 9110, section 7.6.1),
    /// and with a date (RFC 9110, section 6.6.1).
    public func storable(_ response: HTTPResponseHead) -> HTTPResponseHead {
        var response = response
        let listed = response.fields.members(of: "Connection").filter { name in
            !Self.endToEnd.contains { HTTPField.isEqual($0, name) }
        }
        response.fields.removeAll { field in
            (Self.connection + listed).contains { HTTPField.isEqual($0, field.name) }
        }
        if !response.fields.has("Date") {
            response.fields.append(HTTPField("Date", HTTPDate.text(response.received.milliseconds / 1000)))
        }
        return response
    }

    /// Fields for every recipient, which `Connection` must not list (RFC 9110, section 7.6.1). Without them a response
    /// would be reused where it must not be, or misread.
    private static let endToEnd = [
        "Age", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Date", "ETag",
        "Expires", "Last-Modified", "Location", "Pragma", "Vary",
    ]

    private static let connection = [
        "Connection", "Keep-Alive", "Proxy-Connection", "TE", "Transfer-Encoding", "Upgrade", "Trailer",
        "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
    ]

    /// Returns the fields of a stored response as an answer: with its age (section 4), and without those that need
    /// validation (section 5.2.2.4), unless it has just been validated.
    ///
    /// - Parameters:
    ///   - response: A stored response.
    ///   - isValidated: Whether a server has just confirmed it. Default: false.
    ///   - now: The time.
    /// - Returns: The fields.
    public func answerFields(of response: HTTPResponseHead, isValidated: Bool = false, at now: Date) -> [HTTPField] {
        answerFields(of: response, isValidated: isValidated, at: Timestamp(date: now))
    }

    package func answerFields(
        of response: HTTPResponseHead, isValidated: Bool, at now: Timestamp
    ) -> [HTTPField] {
        var fields = response.fields
        if !isValidated {
            let names = response.cacheControl.names("no-cache") ?? []
            fields.removeAll { field in names.contains { HTTPField.isEqual($0, field.name) } }
        }
        fields.set("Age", String(age(of: response, at: now) / 1000))
        return fields
    }

    /// Whether a response with this status takes the place of a stored one, which is not reused then (section 4.3.3).
    /// Errors of a server or of a request may pass; a resource that is gone is news.
    package func replaces(_ status: Int) -> Bool {
        (200..<400).contains(status) && status != 206 && status != 304 || status == 404 || status == 410
    }

    /// Returns the URLs whose responses a request has made invalid, given the server's answer: after an unsafe method
    /// that was not refused, the URL itself, and `Location` and `Content-Location` of the same origin (section 4.4).
    public func invalidated(by request: HTTPRequestHead, status: Int, fields: [HTTPField]) -> [URL] {
        guard !request.isSafe, (200...399).contains(status) else { return [] }
        let others = ["Location", "Content-Location"].flatMap { fields.values(of: $0) }.compactMap {
            URL(string: $0, relativeTo: request.url)?.absoluteURL
        }
        return [request.url] + others.filter { Origin($0) == Origin(request.url) }
    }
}

/// The scheme, host and port of a URL (RFC 9110, section 4.3.1).
package struct Origin: Hashable, Sendable {
    let scheme: String
    let host: String
    let port: Int

    /// Nil for a URL without a host, or of another scheme than HTTP's.
    package init?(_ url: URL) {
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https",
            let host = url.host?.lowercased(), !host.isEmpty
        else { return nil }
        (self.scheme, self.host) = (scheme, host)
        port = url.port ?? (scheme == "https" ? 443 : 80)
    }
}
