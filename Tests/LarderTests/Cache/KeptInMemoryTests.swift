import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A value that may not be stored on disk stays in memory alone", .timeLimit(.minutes(10)))
struct KeptInMemoryTests {
    private static let secret = "the secret of a session"

    private func cache(_ world: World, _ configuration: Cache<String>.Configuration = .init()) throws -> Cache<String> {
        Cache(disk: try world.open(), namespace: "n", configuration: configuration)
    }

    /// True when any file has the text of a secret.
    private func isOnDisk(_ world: World, _ text: String = secret) -> Bool {
        let bytes = Data(text.utf8)
        return world.files.image.nodes.values.contains { Data($0.content).range(of: bytes) != nil }
    }

    @Test("nothing of it is written, whatever changes it, until it is stored without the wish")
    func written() async throws {
        var world = World { $0.sweepInterval = nil }
        let cache = try cache(world)
        try await cache.setValue("old", forKey: "k", keepStale: .hours(1))
        try await cache.setValue(
            Self.secret, forKey: "k", ttl: .seconds(10), keepStale: .hours(1), metadata: ["etag": "x"], tags: ["t"],
            toDisk: false)
        #expect(await cache.value(forKey: "k") == Self.secret)
        #expect(await cache.hasValue(forKey: "k"))
        #expect(await cache.lookup(forKey: "k")?.metadata == ["etag": "x"])
        #expect(await cache.entry(forKey: "k") == nil && cache.memory?.entry(forKey: "k")?.value == Self.secret)
        #expect(cache.disk?.hasValue(forKey: "k") == false && cache.disk?.count == 0)
        #expect(try await cache.setTimeToLive(.seconds(20), forKey: "k"))
        try await cache.modifyValue(forKey: "k") { $0? += ", changed" }
        #expect(await cache.value(forKey: "k") == Self.secret + ", changed")
        #expect(await cache.lookup(forKey: "k")?.metadata == ["etag": "x"])
        // A fetch confirms it once it has expired.
        world.clock.advance(by: .seconds(21))
        #expect(await cache.value(forKey: "k") == nil)
        let confirmed = try await cache.value(forKey: "k") { cached in
            cached == nil ? .value("fetched") : .notModified
        }
        #expect(confirmed == Self.secret + ", changed")
        #expect(await cache.value(forKey: "k") == Self.secret + ", changed")
        // And one brings another.
        let fetched = try await cache.value(forKey: "k", policy: .reload) { () -> FetchResult<String> in
            .value("fetched: " + Self.secret, toDisk: false)
        }
        #expect(fetched == "fetched: " + Self.secret)
        #expect(try await cache.setValueIfAbsent("other", forKey: "k") == fetched)
        try await cache.flush()
        #expect(!isOnDisk(world) && cache.disk?.count == 0)
        world.restart()
        let next = try self.cache(world)
        #expect(await next.value(forKey: "k") == nil)
        try await next.setValue(Self.secret, forKey: "k", toDisk: false)
        try await next.setValue("public", forKey: "k")
        #expect(await next.value(forKey: "k") == "public")
        #expect(next.disk?.hasValue(forKey: "k") == true)
        try await next.setValue(Self.secret, forKey: "stored")
        #expect(isOnDisk(world), "the search finds it where it is")
    }

    @Test("what the key had before never comes back, neither fresh nor stale, in whatever way it leaves")
    func before() async throws {
        for leave in ["expired", "evicted", "removed", "cleared", "tag", "namespaces"] {
            for isFetched in [true, false] {
                let world = World { $0.sweepInterval = nil }
                let cache = try cache(world)
                try await cache.setValue("old", forKey: "k", ttl: .seconds(5), keepStale: .days(1))
                if leave == "expired" { world.clock.advance(by: .seconds(5)) }
                if isFetched {
                    _ = try await cache.value(forKey: "k", ttl: .seconds(10), tags: ["t"], policy: .reload) {
                        () -> FetchResult<String> in .value(Self.secret, toDisk: false)
                    }
                } else {
                    try await cache.setValue(
                        Self.secret, forKey: "k", ttl: .seconds(10), tags: ["t"], toDisk: false)
                }
                #expect(await cache.value(forKey: "k") == Self.secret)
                switch leave {
                case "expired": world.clock.advance(by: .seconds(11))
                case "evicted": cache.memory?.trim(toCount: 0)
                case "removed": #expect(try await cache.removeValue(forKey: "k"))
                case "cleared": try await cache.removeAll()
                case "tag": try await cache.removeAll(tagged: "t")
                default: try cache.disk?.removeAll()
                }
                #expect(await cache.value(forKey: "k") == nil, "\(leave)")
                #expect(await cache.value(forKey: "k", allowingStale: true) == nil, "\(leave)")
                #expect(!isOnDisk(world), "\(leave)")
            }
        }
    }

    @Test("changes of it at a time are not lost, and clearing another tag leaves it")
    func changes() async throws {
        let cache = try cache(World { $0.sweepInterval = nil })
        try await cache.setValue("0", forKey: "k", toDisk: false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<200 {
                group.addTask {
                    try await cache.modifyValue(forKey: "k") { $0 = "\(($0.flatMap { Int($0) } ?? 0) + 1)" }
                }
            }
            try await group.waitForAll()
        }
        #expect(await cache.value(forKey: "k") == "200")
        #expect(cache.count == 0, "it is not on disk")
        try await cache.setValue(Self.secret, forKey: "k", tags: ["mine"], toDisk: false)
        try await cache.setValue("stored", forKey: "s", tags: ["mine"])
        try await cache.removeAll(tagged: "other")
        #expect(await cache.value(forKey: "k") == Self.secret)
        try await cache.removeAll(tagged: "mine")
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.value(forKey: "s") == nil)
    }

    @Test("where the disk cannot remove what it has, a fetched one is not kept, and the failure is an event")
    func failing() async throws {
        let log = EventLog()
        let world = World {
            $0.sweepInterval = nil
            $0.onEvent = log.note
        }
        let cache = try cache(world)
        try await cache.setValue("old", forKey: "k")
        world.files.inject { _, operation in
            operation == .write || operation == .create || operation == .remove ? .fail(.io) : nil
        }
        let fetched = try await cache.value(forKey: "k", policy: .reload) { () -> FetchResult<String> in
            .value(Self.secret, toDisk: false)
        }
        #expect(fetched == Self.secret)
        #expect(log.events(of: try #require(cache.disk)).contains { $0.error?.code == .io })
        await #expect(throws: CacheError.self) { try await cache.setValue(Self.secret, forKey: "k", toDisk: false) }
        world.files.inject(nil)
        // Whatever is left can be changed.
        try await cache.modifyValue(forKey: "k") { $0 = "new" }
        #expect(await cache.value(forKey: "k") == "new")
        #expect(!isOnDisk(world))
    }

    @Test("without a memory tier the key is removed; without a disk tier it is a value like others")
    func tiers() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk: Cache<String> = try Tiers.diskAlone.cache(in: world)
        try await disk.setValue("old", forKey: "k")
        try await disk.setValue(Self.secret, forKey: "k", toDisk: false)
        #expect(await disk.value(forKey: "k") == nil && !isOnDisk(world))
        try await disk.setValue("old", forKey: "k")
        let fetched = try await disk.value(forKey: "k", policy: .reload) { () -> FetchResult<String> in
            .value(Self.secret, toDisk: false)
        }
        #expect(fetched == Self.secret)
        #expect(await disk.value(forKey: "k") == nil && disk.count == 0)
        let memory: Cache<String> = try Tiers.memoryAlone.cache(in: world)
        try await memory.setValue(Self.secret, forKey: "k", toDisk: false)
        try await memory.modifyValue(forKey: "k") { $0? += "!" }
        #expect(await memory.value(forKey: "k") == Self.secret + "!")
        try await disk.setValue(Self.secret, forKey: "k", ttl: .seconds(0), toDisk: false)
        #expect(await disk.value(forKey: "k") == nil)
    }

    @Test("another cache or process that stores the key replaces it")
    func others() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let (one, two) = (Cache<String>(disk: disk, namespace: "n"), Cache<String>(disk: disk, namespace: "n"))
        try await one.setValue(Self.secret, forKey: "k", toDisk: false)
        #expect(await two.value(forKey: "k") == nil, "it is this cache's own")
        try await two.setValue("two", forKey: "k")
        #expect(await one.value(forKey: "k") == "two")
        try await one.setValue(Self.secret, forKey: "k", toDisk: false)
        #expect(await two.value(forKey: "k") == nil)
        let other = try DiskCache(
            directory: World.directory, configuration: world.configuration, fileSystem: world.files.another(),
            clock: world.clock)
        try other.namespace("n").setValue("other", forKey: "k")
        #expect(await one.value(forKey: "k") == "other")
        try await one.setValue(Self.secret, forKey: "k", toDisk: false)
        #expect(other.namespace("n").value(String.self, forKey: "k") == nil)
    }

    @Test("processes that fetch it each for itself do not drop each other's")
    func fetchedByTwo() async throws {
        let world = World { $0.sweepInterval = nil }
        let other = try DiskCache(
            directory: World.directory, configuration: world.configuration, fileSystem: world.files.another(),
            clock: world.clock)
        let caches = [try cache(world), Cache<String>(disk: other, namespace: "n")]
        let fetches = Lock(0)
        for _ in 0..<3 {
            for (number, cache) in caches.enumerated() {
                let value = try await cache.value(forKey: "k") { () -> FetchResult<String> in
                    fetches.withLock { $0 += 1 }
                    return .value("\(number)", toDisk: false)
                }
                #expect(value == "\(number)")
                try await cache.modifyValue(forKey: "k") { #expect($0 == "\(number)") }
            }
        }
        #expect(fetches.withLock(\.self) == 2)
        // What a caller sets is news for all.
        try await caches[0].setValue("set", forKey: "k", toDisk: false)
        #expect(await caches[1].value(forKey: "k") == nil)
        #expect(await caches[0].value(forKey: "k") == "set")
    }

    @Test("what is fetched once the directory is closed stays in memory, like any other value")
    func closed() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try cache(world)
        try cache.disk?.close()
        for _ in 0..<2 {
            let value = try await cache.value(forKey: "k") { () -> FetchResult<String> in
                .value(Self.secret, toDisk: false)
            }
            #expect(value == Self.secret)
        }
        #expect(cache.statistics.fetches.begun == 1)
    }

    @Test("the servers of other machines do not get it, and what they had of the key is gone")
    func machines() async throws {
        let machines = Machines()
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        try await one.setValue("old", forKey: "k")
        await one.sent()
        #expect(await two.value(forKey: "k") == "old")
        try await one.setValue(Self.secret, forKey: "k", toDisk: false)
        await one.sent()
        machines.advance(by: .seconds(1))
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == Self.secret)
        try await one.modifyValue(forKey: "k") { $0? += "!" }
        await one.sent()
        machines.advance(by: .seconds(1))
        #expect(await one.value(forKey: "k") == Self.secret + "!")
        // The same for a fetched one.
        try await two.setValue("newer", forKey: "k")
        await two.sent()
        machines.advance(by: .seconds(1))
        #expect(await one.value(forKey: "k") == "newer")
        _ = try await one.value(forKey: "k", policy: .reload) { () -> FetchResult<String> in
            .value(Self.secret, toDisk: false)
        }
        await one.sent()
        machines.advance(by: .seconds(1))
        #expect(await two.value(forKey: "k") == nil)
        #expect(await one.value(forKey: "k") == Self.secret)
    }

    @Test("while it is stored in either way, nobody reads a value that a call has replaced")
    func storm() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try cache(world)
        let done = Lock((number: 0, isOver: false))
        let found = Lock(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    while case let (before, isOver) = done.withLock(\.self), !isOver {
                        // A hit in memory does not suspend.
                        await Task.yield()
                        let read = await cache.value(forKey: "k").flatMap { Int($0) }
                        #expect(read ?? before >= before)
                        if read != nil { found.withLock { $0 += 1 } }
                        let fetched = try? await cache.optionalValue(forKey: "k", policy: .cacheOnly) { nil as String? }
                        #expect(fetched.flatMap { Int($0) } ?? before >= before)
                    }
                }
            }
            group.addTask {
                defer { done.withLock { $0.isOver = true } }
                for number in 1...500 {
                    try await cache.setValue("\(number)", forKey: "k", toDisk: number.isMultiple(of: 3))
                    done.withLock { $0.number = number }
                }
            }
            try await group.waitForAll()
        }
        #expect(found.withLock(\.self) > 0)
        #expect(await cache.value(forKey: "k") == "500")
    }
}
