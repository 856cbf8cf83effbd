import LarderFiles

/// The connection of a cache with its remote tier: it receives notices, knows which local copies may be returned, and
/// sends changes.
///
/// The memory tier holds only copies that may be returned: whatever ends the trust in a copy drops it from memory under
/// the lock of its shard, where it is also checked on its way in. So a hit in memory asks nothing.
final class RemoteLink: Sendable {
    let tier: any RemoteTier
    let policy: RemoteTierPolicy
    let disk: DiskCache
    /// The namespace on all machines.
    let namespace: String
    let state: Lock<RemoteLinkState>
    let leases: RemoteLeases
    private let stopObserving = Lock<(@Sendable () -> Void)?>(nil)

    /// The longest time in which an answer still counts for later reads.
    private static let answerLimit = Duration.seconds(2)
    /// The most questions under way at a time; further ones are misses.
    static let mostQuestions = 1000

    init(_ tier: any RemoteTier, _ policy: RemoteTierPolicy, disk: DiskCache) {
        self.tier = tier
        self.policy = policy
        self.disk = disk
        namespace = Self.namespace(policy.name, disk.keyNamespace.isNone ? "" : disk.keyNamespace.name)
        state = Lock(RemoteLinkState(queueLimit: policy.queueLimit))
        leases = RemoteLeases(tier, disk.store.clock)
    }

    /// A namespace of the disk alone is its own name. With a name before it, or if it looks like that, it begins with
    /// U+001F and the length of the name, so that no two are the same.
    private static func namespace(_ name: String, _ own: String) -> String {
        let mark: Unicode.Scalar = "\u{1F}"
        if name.isEmpty, own.unicodeScalars.first != mark { return own }
        return "\(mark)\(name.utf8.count):\(name)\(own)"
    }

    var clock: any Clock { disk.store.clock }
    var now: Timestamp { clock.now }

    /// A random part of a pause.
    static func jitter() -> Double {
        var generator = Simulation.Generator()
        return .random(in: 0...1, using: &generator)
    }

    func begin() {
        let stop = tier.observe(as: state.withLock { $0.clock.node }) { [weak self] in self?.receive($0) }
        stopObserving.withLock { $0 = stop }
    }

    /// Ends the notices. Changes that still wait are lost, and no copy is returned any more.
    func stop() {
        let waiting = state.withLock { state in
            defer { state.isStopped = true }
            return state.isStopped ? 0 : state.queue.count
        }
        openAll()
        leases.openAllGates()
        if waiting > 0 {
            post(.remoteChangesDropped, count: waiting, "The cache was released with changes that wait.")
        }
        let stop = stopObserving.withLock { stop in
            defer { stop = nil }
            return stop
        }
        stop?()
    }

    /// The same for a cache that its callers may go on using: its memory is emptied.
    func close(_ limit: Duration) async {
        let end = now.advanced(byMilliseconds: limit.milliseconds)
        await awaitEnd(limit)
        removeOutdatedSoon()
        let removing = state.withLock { $0.removing }
        if let removing {
            // Without enough time, copies stay that a later process asks for.
            let rest = min(limit, .milliseconds(max(0, end.millisecondsSince(now))))
            if rest > .zero { try? await RemoteRace.run(rest, clock) { await removing.value } }
        }
        stop()
        // It ends soon.
        await removing?.value
        dropMemory()
    }

    func name(_ key: Key) -> RemoteKey { RemoteKey(namespace: namespace, key: key.text) }

    var statistics: RemoteStatistics {
        state.withLock { state in
            var counts = state.counts
            counts.waiting = state.queue.count
            counts.dropped += state.queue.dropped
            return counts
        }
    }

    func post(_ kind: CacheEvent.Kind, count: Int = 0, _ message: String? = nil) {
        let namespace = disk.keyNamespace.isNone ? nil : disk.keyNamespace.name
        let error = message.map { CacheError(code: .remoteTier, message: $0) }
        disk.store.events.post(CacheEvent(kind, namespace: namespace, count: count, error: error))
    }
}

/// Questions.
extension RemoteLink {
    /// How a local copy may be used.
    enum Use { case returned, askedFor, refused }

    /// Whether a copy may be returned at once, or after a question.
    func use(of key: Key, _ entry: IndexEntry?) -> Use {
        state.withLock { state in
            if state.isStopped { return .refused }
            let pending = state.queue.pending(key)
            if let pending, pending.operation == .remove, let version = entry?.remoteStamp?.version,
                version < pending.version
            {
                // Removed here; another process on the directory has asked the server before that knew it.
                return .refused
            }
            switch state.standing(of: key, entry) {
            case .noticed: return .refused
            case .unverified:
                return pending == nil && state.storingCopy(key, entry) == nil ? .askedFor : .returned
            case .trusted: return .returned
            }
        }
    }

    func mayReturn(_ key: Key, _ entry: IndexEntry) -> Bool { use(of: key, entry) != .refused }

    func mayEnterMemory(_ entry: IndexEntry, _ key: Key) -> Bool {
        state.withLock { $0.mayEnterMemory(entry, key) }
    }

    /// Whether the server may be asked now.
    private func mayAsk() -> Bool {
        let now = now
        return state.withLock { state in
            guard state.isConnected, !state.isStopped, state.asking < Self.mostQuestions, state.reads.allows(at: now)
            else { return false }
            state.asking += 1
            return true
        }
    }

    /// Asks the server; nil when it cannot be asked or fails. The answer may come long after the timeout.
    func read(_ request: RemoteRead, _ key: Key, _ call: RemoteCall) async -> RemoteReading? {
        guard mayAsk() else { return nil }
        let begun = now
        defer { state.withLock { $0.asking -= 1 } }
        do {
            let limit = max(policy.timeout, Self.answerLimit)
            let reading = try await RemoteRace.run(limit, clock) { [tier] in try await tier.read(request) }
            noteAnswer(begun, call)
            return reading
        } catch let error as RemoteTierError where error.code == .malformed {
            // The server has answered; what it has for this key is nobody's value.
            noteAnswer(begun, call)
            noteMalformed(key)
        } catch {
            noteFailure(error, call)
        }
        return nil
    }

    /// The state of the tier, as far as it concerns this cache.
    var tierState: RemoteTierState {
        if case .connected(let epoch) = tier.state, isSlow { return .slow(epoch: epoch) }
        return tier.state
    }

    /// Whether answers come too late again and again, so that nobody waits for them.
    var isSlow: Bool { state.withLock { $0.isSlow } }

    private func noteAnswer(_ begun: Timestamp, _ call: RemoteCall) {
        let now = now
        let isLate = now.millisecondsSince(begun) > policy.timeout.milliseconds
        let isNew = call.noteAnswer(isLate: isLate)
        let news = state.withLock { state in
            if isLate { state.counts.late += 1 }
            return isNew ? state.noteAnswer(isLate: isLate, of: call, at: now) : nil
        }
        switch news {
        case .some(.remoteTierSlow):
            let limit = Wording.duration(policy.timeout)
            post(.remoteTierSlow, "The remote tier answers later than after \(limit): reads find its answers later.")
        case .some(let kind): post(kind)
        case nil: break
        }
    }

    /// Notes that a question has failed, or that its caller has waited in vain: once for a call, whatever the number of
    /// its questions.
    func noteFailure(_ error: any Error, _ call: RemoteCall) {
        guard call.noteFailure() else { return }
        let now = now
        if state.withLock({ $0.noteFailure(of: call, at: now, jitter: Self.jitter()) }) {
            post(.remoteTierLost, "The remote tier fails again and again: \(error)")
        }
    }

    /// Runs `body` with the number of a question for a key, during which all notices about the key are noted.
    func asking<Result>(_ key: Key, _ body: (UInt64) async -> Result) async -> Result {
        let number = state.withLock { $0.trust.begin(key) }
        defer { state.withLock { $0.trust.end(key) } }
        return await body(number)
    }

    /// Returns the mark of a change that begins now.
    ///
    /// - Throws: `.closed` after ``close(_:)``.
    func newStamp() throws(CacheError) -> RemoteStamp {
        let now = now
        let stamp = state.withLock { $0.isStopped ? nil : $0.newStamp(at: now) }
        guard let stamp else { throw CacheError.closed(disk.store.path) }
        return stamp
    }
}
