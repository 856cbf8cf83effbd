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

    /// The most generations that are remembered.
    static let mostGenerations = 10_000

    var clock = HybridClock()
    var trust = SharedTrust()
    var queue: SharedQueue
    var reads = CircuitBreaker()
    var writes = CircuitBreaker()
    /// The epoch of the server's memory; "": it has never been reached.
    var epoch = ""
    var isConnected = false
    /// The number of connections so far.
    var connection: UInt64 = 0
    var isStopped = false
    var isDraining = false
    var hasRetry = false
    var asking = 0
    var counts = SharedStatistics()
    /// By tag, nil: of the namespace.
    private var generations: [Key?: String] = [:]
    private(set) var storing: [Key: [Storing]] = [:]
    private var lastID = 0
    var senders = SharedSenders()
    /// The callers that wait for another machine's fetch.
    var waiters: [Key: [SharedGate]] = [:]

    init(queueLimit: Int) {
        queue = SharedQueue(limit: queueLimit)
    }

    var canSend: Bool { isConnected && !isStopped && !hasRetry }

    func known(_ tags: [Key]) -> [String] {
        [generations[nil] ?? ""] + tags.map { generations[$0] ?? "" }
    }

    mutating func learn(_ current: [String], _ tags: [Key]) {
        guard current.count == tags.count + 1 else { return }
        if generations.count > Self.mostGenerations { generations = [:] }
        for (tag, generation) in zip([nil] + tags.map { Key?.some($0) }, current) {
            generations[tag] = generation.isEmpty || !SharedStamp.isPlain(generation) ? nil : generation
        }
    }

    mutating func forget(_ tags: [Key]) {
        generations[nil] = nil
        for tag in tags { generations[tag] = nil }
    }

    mutating func forgetGenerations(of tag: Key?) {
        if tag == nil { generations = [:] } else { generations[tag] = nil }
    }

    mutating func connect(_ epoch: String) {
        // Known generations stay: the server refuses them if they are not current.
        self.epoch = SharedStamp.isPlain(epoch) ? epoch : ""
        isConnected = true
        connection += 1
        trust.connect()
        (reads, writes) = (CircuitBreaker(), CircuitBreaker())
        hasRetry = false
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

    /// Whether an entry may enter the memory, where it is returned without a question.
    func mayEnterMemory(_ entry: IndexEntry, _ key: Key) -> Bool {
        let tags = entry.tags
        switch trust.standing(of: key, tags: tags) {
        case .trusted: return true
        case .unverified where !isConnected: return true
        case .unverified, .noticed:
            guard let own = storing[key], let version = entry.sharedStamp?.version else { return false }
            return own.contains { $0.version == version && !trust.isOutdated(key, tags: tags, since: $0.number) }
        }
    }
}
