import LarderFiles

/// Counts and events.
extension Responder {
    /// Answers a request, counts it, and reports it as an event: one that fails, too.
    func reporting(
        _ hop: Hop, isInBackground: Bool, _ answer: () async throws -> HopAnswer
    ) async throws -> HopAnswer {
        do {
            let answer = try await answer()
            // In the background, a stale answer is nobody's: it only says why there is no new one.
            if isInBackground, case .failed(let error) = answer.outcome { throw error }
            report(hop, answer, isInBackground)
            return answer
        } catch {
            counts.withLock { $0.failures += 1 }
            onEvent?(HTTPCacheEvent(hop, failure: error, isInBackground))
            throw error
        }
    }

    private func report(_ hop: Hop, _ answer: HopAnswer, _ isInBackground: Bool) {
        let status = answer.cacheStatus
        let isStale = status.isHit || status.isCollapsed ? (status.ttl ?? 0) < 0 : false
        let isInstead = status.detail == "disconnected" || status.detail == "stale-if-error"
        counts.withLock { counts in
            if status.isHit {
                counts.hits += 1
            } else if status.isCollapsed {
                counts.collapsed += 1
            } else if status.forwardedStatus == 304 {
                counts.revalidations += 1
            } else if status.forwarding != nil {
                counts.misses += isInstead ? 0 : 1
            }
            if isInBackground { return }
            if isStale || isInstead { counts.staleAnswers += 1 }
            counts.bytesSaved += answer.bytesSaved
        }
        onEvent?(HTTPCacheEvent(hop, answer, isInBackground))
    }
}

extension HTTPCacheEvent {
    fileprivate init(_ hop: Hop, _ answer: HopAnswer, _ isInBackground: Bool) {
        self.init(
            method: hop.head.method, url: hop.head.url.withoutUserinfo, status: answer.status,
            cacheStatus: answer.cacheStatus, bytesSaved: isInBackground ? 0 : answer.bytesSaved, error: nil,
            isInBackground: isInBackground)
    }

    fileprivate init(_ hop: Hop, failure: any Error, _ isInBackground: Bool) {
        self.init(
            method: hop.head.method, url: hop.head.url.withoutUserinfo, status: 0, cacheStatus: HTTPCacheStatus(),
            bytesSaved: 0, error: failure, isInBackground: isInBackground)
    }
}
