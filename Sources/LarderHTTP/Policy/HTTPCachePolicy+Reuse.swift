package import LarderFiles

extension HTTPCachePolicy {
    /// How a stored response answers a request.
    package enum Reuse: Hashable, Sendable {
        /// It is the answer.
        case answer
        /// It is the answer, and is validated in the background (RFC 5861, section 3).
        case answerWhileRevalidating
        /// The server is asked, with its validators.
        case validate(HTTPCacheStatus.Forwarding)
    }

    /// Decides whether a stored response that `Vary` selected is the answer to a request (RFC 9111, section 4).
    package func reuse(
        of response: StoredHead, for request: RequestHead, mode: HTTPCacheMode, at now: Timestamp
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
                // Section 5.2.1.1: older than that only together with max-stale.
                return directives.has("max-stale") ? .answer : .validate(.request)
            }
            // Section 5.2.1.3.
            if let minFresh = directives.seconds("min-fresh", invalid: CacheControl.longest),
                remaining < minFresh * 1000
            {
                return .validate(.request)
            }
            return .answer
        }
        return mode == .noCache ? .validate(.stale) : reuse(ofStale: response, -remaining, directives, request)
    }

    /// `staleness`: milliseconds since the response was fresh.
    private func reuse(
        ofStale response: StoredHead, _ staleness: Int64, _ directives: CacheControl, _ request: RequestHead
    ) -> Reuse {
        // Section 5.2.2.2.
        if response.forbidsStale { return .validate(.stale) }
        // Section 5.2.1.2: max-stale without a number accepts any staleness.
        if let maxStale = directives.seconds("max-stale", missing: .max), staleness <= Self.milliseconds(maxStale),
            !directives.has("min-fresh")
        {
            return .answer
        }
        // RFC 5861, section 3. A request that limits the age of its answer does not want a stale one.
        if !request.limitsAge, let window = response.cacheControl.seconds("stale-while-revalidate"),
            staleness <= window * 1000
        {
            return .answerWhileRevalidating
        }
        return .validate(.stale)
    }

    private static func milliseconds(_ seconds: Int64) -> Int64 { seconds > Int64.max / 1000 ? .max : seconds * 1000 }

    /// Decides whether a stored response may be the answer although the server answered a validation with an error
    /// (RFC 5861, section 4).
    package func mayAnswer(
        _ response: StoredHead, to request: RequestHead, insteadOf status: Int, mode: HTTPCacheMode, at now: Timestamp
    ) -> Bool {
        guard [500, 502, 503, 504].contains(status), mode != .noCache, !response.forbidsStale else { return false }
        let windows = [response.cacheControl, request.cacheControl].compactMap { $0.seconds("stale-if-error") }
        guard let window = windows.max() else { return false }
        return -remaining(of: response, at: now) <= window * 1000
    }

    /// Decides whether a stored response may be the answer when the server cannot be reached: the cache is disconnected
    /// then (RFC 9111, section 4.2.4). Not where a request limits the age of its answer.
    package func mayAnswerDisconnected(
        _ response: StoredHead, to request: RequestHead, mode: HTTPCacheMode, at now: Timestamp
    ) -> Bool {
        guard mode != .noCache, !request.limitsAge, !response.forbidsStale else { return false }
        let windows = [response.cacheControl, request.cacheControl].compactMap { $0.seconds("stale-if-error") }
        let window = max(staleIfUnreachable, (windows.max() ?? 0) * 1000)
        return -remaining(of: response, at: now) <= window
    }

    /// Milliseconds for which a response is kept: while it is fresh, and as long as it may be validated or used stale.
    package func retention(of response: StoredHead, at now: Timestamp) -> Int64 {
        let directives = response.cacheControl
        let windows = ["stale-while-revalidate", "stale-if-error"].compactMap { directives.seconds($0) }
        let unreachable = response.forbidsStale ? 0 : staleIfUnreachable
        let beyond = ([keepStale, unreachable] + windows.map { $0 * 1000 }).max() ?? keepStale
        return max(0, remaining(of: response, at: now)) + beyond
    }
}
