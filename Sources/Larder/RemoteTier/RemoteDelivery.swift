import LarderFiles
import LarderFoundation

/// The delivery of one change: the calls of the server that it takes, depending on its answers and on the copy here.
struct RemoteDelivery: Sendable {
    let change: RemoteQueue.Change
    let name: RemoteKey
    let tier: any RemoteTier
    let clock: any Clock
    let sizeLimit: Int

    /// The longest time that a change may take on its way, in the background, without that for its payload.
    static let timeLimit = Duration.seconds(2)

    /// Returns the server's last answer; nil when there is nothing to send any more. `copy` reads the copy, which only
    /// a change of a value or of its life needs. `noteFull` hears that the server has no room for the value, before
    /// what that replaces is removed there.
    func outcome(
        copy: () async -> OutgoingCopy, noteFull: (any Error) -> Void
    ) async throws -> RemoteOutcome? {
        switch change.operation {
        case .remove: return try await remove()
        case .expire:
            let outcome = try await limited { try await $0.expire(name, version: change.version) }
            return outcome == .missing ? .done : outcome
        case .write, .renew: break
        }
        switch await copy() {
        case .gone: return try await remove()
        case .replaced: return nil
        case .unsendable(let own): return try await replace(own)
        case .write(let write, let own):
            do {
                return try await send(write)
            } catch let error as RemoteTierError where error.code == .full {
                noteFull(error)
                return try await replace(own)
            }
        }
    }

    private func send(_ write: RemoteWrite) async throws -> RemoteOutcome {
        if change.operation == .renew {
            var renewal = write
            renewal.entry.payload = Data()
            let outcome = try await limited { [renewal] in try await $0.renew(renewal) }
            if !needsPayload(outcome) { return try await removed(ifCleared: outcome) }
        }
        let outcome = try await limited(size: write.entry.payload.count) { try await $0.write(write) }
        return try await removed(ifCleared: outcome)
    }

    /// Whether a renewal has to be sent with its value: the server has none, or has it from this machine under another
    /// version, because that was changed on its way.
    private func needsPayload(_ outcome: RemoteOutcome) -> Bool {
        switch outcome {
        case .missing: true
        case .superseded(let version): version < change.version && version.node == change.version.node
        default: false
        }
    }

    /// A value that may have been cleared is not stored, but what it would have replaced must go.
    private func removed(ifCleared outcome: RemoteOutcome) async throws -> RemoteOutcome {
        guard outcome == .cleared else { return outcome }
        guard let removal = try await replace(nil), removal != .done else { return .cleared }
        return removal
    }

    /// Removes what a value replaces that cannot be sent, with the version of the copy, `own`, which stays here. A
    /// fetched value replaces only what the server has: the others have fetched theirs themselves.
    private func replace(_ own: RemoteVersion?) async throws -> RemoteOutcome? {
        if change.isFetched {
            let request = RemoteRead(key: name, sizeLimit: sizeLimit)
            guard case .value = try await limited({ try await $0.read(request) }).finding else { return nil }
        }
        return try await remove(own.map { min($0, change.version) })
    }

    private func remove(_ version: RemoteVersion? = nil) async throws -> RemoteOutcome {
        try await limited { try await $0.remove(name, version: version ?? change.version) }
    }

    /// A payload has a second more for each MiB: on a slow line it would be sent again and again, and hold up all
    /// other changes.
    private func limited<Result: Sendable>(
        size: Int = 0, _ body: @escaping @Sendable (any RemoteTier) async throws -> Result
    ) async throws -> Result {
        let limit = Self.timeLimit + .milliseconds(size >> 10)
        return try await RemoteRace.run(limit, clock) { [tier] in try await body(tier) }
    }
}
