import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The front door: typed values in two tiers")
struct CacheTests {
    struct User: Codable, Hashable, Sendable {
        var name: String
        var age: Int
        var tags: [String: Double?] = [:]
    }

    /// A coder of strings that counts its calls.
    final class CountingCoder: Sendable {
        let encodings = Lock(0)
        let decodings = Lock(0)

        var coder: Coder<String> {
            Coder { text in
                self.encodings.withLock { $0 += 1 }
                return Data(text.utf8)
            } decode: { data in
                self.decodings.withLock { $0 += 1 }
                return String(decoding: data, as: UTF8.self)
            }
        }
    }

    @Test("values come back from either tier, with their metadata")
    func lookup() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<User>(disk: try world.open(), namespace: "")
        let user = User(name: "Ada", age: 36, tags: ["x": 1.5, "none": nil])
        #expect(await cache.value(forKey: "k") == nil)
        try await cache.setValue(user, forKey: "k", ttl: .seconds(100), metadata: ["etag": "1"])
        world.clock.advance(by: .seconds(10))
        let expiry = world.clock.date.addingTimeInterval(90)
        let inMemory = try #require(await cache.lookup(forKey: "k"))
        #expect(inMemory.value == user && inMemory.source == .memory)
        #expect(inMemory.age == .seconds(10) && inMemory.expiresAt == expiry)
        cache.memoryTier?.removeAll()
        let onDisk = try #require(await cache.lookup(forKey: "k"))
        #expect(onDisk.value == user && onDisk.source == .disk)
        #expect(onDisk.age == .seconds(10) && onDisk.expiresAt == expiry)
        let promoted = try #require(await cache.lookup(forKey: "k"))
        #expect(promoted.source == .memory && promoted.age == .seconds(10) && promoted.expiresAt == expiry)
        #expect(await cache.entry(forKey: "k")?.metadata == ["etag": "1"])
        #expect(await cache.hasValue(forKey: "k"))
        #expect(await cache.keys() == ["k"])
        world.clock.advance(by: .seconds(90))
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.lookup(forKey: "k") == nil)
        #expect(await !cache.hasValue(forKey: "k"))
        #expect(await cache.keys() == [])
        let statistics = cache.statistics
        #expect(statistics.memoryHits == 2 && statistics.diskHits == 1 && statistics.misses == 3)
        #expect(statistics.memory?.evictions.total == 0 && statistics.disk?.stores == 1)
        try await cache.setValue(user, forKey: "forever", ttl: .forever)
        #expect(await cache.lookup(forKey: "forever")?.expiresAt == nil)
    }

    @Test("Codable values need no coder; strings and data are stored verbatim")
    func standardCoders() async throws {
        let disk = try World().open()
        let users = Cache<User>(disk: disk, namespace: "users")
        try await users.setValue(User(name: "Ada", age: 36), forKey: "k")
        #expect(disk.namespace("users").value(User.self, forKey: "k") == User(name: "Ada", age: 36))
        let strings = Cache<String>(disk: disk, namespace: "strings")
        try await strings.setValue("é", forKey: "k")
        #expect(disk.namespace("strings").string(forKey: "k") == "é")
        let blobs = Cache<Data>(disk: disk, namespace: "blobs")
        try await blobs.setValue(Data([0, 255]), forKey: "k")
        #expect(disk.namespace("blobs").data(forKey: "k") == Data([0, 255]))
        let numbers = Cache<Int>(disk: disk, namespace: "numbers")
        try await numbers.setValue(-7, forKey: "k")
        numbers.memoryTier?.removeAll()
        #expect(await numbers.value(forKey: "k") == -7)
        let optionals = Cache<[String?]>(disk: disk, namespace: "optionals")
        try await optionals.setValue([nil, "a"], forKey: "k")
        optionals.memoryTier?.removeAll()
        #expect(await optionals.value(forKey: "k") == [nil, "a"])
    }

    @Test("every coder returns the value that it encoded, and refuses other bytes")
    func coders() throws {
        let user = User(name: "Ada", age: 36, tags: ["x": 1.5])
        for coder in [Coder<User>.json, .propertyList] {
            #expect(try coder.value(of: coder.bytes(of: user)) == user)
            #expect(throws: (any Error).self) { try coder.value(of: Data("neither".utf8)) }
            #expect(throws: (any Error).self) { try coder.value(of: Coder<[Int]>.json.bytes(of: [1])) }
        }
        #expect(try Coder<Data>.data.value(of: Coder<Data>.data.bytes(of: Data([1, 2]))) == Data([1, 2]))
        #expect(try Coder<String>.string.value(of: Coder<String>.string.bytes(of: "e\u{301}")).utf8.count == 3)
        #expect(throws: (any Error).self) { try Coder<String>.string.value(of: Data([0xFF])) }
        // Like an encryption: a key, a check, and an error for bytes written with another key.
        struct WrongKey: Error {}
        func sealed(with key: UInt8) -> Coder<User> {
            Coder<User>.json.wrapped {
                Data([key] + $0.map { $0 ^ key })
            } decode: { data in
                guard data.first == key else { throw WrongKey() }
                return Data(data.dropFirst().map { $0 ^ key })
            }
        }
        let bytes = try sealed(with: 90).bytes(of: user)
        #expect(try sealed(with: 90).value(of: bytes) == user)
        #expect(throws: WrongKey.self) { try sealed(with: 91).value(of: bytes) }
    }

    @Test("a memory hit decodes nothing, makes no system call and does not suspend")
    func memoryHit() async throws {
        let world = World()
        let coder = CountingCoder()
        let cache = Cache(disk: try world.open(), namespace: "n", coder: coder.coder)
        try await cache.setValue("v", forKey: "k")
        let calls = world.files.calls
        let reader = Reader()
        #expect(await reader.jobs { await cache.value(forKey: "k") == "v" } == 0)
        #expect(await reader.jobs { await cache.lookup(forKey: "k")?.value == "v" } == 0)
        #expect(await reader.jobs { await cache.hasValue(forKey: "k") } == 0)
        #expect(world.files.calls == calls && coder.decodings.withLock { $0 } == 0)
        cache.memoryTier?.removeAll()
        let control = await reader.jobs {
            await Task.yield()
            return true
        }
        #expect(control > 0, "a suspension is noticed")
        #expect(await cache.value(forKey: "k") == "v")
        #expect(coder.decodings.withLock { $0 } == 1 && coder.encodings.withLock { $0 } == 1)
        #expect(world.files.calls == calls + 2)
    }

    /// An actor on an executor that counts its jobs: each return from a suspension is one.
    actor Reader {
        final class Executor: SerialExecutor {
            let jobs = Lock(0)
            private let queue = DispatchQueue(label: "reader")

            func enqueue(_ job: consuming ExecutorJob) {
                jobs.withLock { $0 += 1 }
                let job = UnownedJob(job)
                queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
            }
        }

        private nonisolated let executor = Executor()
        nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

        func jobs(_ work: nonisolated(nonsending) () async -> Bool) async -> Int {
            let before = executor.jobs.withLock { $0 }
            let isRight = await work()
            let after = executor.jobs.withLock { $0 }
            #expect(isRight)
            return after - before
        }
    }

    @Test("the cost in memory is the payload's size or that of the cost function, even after promotion")
    func cost() async throws {
        let world = World()
        var configuration = Cache<String>.Configuration()
        configuration.memory?.costLimit = 100
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "", configuration: configuration)
        try await cache.setValue(String(repeating: "a", count: 60), forKey: "a")
        #expect(cache.memory?.cost == 60)
        try await cache.setValue(String(repeating: "b", count: 50), forKey: "b")
        #expect(cache.memory?.keys() == ["b"])
        #expect(await cache.lookup(forKey: "a")?.source == .disk)
        #expect(cache.memory?.keys() == ["a"] && cache.memory?.cost == 60)
        try await cache.setValue(String(repeating: "c", count: 101), forKey: "a")
        #expect(cache.memory?.count == 0)
        #expect(await cache.value(forKey: "a")?.count == 101)
        #expect(cache.memory?.count == 0, "a value that costs more than the limit is not promoted either")
        configuration.cost = { value, size in value.count + size }
        let weighing = Cache<String>(disk: disk, namespace: "weighed", configuration: configuration)
        try await weighing.setValue("1234", forKey: "k")
        #expect(weighing.memory?.cost == 8)
        weighing.memoryTier?.removeAll()
        _ = await weighing.value(forKey: "k")
        #expect(weighing.memory?.cost == 8)
    }

    @Test("an undecodable value is a miss, reported and kept; an unencodable one throws and changes nothing")
    func undecodable() async throws {
        let log = EventLog()
        let world = World()
        let disk = try world.open()
        var configuration = Cache<User>.Configuration()
        configuration.onEvent = log.note
        let cache = Cache<User>(disk: disk, namespace: "users", configuration: configuration)
        try disk.namespace("users").setString("no user", forKey: "k")
        #expect(await cache.value(forKey: "k") == nil)
        #expect(disk.namespace("users").string(forKey: "k") == "no user")
        let event = try #require(log.events(of: disk).last)
        #expect(event.error?.code == .undecodable && event.keys == ["k"] && event.namespace == "users")
        let doubles = Cache<Double>(disk: disk, namespace: "doubles")
        try await doubles.setValue(1, forKey: "k")
        await #expect(throws: CacheError.self) { try await doubles.setValue(.nan, forKey: "k") }
        #expect(await doubles.value(forKey: "k") == 1)
        #expect(cache.statistics.misses == 1)
    }

    @Test("bytes that do not decode count as missing in all calls, and are reported once", arguments: [true, false])
    func undecodableEverywhere(hasCoding: Bool) async throws {
        let log = EventLog()
        let disk = try World().open()
        var configuration = Cache<User>.Configuration()
        configuration.onEvent = log.note
        let cache = Cache<User>(disk: disk, namespace: "users", configuration: configuration)
        let user = User(name: "Ann", age: 1)
        func store(_ key: String) throws {
            let raw = disk.namespace("users")
            if hasCoding { try raw.setString("no user", forKey: key) } else { try raw.setData(Data([1]), forKey: key) }
        }
        func reports() -> [String] {
            log.events(of: disk).filter { $0.error?.code == .undecodable }.flatMap(\.keys)
        }
        try store("value")
        for _ in 0..<2 {
            #expect(await cache.value(forKey: "value") == nil)
            #expect(await cache.lookup(forKey: "value", allowingStale: true) == nil)
            #expect(await cache.values(forKeys: ["value"]).isEmpty)
            #expect(await cache.hasValue(forKey: "value") == false)
            #expect(await cache.entry(forKey: "value") == nil)
            #expect(try await cache.setTimeToLive(.hours(1), forKey: "value") == false)
        }
        #expect(reports() == ["value"])
        try store("value")
        #expect(await cache.value(forKey: "value") == nil)
        #expect(reports() == ["value", "value"], "another one")
        await cache.prefetch(["value"]) { _ in user }.value
        #expect(await cache.value(forKey: "value") == user)
        try store("fetched")
        #expect(try await cache.value(forKey: "fetched") { user } == user)
        for key in ["several", "modified"] { try store(key) }
        #expect(try await cache.values(forKeys: ["several"]) { _ in ["several": user] } == ["several": user])
        try await cache.modifyValue(forKey: "modified") { value in
            #expect(value == nil)
            value = user
        }
        #expect(reports() == ["value", "value", "fetched", "several", "modified"])
        if hasCoding {
            try store("unread")
            #expect(await cache.hasValue(forKey: "unread") == false, "its coding says so")
            #expect(reports().last == "unread")
        }
    }

    @Test("two spellings of a key are two keys, in both tiers and in removals")
    func spellings() async throws {
        let cache = Cache<String>(disk: try World().open(), namespace: "n")
        let keys = ["e\u{301}", "\u{e9}", "", "..", "a/b", "a_b"]
        for (number, key) in keys.enumerated() { try await cache.setValue("\(number)", forKey: key) }
        for _ in 0..<2 {
            for (number, key) in keys.enumerated() { #expect(await cache.value(forKey: key) == "\(number)") }
            cache.memoryTier?.removeAll()
        }
        try await cache.removeValue(forKey: keys[0])
        #expect(await cache.value(forKey: keys[0]) == nil)
        #expect(await cache.value(forKey: keys[1]) == "1")
    }

    @Test("either tier may be left out")
    func oneTier() async throws {
        let world = World()
        var configuration = Cache<String>.Configuration()
        configuration.memory = nil
        let disk = Cache<String>(disk: try world.open(), namespace: "n", configuration: configuration)
        #expect(disk.memory == nil)
        try await disk.setValue("v", forKey: "k")
        #expect(await disk.lookup(forKey: "k")?.source == .disk)
        #expect(await disk.lookup(forKey: "k")?.source == .disk)
        #expect(try await disk.removeValue(forKey: "k"))
        #expect(await disk.value(forKey: "k") == nil)
        let log = EventLog()
        var memoryConfiguration = MemoryCache<String, String>.Configuration()
        memoryConfiguration.countLimit = 2
        memoryConfiguration.eviction = .leastRecentlyUsed
        memoryConfiguration.sweepInterval = nil
        memoryConfiguration.release = .inline
        memoryConfiguration.defaultTTL = .seconds(10)
        let memory = Cache<String>(memoryOnly: memoryConfiguration, clock: world.clock)
        let events = memory.events
        #expect(memory.disk == nil)
        try await memory.setValue("1", forKey: "a")
        try await memory.setValue("2", forKey: "a")
        try await memory.setValue("3", forKey: "b")
        try await memory.setValue("4", forKey: "c", metadata: ["m": "x"], tags: ["t"])
        #expect(await memory.value(forKey: "a") == nil)
        #expect(await memory.lookup(forKey: "b")?.source == .memory)
        #expect(try await memory.removeValue(forKey: "b"))
        #expect(try await !memory.removeValue(forKey: "b"))
        #expect(try await memory.setTimeToLive(.seconds(20), forKey: "c"))
        #expect(await memory.keys() == ["c"])
        #expect(await memory.hasValue(forKey: "c"))
        let entry = try #require(await memory.entry(forKey: "c"))
        #expect(entry.metadata == ["m": "x"] && entry.tags == ["t"] && entry.expiresAt == world.clock.date + 20)
        #expect(await memory.entry(forKey: "b") == nil)
        try await memory.removeAll(tagged: "other")
        world.clock.advance(by: .seconds(15))
        #expect(await memory.value(forKey: "c") == "4")
        try await memory.removeAll()
        try await memory.flush()
        try await memory.close()
        for await event in events {
            log.note(event)
            if event.kind == .cleared { break }
        }
        let told = log.all.map { "\($0.kind) \($0.keys) \($0.limit?.description ?? "")" }
        #expect(told == [#"replaced ["a"] "#, #"evicted ["a"] count"#, #"removed ["b"] "#, "cleared [] "])
        let statistics = memory.statistics
        #expect(statistics.memoryHits == 2 && statistics.misses == 1 && statistics.disk == nil)
    }

    @Test("after closing, reads miss in both tiers and writes throw")
    func closed() async throws {
        let disk = try World().open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        try await cache.setValue("v", forKey: "k")
        let events = cache.events
        try await cache.close()
        #expect(await cache.value(forKey: "k") == "v", "the opener of the directory closes it")
        try disk.close()
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.lookup(forKey: "k") == nil)
        #expect(await cache.keys() == [])
        #expect(cache.memory?.count == 0)
        let code = await code { try await cache.setValue("w", forKey: "k") }
        #expect(code == .closed)
        #expect(cache.memory?.count == 0)
        for await _ in events {}
    }

    @Test("with sliding expiry a read restarts the life, in memory too")
    func sliding() async throws {
        let world = World {
            $0.slidingExpiry = true
            $0.sweepInterval = nil
        }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        for _ in 0..<5 {
            world.clock.advance(by: .seconds(9))
            #expect(await cache.lookup(forKey: "k")?.source == .memory)
            #expect(await cache.value(forKey: "k") == "v")
        }
        let expiry = world.clock.date.addingTimeInterval(10)
        #expect(await cache.entry(forKey: "k")?.expiresAt == expiry)
        world.clock.advance(by: .seconds(10))
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("values stored without a life get the cache's default, or that of the disk")
    func defaultLife() async throws {
        let world = World {
            $0.defaultTTL = .seconds(100)
            $0.sweepInterval = nil
        }
        let disk = try world.open()
        var configuration = Cache<String>.Configuration()
        let plain = Cache<String>(disk: disk, namespace: "plain", configuration: configuration)
        configuration.defaultTTL = .seconds(5)
        let short = Cache<String>(disk: disk, namespace: "short", configuration: configuration)
        let now = world.clock.date
        for cache in [plain, short] {
            try await cache.setValue("v", forKey: "k")
            try await cache.setValue("v", forKey: "none", ttl: .seconds(-1))
            #expect(await cache.keys() == ["k"])
        }
        #expect(await plain.lookup(forKey: "k")?.expiresAt == now.addingTimeInterval(100))
        #expect(await short.lookup(forKey: "k")?.expiresAt == now.addingTimeInterval(5))
        #expect(try await short.setTimeToLive(.seconds(50), forKey: "k"))
        #expect(await short.lookup(forKey: "k")?.expiresAt == now.addingTimeInterval(50))
        #expect(try await short.setTimeToLive(.default, forKey: "k"))
        #expect(await short.lookup(forKey: "k")?.expiresAt == now.addingTimeInterval(5))
    }

    @Test("caches open by name and by directory, with real files")
    func opening() async throws {
        let directory = try TemporaryDirectory()
        let cache = try Cache<User>(directory: directory.url)
        try await cache.setValue(User(name: "Ada", age: 36), forKey: "k")
        try await cache.flush()
        try await cache.close()
        let again = try Cache(directory: directory.url, coder: Coder<User>.json)
        #expect(await again.value(forKey: "k")?.name == "Ada")
        #expect(code { try Cache<User>(name: "") } == .invalidName)
        #expect(code { try Cache(name: "a/b", coder: Coder<String>.string) } == .invalidName)
    }

    @Test("more callers than there are threads are all answered")
    func manyCallers() async throws {
        let cache = Cache<String>(disk: try World().open(), namespace: "n")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<2000 {
                group.addTask { try await cache.setValue("\(number)", forKey: "\(number % 500)") }
            }
            try await group.waitForAll()
        }
        cache.memoryTier?.removeAll()
        let found = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<2000 { group.addTask { await cache.value(forKey: "\(number % 500)") != nil } }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(found == 2000)
    }

    @Test("a value that could not be decrypted for a while is found again")
    func locked() async throws {
        struct Locked: Error {}
        let isLocked = Flag()
        let isOpen = Flag()
        let coder = Coder<String>.json.wrapped {
            $0
        } decode: { bytes in
            if isLocked.isSet, !isOpen.isSet { throw Locked() }
            return bytes
        }
        var configuration = Cache<String>.Configuration()
        configuration.memory = nil
        let cache = Cache<String>(disk: try World().open(), namespace: "n", coder: coder, configuration: configuration)
        try await cache.setValue("v", forKey: "k")
        isLocked.set()
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.hasValue(forKey: "k") == false)
        isOpen.set()
        #expect(await cache.value(forKey: "k") == "v")
        #expect(await cache.hasValue(forKey: "k"))
    }
}
