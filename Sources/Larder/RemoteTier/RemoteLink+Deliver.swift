import LarderFiles
import LarderFoundation

/// One change and the server: the attempts, and the consequences of the answer for the copy here.
extension RemoteLink {
    typealias Change = RemoteQueue.Change

    /// Sends a clear. Returns the error after which it has to be tried again.
    func send(_ clear: RemoteQueue.Clear) async -> (any Error)? {
        let scope = RemoteScope(namespace: namespace, tag: clear.scope?.text)
        let version = timed(clear.version, clear.isTimed)
        do {
            try await RemoteRace.run(Self.sendLimit, clock) { [tier] in
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

    private func timed(_ version: RemoteVersion, _ isTimed: Bool) -> RemoteVersion {
        state.withLock { $0.clock.timed(version, isTimed) }
    }

    /// Sends a change. Returns the error after which it has to be tried again.
    func send(_ change: Change, _ key: Key) async -> (any Error)? {
        var change = change
        change.version = timed(change.version, change.isTimed)
        let outcome: RemoteOutcome?
        do {
            outcome = try await self.outcome(of: change, key)
        } catch {
            return fail(key, error)
        }
        if case .ahead(let time)? = outcome {
            return await sendAgain(change, key, at: time)
        }
        await settle(outcome, change, key)
        finish(key)
        return nil
    }

    /// The local clock was ahead of the server's: the change gets another version, and the copy with the old one goes.
    private func sendAgain(_ change: Change, _ key: Key, at time: Int64) async -> (any Error)? {
        let now = now
        var change = change
        change.version = state.withLock { state in
            state.clock.correct(to: time, at: now, settingBack: true)
            return state.clock.next(at: now)
        }
        do {
            let outcome = try await self.outcome(of: change, key)
            await settle(outcome, change, key)
            await drop(key, upTo: change.stamp)
            finish(key)
            return nil
        } catch {
            return fail(key, error)
        }
    }

    private func fail(_ key: Key, _ error: any Error) -> any Error {
        noteFailure()
        let gates = state.withLock { state in
            state.queue.finish(key, failed: true)
            return state.senders.takeFinished(key, failed: true, state.queue)
        }
        for gate in gates { gate.open() }
        return error
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

    /// The same for what the server has under the key and is nobody's value: no try would change that, and the copy goes.
    private func outcome(of change: Change, _ key: Key) async throws -> RemoteOutcome? {
        do {
            return try await attempt(change, key)
        } catch let error as RemoteTierError where error.code == .malformed {
            noteMalformed(key)
            return .missing
        }
    }

    /// Nil when a newer change has taken the place of this one.
    private func attempt(_ change: Change, _ key: Key) async throws -> RemoteOutcome? {
        let name = name(key)
        switch change.operation {
        case .remove: return try await limited { try await $0.remove(name, version: change.version) }
        case .expire:
            let outcome = try await limited { try await $0.expire(name, version: change.version) }
            return outcome == .missing ? .done : outcome
        case .write, .renew: break
        }
        guard let (copy, version) = await disk.store.io.run({ self.copy(of: key, change) }) else { return nil }
        let write: RemoteWrite
        switch copy {
        case .write(let own): write = own
        case .unsendable: return try await replace(name, change, version)
        case .gone: return try await limited { try await $0.remove(name, version: change.version) }
        }
        do {
            if change.operation == .renew {
                var renewal = write
                renewal.entry.payload = Data()
                renewal.entry.checksum = write.entry.checksum
                let outcome = try await limited { [renewal] in try await $0.renew(renewal) }
                if !needsPayload(outcome, change) { return try await removed(ifCleared: outcome, name, change) }
            }
            let outcome = try await limited(size: write.entry.payload.count) { try await $0.write(write) }
            return try await removed(ifCleared: outcome, name, change)
        } catch let error as RemoteTierError where error.code == .full {
            noteFailure()
            post(.remoteChangesDropped, count: 1, "The remote tier has no room for a value: \(error)")
            return try await replace(name, change, version)
        }
    }

    /// Removes what a value replaces that cannot be sent, with the version of the copy, which stays here. A fetched
    /// value replaces only what the server has: the others have fetched theirs themselves.
    private func replace(
        _ name: RemoteKey, _ change: Change, _ version: RemoteVersion? = nil
    ) async throws -> RemoteOutcome? {
        if change.isFetched {
            let request = RemoteRead(key: name, sizeLimit: policy.sizeLimit)
            guard case .value = try await limited({ try await $0.read(request) }).finding else { return nil }
        }
        let version = version.map { min($0, change.version) } ?? change.version
        return try await limited { try await $0.remove(name, version: version) }
    }

    /// Whether a renewal has to be sent with its value: the server has none, or has it from this machine under another
    /// version, because that was changed on its way.
    private func needsPayload(_ outcome: RemoteOutcome, _ change: Change) -> Bool {
        switch outcome {
        case .missing: true
        case .superseded(let version): version < change.version && version.node == change.version.node
        default: false
        }
    }

    /// A value that may have been cleared is not stored, but what it would have replaced must go.
    private func removed(
        ifCleared outcome: RemoteOutcome, _ name: RemoteKey, _ change: Change
    ) async throws -> RemoteOutcome {
        guard outcome == .cleared else { return outcome }
        guard let removal = try await replace(name, change), removal != .done else { return .cleared }
        return removal
    }

    /// A payload has a second more for each MiB: on a slow line it would be sent again and again, and hold up all
    /// other changes.
    private func limited<Result: Sendable>(
        size: Int = 0, _ body: @escaping @Sendable (any RemoteTier) async throws -> Result
    ) async throws -> Result {
        let limit = Self.sendLimit + .milliseconds(size >> 10)
        return try await RemoteRace.run(limit, clock) { [tier] in try await body(tier) }
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
