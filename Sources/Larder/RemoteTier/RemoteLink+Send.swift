import LarderFiles
import LarderFoundation

/// Changes on their way to the server. They never fail a call: they wait in a bounded queue, the latest of each key.
extension RemoteLink {
    /// Notes a change of a key that is on disk, and begins to send it.
    ///
    /// `number` is that of the call or the fetch that has stored a copy: this is trusted, unless a notice or a
    /// connection has come since; then the change is a late one.
    func send(
        _ operation: RemoteQueue.Operation, _ key: Key, _ stamp: RemoteStamp, _ tags: [Key] = [],
        since number: UInt64? = nil, isFetched: Bool = false
    ) {
        let now = now
        let isQueued = state.withLock { state in
            if state.isStopped { return true }
            let version = operation == .write ? stamp.timedVersion : nil
            let isTrusted = number.map { state.trust.confirm(key, tags: tags, version: version, since: $0) } ?? true
            let change = RemoteQueue.Change(
                operation: operation, version: stamp.version, stamp: stamp.version, queued: now,
                connection: state.isConnected && isTrusted ? state.connection : 0, isTimed: stamp.isTimed,
                isFetched: isFetched, tags: tags)
            return state.queue.add(change, key)
        }
        if !isQueued { postDropped() }
        drainSoon()
    }

    /// Sends a copy again of which the server does not know, unless it waits to be sent.
    func resend(_ key: Key, _ stamp: RemoteStamp) {
        let now = now
        state.withLock { state in
            if state.isStopped || state.queue.pending(key) != nil { return }
            let change = RemoteQueue.Change(
                operation: .write, version: stamp.version, stamp: stamp.version, queued: now, connection: 0,
                isTimed: true)
            // One that does not fit is sent again another time.
            if state.reserve(1, upToHalf: true) {
                _ = state.queue.add(change, key)
                state.endReserving(1)
            }
        }
        drainSoon()
    }

    /// Notes the clear of the namespace, or of a tag.
    func sendClear(_ tag: Key?, _ stamp: RemoteStamp, isExpiry: Bool) {
        let now = now
        let isQueued = state.withLock { $0.queue.add(.init(tag, stamp, isExpiry: isExpiry, at: now)) }
        if !isQueued { postDropped() }
        drainSoon()
    }

    private func postDropped() {
        post(
            .remoteChangesDropped, count: state.withLock { $0.queue.dropped },
            "Too many changes wait for the remote tier, or for too long: the namespace is cleared there instead.")
    }

    /// Returns when the changes of these keys have been sent, or `limit` has passed, by default the timeout; at once
    /// when the server cannot be reached.
    func awaitSent(_ keys: [Key], _ limit: Duration? = nil) async {
        let limit = min(limit ?? policy.timeout, policy.timeout)
        guard limit > .zero else { return }
        let gates = state.withLock { state in
            state.canSend ? keys.compactMap { state.senders.gate(.changes(of: $0), state.queue) } : []
        }
        if gates.isEmpty { return }
        // One time for all.
        let timer = clock.schedule(after: limit) { for gate in gates { gate.open() } }
        for gate in gates { await gate.wait() }
        timer.cancel()
    }

    /// The same for the clears, or for everything that waits.
    func awaitSent(_ awaited: RemoteSenders.Awaited) async {
        guard policy.timeout > .zero else { return }
        let gate = state.withLock { $0.canSend ? $0.senders.gate(awaited, $0.queue) : nil }
        await gate?.wait(policy.timeout, clock)
    }

    /// Returns when everything has been sent or `limit` has passed, be the server there or not. Tries it once more at
    /// once.
    func awaitEnd(_ limit: Duration) async {
        guard limit > .zero else { return }
        let gate = state.withLock { state in
            state.hasRetry = false
            return state.senders.gate(.end, state.queue)
        }
        drainSoon()
        await gate?.wait(limit, clock)
    }

    /// Reserves places in the queue: while half of it is used, at `end` at the latest while there are any. Where there
    /// are none, it waits for longer, unless the server has taken nothing for the timeout.
    func awaitRoom(_ count: Int, until end: Timestamp?) async {
        while true {
            let left = end.map { Duration.milliseconds($0.millisecondsSince(now)) } ?? policy.timeout
            let (gate, finished) = state.withLock { state -> (RemoteGate?, Int) in
                let finished = state.queue.finished
                if state.reserve(count, upToHalf: left > .zero) { return (nil, finished) }
                guard policy.timeout > .zero, state.canSend, state.stuck != finished, !Task.isCancelled else {
                    state.reserveAnyway(count)
                    return (nil, finished)
                }
                return (state.senders.roomGate(upToHalf: left > .zero), finished)
            }
            guard let gate else { return }
            let limit = left > .zero ? min(left, policy.timeout) : policy.timeout
            await gate.wait(limit, clock)
            if limit == policy.timeout, !Task.isCancelled {
                state.withLock { if $0.queue.finished == finished { $0.stuck = finished } }
            }
        }
    }

    /// Gives reserved places back: the changes are in the queue by now.
    func endRoom(_ count: Int) {
        let gates = state.withLock { state in
            state.endReserving(count)
            return state.takeRoomGates()
        }
        for gate in gates { gate.open() }
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
        if mustBegin { Flight.$current.withValue(nil) { _ = clock.begin(nil) { await self.drain() } } }
    }

    /// The changes that are under way at a time, pipelined, and the payload bytes: questions wait behind them, and each
    /// is in memory several times. A larger payload is alone.
    private static let width = 64
    private static let mostBytes = 1 << 20

    /// Changes that are sent together, and the number of the connection.
    private struct Part {
        var clear: RemoteQueue.Clear?
        var changes: [(key: Key, change: Change)] = []
        let connection: UInt64
    }

    private func drain() async {
        while true {
            dropOld()
            let next = state.withLock { state -> Part? in
                guard state.isConnected, !state.isStopped, !state.hasRetry, !state.queue.isEmpty else {
                    state.isDraining = false
                    return nil
                }
                if let clear = state.queue.firstClear() { return Part(clear: clear, connection: state.connection) }
                return Part(changes: state.queue.take(Self.width), connection: state.connection)
            }
            guard let next else { break }
            let failure = if let clear = next.clear { await send(clear) } else { await send(next.changes) }
            if let failure { retryLater(failure, next.connection) }
        }
        // Something may have come between the last look and the end.
        drainSoon()
    }

    /// Sends several changes. Returns an error after which some have to be sent again.
    private func send(_ changes: [(key: Key, change: Change)]) async -> (any Error)? {
        await withTaskGroup(of: (size: Int, failure: (any Error)?).self) { group in
            var size = 0
            var failure: (any Error)?
            func note(_ sent: (size: Int, failure: (any Error)?)) {
                size -= sent.size
                failure = failure ?? sent.failure
            }
            for (key, change) in changes {
                let own = disk.store.index.entry(key)?.size ?? 0
                while size > 0, size + own > Self.mostBytes, let sent = await group.next() { note(sent) }
                size += own
                group.addTask { (own, await self.send(change, key)) }
            }
            for await sent in group { note(sent) }
            return failure
        }
    }

    private func dropOld() {
        let now = now
        let isFine = state.withLock { state in
            let version = state.clock.next(at: now)
            return state.queue.dropOld(RemoteTierPolicy.longestWait.milliseconds, version: version, at: now)
        }
        if !isFine { postDropped() }
    }

    /// Releases all callers waiting for their changes: nothing is being sent for now.
    func openAll() {
        for gate in state.withLock({ $0.senders.takeAll(hasEnded: $0.isStopped) }) { gate.open() }
    }

    /// Waits before the next try; longer each time, up to half a minute. Not after a failure on a connection that is no
    /// more: the present one has not failed.
    private func retryLater(_ error: any Error, _ connection: UInt64) {
        let now = now
        let retry = state.withLock { state -> (wait: Int64, isNews: Bool)? in
            if state.hasRetry || state.connection != connection { return nil }
            state.hasRetry = true
            var isNews = false
            // One failure suffices here: nobody waits.
            repeat {
                if state.writes.noteFailure(at: now, jitter: Self.jitter()) { isNews = state.isConnected }
            } while !state.writes.isOpen
            return (state.writes.wait(at: now) ?? 0, isNews)
        }
        guard let (wait, isNews) = retry else { return }
        if isNews { post(.remoteTierLost, "The remote tier takes no changes, so they wait: \(error)") }
        openAll()
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
