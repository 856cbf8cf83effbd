import Larder
import LarderFiles
import LarderFoundation

/// Asking the server.
extension Responder {
    /// A response as it arrived, with its body.
    private struct Arrival {
        var head: HTTPResponseHead
        var body: Content
    }

    /// Sends a request that does not concern the store, except for what it invalidates.
    func forward(_ hop: Hop, _ key: CacheKey?, _ reason: HTTPCacheStatus.Forwarding) async throws -> HopAnswer {
        if hop.isOnlyIfCached, hop.head.isSafe || hop.mode == .onlyIfCached {
            return gatewayTimeout()
        }
        let arrival = try await send(hop, hop.head.fields)
        for url in policy.invalidated(by: hop.head, status: arrival.head.status, fields: arrival.head.fields) {
            if let key = CacheKey(url, partition: "") { await invalidate(key) }
        }
        return passed(arrival, .forward(reason))
    }

    /// Removes everything that is stored for a URL, and keeps older requests that are under way from storing it again.
    func invalidate(_ key: CacheKey) async {
        exchanges.revoke(key.url)
        await store.removeAll(key)
        counts.withLock { $0.invalidations += 1 }
    }

    /// Asks the server about a GET: with the validators of a stored response, or for a new one.
    func exchange(
        _ hop: Hop, _ key: CacheKey, _ found: ResponseStore.Found?, _ reason: HTTPCacheStatus.Forwarding
    ) async throws -> HopAnswer {
        try await exchanges.withPermit(key.url) { permit in
            let asked = found.map { policy.validation(of: $0.head, for: hop.head) } ?? hop.head
            let arrival: Arrival
            do {
                arrival = try await send(hop, asked.fields)
            } catch {
                return try disconnected(hop, found, error)
            }
            if let found {
                // Without validators a 304 confirms nothing.
                if arrival.head.status == 304, asked.hasValidators {
                    if let answer = await confirmed(hop, key, found, arrival.head, reason, permit) { return answer }
                    // The 304 is about another response (RFC 9111, section 4.3.4): ask again, without validators.
                    return try await renewed(hop, key, nil, send(hop, hop.head.fields), reason, permit)
                }
                let status = arrival.head.status
                if policy.mayAnswer(found.head, to: hop.head, insteadOf: status, mode: hop.mode, at: clock.now),
                    let answer = stale(hop, found, reason, status, "stale-if-error")
                {
                    return answer
                }
            }
            return await renewed(hop, key, found, arrival, reason, permit)
        }
    }

    /// Answers with a new response, and stores it where that is allowed.
    private func renewed(
        _ hop: Hop, _ key: CacheKey, _ found: ResponseStore.Found?, _ arrival: Arrival,
        _ reason: HTTPCacheStatus.Forwarding, _ permit: Exchanges.Permit
    ) async -> HopAnswer {
        var status = HTTPCacheStatus.forward(reason)
        let head = policy.storable(arrival.head)
        if policy.mayStore(arrival.head, to: hop.head), policy.isWhole(arrival.body.size, arrival.head) {
            status.isStored = await keep(head, arrival.body, key, hop, permit)
            if status.isStored { status.ttl = ttl(head) }
        } else if let found, [200..<300, 404..<405, 410..<411].contains(where: { $0.contains(head.status) }),
            head.status != 206
        {
            // The stored response has been replaced by one that may not be stored.
            await store.remove(found.key)
        }
        return passed(arrival, status)
    }

    /// Answers with a stored response that a 304 has confirmed; nil when it is about another one.
    private func confirmed(
        _ hop: Hop, _ key: CacheKey, _ found: ResponseStore.Found, _ news: HTTPResponseHead,
        _ reason: HTTPCacheStatus.Forwarding, _ permit: Exchanges.Permit
    ) async -> HopAnswer? {
        guard let head = policy.updated(found.head, by: news) else {
            await store.remove(found.key)
            return nil
        }
        var updated = found
        updated.head = head
        guard var answer = stored(updated, hop, isValidated: true) else { return nil }
        answer.cacheStatus = .forward(reason)
        answer.cacheStatus.forwardedStatus = 304
        answer.cacheStatus.isStored = await keep(head, found.body, key, hop, permit, replacing: found)
        answer.cacheStatus.ttl = ttl(head)
        answer.bytesSaved = answer.body.size
        return answer
    }

    /// Asks the server about a HEAD, whose answer updates or invalidates the stored GET (RFC 9111, section 4.3.5).
    func exchangeHead(
        _ hop: Hop, _ key: CacheKey, _ found: ResponseStore.Found?, _ reason: HTTPCacheStatus.Forwarding
    ) async throws -> HopAnswer {
        try await exchanges.withPermit(key.url) { permit in
            let arrival: Arrival
            do {
                arrival = try await send(hop, hop.head.fields)
            } catch {
                return try disconnected(hop, found, error)
            }
            var status = HTTPCacheStatus.forward(reason)
            if let found, arrival.head.status == 200 {
                if let head = policy.updated(found.head, byHead: arrival.head) {
                    var get = hop
                    get.head.method = "GET"
                    get.head.fields.remove("Range")
                    // The body was of no interest until now.
                    let whole = await store.find(key, for: get.head, bodies: .filesAbove(spoolLimit))
                    if case .response(let whole) = whole, whole.metadata == found.metadata {
                        status.isStored = await keep(head, whole.body, key, get, permit, replacing: whole)
                    }
                } else {
                    await store.remove(found.key)
                }
            } else if let found, [404, 410].contains(arrival.head.status) {
                await store.remove(found.key)
            }
            return passed(arrival, status)
        }
    }

    /// Stores a response if it may be stored, and removes the one that it updates otherwise.
    private func keep(
        _ head: HTTPResponseHead, _ body: Content, _ key: CacheKey, _ hop: Hop, _ permit: Exchanges.Permit,
        replacing old: ResponseStore.Found? = nil
    ) async -> Bool {
        var stored: String?
        if permit.isValid, policy.mayStore(head, to: hop.head) {
            let now = clock.now
            let retention = policy.retention(of: head, at: now)
            if let old, policy.mayLose(head, over: old.head, at: now) {
                // Without a new payload, since a lost index may bring the old head back. Where something else is stored
                // by now, perhaps by another process, or nothing, that is newer.
                guard await store.renew(old, as: head, key, for: hop.head, retention: retention, at: now) else {
                    return false
                }
                stored = old.key
            } else {
                stored = await store.store(head, body, key, for: hop.head, retention: retention, at: now)
            }
            // An invalidation that came while it was being stored.
            if let key = stored, !permit.isValid {
                await store.remove(key)
                stored = nil
            }
        }
        if let old, old.key != stored, !leavesAlone(old.head, head, hop) { await store.remove(old.key) }
        if stored != nil { counts.withLock { $0.stores += 1 } }
        return stored != nil
    }

    /// Whether only the request is why an update is not stored: `no-store` concerns its own response, not what is there
    /// already (section 5.2.1.5). An update for the worse removes that nonetheless.
    private func leavesAlone(_ stored: HTTPResponseHead, _ updated: HTTPResponseHead, _ hop: Hop) -> Bool {
        hop.head.cacheControl.has("no-store") && policy.mayStore(updated, to: HTTPRequestHead(hop.head.url))
            && policy.mayLose(updated, over: stored, at: clock.now)
    }

    private func send(_ hop: Hop, _ fields: [HTTPField]) async throws -> Arrival {
        let requested = clock.now
        let response = try await transport.send(hop.request(with: fields))
        let head = HTTPResponseHead(
            status: response.status, fields: response.fields, requested: requested, received: clock.now)
        let body = try await Content.collect(response.body, limit: spoolLimit)
        counts.withLock { $0.bytesReceived += body.size }
        return Arrival(head: head, body: body)
    }

    private func passed(_ arrival: Arrival, _ status: HTTPCacheStatus) -> HopAnswer {
        HopAnswer(
            status: arrival.head.status, fields: arrival.head.fields, body: arrival.body, cacheStatus: status)
    }

    /// Answers with a stale response when the server cannot be reached; throws the transport's error otherwise.
    func disconnected(_ hop: Hop, _ found: ResponseStore.Found?, _ error: any Error) throws -> HopAnswer {
        if let found, !isCancellation(error),
            policy.mayAnswerDisconnected(found.head, to: hop.head, mode: hop.mode, at: clock.now),
            let answer = stale(hop, found, .stale, nil, "disconnected")
        {
            return answer
        }
        throw error
    }

    private func stale(
        _ hop: Hop, _ found: ResponseStore.Found, _ reason: HTTPCacheStatus.Forwarding, _ status: Int?,
        _ detail: String
    ) -> HopAnswer? {
        guard var answer = stored(found, hop, isValidated: false) else { return nil }
        answer.cacheStatus = .forward(reason)
        answer.cacheStatus.forwardedStatus = status
        answer.cacheStatus.ttl = ttl(found.head)
        answer.cacheStatus.detail = detail
        answer.bytesSaved = answer.body.size
        return answer
    }

    /// Makes an answer of a stored response: the whole, its head, or a range of it; nil for a range that it does not
    /// answer.
    func stored(_ found: ResponseStore.Found, _ hop: Hop, isValidated: Bool) -> HopAnswer? {
        var answer = HopAnswer(
            status: found.head.status, fields: policy.answer(found.head, isValidated: isValidated, at: clock.now),
            body: found.body, cacheStatus: HTTPCacheStatus())
        if hop.head.method == "HEAD" {
            answer.body = .data(Data())
            return answer
        }
        // RFC 9110, section 14.2: a range of a response that is not 200 is ignored, and so is one of another version.
        guard found.head.status == 200, let range = hop.head.fields.value(of: "Range"),
            ByteRange.matches(hop.head.fields, found.head)
        else { return answer }
        let size = found.body.size
        guard let bytes = ByteRange.bytes(range, of: size) else { return nil }
        answer.status = 206
        answer.body = found.body.part(bytes)
        answer.fields.set("Content-Range", "bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/\(size)")
        answer.fields.set("Content-Length", String(bytes.count))
        return answer
    }
}
