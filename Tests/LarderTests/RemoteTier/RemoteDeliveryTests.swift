import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Which calls bring one change to a server", .timeLimit(.minutes(10)))
struct RemoteDeliveryTests {
    private static let (here, elsewhere) = ("00000000000000aa", "00000000000000bb")
    private let name = RemoteKey(key: "k")

    private static func version(_ time: Int64, _ node: String = here) -> RemoteVersion {
        RemoteVersion(milliseconds: time, counter: 0, node: node)
    }

    private func change(_ operation: RemoteQueue.Operation, isFetched: Bool = false) -> RemoteQueue.Change {
        RemoteQueue.Change(
            operation: operation, version: Self.version(5), stamp: Self.version(5), queued: Timestamp(milliseconds: 5),
            connection: 1, isTimed: true, isFetched: isFetched)
    }

    /// A copy whose version is the third of this machine.
    private var copy: OutgoingCopy {
        let entry = RemoteEntry(payload: Data("value".utf8), record: Data(), checksum: 1)
        let life = RemoteLife(remaining: nil, keptStale: 0, age: 0)
        return .write(
            RemoteWrite(key: name, version: Self.version(5), entry: entry, life: life), own: Self.version(3))
    }

    /// Delivers a change to a server that gives these answers. Returns the outcome and the calls; "full" and "copy"
    /// stand for those of the two closures.
    private func deliver(
        _ change: RemoteQueue.Change, _ copy: OutgoingCopy = .gone, _ answers: ScriptedTier.Answer...
    ) async throws -> (outcome: RemoteOutcome?, calls: [String]) {
        let tier = ScriptedTier(answers)
        let delivery = RemoteDelivery(
            change: change, name: name, tier: tier, clock: ManualClock(), sizeLimit: 1000)
        let outcome = try await delivery.outcome(
            copy: {
                tier.note("copy")
                return copy
            }, noteFull: { _ in tier.note("full") })
        return (outcome, tier.calls)
    }

    @Test("a removal and an expiry need no copy, and a value that is missing has expired")
    func withoutCopy() async throws {
        let removal = try await deliver(change(.remove), .gone, .outcome(.superseded(Self.version(9))))
        #expect(removal.outcome == .superseded(Self.version(9)) && removal.calls == ["remove 5"])
        let expiry = try await deliver(change(.expire), .gone, .outcome(.missing))
        #expect(expiry.outcome == .done && expiry.calls == ["expire 5"])
    }

    @Test("a copy that is gone is removed on the server, and one with a newer change behind it is left to that")
    func withoutValue() async throws {
        let gone = try await deliver(change(.write), .gone, .outcome(.done))
        #expect(gone.outcome == .done && gone.calls == ["copy", "remove 5"])
        let replaced = try await deliver(change(.write), .replaced)
        #expect(replaced.outcome == nil && replaced.calls == ["copy"])
    }

    @Test("a renewal is sent with its value where the server lacks this machine's, and only there")
    func renewals() async throws {
        for answer in [RemoteOutcome.missing, .superseded(Self.version(4))] {
            let sent = try await deliver(change(.renew), copy, .outcome(answer), .outcome(.done))
            #expect(sent.outcome == .done && sent.calls == ["copy", "renew 5, 0 bytes", "write 5, 5 bytes"])
        }
        for answer in [RemoteOutcome.done, .superseded(Self.version(4, Self.elsewhere)), .superseded(Self.version(6))] {
            let renewed = try await deliver(change(.renew), copy, .outcome(answer))
            #expect(renewed.outcome == answer && renewed.calls == ["copy", "renew 5, 0 bytes"])
        }
    }

    @Test("a value for which there is no room is replaced by a removal that leaves the copy here valid")
    func full() async throws {
        let full = try await deliver(change(.write), copy, .full, .outcome(.done))
        #expect(full.outcome == .done && full.calls == ["copy", "write 5, 5 bytes", "full", "remove 3"])
        let large = try await deliver(change(.write), .unsendable(own: nil), .outcome(.done))
        #expect(large.outcome == .done && large.calls == ["copy", "remove 5"])
    }

    @Test("a fetched value that cannot be sent removes only a value that the server has")
    func fetched() async throws {
        let large = OutgoingCopy.unsendable(own: Self.version(9))
        let kept = try await deliver(change(.write, isFetched: true), large, .missing)
        #expect(kept.outcome == nil && kept.calls == ["copy", "read"])
        let removed = try await deliver(change(.write, isFetched: true), large, .value, .outcome(.done))
        #expect(removed.outcome == .done && removed.calls == ["copy", "read", "remove 5"])
    }

    @Test("a value that may have been cleared is not stored, and removes what it would have replaced")
    func cleared() async throws {
        let cleared = try await deliver(change(.write), copy, .outcome(.cleared), .outcome(.done))
        #expect(cleared.outcome == .cleared && cleared.calls == ["copy", "write 5, 5 bytes", "remove 5"])
        let ahead = try await deliver(change(.write), copy, .outcome(.cleared), .outcome(.ahead(time: 1)))
        #expect(ahead.outcome == .ahead(time: 1))
    }

    @Test("all other errors are the caller's")
    func errors() async throws {
        await #expect(throws: RemoteTierError.self) { try await deliver(change(.write), copy, .failure) }
        await #expect(throws: RemoteTierError.self) { try await deliver(change(.write), copy, .full, .failure) }
    }
}

/// A remote tier that notes its calls and answers them one after the other as the test says.
private final class ScriptedTier: RemoteTier {
    enum Answer {
        case outcome(RemoteOutcome)
        case value, missing, full, failure
    }

    private let script: Lock<(answers: ArraySlice<Answer>, calls: [String])>

    init(_ answers: [Answer]) {
        script = Lock((answers[...], []))
    }

    var calls: [String] { script.withLock { $0.calls } }

    func note(_ call: String) { script.withLock { $0.calls.append(call) } }

    private func answer(_ call: String) throws -> Answer {
        note(call)
        switch script.withLock({ $0.answers.popFirst() }) {
        case nil, .failure: throw RemoteTierError(.unavailable, "The server is gone.")
        case .full: throw RemoteTierError(.full, "The server is full.")
        case .some(let answer): return answer
        }
    }

    private func outcome(_ call: String) throws -> RemoteOutcome {
        guard case .outcome(let outcome) = try answer(call) else { throw RemoteTierError(.malformed, call) }
        return outcome
    }

    var state: RemoteTierState { .connected(epoch: "1") }

    func read(_ request: RemoteRead) async throws -> RemoteReading {
        guard case .value = try answer("read") else { return RemoteReading(.missing) }
        let entry = RemoteEntry(payload: Data(), record: Data(), checksum: 1)
        let version = RemoteVersion(milliseconds: 1, counter: 0, node: "00000000000000bb")
        return RemoteReading(.value(entry, version, RemoteLife(remaining: nil, keptStale: 0, age: 0)))
    }

    func write(_ write: RemoteWrite) async throws -> RemoteOutcome {
        try outcome("write \(write.version.milliseconds), \(write.entry.payload.count) bytes")
    }

    func renew(_ write: RemoteWrite) async throws -> RemoteOutcome {
        try outcome("renew \(write.version.milliseconds), \(write.entry.payload.count) bytes")
    }

    func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try outcome("expire \(version.milliseconds)")
    }

    func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try outcome("remove \(version.milliseconds)")
    }

    func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws {}

    func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool { false }

    func endLease(_ key: RemoteKey, holder: String) async throws {}

    func observe(
        as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void
    ) -> @Sendable () -> Void { {} }
}
