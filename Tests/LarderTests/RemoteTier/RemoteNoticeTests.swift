import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Copies of which a machine has heard that they are outdated", .timeLimit(.minutes(10)))
struct RemoteNoticeTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }

    /// The values that are on a machine's disk.
    private func count(_ cache: Cache<String>) -> Int { cache.disk?.count ?? 0 }

    @Test(
        "they go from the disk, so that they are not returned after a restart without the server",
        arguments: ["key", "tag", "namespace"])
    func goFromDisk(_ kind: String) async throws {
        let one = try machines.cache(0)
        do {
            let two = try machines.cache(1)
            try await one.setValue("old", forKey: "k", tags: ["t"])
            try await one.setValue("other", forKey: "l")
            #expect(await two.values(forKeys: ["k", "l"]).count == 2)
            switch kind {
            case "key": try await one.setValue("new", forKey: "k")
            case "tag": try await one.removeAll(tagged: "t")
            default: try await one.removeAll()
            }
            server.disconnect()
            #expect(await two.value(forKey: "k") == nil)
            await eventually { count(two) == (kind == "namespace" ? 0 : 1) }
        }
        machines.restart(1)
        let two = try machines.cache(1)
        #expect(await two.values(forKeys: ["k", "l"]) == (kind == "namespace" ? [:] : ["l": "other"]))
    }

    @Test("closing waits until they are gone")
    func goBeforeClose() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1, namespace: ""))
        let keys = (0..<500).map { "\($0)" }
        try await one.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "old") }))
        #expect(await two.values(forKeys: keys).count == keys.count)
        try await one.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, "new") }))
        try await two.close()
        machines.restart(1)
        server.disconnect()
        let again = try machines.cache(1)
        #expect(await again.values(forKeys: keys).isEmpty)
    }

    @Test("a removal that others have made is one event, and no end of a fetch that began after it")
    func heardOnce() async throws {
        let log = RemoteLog()
        let (one, two) = (try machines.cache(0), try machines.cache(1) { $0.onEvent = { log.note($0) } })
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        try await one.removeValue(forKey: "k")
        #expect(try await two.value(forKey: "k") { "fetched" } == "fetched")
        #expect(await two.value(forKey: "k") == "fetched")
        machines.worlds[1].settle()
        #expect(log.count(of: .changedElsewhere) >= 1 && log.count(of: .removed) == 0)
        #expect(two.statistics.disk?.removals == 0)
    }

    @Test(
        "notices of any number of changes leave other copies as they are",
        arguments: Sample.few(1, of: [true, false]))
    func many(_ areTags: Bool) async throws {
        let one = try machines.cache(0) { $0.remoteTierPolicy.timeout = .zero }
        let two = try machines.cache(1)
        try await two.setValue("v", forKey: "quiet")
        let names = (0..<2_000).map { "k\($0)" }
        if areTags {
            for name in names { try await one.removeAll(tagged: name) }
        } else {
            try await two.setValues(Dictionary(uniqueKeysWithValues: names.map { ($0, "1") }))
            await two.sent()
            for name in names { try await one.removeValue(forKey: name) }
        }
        await one.sent()
        server.disconnect()
        // Nobody has changed it.
        #expect(await two.value(forKey: "quiet") == "v")
        await eventually { count(two) == 1 }
        await eventually { two.remoteLink?.state.withLock { $0.removing == nil } == true }
        #expect(two.remoteLink?.state.withLock { $0.trust.hasUnresolved } == false)
    }

    @Test("a change that is older than the copy does not concern it, even if that waits to be sent")
    func olderThanCopy() async throws {
        let held = HeldTier(server.connection(), holding: [.write])
        let (one, two) = (try machines.cache(0) { $0.remoteTier = held }, try machines.cache(1))
        machines.worlds[0].advance(by: .seconds(1))
        machines.time.advance(by: .seconds(1))
        async let set: Void = one.setValue("newer", forKey: "k", tags: ["t"])
        await eventually { held.waiting(.write) == 1 }
        machines.worlds[0].advance(by: .milliseconds(100))
        try await set
        try await two.removeAll(tagged: "t")
        try await two.setValue("older", forKey: "k")
        server.faults = [.unreachable]
        #expect(await one.value(forKey: "k") == "newer")
        server.faults = []
        held.release(.write)
        await one.sent()
        #expect(await two.value(forKey: "k") == "newer")
    }

    @Test(
        "a fetch that began before a change stores nothing, whatever the server has forgotten of that",
        arguments: Sample.few(3, of: 0..<5))
    func fetch(_ kind: Int) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("0", forKey: "other", tags: ["t"])
        #expect(await two.value(forKey: "other") == "0")
        let source = TestSource<String>()
        async let value = one.value(forKey: "k", tags: ["t"]) { try await source.fetch() }
        await source.waitForRequests()
        machines.advance(by: .milliseconds(10))
        switch kind {
        case 0:
            try await two.removeAll(tagged: "t")
            server.evictGenerations()
        case 1:
            try await two.removeAll()
            server.evictGenerations()
        case 2:
            try await two.removeValue(forKey: "k")
            server.evict("k")
        case 3:
            try await two.setValue("newer", forKey: "k", ttl: .seconds(1))
            machines.advance(by: .seconds(2))
        default:
            try await two.removeValue(forKey: "k")
            server.faults = [.readOnly]
        }
        source.succeed(with: "old")
        #expect(try await value == "old")
        await one.waitForFetches()
        #expect(await one.value(forKey: "k") == nil && count(one) <= 1)
        server.faults = []
        await one.sent()
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == nil)
    }

    @Test(
        "a fetch that lasts over a lost connection stores nothing that was changed meanwhile", arguments: [false, true])
    func fetchOverReconnect(_ isEvicted: Bool) async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let source = TestSource<String>()
        async let value = one.value(forKey: "k") { try await source.fetch() }
        await source.waitForRequests()
        machines.cut(0)
        machines.advance(by: .milliseconds(10))
        try await two.removeValue(forKey: "k")
        if isEvicted { server.evict("k") }
        server.reconnect()
        source.succeed(with: "old")
        #expect(try await value == "old")
        await one.sent()
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == nil)
    }

    @Test("an entry goes unless it is newer than a version; what has no version goes, too")
    func ifNotNewer() async throws {
        let one = try machines.cache(0)
        let disk = try #require(one.disk)
        try await one.setValue("1", forKey: "k")
        func version() throws -> RemoteVersion {
            try #require(disk.store.index.entry(Key("k"))?.remoteStamp).version
        }
        let first = try version()
        machines.advance(by: .seconds(1))
        try await one.setValue("2", forKey: "k")
        let second = try version()
        #expect(first < second)
        #expect(try !disk.removeValue(forKey: "k", ifNotNewerThan: first))
        #expect(disk.string(forKey: "k") == "2")
        #expect(try disk.removeValue(forKey: "k", ifNotNewerThan: second))
        #expect(disk.string(forKey: "k") == nil)
        #expect(try !disk.removeValue(forKey: "k", ifNotNewerThan: second))
        try disk.setString("3", forKey: "k")
        #expect(try disk.removeValue(forKey: "k", ifNotNewerThan: first))
        #expect(throws: CacheError.self) {
            try disk.removeValue(forKey: String(repeating: "x", count: 70_000), ifNotNewerThan: first)
        }
        try await one.close()
        #expect(throws: CacheError.self) { try disk.removeValue(forKey: "k", ifNotNewerThan: first) }
    }
}
