import Foundation
import Larder
import LarderTesting
import Testing

@Suite("A remote tier makes machines agree")
struct RemoteTierTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }

    @Test("a value of one machine is found by another, and is then on its disk and in its memory")
    func read() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("Ann", forKey: "k", metadata: ["etag": "x"], tags: ["t"])
        let found = try #require(await two.lookup(forKey: "k"))
        #expect(found.value == "Ann" && found.source == .remote && found.metadata == ["etag": "x"])
        #expect(await two.lookup(forKey: "k")?.source == .memory)
        #expect(try #require(two.disk).string(forKey: "k") == "Ann")
        #expect(await two.entry(forKey: "k")?.tags == ["t"])
        #expect(two.statistics.remoteHits == 1 && two.statistics.remote?.hits == 1)
    }

    @Test("a call that fetches finds the value of another machine, too")
    func fetched() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        _ = try await one.value(forKey: "k") { "Ann" }
        await one.waitForFetches()
        try await one.close()
        let found = try await two.lookup(forKey: "k") { () -> String in
            Issue.record("it fetched")
            return "Bob"
        }
        #expect(found.value == "Ann" && found.source == .remote)
    }

    @Test("several keys are found at once")
    func batch() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValues(["a": "1", "b": "2"])
        #expect(await two.values(forKeys: ["a", "b", "c"]) == ["a": "1", "b": "2"])
        let all = try await two.values(forKeys: ["a", "b", "c"]) { missing in
            #expect(missing == ["c"])
            return ["c": "3"]
        }
        #expect(all == ["a": "1", "b": "2", "c": "3"])
    }

    @Test("a value that another machine has replaced is not returned any more, nor one that it has removed or expired")
    func replaced() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k", keepStale: .hours(1))
        #expect(await two.value(forKey: "k") == "old")
        try await one.setValue("new", forKey: "k", keepStale: .hours(1))
        #expect(await two.value(forKey: "k") == "new")
        try await two.expireValue(forKey: "k")
        #expect(await one.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k", allowingStale: true) == "new")
        try await one.removeValue(forKey: "k")
        #expect(await two.value(forKey: "k", allowingStale: true) == nil)
        #expect(await two.hasValue(forKey: "k") == false)
        #expect(await two.entry(forKey: "k") == nil)
    }

    @Test("clearing a tag or everything clears it on all machines, and the disk of none brings it back")
    func cleared() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "a", tags: ["t"])
        try await one.setValue("2", forKey: "b")
        #expect(await two.values(forKeys: ["a", "b"]) == ["a": "1", "b": "2"])
        try await one.removeAll(tagged: "t")
        #expect(await two.values(forKeys: ["a", "b"]) == ["b": "2"])
        try await two.removeAll()
        #expect(await one.values(forKeys: ["a", "b"]).isEmpty)
        try await one.setValue("3", forKey: "a", tags: ["t"])
        #expect(await two.value(forKey: "a") == "3")
        try await two.expireAll(tagged: "t")
        #expect(await one.value(forKey: "a") == nil)
    }

    @Test("expiring everything ends the stale values too, on all machines; expiring one key keeps it")
    func expiredAll() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValues(["a": "1", "b": "1"], keepStale: .hours(1))
        #expect(await two.values(forKeys: ["a", "b"]).count == 2)
        try await one.expireValue(forKey: "a")
        for cache in [one, two] { #expect(await cache.value(forKey: "a", allowingStale: true) == "1") }
        try await one.expireAll()
        for cache in [one, two] { #expect(await cache.value(forKey: "b", allowingStale: true) == nil) }
    }

    @Test("absence is shared")
    func absence() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        #expect(try await one.optionalValue(forKey: "k") { nil } == nil)
        try await one.close()
        let found = try await two.optionalValue(forKey: "k") { () -> String? in
            Issue.record("it fetched")
            return "Bob"
        }
        #expect(found == nil)
    }

    @Test("a new life is shared, without the payload")
    func renewed() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("v", forKey: "k", ttl: .minutes(1))
        #expect(try await two.setTimeToLive(.hours(1), forKey: "k"))
        #expect(server.callCount("renew") == 1 && server.callCount("write") == 1)
        machines.advance(by: .seconds(600))
        #expect(await one.value(forKey: "k") == "v")
    }

    @Test("a value that is revalidated elsewhere lives on here")
    func revalidated() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("v", forKey: "k", ttl: .minutes(1), keepStale: .hours(1))
        #expect(await two.value(forKey: "k") == "v")
        machines.advance(by: .seconds(90))
        let again = try await two.value(forKey: "k", ttl: .hours(1)) { cached in
            #expect(cached?.value == "v")
            return .notModified
        }
        #expect(again == "v")
        await two.waitForFetches()
        try await two.close()
        #expect(await one.value(forKey: "k") == "v")
    }

    @Test("a value is modified where it was stored elsewhere")
    func modified() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("1", forKey: "k")
        try await two.modifyValue(forKey: "k") { $0? += "2" }
        #expect(await one.value(forKey: "k") == "12")
        #expect(try await two.setValueIfAbsent("3", forKey: "new") == nil)
        #expect(try await one.setValueIfAbsent("4", forKey: "new") == "3")
    }

    @Test("namespaces and names keep caches apart")
    func namespaces() async throws {
        let (users, pages) = (try machines.cache(0, namespace: "users"), try machines.cache(1, namespace: "pages"))
        let named = try machines.cache(1) { $0.remoteTierPolicy.name = "named" }
        // A name is no namespace.
        let likeUsers = try machines.cache(1) { $0.remoteTierPolicy.name = "users" }
        try await users.setValue("u", forKey: "1")
        #expect(await likeUsers.value(forKey: "1") == nil)
        try await pages.setValue("p", forKey: "1")
        try await named.setValue("n", forKey: "1")
        #expect(await users.value(forKey: "1") == "u")
        #expect(await pages.value(forKey: "1") == "p")
        let more = try machines.cache(0, namespace: "pages")
        #expect(await more.value(forKey: "1") == "p")
        try await pages.removeAll()
        #expect(await users.value(forKey: "1") == "u")
        #expect(await named.value(forKey: "1") == "n")
        #expect(await more.value(forKey: "1") == nil)
    }

    @Test("a name and a namespace are told from nested namespaces, and from names with other ends")
    func names() async throws {
        func cache(_ name: String, _ namespaces: [String]) throws -> Cache<String> {
            var disk = try machines.worlds[1].diskCache(name: "\(name) \(namespaces)")
            for namespace in namespaces { disk = disk.namespace(namespace) }
            var settings = Cache<String>.Configuration(remoteTier: server.connection())
            settings.remoteTierPolicy.name = name
            return Cache(disk: disk, namespace: "", configuration: settings)
        }
        let caches = [
            try cache("a", ["x"]), try cache("", ["a", "x"]), try cache("", ["x"]), try cache("a", []),
            try cache("ax", []), try cache("", ["ax"]), try cache("", ["\u{1F}1:ax"]), try cache("", ["\u{1E}"]),
        ]
        for (number, one) in caches.enumerated() {
            try await one.setValue("\(number)", forKey: "k")
            for (other, two) in caches.enumerated() where other > number {
                #expect(await two.value(forKey: "k") == nil, "\(number) \(other)")
            }
        }
    }

    @Test("changes through the disk tier are not shared, and give way to those of the server at the next question")
    func direct() async throws {
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let disk = try #require(one.disk)
        try disk.setString("v", forKey: "k")
        #expect(await one.value(forKey: "k") == "v")
        #expect(await two.value(forKey: "k") == nil && server.keys.isEmpty)
        try await two.setValue("server", forKey: "l")
        try disk.setString("local", forKey: "l")
        #expect(await one.values(forKeys: ["k", "l"]) == ["k": "v", "l": "server"])
        try disk.removeValue(forKey: "l")
        #expect(await one.value(forKey: "l") == "server")
    }

    @Test("a cache that is closed returns nothing, and takes no changes, over a directory that stays open")
    func closed() async throws {
        let (one, two) = (try machines.cache(0, namespace: "n"), try machines.cache(1, namespace: "n"))
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        let (disk, statistics) = (try #require(two.disk), two.statistics.remote)
        try await two.close()
        try await one.setValue("new", forKey: "k")
        #expect(await two.value(forKey: "k") == nil)
        #expect(await two.lookup(forKey: "k") == nil)
        #expect(await two.hasValue(forKey: "k") == false)
        #expect(try await two.value(forKey: "k") { "fetched" } == "fetched")
        for change: @Sendable () async throws -> Void in [
            { try await two.setValue("v", forKey: "k") }, { try await two.setValues(["k": "v"]) },
            { try await two.removeValue(forKey: "k") }, { try await two.removeValues(forKeys: ["k"]) },
            { try await two.expireValue(forKey: "k") }, { try await two.removeAll() },
            { try await two.removeAll(tagged: "t") }, { try await two.expireAll() },
            { try await two.setTimeToLive(.hours(1), forKey: "k") },
            { try await two.modifyValue(forKey: "k") { $0 = "v" } },
        ] {
            await #expect { try await change() } throws: { ($0 as? CacheError)?.code == .closed }
        }
        #expect(two.statistics.remote?.waiting == 0 && two.statistics.remote?.notices == statistics?.notices)
        let again = Cache<String>(disk: disk, namespace: "", configuration: .init(remoteTier: server.connection()))
        #expect(await again.value(forKey: "k") == "new")
    }

    @Test("a value above the limit stays on its machine, and the others lose theirs")
    func large() async throws {
        let (one, two) = (
            try machines.cache(0) { $0.remoteTierPolicy.sizeLimit = 5 }, try machines.cache(1)
        )
        try await one.setValue("small", forKey: "k")
        #expect(await two.value(forKey: "k") == "small")
        try await one.setValue("larger", forKey: "k")
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == "larger")
        server.disconnect()
        server.reconnect()
        #expect(await one.value(forKey: "k") == "larger")
    }

    @Test("a cache in memory alone says that it does not use its remote tier")
    func memoryOnly() async throws {
        let settings = Cache<String>.Configuration(remoteTier: server.connection())
        let world = machines.worlds[0]
        let log = RemoteLog()
        var noisy = settings
        noisy.onEvent = { log.note($0) }
        let cache = world.memoryOnlyCache(configuration: noisy)
        try await cache.setValue("v", forKey: "k")
        #expect(cache.statistics.remote == nil && server.keys.isEmpty)
        world.settle()
        #expect(log.count(of: .remoteTierLost) == 1)
    }
}
