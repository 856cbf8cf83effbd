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

/// The part of a remote tier in a fetch: the version of its results, and its right to fetch, if it has one.
final class RemoteFetch: Sendable {
    struct Part {
        let stamp: RemoteStamp
        let number: UInt64
    }

    private let link: RemoteLink
    private let parts: [Key: Part]
    private let lease: RemoteLease?

    init(_ keys: [Key], _ link: RemoteLink, _ lease: RemoteLease?) {
        self.link = link
        self.lease = lease
        let now = link.now
        parts = link.state.withLock { state in
            let stamp = state.newStamp(at: now)
            var parts: [Key: Part] = [:]
            for key in keys { parts[key] = Part(stamp: stamp, number: state.trust.begin(key)) }
            return parts
        }
    }

    deinit {
        let keys = parts.keys
        link.state.withLock { state in
            for key in keys { state.trust.end(key) }
        }
    }

    func part(_ key: Key) -> Part? { parts[key] }
}

/// The right to fetch a key on behalf of all machines, until it is released.
final class RemoteLease: Sendable {
    private let link: RemoteLink
    private let key: Key
    let holder: String

    init(_ key: Key, _ holder: String, _ link: RemoteLink) {
        self.link = link
        self.key = key
        self.holder = holder
    }

    deinit {
        let (link, key, holder) = (link, key, holder)
        // The value first: who waits looks for it when the lease ends.
        Flight.$current.withValue(nil) {
            _ = link.clock.begin(nil) {
                await link.awaitSent([key])
                await link.endLease(key, holder)
            }
        }
    }
}

extension RemoteLink {
    enum LeaseAnswer: Sendable {
        case taken(RemoteLease)
        case refused
        /// Without the server nobody waits. The lease may have been granted although no answer has come: it ends with
        /// the fetch.
        case unavailable(RemoteLease?)
    }

    func takeLease(_ key: Key, for duration: Duration) async -> LeaseAnswer {
        let (holder, name) = (FixedHex.random(), name(key))
        guard policy.timeout > .zero, state.withLock({ $0.canSend && !$0.reads.isOpen && !$0.isSlow }) else {
            return .unavailable(nil)
        }
        let isTaken = try? await RemoteRace.run(policy.timeout, clock) { [tier] in
            try await tier.lease(name, holder: holder, for: duration)
        }
        guard let isTaken else {
            count { $0.failures += 1 }
            return .unavailable(RemoteLease(key, holder, self))
        }
        return isTaken ? .taken(RemoteLease(key, holder, self)) : .refused
    }

    func endLease(_ key: Key, _ holder: String) async {
        let name = name(key)
        // Without an answer it ends by itself.
        try? await RemoteRace.run(Self.sendLimit, clock) { [tier] in try await tier.endLease(name, holder: holder) }
    }

    /// A gate that the next notice about the key opens.
    func gate(_ key: Key) -> RemoteGate {
        let gate = RemoteGate()
        state.withLock { $0.waiters[key, default: []].append(gate) }
        return gate
    }

    func remove(_ gate: RemoteGate, _ key: Key) {
        state.withLock { state in
            state.waiters[key]?.removeAll { $0 === gate }
            if state.waiters[key]?.isEmpty == true { state.waiters[key] = nil }
        }
    }
}
