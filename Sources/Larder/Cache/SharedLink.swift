import LarderFiles

/// The connection of a cache with its shared tier: it receives notices, knows which local copies may be returned, and
/// sends changes.
///
/// The memory tier holds only copies that may be returned: whatever ends the trust in a copy drops it from memory under
/// the lock of its shard, where it is also checked on its way in. So a hit in memory asks nothing.
final class SharedLink: Sendable {
    let tier: any SharedTier
    let policy: SharedTierPolicy
    let disk: DiskCache
    /// The namespace on all machines.
    let namespace: String
    let state: Lock<SharedLinkState>
    private let stopObserving = Lock<(@Sendable () -> Void)?>(nil)

    /// The longest time that a change may take on its way, in the background.
    static let sendLimit = Duration.seconds(2)
    /// The most questions under way at a time; further ones are misses.
    static let mostQuestions = 1000

    init(_ tier: any SharedTier, _ policy: SharedTierPolicy, disk: DiskCache) {
        self.tier = tier
        self.policy = policy
        self.disk = disk
        let own = disk.keyNamespace.isNone ? "" : disk.keyNamespace.name
        // After a name always the sign, so that a name is never taken for a namespace.
        namespace = policy.name.isEmpty ? own : "\(policy.name)\u{1F}\(own)"
        state = Lock(SharedLinkState(queueLimit: policy.queueLimit))
    }

    var clock: any Clock { disk.store.clock }
    var now: Timestamp { clock.now }

    func begin() {
        let stop = tier.observe(as: state.withLock { $0.clock.node }) { [weak self] in self?.receive($0) }
        stopObserving.withLock { $0 = stop }
    }

    /// Ends the notices. Changes that still wait are lost.
    func stop() {
        let waiting = state.withLock { state in
            state.isStopped = true
            return state.queue.count
        }
        openAll()
        openAllWaiters()
        if waiting > 0 {
            post(.sharedChangesDropped, count: waiting, "The cache was released with changes that wait.")
        }
        let stop = stopObserving.withLock { stop in
            defer { stop = nil }
            return stop
        }
        stop?()
    }

    func name(_ key: Key) -> SharedKey { SharedKey(namespace: namespace, key: key.text) }

    var statistics: SharedStatistics {
        state.withLock { state in
            var counts = state.counts
            counts.waiting = state.queue.count
            counts.dropped += state.queue.dropped
            return counts
        }
    }

    func post(_ kind: CacheEvent.Kind, count: Int = 0, _ message: String? = nil) {
        let namespace = disk.keyNamespace.isNone ? nil : disk.keyNamespace.name
        let error = message.map { CacheError(code: .sharedTier, message: $0) }
        disk.store.events.post(CacheEvent(kind, namespace: namespace, count: count, error: error))
    }
}

/// Notices.
extension SharedLink {
    func receive(_ notice: SharedNotice) {
        switch notice {
        // What is changed here from now on is newer.
        case .changed(let name, let version):
            if let version { observe(version) }
            noteChange(name)
        case .cleared(let scope, let version, _):
            if let version { observe(version) }
            noteClear(scope)
        case .changedAll:
            state.withLock { $0.trust.noteAll() }
            dropMemory()
            openAllWaiters()
        case .connected(let epoch, let time):
            let now = now
            state.withLock { state in
                state.clock.correct(to: time, at: now)
                state.connect(epoch)
            }
            dropMemory()
            post(.sharedTierConnected)
            drainSoon()
        case .disconnected(let reason):
            let wasConnected = state.withLock { state in
                defer { state.isConnected = false }
                return state.isConnected
            }
            openAll()
            openAllWaiters()
            if wasConnected { post(.sharedTierLost, "The shared tier cannot be reached: \(reason)") }
        case .leaseEnded(let name):
            if let key = key(name) { openWaiters(key) }
        }
    }

    private func key(_ name: SharedKey) -> Key? {
        guard name.namespace.hasSameBytes(as: namespace) else { return nil }
        return disk.key(name.key)
    }

    private func noteChange(_ name: SharedKey) {
        guard let key = key(name) else { return }
        let index = disk.store.index
        // While a damaged index is rebuilt, an entry may come to light later.
        let hasCopy = index.mayHaveEntry(key) || disk.store.recovery.provisional.isSet
        let isNoted = state.withLock { state in
            state.counts.notices += 1
            state.queue.noteChange(key)
            return state.trust.note(key, hasCopy: hasCopy)
        }
        if isNoted { index.invalidate(key, .changedElsewhere) } else { dropMemory() }
        if hasCopy {
            disk.store.events.post(CacheEvent(.changedElsewhere, keys: [key.text], in: disk.keyNamespace))
        }
        openWaiters(key)
    }

    private func noteClear(_ scope: SharedScope) {
        guard scope.namespace.hasSameBytes(as: namespace) else { return }
        let tag = scope.tag.map { disk.key($0) }
        state.withLock { state in
            state.counts.notices += 1
            state.trust.note(tag: tag)
            state.forgetGenerations(of: tag)
        }
        dropMemory()
        let name = disk.keyNamespace.isNone ? nil : disk.keyNamespace.name
        disk.store.events.post(CacheEvent(.changedElsewhere, namespace: name, tag: scope.tag))
    }

    /// Empties the memory tiers of the namespace, one shard after the other: a copy that is on its way in has been
    /// checked before, and is dropped, or is checked afterwards, and stays out.
    private func dropMemory() {
        disk.store.index.invalidateAll(in: .namespace(disk.keyNamespace))
    }

    /// Lets everybody go on that waits for another machine's fetch: nobody would hear of its end.
    private func openAllWaiters() {
        let gates = state.withLock { state in
            defer { state.waiters = [:] }
            return state.waiters.values.flatMap { $0 }
        }
        for gate in gates { gate.open() }
    }

    private func openWaiters(_ key: Key) {
        for gate in state.withLock({ $0.waiters.removeValue(forKey: key) ?? [] }) { gate.open() }
    }
}

/// Questions.
extension SharedLink {
    /// How a local copy may be used.
    enum Use { case returned, askedFor, refused }

    /// Whether a copy may be returned at once, or after a question.
    func use(of key: Key, _ entry: IndexEntry?) -> Use {
        state.withLock { state in
            let pending = state.queue.pending(key)
            if let pending, pending.operation == .remove, let version = entry?.sharedStamp?.version,
                version < pending.version
            {
                // Removed here; another process on the directory has asked the server before that knew it.
                return .refused
            }
            switch state.trust.standing(of: key, tags: entry?.tags ?? []) {
            case .noticed: return .refused
            case .unverified: return pending == nil ? .askedFor : .returned
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

    /// Asks the server; nil when it cannot be asked, fails or takes too long.
    func read(_ request: SharedRead) async -> SharedReading? {
        guard mayAsk() else { return nil }
        let result: Result<SharedReading, any Error>
        do {
            result = .success(
                try await SharedRace.run(policy.timeout, clock) { [tier] in try await tier.read(request) })
        } catch {
            result = .failure(error)
        }
        let now = now
        let change = state.withLock { state -> CacheEvent.Kind? in
            state.asking -= 1
            if case .success = result { return state.reads.noteSuccess() ? .sharedTierConnected : nil }
            state.counts.failures += 1
            return state.reads.noteFailure(at: now, jitter: .random(in: 0...1)) ? .sharedTierLost : nil
        }
        if case .failure(let error) = result {
            if change != nil { post(.sharedTierLost, "The shared tier fails again and again: \(error)") }
            return nil
        }
        if change != nil { post(.sharedTierConnected) }
        return try? result.get()
    }

    /// Runs `body` with the number of a question for a key, during which all notices about the key are noted.
    func asking<Result>(_ key: Key, _ body: (UInt64) async -> Result) async -> Result {
        let number = state.withLock { $0.trust.begin(key) }
        defer { state.withLock { $0.trust.end(key) } }
        return await body(number)
    }

    /// Returns a version that is higher than all that this machine has given or seen.
    func nextVersion() -> SharedVersion {
        let now = now
        return state.withLock { $0.clock.next(at: now) }
    }

    /// The mark of a copy that is stored now.
    func stamp(_ version: SharedVersion, _ tags: [Key]) -> SharedStamp {
        state.withLock { state in
            SharedStamp(
                version: version, epoch: state.isConnected ? state.epoch : "", generations: state.known(tags))
        }
    }
}
