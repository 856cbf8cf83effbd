package import LarderFiles
public import LarderFoundation

extension HTTPCachePolicy {
    /// How a stored response answers a request.
    public enum Reuse: Hashable, Sendable {
        /// It is the answer.
        case answer
        /// It is the answer, and is validated in the background (RFC 5861, section 3).
        case answerWhileRevalidating
        /// The server is asked, with its validators.
        case validate(HTTPCacheStatus.Forwarding)
    }

    /// Decides whether a stored response that `Vary` selected is the answer to a request (RFC 9111, section 4).
    ///
    /// - Parameters:
    ///   - response: A response to a GET.
    ///   - request: A GET or HEAD.
    ///   - mode: How the request uses the cache. Default: ``HTTPCacheMode/default``.
    ///   - now: The time.
    /// - Returns: The decision.
    public func reuse(
        of response: HTTPResponseHead, for request: HTTPRequestHead, mode: HTTPCacheMode = .default, at now: Date
    ) -> Reuse {
        reuse(of: response, for: request, mode: mode, at: Timestamp(date: now))
    }

    package func reuse(
        of response: HTTPResponseHead, for request: HTTPRequestHead, mode: HTTPCacheMode, at now: Timestamp
    ) -> Reuse {
        let directives = request.cacheControl
        let remaining = remaining(of: response, at: now)
        let isFresh = remaining > 0
        // Sections 5.2.1.4 and 5.2.2.4.
        if response.needsValidation { return .validate(isFresh ? .request : .stale) }
        if mode == .forceCache || mode == .onlyIfCached {
            // Section 4.2.4: the caller allows what the response does not forbid.
            return isFresh || !response.forbidsStale ? .answer : .validate(.stale)
        }
        if request.forbidsReuse { return .validate(isFresh ? .request : .stale) }
        let maxAge = directives.seconds("max-age")
        if isFresh {
            // RFC 8246, section 2: a reload does not validate an immutable response while it is fresh.
            let isReload = mode == .noCache || maxAge == 0
            if isReload, response.cacheControl.has("immutable") { return .answer }
            if mode == .noCache { return .validate(.request) }
            if let maxAge, age(of: response, at: now) > maxAge * 1000 {
                // Section 5.2.1.1: older than that only as far as max-stale says.
                let isAccepted = accepts(directives, age(of: response, at: now) - maxAge * 1000)
                return isAccepted ? .answer : .validate(.request)
            }
            // Section 5.2.1.3.
            if let minFresh = directives.seconds("min-fresh", invalid: CacheControl.longest),
                remaining < minFresh * 1000
            {
                return .validate(.request)
            }
            return .answer
        }
        // Sections 4.2.4 and 5.2.2.2.
        if mode == .noCache || response.forbidsStale { return .validate(.stale) }
        let beyondMaxAge = maxAge.map { age(of: response, at: now) - $0 * 1000 } ?? 0
        if accepts(directives, max(-remaining, beyondMaxAge)) { return .answer }
        return reuse(ofStale: response, -remaining, request)
    }

    /// Section 5.2.1.2: whether a request accepts that many milliseconds of staleness. `max-stale` without a number
    /// accepts any.
    private func accepts(_ directives: CacheControl, _ staleness: Int64) -> Bool {
        guard let maxStale = directives.seconds("max-stale", missing: .max), !directives.has("min-fresh") else {
            return false
        }
        return staleness <= CacheControl.milliseconds(maxStale)
    }

    /// `staleness`: milliseconds since the response was fresh.
    private func reuse(
        ofStale response: HTTPResponseHead, _ staleness: Int64, _ request: HTTPRequestHead
    ) -> Reuse {
        // RFC 5861, section 3.
        if let window = Self.window("stale-while-revalidate", response.cacheControl),
            staleness <= min(window, request.acceptedStaleness)
        {
            return .answerWhileRevalidating
        }
        return .validate(.stale)
    }

    /// The milliseconds that a directive allows; nil without it.
    private static func window(_ name: String, _ directives: CacheControl) -> Int64? {
        directives.seconds(name).map(CacheControl.milliseconds)
    }

    /// Decides whether a stored response may be the answer instead of a server's error (RFC 5861, section 4), or when
    /// the server cannot be reached: the cache is disconnected then (section 4.2.4).
    ///
    /// - Parameters:
    ///   - response: A response to a GET.
    ///   - request: A GET or HEAD.
    ///   - status: The status of the server's answer; nil when there is none.
    ///   - mode: How the request uses the cache. Default: ``HTTPCacheMode/default``.
    ///   - now: The time.
    /// - Returns: The decision.
    public func mayAnswer(
        _ response: HTTPResponseHead, to request: HTTPRequestHead, insteadOf status: Int?,
        mode: HTTPCacheMode = .default, at now: Date
    ) -> Bool {
        mayAnswer(response, to: request, insteadOf: status, mode: mode, at: Timestamp(date: now))
    }

    package func mayAnswer(
        _ response: HTTPResponseHead, to request: HTTPRequestHead, insteadOf status: Int?, mode: HTTPCacheMode,
        at now: Timestamp
    ) -> Bool {
        if let status, ![500, 502, 503, 504].contains(status) { return false }
        // Section 5.2.1.4: `no-cache` accepts nothing that has not been validated.
        guard mode != .noCache, !request.forbidsReuse, !response.forbidsStale else { return false }
        let staleness = -remaining(of: response, at: now)
        let name = "stale-if-error"
        // The request's own window counts whatever else it says, also about a fresh response.
        if let own = Self.window(name, request.cacheControl), staleness <= own { return true }
        let isAllowed = status == nil && staleIfUnreachable > .zero
        let configured = isAllowed ? staleIfUnreachable.boundedMilliseconds : nil
        guard let window = [Self.window(name, response.cacheControl), configured].compactMap(\.self).max() else {
            return false
        }
        return staleness <= min(window, request.acceptedStaleness)
    }

    /// Whether a stored response answers the caller's own validators with 304 (section 4.3.2; RFC 9110, sections 13.1.2
    /// and 13.1.3).
    package func isNotModified(_ response: HTTPResponseHead, for request: HTTPRequestHead) -> Bool {
        guard response.status == 200 else { return false }
        if request.fields.has("If-None-Match") {
            return request.fields.members(of: "If-None-Match").contains { tag in
                tag == "*" || response.etag.map { Self.opaque($0) == Self.opaque(tag) } ?? false
            }
        }
        guard let since = request.fields.values(of: "If-Modified-Since").first,
            let seconds = HTTPDate.seconds(since, now: response.received.milliseconds / 1000)
        else { return false }
        return response.date("Last-Modified") ?? response.date <= seconds
    }

    /// Milliseconds for which a response is kept: while it is fresh, and as long as it may be validated or used stale.
    package func retention(of response: HTTPResponseHead, at now: Timestamp) -> Int64 {
        let directives = response.cacheControl
        let windows = ["stale-while-revalidate", "stale-if-error"].compactMap { directives.seconds($0) }
        let unreachable = response.forbidsStale ? .zero : staleIfUnreachable
        let beyond = windows.reduce(max(keepStale, unreachable).boundedMilliseconds) { max($0, $1 * 1000) }
        return max(0, remaining(of: response, at: now)) + beyond
    }
}

extension HTTPCachePolicy.Reuse: CustomStringConvertible {
    /// The decision, with its reason.
    public var description: String {
        switch self {
        case .answer: "answer"
        case .answerWhileRevalidating: "answer while revalidating"
        case .validate(let reason): "validate: \(reason)"
        }
    }
}
