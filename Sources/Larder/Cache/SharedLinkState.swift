import LarderFiles

/// A cache's knowledge of its shared tier: pure decisions, under the lock of the link.
struct SharedLinkState: Sendable {
    /// A copy that is being stored, and the number of the question or the fetch that it answers.
    struct Storing: Sendable {
        let version: SharedVersion
        let number: UInt64
        /// Among the copies of the key that are being stored.
        let id: Int
    }

    var clock = HybridClock()
    var trust = SharedTrust()
    var queue: SharedQueue
    var reads = CircuitBreaker()
    var writes = CircuitBreaker()
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
    /// The number of changes that had been sent when a caller last waited for room in vain.
    var stuck: Int?
    var asking = 0
    var counts = SharedStatistics()
    private(set) var storing: [Key: [Storing]] = [:]
    private var lastID = 0
    var senders = SharedSenders()
    /// The callers that wait for another machine's fetch.
    var waiters: [Key: [SharedGate]] = [:]
    /// Removes copies that notices concern.
    var removing: Task<Void, Never>?

    init(queueLimit: Int) {
        queue = SharedQueue(limit: queueLimit)
    }

    var canSend: Bool { isConnected && !isStopped && !hasRetry }

    mutating func connect(_ epoch: String) {
        self.epoch = SharedStamp.digest(epoch)
        (isConnected, isLossReported) = (true, false)
        connection += 1
        trust.connect()
        (reads, writes) = (CircuitBreaker(), CircuitBreaker())
        hasRetry = false
    }

    /// Returns the mark of a change that begins now, with a version that is higher than all that this machine has given
    /// or seen.
    mutating func newStamp(at now: Timestamp) -> SharedStamp {
        let version = clock.next(at: now)
        if canSend { return knownStamp(version) }
        return SharedStamp(version: version, origin: clock.isCorrected ? .offline : .untimed)
    }

    /// The mark of a copy of which the server knows.
    func knownStamp(_ version: SharedVersion) -> SharedStamp {
        SharedStamp(version: version, origin: epoch.map { .epoch($0) } ?? .untimed)
    }

    mutating func beginStoring(_ key: Key, _ version: SharedVersion, since number: UInt64) -> Int {
        lastID += 1
        storing[key, default: []].append(Storing(version: version, number: number, id: lastID))
        return lastID
    }

    mutating func endStoring(_ key: Key, _ id: Int) {
        storing[key]?.removeAll { $0.id == id }
        if storing[key]?.isEmpty == true { storing[key] = nil }
    }

    func standing(of key: Key, _ entry: IndexEntry?) -> SharedTrust.Standing {
        let unsent = queue.pending(key) == nil ? nil : entry?.sharedStamp?.timedVersion
        return trust.standing(of: key, tags: entry?.tags ?? [], version: unsent)
    }

    /// Whether an entry may enter the memory, where it is returned without a question.
    func mayEnterMemory(_ entry: IndexEntry, _ key: Key) -> Bool {
        if isStopped { return false }
        switch standing(of: key, entry) {
        case .trusted: return true
        case .unverified where !isConnected: return true
        case .unverified, .noticed:
            guard let own = storing[key], let version = entry.sharedStamp?.version else { return false }
            return own.contains { storing in
                storing.version == version
                    && !trust.isOutdated(key, tags: entry.tags, version: nil, since: storing.number)
            }
        }
    }

    /// Whether a copy is older than a change that has been heard of, and may go: the server decides about one that
    /// waits to be sent.
    func isOld(_ entry: IndexEntry, _ key: Key) -> Bool {
        guard let version = entry.sharedStamp?.timedVersion, storing[key] == nil, queue.pending(key) == nil else {
            return false
        }
        return trust.isOld(key, tags: entry.tags, version: version)
    }
}
