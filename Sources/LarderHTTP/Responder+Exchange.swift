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
            guard let key = CacheKey(url, partition: "") else { continue }
            // The events of the disk report a failure.
            try? await invalidate(key)
            counts.withLock { $0.invalidations += 1 }
        }
        return passed(arrival, .forward(reason))
    }

    /// Removes everything that is stored for a URL, and keeps older requests that are under way from storing it again.
    func invalidate(_ key: CacheKey) async throws(CacheError) {
        exchanges.revoke(key.url)
        try await store.removeAll(key)
    }

    /// Asks the server about a GET: with the validators of a stored response, or for a new one. `announce` is called
    /// with the head of a new one before its body is there.
    func exchange(
        _ hop: Hop, _ key: CacheKey, _ found: ResponseStore.Found?, _ reason: HTTPCacheStatus.Forwarding,
        _ announce: (HTTPResponseHead) -> Void = { _ in }
    ) async throws -> HopAnswer {
        try await exchanges.withPermit(key.url) { permit in
            let asked = found.map { policy.validation(of: $0.head, for: hop.head) } ?? hop.head
            let arrival: Arrival
            do {
                arrival = try await send(hop, asked.fields) { head in
                    if head.status != 304, stale(hop, found, reason, insteadOf: head.status) == nil { announce(head) }
                }
            } catch {
                return try disconnected(hop, found, reason, error)
            }
            // Without validators a 304 confirms nothing.
            if let found, arrival.head.status == 304, asked.hasPreconditions {
                if let answer = await confirmed(hop, key, found, arrival.head, reason, permit) { return answer }
                // The 304 is about another response (RFC 9111, section 4.3.4): ask again, without validators.
                return try await renewed(hop, key, send(hop, hop.head.fields, announce), reason, permit)
            }
            if let answer = stale(hop, found, reason, insteadOf: arrival.head.status) { return answer }
            // A part instead of a 304 is one of another response (RFC 9110, section 13.2.2).
            if found != nil, arrival.head.status == 206, asked.hasPreconditions {
                await store.removeSelected(key, for: hop.head)
            }
            return await renewed(hop, key, arrival, reason, permit)
        }
    }

    /// Answers with a new response, and stores it where that is allowed.
    private func renewed(
        _ hop: Hop, _ key: CacheKey, _ arrival: Arrival, _ reason: HTTPCacheStatus.Forwarding,
        _ permit: Exchanges.Permit
    ) async -> HopAnswer {
        var status = HTTPCacheStatus.forward(reason)
        let head = policy.storable(arrival.head)
        if policy.mayStore(arrival.head, to: hop.head), policy.isWhole(arrival.body.size, arrival.head) {
            status.isStored = await keep(head, arrival.body, key, hop, permit)
            if status.isStored { status.ttl = ttl(head) }
        }
        // The selected response has been replaced by one that is not stored, and must not come back.
        if !status.isStored, policy.replaces(head.status), reason != .uriMiss, reason != .varyMiss {
            await store.removeSelected(key, for: hop.head)
        }
        return passed(arrival, status)
    }

    /// Answers with a stored response that a 304 has confirmed; nil when it is about another one.
    private func confirmed(
        _ hop: Hop, _ key: CacheKey, _ found: ResponseStore.Found, _ news: HTTPResponseHead,
        _ reason: HTTPCacheStatus.Forwarding, _ permit: Exchanges.Permit
    ) async -> HopAnswer? {
        guard let head = policy.updated(found.head, by: news) else {
            await store.remove(found.key, of: key)
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
                return try disconnected(hop, found, reason, error)
            }
            if let answer = stale(hop, found, reason, insteadOf: arrival.head.status) { return answer }
            var status = HTTPCacheStatus.forward(reason)
            if let found {
                var get = hop
                get.head.method = "GET"
                get.head.fields.remove("Range")
                status.isStored = await update(found, arrival.head, key, get, permit)
            }
            return passed(arrival, status)
        }
    }

    /// Updates a stored response as the answer to a HEAD says. Returns whether it is still stored and up to date.
    private func update(
        _ found: ResponseStore.Found, _ news: HTTPResponseHead, _ key: CacheKey, _ get: Hop, _ permit: Exchanges.Permit
    ) async -> Bool {
        let updated = policy.updated(found.head, byHead: news, size: found.size)
        // Its validators may still be good: the server says so when it is asked for the body.
        let stale = news.status == 200 && found.head.hasValidator ? policy.stale(found.head) : nil
        if updated == nil, stale != nil, policy.remaining(of: found.head, at: clock.now) <= 0 { return false }
        guard let head = updated ?? stale else {
            if [200, 404, 410].contains(news.status) { await store.removeSelected(key, for: get.head) }
            return false
        }
        // The body was of no interest until now.
        let whole = await store.find(key, for: get.head, bodies: .filesAbove(spoolLimit))
        guard case .response(let whole) = whole, whole.metadata == found.metadata else { return false }
        let isStored = await keep(head, whole.body, key, get, permit, replacing: whole)
        return isStored && updated != nil
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
            // Without a new payload where a lost index may bring the old head back.
            if let old, policy.mayLose(head, over: old.head, at: now),
                await store.renew(old, as: head, key, for: hop.head, retention: retention, at: now)
            {
                stored = old.key
            } else {
                // Where something else is stored by now, perhaps by another process, or nothing, that is newer.
                if let old, await !store.isUnchanged(old) { return false }
                stored = await store.store(head, body, key, for: hop.head, retention: retention, at: now)
            }
            // An invalidation that came while it was being stored.
            if let entry = stored, !permit.isValid {
                await store.remove(entry, of: key)
                stored = nil
            }
        }
        // An update that varies has replaced a response that did not by a note of its names.
        let isReplaced = stored != nil && old?.key == key.base
        if let old, old.key != stored, !isReplaced, !leavesAlone(old.head, head, hop) {
            await store.remove(old.key, of: key)
        }
        if stored != nil { counts.withLock { $0.stores += 1 } }
        return stored != nil
    }

    /// Whether only the request is why an update is not stored: `no-store` concerns its own response, not what is there
    /// already (section 5.2.1.5). An update for the worse removes that nonetheless.
    private func leavesAlone(_ stored: HTTPResponseHead, _ updated: HTTPResponseHead, _ hop: Hop) -> Bool {
        hop.head.cacheControl.has("no-store") && policy.mayStore(updated, to: HTTPRequestHead(hop.head.url))
            && policy.mayLose(updated, over: stored, at: clock.now)
    }

    private func send(
        _ hop: Hop, _ fields: [HTTPField], _ noteHead: (HTTPResponseHead) -> Void = { _ in }
    ) async throws -> Arrival {
        let requested = clock.now
        let response = try await transport.send(hop.request(with: fields))
        let head = HTTPResponseHead(
            status: response.status, fields: response.fields, requested: requested, received: clock.now,
            lead: clock.lead)
        noteHead(head)
        let spool = Spool(
            limit: spoolLimit, mayStayInMemory: hop.largeBodies == .data, in: store.temporaryFiles)
        let body = try await Content.collect(response.body, spool)
        counts.withLock { $0.bytesReceived += body.size }
        return Arrival(head: head, body: body)
    }

    private func passed(_ arrival: Arrival, _ status: HTTPCacheStatus) -> HopAnswer {
        HopAnswer(
            status: arrival.head.status, fields: arrival.head.fields, body: arrival.body, cacheStatus: status)
    }

    /// Answers with a stale response when the server cannot be reached; throws the transport's error otherwise.
    func disconnected(
        _ hop: Hop, _ found: ResponseStore.Found?, _ reason: HTTPCacheStatus.Forwarding, _ error: any Error
    ) throws -> HopAnswer {
        guard !isOwnFailure(error), var answer = stale(hop, found, reason, insteadOf: nil) else { throw error }
        answer.outcome = .failed(error)
        return answer
    }

    /// Answers with a stale response instead of a server's error, or of no answer when `status` is nil; nil where that
    /// is not allowed.
    func stale(
        _ hop: Hop, _ found: ResponseStore.Found?, _ reason: HTTPCacheStatus.Forwarding, insteadOf status: Int?
    ) -> HopAnswer? {
        guard let found,
            policy.mayAnswer(found.head, to: hop.head, insteadOf: status, mode: hop.mode, at: clock.now),
            var answer = stored(found, hop, isValidated: false)
        else { return nil }
        answer.cacheStatus = .forward(reason)
        answer.cacheStatus.forwardedStatus = status
        answer.cacheStatus.ttl = ttl(found.head)
        answer.cacheStatus.detail = status == nil ? "disconnected" : "stale-if-error"
        answer.bytesSaved = answer.body.size
        if let status { answer.outcome = .refused(status) }
        return answer
    }

    /// Makes an answer of a stored response: the whole, its head, a range of it, or 304 to the caller's own validators;
    /// nil for a range that it does not answer.
    func stored(_ found: ResponseStore.Found, _ hop: Hop, isValidated: Bool) -> HopAnswer? {
        var answer = HopAnswer(
            status: found.head.status,
            fields: policy.answerFields(of: found.head, isValidated: isValidated, at: clock.now),
            body: found.body, cacheStatus: HTTPCacheStatus())
        // RFC 9110, section 13.2.2: before the range.
        if policy.isNotModified(found.head, for: hop.head) { answer.status = 304 }
        if hop.head.method == "HEAD" || answer.status == 304 {
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
        // Digests of the whole content (RFC 9530, section 2).
        for name in ["Content-Digest", "Content-MD5"] { answer.fields.remove(name) }
        return answer
    }
}
