import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Changes on their way to a remote tier")
struct RemoteSendingTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }

    private func isWaited(for cache: Cache<String>, by count: Int) -> Bool {
        cache.remoteLink?.state.withLock { $0.senders.count } == count
    }

    @Test("closing and flushing wait for all changes, also when a clear is sent before them", arguments: [true, false])
    func clearFirst(_ isClosed: Bool) async throws {
        let held = HeldTier(server.connection(), holding: [.write, .clear])
        let one = try machines.cache(0) { $0.remoteTier = held }
        async let cleared: Void = one.removeAll(tagged: "t")
        await eventually { held.waiting(.clear) == 1 }
        // A fetch does not wait until its value is sent.
        _ = try await one.value(forKey: "k") { "v" }
        await one.waitForFetches()
        async let ended: Void = isClosed ? one.close() : one.flush()
        await eventually { isWaited(for: one, by: 2) }
        held.release(.clear)
        try await cleared
        await eventually { held.waiting(.write) == 1 }
        #expect(isWaited(for: one, by: 1))
        held.release(.write)
        try await ended
        #expect(server.keys == ["k"])
    }

    @Test("a call goes on when its change becomes part of a clear")
    func coveredByClear() async throws {
        let held = HeldTier(server.connection(), holding: [.clear])
        let one = try machines.cache(0) { $0.remoteTier = held }
        async let tagged: Void = one.removeAll(tagged: "t")
        await eventually { held.waiting(.clear) == 1 }
        async let set: Void = one.setValue("v", forKey: "k")
        await eventually { isWaited(for: one, by: 2) }
        async let all: Void = one.removeAll()
        await eventually { isWaited(for: one, by: 3) }
        held.release(.clear)
        _ = try await (tagged, set, all)
        #expect(server.keys.isEmpty)
    }

    @Test("closing with no time lets callers go on that wait for their changes")
    func stopped() async throws {
        let held = HeldTier(server.connection(), holding: [.write])
        let one = try machines.cache(0) { $0.remoteTier = held }
        async let set: Void = one.setValue("v", forKey: "k")
        await eventually { isWaited(for: one, by: 1) }
        try await one.close(waitingForFetches: .zero)
        try await set
        held.release(.write)
    }

    @Test("a call that changes many keys waits for a silent server no longer than one that changes one")
    func manyKeys() async throws {
        let held = HeldTier(server.connection(), holding: [.write])
        let one = try machines.cache(0) { $0.remoteTier = held }
        let values = Dictionary(uniqueKeysWithValues: (0..<10).map { ("\($0)", "v") })
        async let set: Void = one.setValues(values)
        await eventually { isWaited(for: one, by: 10) }
        machines.worlds[0].advance(by: .milliseconds(100))
        try await set
        held.release(.write)
    }

    @Test("a value that another process on the directory asks for does not return after its removal")
    func removedInDirectory() async throws {
        let held = HeldTier(server.connection(), holding: [.remove])
        let one = try machines.cache(0) { $0.remoteTier = held }
        let (beside, two) = (try machines.cache(0), try machines.cache(1))
        try await two.setValue("old", forKey: "k")
        #expect(await one.value(forKey: "k") == "old")
        async let removed = one.removeValue(forKey: "k")
        await eventually { held.waiting(.remove) == 1 }
        machines.worlds[0].advance(by: .milliseconds(100))
        #expect(try await removed)
        // It knows nothing of the removal, and neither does the server.
        #expect(await beside.value(forKey: "k") == "old")
        #expect(await one.value(forKey: "k") == nil)
        held.release(.remove)
        await eventually { one.statistics.remote?.waiting == 0 }
        #expect(await one.value(forKey: "k") == nil)
        #expect(await beside.value(forKey: "k") == nil)
    }

    @Test("a value that was removed here is not taken from the server, which does not know it yet")
    func removedMeanwhile() async throws {
        let held = HeldTier(server.connection(), holding: [.remove])
        let (one, two) = (try machines.cache(0) { $0.remoteTier = held }, try machines.cache(1))
        // Machine two is a second behind, so that its value is the older one.
        machines.worlds[0].advance(by: .seconds(1))
        machines.time.advance(by: .seconds(1))
        let source = TestSource<String>()
        async let fetched = one.value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        async let removed = one.removeValue(forKey: "k")
        await eventually { held.waiting(.remove) == 1 }
        machines.worlds[0].advance(by: .milliseconds(100))
        _ = try await removed
        // One hears of it, because it fetches the key.
        try await two.setValue("older", forKey: "k")
        #expect(await one.value(forKey: "k") == nil)
        held.release(.remove)
        await eventually { one.statistics.remote?.waiting == 0 }
        #expect(await one.value(forKey: "k") == nil)
        #expect(await two.value(forKey: "k") == nil)
        source.succeed(with: "fetched")
        _ = try await fetched
    }
}
