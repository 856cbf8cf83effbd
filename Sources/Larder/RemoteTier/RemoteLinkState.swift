import LarderFiles

/// A cache's knowledge of its remote tier: pure decisions, under the lock of the link.
struct RemoteLinkState: Sendable {
    /// A copy that is being stored, and the number of the question or the fetch that it answers; or a removal or an
    /// expiry that is under way.
    struct Storing: Sendable {
        enum Source: Sendable { case caller, fetch, server }

        let version: RemoteVersion
        let number: UInt64
        let source: Source
        let isTimed: Bool
        /// Among the copies of the key that are being stored.
        let id: Int
    }

    var clock = HybridClock()
    var trust = RemoteTrust()
    var queue: RemoteQueue
    var reads = CircuitBreaker()
    var writes = CircuitBreaker()
    /// The calls, one after the other, whose answers have come too late since the last one in time; and when the last
    /// of them was noted.
    private var late = (calls: 0, last: Timestamp(milliseconds: .min))
    /// Whether so many have that nobody waits for one.
    private(set) var isSlow = false
    private var lastFailure = Timestamp(milliseconds: .min)
    /// The digest of the epoch of the last connection; nil: the server has never been reached.
    private(set) var epoch: UInt64?
    var isConnected = false
    /// Whether an event has said that the server cannot be reached.
    var isLossReported = false
    /// The number of connections so far.
    private(set) var connection: UInt64 = 0
    var isStopped = false
    var isDraining = false
    var hasRetry = false
    /// The number of changes that had been sent when a caller last waited for a place in the queue in vain.
    var stuck: Int?
    var asking = 0
    var counts = RemoteStatistics()
    private(set) var storing: [Key: [Storing]] = [:]
    /// The clears by this machine that are under way here, and not in the queue yet.
    private var clearing: [Int: RemoteQueue.Clear] = [:]
    /// The last clear by this machine that the server has, and the highest version of all: answers from before it may
    /// have what it has removed.
    private(set) var sentClear: (number: UInt64, version: RemoteVersion)?
    /// The changes that are under way here and have their place in the queue.
    private(set) var reserved = 0
    private var lastID = 0
    var senders = RemoteSenders()
    /// Removes copies that notices concern.
    var removing: Task<Void, Never>?

    init(queueLimit: Int) {
        queue = RemoteQueue(limit: queueLimit)
    }

    var canSend: Bool { isConnected && !isStopped && !hasRetry }

    mutating func connect(_ epoch: String) {
        self.epoch = RemoteStamp.digest(epoch)
        (isConnected, isLossReported) = (true, false)
        connection += 1
        trust.connect()
        (reads, writes) = (CircuitBreaker(), CircuitBreaker())
        (late.calls, isSlow) = (0, false)
        hasRetry = false
    }

    /// Whether an event has said that the server does not work as it should.
    var isTroubled: Bool { !isConnected || reads.isOpen || writes.isOpen || isSlow }

    /// Notes an answer to a question: the server works. Returns the event of a change.
    ///
    /// Calls that were under way at the same time say the same: they count as one late call, and one failure.
    mutating func noteAnswer(isLate: Bool, of call: RemoteCall, at now: Timestamp) -> CacheEvent.Kind? {
        let (wasOpen, wasSlow) = (reads.noteSuccess(), isSlow)
        if !isLate {
            late.calls = 0
        } else if call.begun >= late.last {
            late = (late.calls + 1, now)
        }
        isSlow = late.calls >= CircuitBreaker.mostFailures
        if isSlow { return wasSlow ? nil : .remoteTierSlow }
        return wasOpen || wasSlow ? .remoteTierConnected : nil
    }

    /// Notes that a call was not answered. Returns whether that is news.
    mutating func noteFailure(of call: RemoteCall, at now: Timestamp, jitter: Double) -> Bool {
        counts.failures += 1
        if call.begun < lastFailure, !reads.isOpen { return false }
        lastFailure = now
        return reads.noteFailure(at: now, jitter: jitter)
    }

    /// Returns the mark of a change that begins now, with a version that is higher than all that this machine has given
    /// or seen.
    mutating func newStamp(at now: Timestamp) -> RemoteStamp {
        let version = clock.next(at: now)
        if canSend { return knownStamp(version) }
        return RemoteStamp(version: version, origin: clock.isCorrected ? .offline : .untimed)
    }

    /// The mark of a copy of which the server knows.
    func knownStamp(_ version: RemoteVersion) -> RemoteStamp {
        RemoteStamp(version: version, origin: epoch.map { .epoch($0) } ?? .untimed)
    }

    mutating func beginStoring(
        _ key: Key, _ stamp: RemoteStamp, _ source: Storing.Source, since number: UInt64
    ) -> Int {
        lastID += 1
        storing[key, default: []].append(
            Storing(
                version: stamp.version, number: number, source: source, isTimed: stamp.isTimed, id: lastID))
        return lastID
    }

    mutating func endStoring(_ key: Key, _ id: Int) {
        storing[key]?.removeAll { $0.id == id }
        if storing[key]?.isEmpty == true { storing[key] = nil }
    }

    /// The copy that a change by this machine has stored, and that is about to be queued.
    func storingCopy(_ key: Key, _ entry: IndexEntry?) -> Storing? {
        guard let own = storing[key], let version = entry?.remoteStamp?.version else { return nil }
        return own.first { $0.source != .server && $0.version == version }
    }

    /// The highest version of the changes by this machine that the server may not have yet, on the server's clock.
    func pendingVersion(_ key: Key) -> RemoteVersion? {
        let queued = queue.pending(key).map { clock.timed($0.version, $0.isTimed) }
        let own = storing[key]?.filter { $0.source != .server }.map { clock.timed($0.version, $0.isTimed) } ?? []
        return (own + [queued].compactMap { $0 }).max()
    }

    /// Notes a clear that begins here. Returns its number.
    mutating func beginClear(_ clear: RemoteQueue.Clear) -> Int {
        lastID += 1
        clearing[lastID] = clear
        return lastID
    }

    mutating func endClear(_ id: Int) { clearing[id] = nil }

    /// Notes that the server has a clear by this machine, under this version.
    mutating func noteSent(_ clear: RemoteQueue.Clear, _ version: RemoteVersion) {
        queue.finish(clear)
        sentClear = (trust.next(), max(version, sentClear?.version ?? version))
    }

    /// Whether a clear by this machine covers a value, and the server may not have the clear yet.
    func isCleared(_ version: RemoteVersion, _ tags: [Key]) -> Bool {
        (queue.clears + clearing.values).contains { clear in
            version < clock.timed(clear.version, clear.isTimed) && clear.scope.map { tags.contains($0) } ?? true
        }
    }

    /// Whether a clear by this machine was sent since a question began, so that the answer may be from before it.
    func hasSentClear(after version: RemoteVersion, since number: UInt64) -> Bool {
        sentClear.map { number < $0.number && version < $0.version } ?? false
    }

    /// Reserves places in the queue for changes, if there is room: up to half of the queue, or all of it.
    mutating func reserve(_ count: Int, upToHalf: Bool) -> Bool {
        let used = queue.count + reserved
        guard upToHalf ? used <= queue.limit / 2 : used + count <= queue.limit else { return false }
        reserved += count
        return true
    }

    /// The same for a caller that cannot wait: the queue may overflow.
    mutating func reserveAnyway(_ count: Int) { reserved += count }

    mutating func endReserving(_ count: Int) { reserved -= count }

    /// Takes the gates of as many callers as there are places.
    mutating func takeRoomGates() -> [RemoteGate] {
        let used = queue.count + reserved
        return senders.takeRoomGates(places: queue.limit - used, half: queue.limit / 2 - used + 1)
    }

    func standing(of key: Key, _ entry: IndexEntry?) -> RemoteTrust.Standing {
        let isUnsent = queue.pending(key) != nil || storingCopy(key, entry) != nil
        let unsent = isUnsent ? entry?.remoteStamp?.timedVersion : nil
        return trust.standing(of: key, tags: entry?.tags ?? [], version: unsent)
    }

    /// Whether an entry may enter the memory, where it is returned without a question.
    func mayEnterMemory(_ entry: IndexEntry, _ key: Key) -> Bool {
        if isStopped { return false }
        switch standing(of: key, entry) {
        case .trusted: return true
        case .unverified where !isConnected: return true
        case .unverified, .noticed:
            guard let own = storing[key], let version = entry.remoteStamp?.version else { return false }
            return own.contains { storing in
                storing.version == version
                    && !trust.isOutdated(key, tags: entry.tags, version: nil, since: storing.number)
            }
        }
    }

    /// Whether a copy is older than a change that has been heard of, and may go: the server decides about one that
    /// waits to be sent.
    func isOld(_ entry: IndexEntry, _ key: Key) -> Bool {
        guard let version = entry.remoteStamp?.timedVersion, storing[key] == nil, queue.pending(key) == nil else {
            return false
        }
        return trust.isOld(key, tags: entry.tags, version: version)
    }
}
