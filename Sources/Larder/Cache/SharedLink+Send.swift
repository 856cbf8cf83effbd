import LarderFiles
import LarderFoundation

/// Changes on their way to the server. They never fail a call: they wait in a bounded queue, the latest of each key.
extension SharedLink {
    /// Notes a change of a key that is on disk, and begins to send it. `stamp` is the version that the copy bears.
    func send(_ operation: SharedQueue.Operation, _ key: Key, _ stamp: SharedVersion, _ tags: [Key] = []) {
        let now = now
        let isQueued = state.withLock { state in
            let generations = state.known(tags)
            let change = SharedQueue.Change(
                operation: operation, version: stamp, stamp: stamp, queued: now,
                connection: state.isConnected ? state.connection : 0, isTimed: state.clock.isCorrected,
                generations: generations)
            return state.queue.add(change, key)
        }
        if !isQueued { postDropped() }
        drainSoon()
    }

    /// Notes the clear of the namespace, or of a tag.
    func sendClear(_ tag: Key?, _ version: SharedVersion, isExpiry: Bool) {
        let now = now
        let isQueued = state.withLock { state in
            state.forgetGenerations(of: tag)
            return state.queue.add(
                .init(
                    scope: tag, version: version, isExpiry: isExpiry, queued: now, isTimed: state.clock.isCorrected))
        }
        if !isQueued { postDropped() }
        drainSoon()
    }

    private func postDropped() {
        post(
            .sharedChangesDropped, count: state.withLock { $0.queue.dropped },
            "Too many changes wait for the shared tier, or for too long: the namespace is cleared there instead.")
    }

    /// Returns when the changes of these keys have been sent, or the timeout has passed; at once when the server cannot
    /// be reached.
    func awaitSent(_ keys: [Key]) async {
        guard policy.timeout > .zero else { return }
        let gates = state.withLock { state in
            state.canSend ? keys.compactMap { state.senders.gate(.changes(of: $0), state.queue) } : []
        }
        if gates.isEmpty { return }
        // One time for all.
        let timer = clock.schedule(after: policy.timeout) { for gate in gates { gate.open() } }
        for gate in gates { await gate.wait() }
        timer.cancel()
    }

    /// The same for the clears, or for everything that waits.
    func awaitSent(_ awaited: SharedSenders.Awaited, _ limit: Duration? = nil) async {
        let limit = limit ?? policy.timeout
        guard limit > .zero else { return }
        let gate = state.withLock { $0.canSend ? $0.senders.gate(awaited, $0.queue) : nil }
        await gate?.wait(limit, clock)
    }

    func drainSoon() {
        let mustBegin = state.withLock { state in
            guard state.isConnected, !state.isStopped, !state.isDraining, !state.queue.isEmpty, !state.hasRetry else {
                return false
            }
            state.isDraining = true
            return true
        }
        // Not a part of the fetch that may be under way.
        if mustBegin { Flight.$current.withValue(nil) { _ = Task { await drain() } } }
    }

    /// The changes that are under way at a time, pipelined.
    private static let width = 64

    private func drain() async {
        while true {
            dropOld()
            let next = state.withLock { state -> (clear: SharedQueue.Clear?, changes: [(key: Key, change: Change)])? in
                guard state.isConnected, !state.isStopped, !state.hasRetry, !state.queue.isEmpty else {
                    state.isDraining = false
                    return nil
                }
                if let clear = state.queue.firstClear() { return (clear, []) }
                return (nil, state.queue.take(Self.width))
            }
            guard let next else { break }
            var isFine = true
            if let clear = next.clear {
                isFine = await send(clear)
            } else {
                isFine = await withTaskGroup(of: Bool.self) { group in
                    for (key, change) in next.changes { group.addTask { await self.send(change, key) } }
                    return await group.reduce(true) { $0 && $1 }
                }
            }
            if !isFine { retryLater() }
        }
        // Something may have come between the last look and the end.
        drainSoon()
    }

    private func dropOld() {
        let now = now
        let isFine = state.withLock { state in
            let version = state.clock.next(at: now)
            return state.queue.dropOld(SharedTierPolicy.longestWait.milliseconds, version: version, at: now)
        }
        if !isFine { postDropped() }
    }

    /// Lets all callers go on that wait for their changes to be sent: nothing is, for the time being.
    func openAll() {
        for gate in state.withLock({ $0.senders.takeAll() }) { gate.open() }
    }

    /// Waits before the next try; longer each time, up to half a minute.
    private func retryLater() {
        let now = now
        let wait = state.withLock { state -> Int64? in
            if state.hasRetry { return nil }
            state.hasRetry = true
            // One failure suffices here: nobody waits.
            repeat { _ = state.writes.noteFailure(at: now, jitter: .random(in: 0...1)) } while !state.writes.isOpen
            return state.writes.wait(at: now)
        }
        openAll()
        guard let wait else { return }
        clock.schedule(after: .milliseconds(wait)) { [weak self] in
            guard let self else { return }
            let now = self.now
            self.state.withLock { state in
                state.hasRetry = false
                _ = state.writes.allows(at: now)
            }
            self.drainSoon()
        }
    }
}
