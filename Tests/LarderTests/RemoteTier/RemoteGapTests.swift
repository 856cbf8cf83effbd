import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Answers of a remote tier that meet changes by the same machine", .timeLimit(.minutes(10)))
struct RemoteGapTests {
    let machines = Machines(3)
    var server: TestRemoteServer { machines.server }

    /// Holds the calls of a cost function, but for the first ones.
    private final class Brake: Sendable {
        private let calls = Lock(0)
        private let free: Int
        private let end = DispatchSemaphore(value: 0)

        init(after free: Int) {
            self.free = free
        }

        var isHolding: Bool { calls.withLock { $0 > free } }

        func enter() -> Int {
            let mustWait = calls.withLock { calls in
                calls += 1
                return calls == free + 1
            }
            if mustWait { end.wait() }
            return 1
        }

        func release() {
            end.signal()
        }
    }

    @Test(
        "a question that is asked while a call goes on storing does not replace what that has stored",
        arguments: [true, false])
    func whileStoring(_ isOnServer: Bool) async throws {
        let brake = Brake(after: 1)
        let (one, two) = (try machines.cache(0) { $0.cost = { _, _ in brake.enter() } }, try machines.cache(1))
        if isOnServer { try await two.setValues(["k": "older", "l": "older"]) }
        server.evict("unrelated")
        machines.advance(by: .seconds(1))
        async let set: Void = one.setValues(["k": "new", "l": "new"])
        await eventually { brake.isHolding }
        let disk = try #require(one.disk)
        let stored = ["k", "l"].filter { disk.string(forKey: $0) == "new" }
        #expect(stored.count == 1)
        _ = await one.backend.bring(stored.map { Key($0) })
        brake.release()
        try await set
        await one.sent()
        for cache in [one, two] {
            #expect(await cache.values(forKeys: ["k", "l"]) == ["k": "new", "l": "new"])
        }
    }

    enum Change: CaseIterable { case remove, expire }

    @Test(
        "a question between a removal here and its place in the queue brings nothing back", arguments: Change.allCases)
    func whileRemoving(_ change: Change) async throws {
        let held = HeldTier(server.connection(), holding: [.read])
        let (one, two) = (try machines.cache(0) { $0.remoteTier = held }, try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        machines.advance(by: .seconds(1))
        let backend = try #require(one.backend as? RemoteBackend<String>)
        let (link, key) = (backend.link, Key("k"))
        let stamp = try link.newStamp()
        let storing = link.beginStoring(key, stamp)
        switch change {
        case .remove: _ = try await backend.local.remove("k")
        case .expire: _ = try await backend.local.expire("k")
        }
        async let found = one.value(forKey: "k")
        await eventually { held.waiting(.read) == 1 }
        link.send(change == .remove ? .remove : .expire, key, stamp)
        link.endStoring(key, storing)
        await one.sent()
        held.release(.read)
        #expect(await found == nil)
        for cache in [one, two] { #expect(await cache.value(forKey: "k") == nil) }
    }

    enum Clear: CaseIterable { case removeAll, removeTagged, expireAll, expireTagged }

    private func clear(_ cache: Cache<String>, _ kind: Clear) async throws {
        switch kind {
        case .removeAll: try await cache.removeAll()
        case .removeTagged: try await cache.removeAll(tagged: "t")
        case .expireAll: try await cache.expireAll()
        case .expireTagged: try await cache.expireAll(tagged: "t")
        }
    }

    @Test("an answer from before a clear by this machine brings nothing back", arguments: Clear.allCases)
    func overClear(_ kind: Clear) async throws {
        let held = HeldTier(server.connection(), holding: [.read])
        let (one, two) = (try machines.cache(0) { $0.remoteTier = held }, try machines.cache(1))
        try await two.setValue("old", forKey: "k", tags: ["t"])
        machines.advance(by: .seconds(1))
        async let found = one.value(forKey: "k")
        await eventually { held.waiting(.read) == 1 }
        machines.advance(by: .milliseconds(1))
        try await clear(one, kind)
        await one.sent()
        held.release(.read)
        #expect(await found == nil)
        #expect(await one.value(forKey: "k") == nil)
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("while a clear waits, what it covers is not brought in", arguments: Clear.allCases)
    func waitingClear(_ kind: Clear) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await two.setValue("old", forKey: "k", tags: ["t"])
        machines.advance(by: .seconds(1))
        server.faults = [.readOnly]
        try await clear(one, kind)
        #expect(await one.value(forKey: "k") == nil)
        server.faults = []
        server.disconnect()
        server.reconnect()
        await one.sent()
        for cache in [one, two] { #expect(await cache.value(forKey: "k") == nil) }
    }

    @Test("an older copy that is stored while a notice comes is not returned, even without the server")
    func noticeWhileStoring() async throws {
        let brake = Brake(after: 0)
        let (one, two) = (try machines.cache(0) { $0.cost = { _, _ in brake.enter() } }, try machines.cache(1))
        async let set: Void = one.setValue("older", forKey: "k")
        await eventually { brake.isHolding }
        machines.advance(by: .seconds(1))
        try await two.setValue("newer", forKey: "k")
        server.disconnect()
        brake.release()
        try await set
        #expect(await one.value(forKey: "k") == nil)
        server.reconnect()
        await one.sent()
        for cache in [one, two] { #expect(await cache.value(forKey: "k") == "newer") }
    }

    @Test("a copy that has been heard of as outdated, and that the disk cannot remove, is not returned afterwards")
    func failingDisk() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        let link = try #require(two.remoteLink)
        machines.worlds[1].failCalls()
        try await one.removeValue(forKey: "k")
        await eventually { link.state.withLock { $0.removing == nil } }
        #expect(await two.value(forKey: "k") == nil)
        machines.worlds[1].endFaults()
        server.disconnect()
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test(
        "a clear of a tag elsewhere does not make a healthy machine's changes without the tag late ones",
        arguments: [true, false])
    func foreignClear(_ areSet: Bool) async throws {
        let held = HeldTier(server.connection(), holding: [.write])
        let one = try machines.cache(0) {
            $0.remoteTier = held
            $0.remoteTierPolicy.timeout = .zero
        }
        let two = try machines.cache(1)
        try await two.setValue("v", forKey: "other")
        machines.advance(by: .seconds(1))
        let source = TestSource<String>()
        // The first ones are under way, the others wait.
        let values = Dictionary(uniqueKeysWithValues: (0..<100).map { ("\($0)", "v") })
        async let fetched = areSet ? "v" : one.value(forKey: "0") { try await source.fetch() }
        if areSet {
            try await one.setValues(values)
            await eventually { held.waiting(.write) > 0 }
        } else {
            await source.waitForRequests()
        }
        machines.advance(by: .seconds(1))
        try await two.removeAll(tagged: "x")
        await eventually { one.remoteLink?.state.withLock { $0.removing == nil } == true }
        server.evict("unrelated")
        source.succeed(with: "v")
        #expect(try await fetched == "v")
        held.release(.write)
        await one.sent()
        #expect(server.keys.count == (areSet ? 101 : 2))
        #expect(await one.value(forKey: "0") == "v")
    }
}
