import LarderFiles

/// One change and the server: the attempts, and the consequences of the answer for the copy here.
extension RemoteLink {
    typealias Change = RemoteQueue.Change

    /// Sends a clear. Returns the error after which it has to be tried again.
    func send(_ clear: RemoteQueue.Clear) async -> (any Error)? {
        let scope = RemoteScope(namespace: namespace, tag: clear.scope?.text)
        let version = timed(clear.version, clear.isTimed)
        do {
            try await RemoteRace.run(RemoteDelivery.timeLimit, clock) { [tier] in
                try await tier.clear(scope, version: version, isExpiry: clear.isExpiry)
            }
        } catch {
            noteFailure()
            return error
        }
        finish { state in
            state.noteSent(clear, version)
            state.counts.changes += 1
            return state.senders.takeFinished(nil, state.queue)
        }
        return nil
    }

    private func noteFailure() {
        state.withLock { $0.counts.failures += 1 }
    }

    /// Sends a change. Returns the error after which it has to be tried again.
    func send(_ change: Change, _ key: Key) async -> (any Error)? {
        var change = change
        change.version = timed(change.version, change.isTimed)
        do {
            let outcome = try await outcome(of: change, key)
            if case .ahead(let time)? = outcome {
                // The local clock was ahead of the server's: the change gets another version, and the copy with the old
                // one goes.
                change.version = newVersion(correctedTo: time)
                await settle(try await self.outcome(of: change, key), change, key)
                await drop(key, upTo: change.stamp)
            } else {
                await settle(outcome, change, key)
            }
            finish(key)
            return nil
        } catch {
            noteFailure()
            let gates = state.withLock { state in
                state.queue.finish(key, failed: true)
                return state.senders.takeFinished(key, failed: true, state.queue)
            }
            for gate in gates { gate.open() }
            return error
        }
    }

    private func timed(_ version: RemoteVersion, _ isTimed: Bool) -> RemoteVersion {
        state.withLock { $0.clock.timed(version, isTimed) }
    }

    private func newVersion(correctedTo time: Int64) -> RemoteVersion {
        let now = now
        return state.withLock { state in
            state.clock.correct(to: time, at: now, settingBack: true)
            return state.clock.next(at: now)
        }
    }

    private func finish(_ key: Key) {
        finish { state in
            state.queue.finish(key, failed: false)
            return state.senders.takeFinished(key, state.queue)
        }
    }

    /// Notes that the server takes changes, and lets those callers go on that `body` returns.
    private func finish(_ body: (inout RemoteLinkState) -> [RemoteGate]) {
        let (gates, isNews) = state.withLock { state in
            (body(&state) + state.takeRoomGates(), state.writes.noteSuccess())
        }
        for gate in gates { gate.open() }
        if isNews { post(.remoteTierConnected) }
    }

    /// Brings a change to the server; nil when there is nothing to send any more. What the server has under the key may
    /// be nobody's value: no try would change that, and the copy goes.
    private func outcome(of change: Change, _ key: Key) async throws -> RemoteOutcome? {
        let delivery = RemoteDelivery(
            change: change, name: name(key), tier: tier, clock: clock, sizeLimit: policy.sizeLimit)
        do {
            return try await delivery.outcome(copy: { await copy(of: key, change) }) { error in
                noteFailure()
                post(.remoteChangesDropped, count: 1, "The remote tier has no room for a value: \(error)")
            }
        } catch let error as RemoteTierError where error.code == .malformed {
            noteMalformed(key)
            return .missing
        }
    }

    private func copy(of key: Key, _ change: Change) async -> OutgoingCopy {
        let copy = await disk.store.io.run { [self] in
            OutgoingCopy(of: key, as: name(key), change, on: disk, sizeLimit: policy.sizeLimit)
        }
        return state.withLock { state in
            switch copy {
            case .write(var write, let own):
                // A notice may have come since the change was taken from the queue.
                write.isLate = (state.queue.sending[key] ?? change).connection != state.connection
                return .write(write, own: own)
            case .replaced where state.queue.changes[key] == nil:
                // Not by a change that follows, but by another process on the directory: the others lose theirs.
                return .gone
            default: return copy
            }
        }
    }

    private func settle(_ outcome: RemoteOutcome?, _ change: Change, _ key: Key) async {
        let now = now
        let isTaken = state.withLock { state in
            switch outcome {
            case nil: return true
            case .done:
                state.counts.changes += 1
                return true
            case .superseded(let version):
                state.clock.observe(version, at: now)
                state.counts.refusals += 1
                return false
            case .cleared, .missing, .ahead:
                state.counts.refusals += 1
                return false
            }
        }
        if isTaken {
            // Another process on the directory may have brought the value back before the server knew of its removal.
            if change.operation == .remove, let version = disk.store.index.entry(key)?.remoteStamp?.version,
                version < change.version
            {
                await drop(key, upTo: change.version)
            }
        } else {
            await drop(key, upTo: max(change.version, change.stamp))
        }
    }

    /// Removes a copy that the server has something newer for, unless that is stored by now.
    private func drop(_ key: Key, upTo version: RemoteVersion) async {
        await drop(key) { [disk] () throws(CacheError) in
            try disk.removeValue(forKey: key.text, ifNotNewerThan: version)
        }
    }

    /// Removes a copy that the server has declared invalid, unless another one has taken its place.
    func drop(_ key: Key, _ copy: IndexEntry) async {
        await drop(key) { [disk] () throws(CacheError) in try disk.remove(key) { $0.isSameValue(as: copy) } }
    }

    private func drop(_ key: Key, _ remove: @escaping @Sendable () throws(CacheError) -> Bool) async {
        let last = state.withLock { $0.trust.last }
        // A failure is reported by the store; the copy is then asked for at its next read.
        await disk.store.io.run { _ = try? remove() }
        if disk.store.index.entry(key) == nil { state.withLock { $0.trust.forget(key, upTo: last) } }
    }
}
