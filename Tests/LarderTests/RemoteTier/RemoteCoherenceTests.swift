import Foundation
import Larder
import LarderTesting
import Testing

@Suite("Copies of a remote tier after lost connections, evictions and wrong clocks")
struct RemoteCoherenceTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }

    @Test("after a lost connection a copy is checked at its first read, and kept if it is current")
    func checkedOnce() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValues(["a": "1", "b": "1", "c": "1"])
        #expect(await two.values(forKeys: ["a", "b", "c"]).count == 3)
        machines.cut(1)
        try await one.setValue("2", forKey: "b")
        try await one.removeValue(forKey: "c")
        #expect(await two.values(forKeys: ["a", "b", "c"]) == ["a": "1", "b": "1", "c": "1"])
        server.reconnect()
        let asked = server.callCount("read")
        #expect(await two.values(forKeys: ["a", "b", "c"]) == ["a": "1", "b": "2"])
        #expect(server.callCount("read") == asked + 3)
        #expect(two.statistics.remote?.confirmations == 1)
        #expect(await two.value(forKey: "a") == "1")
        #expect(server.callCount("read") == asked + 3)
    }

    @Test("the disk of a machine that was switched off is checked entry by entry")
    func restarted() async throws {
        let one = try machines.cache(0)
        do {
            let two = try machines.cache(1)
            try await one.setValues(["a": "1", "b": "1"])
            #expect(await two.values(forKeys: ["a", "b"]).count == 2)
        }
        machines.restart(1)
        try await one.setValue("2", forKey: "b")
        let two = try machines.cache(1)
        #expect(await two.values(forKeys: ["a", "b"]) == ["a": "1", "b": "2"])
        #expect(two.statistics.diskHits == 1 && two.statistics.remoteHits == 1)
    }

    @Test("a clear during a lost connection reaches the copies")
    func clearedMeanwhile() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "a", tags: ["t"])
        try await one.setValue("1", forKey: "b")
        #expect(await two.values(forKeys: ["a", "b"]).count == 2)
        machines.cut(1)
        try await one.removeAll(tagged: "t")
        server.reconnect()
        #expect(await two.values(forKeys: ["a", "b"]) == ["b": "1"])
        machines.cut(1)
        try await one.removeAll()
        server.evict("b")
        server.reconnect()
        #expect(await two.value(forKey: "b") == nil)
    }

    @Test("an evicted generation brings nothing back that was cleared, and costs fetches only")
    func evictedGenerations() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "a", tags: ["t"])
        #expect(await two.value(forKey: "a") == "1")
        machines.cut(1)
        try await one.removeAll(tagged: "t")
        server.evictGenerations()
        server.reconnect()
        #expect(await two.value(forKey: "a") == nil)
        try await one.setValue("2", forKey: "a", tags: ["t"])
        #expect(await two.value(forKey: "a") == "2")
    }

    @Test("a key that is missing proves nothing: a copy is returned while the server's epoch is the same")
    func missing() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k")
        #expect(await two.value(forKey: "k") == "1")
        machines.cut(1)
        server.delete("k")
        server.reconnect()
        #expect(await two.value(forKey: "k") == "1")
        machines.cut(1)
        server.restartEmpty()
        server.reconnect()
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a removal whose tombstone is evicted is a removal all the same", arguments: [false, true])
    func evictedTombstone(_ isCut: Bool) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k")
        #expect(await two.value(forKey: "k") == "1")
        if isCut { machines.cut(1) }
        try await one.removeValue(forKey: "k")
        server.evict("k")
        server.reconnect()
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("an older write that arrives late replaces nothing, and the machine that made it gets the newer value")
    func lateWrite() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        _ = await two.value(forKey: "k")
        machines.cut(0)
        try await one.setValue("older", forKey: "k")
        machines.advance(by: .seconds(1))
        try await two.setValue("newer", forKey: "k")
        server.reconnect()
        await one.sent()
        #expect(await one.value(forKey: "k") == "newer")
        #expect(await two.value(forKey: "k") == "newer")
        #expect(one.statistics.remote?.refusals == 1)
    }

    @Test("a write that waited does not return after a removal or a clear", arguments: [0, 1, 2])
    func lateAfterRemoval(_ kind: Int) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("0", forKey: "other", tags: ["t"])
        machines.cut(0)
        try await one.setValue("older", forKey: "k", tags: ["t"])
        machines.advance(by: .seconds(1))
        switch kind {
        case 0: try await two.removeValue(forKey: "k")
        case 1: try await two.removeAll()
        default: try await two.removeAll(tagged: "t")
        }
        server.reconnect()
        await one.sent()
        #expect(await one.value(forKey: "k") == nil)
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a fetch that began before another machine's removal does not bring the value back")
    func lateFetch() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let source = TestSource<String>()
        async let value = one.value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        machines.advance(by: .milliseconds(1))
        try await two.removeValue(forKey: "k")
        source.succeed(with: "old")
        #expect(try await value == "old")
        await one.sent()
        #expect(await one.value(forKey: "k") == nil)
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("clocks that differ by a minute do no harm", arguments: [-60, 60])
    func clocks(_ seconds: Int) async throws {
        let machines = Machines(2, ahead: [.seconds(seconds)])
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k", ttl: .seconds(30))
        #expect(await two.value(forKey: "k") == "1")
        try await two.setValue("2", forKey: "k", ttl: .seconds(30))
        #expect(await one.value(forKey: "k") == "2")
        try await one.setValue("3", forKey: "k", ttl: .seconds(30))
        #expect(await two.value(forKey: "k") == "3")
        machines.advance(by: .seconds(29))
        #expect(await one.value(forKey: "k") == "3")
        #expect(await two.value(forKey: "k") == "3")
        machines.advance(by: .seconds(1))
        #expect(await one.value(forKey: "k") == nil)
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("a clock that jumps ahead while connected is set right by the server")
    func jumping() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k")
        let world = machines.worlds[0]
        world.setClock(to: world.now.addingTimeInterval(3600))
        try await one.setValue("2", forKey: "k")
        #expect(await two.value(forKey: "k") == "2")
        try await two.setValue("3", forKey: "k")
        #expect(await one.value(forKey: "k") == "3")
    }

    @Test("a change is newer than those that its machine has heard of, though its clock is late", arguments: [1, 3600])
    func heard(_ seconds: Double) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k")
        let world = machines.worlds[0]
        world.setClock(to: world.now.addingTimeInterval(-seconds))
        machines.advance(by: .milliseconds(500))
        try await two.setValue("2", forKey: "k")
        try await one.setValue("3", forKey: "k")
        #expect(await one.value(forKey: "k") == "3")
        #expect(await two.value(forKey: "k") == "3")
        machines.advance(by: .milliseconds(500))
        try await two.removeAll()
        try await one.setValue("4", forKey: "k")
        #expect(await one.value(forKey: "k") == "4")
        #expect(await two.value(forKey: "k") == "4")
    }

    @Test("writes made before the first connection are ordered by the server's clock", arguments: [-60, 60])
    func neverConnected(_ seconds: Int) async throws {
        let machines = Machines(2, ahead: [.seconds(seconds)])
        machines.server.disconnect()
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("first", forKey: "k")
        machines.advance(by: .seconds(1))
        machines.server.reconnect()
        await one.sent()
        #expect(await two.value(forKey: "k") == "first")
        try await two.setValue("second", forKey: "k")
        #expect(await one.value(forKey: "k") == "second")
        try await one.removeValue(forKey: "k")
        #expect(await two.value(forKey: "k") == nil)
    }

    @Test("notices that were lost without the connection cost at most the life of a copy")
    func deaf() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k", ttl: .minutes(1))
        #expect(await two.value(forKey: "k") == "1")
        server.faults = [.deaf]
        try await one.setValue("2", forKey: "k", ttl: .minutes(1))
        server.faults = []
        #expect(await two.value(forKey: "k") == "1")
        machines.advance(by: .seconds(59))
        try await one.setValue("3", forKey: "other")
        machines.advance(by: .seconds(1))
        #expect(await two.value(forKey: "k") == nil)
    }
}
