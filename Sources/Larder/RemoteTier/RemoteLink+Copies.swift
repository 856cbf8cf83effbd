import LarderFiles

/// The knowledge about copies.
extension RemoteLink {
    /// A copy that is being stored.
    struct StoringCopy {
        /// Notices that came after this number concern it.
        let number: UInt64
        fileprivate let id: Int
        fileprivate let isQuestion: Bool
    }

    func count(_ change: (inout RemoteStatistics) -> Void) {
        state.withLock { change(&$0.counts) }
    }

    /// Notes that a copy is about to be stored, or a value removed: no answer of the server may then take its place.
    /// Without `number` because of a call that begins now.
    func beginStoring(
        _ key: Key, _ stamp: RemoteStamp, _ source: RemoteLinkState.Storing.Source = .caller,
        since number: UInt64? = nil
    ) -> StoringCopy {
        state.withLock { state in
            let begun = number ?? state.trust.begin(key)
            let id = state.beginStoring(key, stamp, source, since: begun)
            return StoringCopy(number: begun, id: id, isQuestion: number == nil)
        }
    }

    func endStoring(_ key: Key, _ store: StoringCopy) {
        state.withLock { state in
            state.endStoring(key, store.id)
            if store.isQuestion { state.trust.end(key) }
        }
    }

    /// Trusts a copy that the server has confirmed or sent, unless a notice has come since.
    func noteConfirmed(_ key: Key, _ tags: [Key], since number: UInt64, isHit: Bool = false) -> Bool {
        state.withLock { state in
            if isHit { state.counts.hits += 1 } else { state.counts.confirmations += 1 }
            return state.trust.confirm(key, tags: tags, version: nil, since: number)
        }
    }

    func isOutdated(_ key: Key, _ tags: [Key], since number: UInt64) -> Bool {
        state.withLock { $0.trust.isOutdated(key, tags: tags, version: nil, since: number) }
    }

    func isPending(_ key: Key) -> Bool { state.withLock { $0.queue.pending(key) != nil } }

    /// The version of a change of this machine that the server may not have yet, on the server's clock.
    func pendingVersion(_ key: Key) -> RemoteVersion? { state.withLock { $0.pendingVersion(key) } }

    /// Whether a clear by this machine, which the server may not know yet, covers a value.
    func isCleared(_ version: RemoteVersion, _ tags: [Key]) -> Bool {
        state.withLock { $0.isCleared(version, tags) }
    }

    /// Whether a clear by this machine was sent since a question began: the answer may have what that has removed.
    func hasSentClear(after version: RemoteVersion, since number: UInt64) -> Bool {
        state.withLock { $0.hasSentClear(after: version, since: number) }
    }

    /// Notes a clear that begins here.
    func beginClear(_ tag: Key?, _ stamp: RemoteStamp, isExpiry: Bool) -> Int {
        let now = now
        return state.withLock { $0.beginClear(.init(tag, stamp, isExpiry: isExpiry, at: now)) }
    }

    func endClear(_ id: Int) { state.withLock { $0.endClear(id) } }

    func observe(_ version: RemoteVersion) {
        let now = now
        state.withLock { $0.clock.observe(version, at: now) }
    }

    func noteMalformed(_ key: Key) {
        count { counts in
            counts.malformed += 1
            counts.misses += 1
        }
        let message = "The remote tier has sent something other than a value of this cache for a key."
        disk.store.events.post(
            CacheEvent(.failed, of: key, error: CacheError(code: .remoteTier, message: message)))
    }

    func verdict(on reading: RemoteReading, _ entry: IndexEntry, _ key: Key) -> RemoteVerdict {
        let (copy, epoch) = (copy(entry, key), state.withLock { $0.epoch })
        return copy.verdict(on: reading, epoch: epoch, memory: Self.memory)
    }

    private static let memory = RemoteTierPolicy.removalMemory.milliseconds

    private func copy(_ entry: IndexEntry, _ key: Key) -> RemoteCopy {
        let now = now
        return state.withLock { state in
            let isNoticed = state.standing(of: key, entry) == .noticed
            // Of a fetch that began before the change, nothing counts.
            let isPending =
                state.queue.pending(key).map { !$0.isFetched || !isNoticed }
                ?? state.storingCopy(key, entry).map { $0.source == .caller || !isNoticed } ?? false
            return RemoteCopy(
                stamp: entry.remoteStamp, age: max(0, now.millisecondsSince(entry.stored)), isNoticed: isNoticed,
                isPending: isPending)
        }
    }
}

/// Fetching on behalf of all machines.
extension RemoteLink {
    func takeLease(_ key: Key, for duration: Duration) async -> RemoteLeases.Answer {
        guard policy.timeout > .zero, state.withLock({ $0.canSend && !$0.reads.isOpen && !$0.isSlow }) else {
            return .unavailable(nil)
        }
        let answer = await leases.take(name(key), for: duration, timeout: policy.timeout) {
            await self.awaitSent([key])
        }
        if case .unavailable = answer { count { $0.failures += 1 } }
        return answer
    }
}
