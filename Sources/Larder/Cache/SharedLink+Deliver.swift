import LarderFiles
import LarderFoundation

/// One change and the server: the attempts, and the consequences of the answer for the copy here.
extension SharedLink {
    typealias Change = SharedQueue.Change

    /// Sends a clear. Returns false when it has to be tried again.
    func send(_ clear: SharedQueue.Clear) async -> Bool {
        let scope = SharedScope(namespace: namespace, tag: clear.scope?.text)
        let version = timed(clear.version, clear.isTimed)
        do {
            try await SharedRace.run(Self.sendLimit, clock) { [tier] in
                try await tier.clear(scope, version: version, isExpiry: clear.isExpiry)
            }
        } catch {
            noteFailure()
            return false
        }
        let gates = state.withLock { state in
            state.queue.finish(clear)
            state.counts.changes += 1
            _ = state.writes.noteSuccess()
            return state.senders.takeFinished(nil, state.queue)
        }
        for gate in gates { gate.open() }
        return true
    }

    private func noteFailure() {
        state.withLock { $0.counts.failures += 1 }
    }

    /// Returns the version of a change on the server's clock. Before the first connection the local clock had not been
    /// compared with that.
    private func timed(_ version: SharedVersion, _ isTimed: Bool) -> SharedVersion {
        isTimed ? version : state.withLock { version.moved(by: $0.clock.offset) }
    }

    /// Sends a change. Returns false when it has to be tried again.
    func send(_ change: Change, _ key: Key) async -> Bool {
        var change = change
        change.version = timed(change.version, change.isTimed)
        let outcome: SharedOutcome?
        do {
            outcome = try await attempt(change, key)
        } catch {
            noteFailure()
            finish(key, failed: true)
            return false
        }
        if case .ahead(let time)? = outcome {
            return await sendAgain(change, key, at: time)
        }
        await settle(outcome, change, key)
        finish(key, failed: false)
        return true
    }

    /// The local clock was ahead of the server's: the change gets another version, and the copy with the old one goes.
    private func sendAgain(_ change: Change, _ key: Key, at time: Int64) async -> Bool {
        let now = now
        var change = change
        change.version = state.withLock { state in
            state.clock.correct(to: time, at: now, settingBack: true)
            return state.clock.next(at: now)
        }
        do {
            let outcome = try await attempt(change, key)
            await settle(outcome, change, key)
            await drop(key, upTo: change.stamp)
            finish(key, failed: false)
            return true
        } catch {
            noteFailure()
            finish(key, failed: true)
            return false
        }
    }

    private func finish(_ key: Key, failed: Bool) {
        let gates = state.withLock { state -> [SharedGate] in
            state.queue.finish(key, failed: failed)
            if !failed { _ = state.writes.noteSuccess() }
            return state.senders.takeFinished(key, failed: failed, state.queue)
        }
        for gate in gates { gate.open() }
    }

    /// Nil when a newer change has taken the place of this one.
    private func attempt(_ change: Change, _ key: Key) async throws -> SharedOutcome? {
        let name = name(key)
        switch change.operation {
        case .remove: return try await limited { try await $0.remove(name, version: change.version) }
        case .expire:
            let outcome = try await limited { try await $0.expire(name, version: change.version) }
            return outcome == .missing ? .done(generations: []) : outcome
        case .write, .renew: break
        }
        guard let copy = await disk.store.io.run({ self.copy(of: key, change) }) else { return nil }
        guard case .write(let write) = copy else {
            return try await limited { try await $0.remove(name, version: change.version) }
        }
        do {
            if change.operation == .renew {
                var renewal = write
                renewal.entry.payload = Data()
                renewal.entry.checksum = write.entry.checksum
                let outcome = try await limited { [renewal] in try await $0.renew(renewal) }
                if !needsPayload(outcome, change) { return try await removed(ifCleared: outcome, name, change) }
            }
            let outcome = try await limited { try await $0.write(write) }
            return try await removed(ifCleared: outcome, name, change)
        } catch let error as SharedTierError where error.code == .full {
            noteFailure()
            post(.sharedChangesDropped, count: 1, "The shared tier has no room for a value: \(error)")
            return try await limited { try await $0.remove(name, version: change.version) }
        }
    }

    /// Whether a renewal has to be sent with its value: the server has none, or has it from this machine under another
    /// version, because that was changed on its way.
    private func needsPayload(_ outcome: SharedOutcome, _ change: Change) -> Bool {
        switch outcome {
        case .missing: true
        case .superseded(let version): version < change.version && version.node == change.version.node
        default: false
        }
    }

    /// A value that may have been cleared is not stored, but what it would have replaced must go.
    private func removed(
        ifCleared outcome: SharedOutcome, _ name: SharedKey, _ change: Change
    ) async throws -> SharedOutcome {
        guard outcome == .cleared else { return outcome }
        let removal = try await limited { try await $0.remove(name, version: change.version) }
        if case .done = removal { return .cleared }
        return removal
    }

    private func limited<Result: Sendable>(
        _ body: @escaping @Sendable (any SharedTier) async throws -> Result
    ) async throws -> Result {
        try await SharedRace.run(Self.sendLimit, clock) { [tier] in try await body(tier) }
    }

    private func settle(_ outcome: SharedOutcome?, _ change: Change, _ key: Key) async {
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
            if case .done(let generations)? = outcome, generations.count > 0 { learn(generations, key) }
            // Another process on the directory may have brought the value back before the server knew of its removal.
            if change.operation == .remove, let version = disk.store.index.entry(key)?.sharedStamp?.version,
                version < change.version
            {
                await drop(key, upTo: change.version)
            }
        } else {
            if outcome == .cleared { state.withLock { $0.forgetGenerations(of: nil) } }
            await drop(key, upTo: max(change.version, change.stamp))
        }
    }

    private func learn(_ generations: [String], _ key: Key) {
        let tags = disk.store.index.entry(key)?.tags ?? []
        state.withLock { $0.learn(generations, tags) }
    }

    /// Removes a copy that the server has something newer for.
    func drop(_ key: Key, upTo version: SharedVersion) async {
        await disk.store.io.run { [disk] in
            // A failure is reported by the store; the copy is then asked for at its next read.
            _ = try? disk.removeValue(forKey: key.text, ifNotNewerThan: version)
        }
        state.withLock { $0.trust.forget(key) }
    }
}
