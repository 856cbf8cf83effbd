import Larder
import LarderFiles
import LarderFoundation

/// A request without its redirects.
struct Hop: Sendable {
    /// The request for the transport.
    var request: URLRequest
    /// The same as the policy sees it.
    var head: HTTPRequestHead
    var mode: HTTPCacheMode
    var partition: String
    var largeBodies = LargeBodies.data

    /// How the caller takes bodies above the limit of spooling, from the store.
    enum LargeBodies: Sendable {
        case data, files
    }

    var isOnlyIfCached: Bool { mode == .onlyIfCached || head.cacheControl.has("only-if-cached") }

    /// Whether the store is asked although the caller has preconditions: where it wants a stored response, the cache
    /// evaluates them, unless only a server can (RFC 9111, section 4.3.2).
    var looksDespitePreconditions: Bool {
        (mode == .forceCache || isOnlyIfCached) && !head.hasServerPreconditions
    }

    /// The request for the transport, with other fields.
    func request(with fields: [HTTPField]) -> URLRequest {
        var request = request
        for name in (request.allHTTPHeaderFields ?? [:]).keys { request.setValue(nil, forHTTPHeaderField: name) }
        for field in fields { request.addValue(field.value, forHTTPHeaderField: field.name) }
        return request
    }
}

/// The answer to a hop.
struct HopAnswer: Sendable {
    var status: Int
    var fields: [HTTPField]
    var body: Content
    var cacheStatus: HTTPCacheStatus
    /// Bytes that no server had to send.
    var bytesSaved = 0
    /// The part of it that requests which have waited share.
    var outcome = Exchanges.Outcome.answered
}

/// Answers requests from the store and from servers, as the policy decides.
struct Responder: Sendable {
    let transport: any HTTPTransport
    let store: ResponseStore
    let policy: HTTPCachePolicy
    let clock: any LarderFiles.Clock
    /// Bytes of a body that are kept in memory while it arrives.
    let spoolLimit: Int
    let onEvent: (@Sendable (HTTPCacheEvent) -> Void)?
    let exchanges = Exchanges()
    let revalidations = Revalidations()
    let counts = Lock(HTTPCacheStatistics())

    func answer(_ hop: Hop) async throws -> HopAnswer {
        try await reporting(hop, isInBackground: false) {
            guard Origin(hop.head.url) != nil else {
                let url = hop.head.url.withoutUserinfo.absoluteString
                throw HTTPCacheError(.unsupportedURL, "\(url) is not an http or https URL with a host.")
            }
            let key = CacheKey(hop.head.url, partition: hop.partition)
            guard let key, !bypasses(hop) else { return try await forward(hop, key, .bypass) }
            switch hop.head.method {
            case "GET": return try await get(hop, key)
            case "HEAD": return try await head(hop, key)
            default: return try await forward(hop, key, .method)
            }
        }
    }

    /// Whether a request bypasses the cache: it is not looked up, and its response is not stored. A `Host` of the
    /// caller's own may lead to other contents than the URL says, and so may the body of a GET, although it should not
    /// (RFC 9110, section 9.3.1).
    private func bypasses(_ hop: Hop) -> Bool {
        hop.mode == .noStore || hop.head.fields.has("Host") || hop.request.httpBody?.isEmpty == false
            || hop.request.httpBodyStream != nil
    }

    private func get(_ hop: Hop, _ key: CacheKey) async throws -> HopAnswer {
        // The caller has a response of its own, and wants to know about that one (RFC 9111, section 4.3.2).
        let bypasses = hop.head.hasPreconditions && !hop.looksDespitePreconditions
        if bypasses || hop.mode == .reload {
            if hop.isOnlyIfCached { return gatewayTimeout() }
            return try await exchange(hop, key, .none, bypasses ? .bypass : .request)
        }
        var waited: HTTPCacheStatus.Forwarding?
        let patience = Int64(max(1, min(hop.request.timeoutInterval, 1e9)) * 1000)
        let deadline = clock.now.advanced(byMilliseconds: patience)
        // A request that has waited in vain asks the server itself.
        while true {
            switch await look(hop, key) {
            case .answered(let answer): return waited.map { collapsed(answer, $0) } ?? answer
            case .ask(let reason, let found, let wanted):
                if hop.isOnlyIfCached { return gatewayTimeout() }
                if hop.head.hasPreconditions { return try await exchange(hop, key, .none, .bypass) }
                let isShareable = reason == .uriMiss || reason == .varyMiss || reason == .stale
                guard isShareable, waited == nil, !hop.head.fields.has("Range") else {
                    return try await exchange(hop, key, found, reason)
                }
                // Only with others of the same patience: none gives up sooner or later than by itself.
                let flight = "\(hop.request.timeoutInterval) \(wanted)"
                switch exchanges.join(flight) {
                case .leader(let begun): return try await lead(hop, key, flight, begun)
                case .follower(let flight):
                    let rest = Duration.milliseconds(max(0, min(patience, deadline.millisecondsSince(clock.now))))
                    switch await flight.wait(atMost: rest, clock, { isOfUse($0, hop) }) {
                    case .answered, .useless: waited = reason
                    case .late:
                        return collapsed(try disconnected(hop, found, reason, TransportTimeout.error), reason)
                    case .refused(let status):
                        if let answer = stale(hop, found, reason, insteadOf: status) {
                            return collapsed(answer, reason)
                        }
                        waited = reason
                    case .abandoned: try Task.checkCancellation()
                    case .failed(let error):
                        return collapsed(try disconnected(hop, found, reason, error), reason)
                    }
                }
            }
        }
    }

    /// Whether the response to another request may be the answer, perhaps once a server has confirmed it.
    private func isOfUse(_ other: Exchanges.Head, _ hop: Hop) -> Bool {
        guard policy.mayStore(other.response, to: other.request),
            HTTPVariant(of: other.response, for: other.request) == HTTPVariant(of: other.response, for: hop.head)
        else { return false }
        let head = policy.storable(other.response)
        if head.hasValidator { return true }
        if case .validate = policy.reuse(of: head, for: hop.head, mode: hop.mode, at: clock.now) { return false }
        return true
    }

    /// The answer to a request that has waited for another one.
    private func collapsed(_ answer: HopAnswer, _ reason: HTTPCacheStatus.Forwarding) -> HopAnswer {
        var answer = answer
        (answer.cacheStatus.isHit, answer.cacheStatus.isCollapsed) = (false, true)
        answer.cacheStatus.forwarding = reason
        return answer
    }

    /// Asks the server while others wait.
    private func lead(
        _ hop: Hop, _ key: CacheKey, _ flight: String, _ begun: Exchanges.Flight
    ) async throws -> HopAnswer {
        do {
            // Between the look and the lead, another leader may have stored what is wanted.
            let answer: HopAnswer
            switch await look(hop, key) {
            case .answered(let stored): answer = stored
            case .ask(let reason, let found, _):
                answer = try await exchange(hop, key, found, reason) { head in
                    begun.note(Exchanges.Head(response: head, request: hop.head))
                }
            }
            exchanges.finish(flight, answer.outcome)
            return answer
        } catch {
            exchanges.finish(flight, isOwnFailure(error) ? .abandoned : .failed(error))
            throw error
        }
    }

    private enum Look {
        case answered(HopAnswer)
        /// Requests with the same flight wait for each other: those for the same entry, or for the same URL while
        /// nobody knows what its responses vary by.
        case ask(HTTPCacheStatus.Forwarding, ResponseStore.Found?, flight: String)
    }

    /// Looks for an answer in the store.
    private func look(_ hop: Hop, _ key: CacheKey) async -> Look {
        let found: ResponseStore.Found
        let bodies: ResponseStore.Bodies =
            if hop.head.fields.has("Range") { .openAbove(spoolLimit) } else if hop.largeBodies == .files {
                .filesAbove(spoolLimit)
            } else { .data }
        switch await store.find(key, for: hop.head, bodies: bodies) {
        case .nothing: return .ask(.uriMiss, nil, flight: key.base)
        case .otherVariants(let wanted): return .ask(.varyMiss, nil, flight: wanted ?? key.base)
        case .response(let response): found = response
        }
        let now = clock.now
        // A range that the stored whole does not answer is the server's.
        guard let answer = stored(found, hop, isValidated: false) else {
            return .ask(.partial, nil, flight: found.key)
        }
        switch policy.reuse(of: found.head, for: hop.head, mode: hop.mode, at: now) {
        case .answer: return .answered(hit(answer, found, nil))
        case .answerWhileRevalidating:
            if !hop.isOnlyIfCached { revalidate(found, hop, key) }
            return .answered(hit(answer, found, "stale-while-revalidate"))
        case .validate(let reason): return .ask(reason, found, flight: found.key)
        }
    }

    /// Validates a stored response in the background, as a whole.
    private func revalidate(_ found: ResponseStore.Found, _ hop: Hop, _ key: CacheKey) {
        var whole = hop
        whole.head.method = "GET"
        whole.request.httpMethod = "GET"
        for name in ["Range", "If-Range"] { whole.head.fields.remove(name) }
        revalidations.begin(found.key) { [whole] in
            // Again, since a HEAD has found no body.
            let bodies = ResponseStore.Bodies.filesAbove(spoolLimit)
            guard case .response(let found) = await store.find(key, for: whole.head, bodies: bodies) else { return }
            _ = try? await reporting(whole, isInBackground: true) { try await exchange(whole, key, found, .stale) }
        }
    }

    private func head(_ hop: Hop, _ key: CacheKey) async throws -> HopAnswer {
        var found: ResponseStore.Found?
        var reason = HTTPCacheStatus.Forwarding.bypass
        if !hop.head.hasPreconditions || hop.looksDespitePreconditions {
            var get = hop.head
            get.fields.remove("Range")
            switch await store.find(key, for: get, bodies: .none) {
            case .response(let response): (found, reason) = (response, .request)
            case .otherVariants: reason = .varyMiss
            case .nothing: reason = .uriMiss
            }
        }
        if let found, hop.mode != .reload {
            let reuse = policy.reuse(of: found.head, for: hop.head, mode: hop.mode, at: clock.now)
            switch reuse {
            case .answer, .answerWhileRevalidating:
                guard let answer = stored(found, hop, isValidated: false) else { break }
                if reuse == .answer { return hit(answer, found, nil) }
                if !hop.isOnlyIfCached { revalidate(found, hop, key) }
                return hit(answer, found, "stale-while-revalidate")
            case .validate(let why): reason = why
            }
        }
        if hop.isOnlyIfCached { return gatewayTimeout() }
        return try await exchangeHead(hop, key, found, reason)
    }

    /// RFC 9111, section 5.2.1.7.
    func gatewayTimeout() -> HopAnswer {
        var status = HTTPCacheStatus()
        status.detail = "only-if-cached"
        return HopAnswer(
            status: 504, fields: [HTTPField("Content-Length", "0")], body: .data(Data()), cacheStatus: status)
    }

    private func hit(_ answer: HopAnswer, _ found: ResponseStore.Found, _ detail: String?) -> HopAnswer {
        var answer = answer
        answer.cacheStatus = .hit(ttl: ttl(found.head))
        answer.cacheStatus.detail = detail
        answer.bytesSaved = answer.body.size
        return answer
    }

    /// Seconds, rounded down.
    func ttl(_ head: HTTPResponseHead) -> Int {
        Int((Double(policy.remaining(of: head, at: clock.now)) / 1000).rounded(.down))
    }

    /// Whether an error says nothing about the server: the caller was cancelled, or a file could not be written here.
    func isOwnFailure(_ error: any Error) -> Bool {
        error is CancellationError || error is HTTPCacheError || Task.isCancelled
    }
}
