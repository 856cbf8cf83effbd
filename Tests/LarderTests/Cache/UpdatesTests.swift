import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Live values")
struct UpdatesTests {
    /// Reads one value after the other.
    private final class Reader {
        private var iterator: CacheUpdates<String>.Iterator

        init(_ cache: Cache<String>, _ key: String = "k") {
            iterator = cache.updates(forKey: key).makeAsyncIterator()
        }

        /// The outer nil: the end.
        func next() async -> String?? { await iterator.next() }
    }

    enum Tiers: CaseIterable {
        case both, disk, memory
    }

    private func cache(_ tiers: Tiers, _ world: TestWorld) throws -> Cache<String> {
        var configuration = Cache<String>.Configuration()
        if tiers == .memory { return world.memoryOnlyCache(configuration: configuration) }
        if tiers == .disk { configuration.memory = nil }
        return try world.cache(configuration: configuration)
    }

    @Test("begin with the current value and go on with each change, whoever makes it", arguments: Tiers.allCases)
    func changes(tiers: Tiers) async throws {
        let world = TestWorld()
        let cache = try cache(tiers, world)
        let reader = Reader(cache)
        #expect(await reader.next() == .some(nil))
        try await cache.setValue("a", forKey: "other")
        try await cache.setValue("1", forKey: "k", tags: ["t"])
        #expect(await reader.next() == "1")
        try await cache.setValue("2", forKey: "k", tags: ["t"])
        #expect(await reader.next() == "2")
        #expect(try await cache.value(forKey: "k", policy: .reload) { "3" } == "3")
        #expect(await reader.next() == "3")
        try await cache.modifyValue(forKey: "k") { $0 = "4" }
        #expect(await reader.next() == "4")
        try await cache.removeValue(forKey: "k")
        #expect(await reader.next() == .some(nil))
        try await cache.setValueIfAbsent("5", forKey: "k", tags: ["t"])
        #expect(await reader.next() == "5")
        try await cache.removeAll(tagged: "t")
        #expect(await reader.next() == .some(nil))
        try await cache.setValues(["k": "6"], ttl: .seconds(10))
        #expect(await reader.next() == "6")
        try await cache.removeAll()
        #expect(await reader.next() == .some(nil))
        try await cache.setValue("7", forKey: "k")
        #expect(await reader.next() == "7")
        try await cache.expireValue(forKey: "k")
        #expect(await reader.next() == .some(nil))
        #expect(try await cache.value(forKey: "k") { "8" } == "8")
        #expect(await reader.next() == "8")
        // A second reader begins with what is there.
        #expect(await Reader(cache).next() == "8")
    }

    @Test("an expired value is a change once it has been found", arguments: Tiers.allCases)
    func expiry(tiers: Tiers) async throws {
        let world = TestWorld()
        let cache = try cache(tiers, world)
        try await cache.setValue("1", forKey: "k", ttl: .seconds(10))
        let reader = Reader(cache)
        #expect(await reader.next() == "1")
        world.advance(by: .seconds(10))
        #expect(await cache.removeExpired() == 1)
        #expect(await reader.next() == .some(nil))
    }

    @Test("a slow reader gets the newest value only, whatever else has happened meanwhile", arguments: Tiers.allCases)
    func slow(tiers: Tiers) async throws {
        let cache = try cache(tiers, TestWorld())
        let reader = Reader(cache)
        #expect(await reader.next() == .some(nil))
        for number in 0..<3_000 { try await cache.setValue("\(number)", forKey: "k") }
        #expect(await reader.next() == "2999")
        for number in 0..<1_500 { try await cache.setValue("", forKey: "other \(number)") }
        try await cache.setValue("last", forKey: "k")
        #expect(await reader.next() == "last")
    }

    @Test("end with the cache, closed or released, which they do not keep", arguments: Tiers.allCases)
    func end(tiers: Tiers) async throws {
        let world = TestWorld()
        for closes in [true, false] {
            var cache: Cache<String>? = try cache(tiers, world)
            let reader = Reader(cache!)
            _ = await reader.next()
            if closes { try await cache?.close() }
            cache = nil
            for _ in 0..<2 { #expect(await reader.next() == nil) }
        }
    }

    @Test("end with the task that reads them, and leave nothing behind")
    func cancelled() async throws {
        let world = TestWorld()
        let cache = try world.cache(of: String.self)
        let began = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            for await _ in cache.updates(forKey: "k") { began.continuation.yield() }
        }
        for await _ in began.stream { break }
        #expect(cache.watchers.count == 1)
        task.cancel()
        await task.value
        #expect(cache.watchers.count == 0)
        do {
            let reader = Reader(cache)
            _ = await reader.next()
            #expect(cache.watchers.count == 1)
        }
        #expect(cache.watchers.count == 0)
    }

    @Test("end on a directory that stays open, too, once their cache is released")
    func released() async throws {
        let disk = try TestWorld().diskCache()
        var cache: Cache<String>? = Cache(disk: disk, namespace: "n")
        let updates = cache!.updates(forKey: "k")
        let next = begin {
            var reader = updates.makeAsyncIterator()
            #expect(await reader.next() == .some(nil))
            return await reader.next()
        }
        await until("it waits") { [watchers = cache!.watchers] in watchers.waiting(forKey: "k") == 1 }
        let before = disk.store.index.tierCount
        cache = nil
        #expect(try await next.value == nil)
        #expect(disk.store.index.tierCount == before - 2, "that of the memory, and that of the readers")
    }

    @Test(
        "any number of readers end at the last value, however their reads and the changes meet",
        arguments: Tiers.allCases)
    func last(tiers: Tiers) async throws {
        let cache = try cache(tiers, TestWorld())
        let last = 2_000
        let readers = (0..<4).map { number in
            begin {
                // Each begins to watch a key of its own and one of all while these change.
                var own = cache.updates(forKey: "own \(number)").makeAsyncIterator()
                while let value = await own.next(), value != "last" {}
                for await value in cache.updates(forKey: "k") where value == "\(last)" { return true }
                return false
            }
        }
        for number in 0..<4 { try await cache.setValue("last", forKey: "own \(number)") }
        for number in 0...last {
            if number.isMultiple(of: 3) {
                try await cache.setValue("\(number)", forKey: "k")
            } else if number.isMultiple(of: 2) {
                _ = try await cache.value(forKey: "k", policy: .reload) { "\(number)" }
            } else {
                try await cache.modifyValue(forKey: "k") { $0 = "\(number)" }
            }
        }
        for reader in readers { #expect(try await reader.value) }
    }

    @Test("no reader is told that a value is gone because it is cancelled, or the cache is closed")
    func noFalseNil() async throws {
        let world = TestWorld()
        for closes in [true, false] {
            let cache = try cache(.disk, world)
            try await cache.setValue("v", forKey: "k")
            let seen = Lock<[String?]>([])
            let task = Task {
                for await value in cache.updates(forKey: "k") {
                    seen.withLock { $0.append(value) }
                    // The next one is due at once.
                    try? await cache.setValue("v", forKey: "k")
                }
            }
            await until("it reads") { seen.withLock { $0.count > 10 } }
            if closes { try await cache.close() } else { task.cancel() }
            await task.value
            #expect(seen.withLock { $0.allSatisfy { $0 == "v" } })
            if !closes { try await cache.close() }
        }
    }

    @Test("show values that are in memory alone, kept off the disk or on a disk that is full")
    func alone() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        let reader = Reader(cache)
        #expect(await reader.next() == .some(nil))
        try await cache.setValue("1", forKey: "k", tags: ["t"], toDisk: false)
        #expect(await reader.next() == "1")
        try await cache.modifyValue(forKey: "k") { $0 = "2" }
        #expect(await reader.next() == "2")
        try await cache.modifyValue(forKey: "k") { $0 = nil }
        #expect(await reader.next() == .some(nil))
        world.files.limitFreeSpace(to: 0)
        for number in 3..<6 {
            #expect(try await cache.value(forKey: "k", tags: ["t"], policy: .reload) { "\(number)" } == "\(number)")
            #expect(await reader.next() == "\(number)")
        }
        try await cache.removeValue(forKey: "k")
        #expect(await reader.next() == .some(nil))
        _ = try await cache.value(forKey: "k") { "6" }
        #expect(await reader.next() == "6")
        try await cache.expireValue(forKey: "k")
        #expect(await reader.next() == .some(nil))
        _ = try await cache.value(forKey: "k", tags: ["t"]) { "7" }
        #expect(await reader.next() == "7")
        world.files.limitFreeSpace(to: nil)
        try await cache.removeAll(tagged: "t")
        #expect(await reader.next() == .some(nil))
    }

    @Test("show that an expired value is confirmed, and one is known to be absent", arguments: Tiers.allCases)
    func revalidated(tiers: Tiers) async throws {
        let world = TestWorld()
        let cache = try cache(tiers, world)
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10), keepStale: .hours(1))
        let reader = Reader(cache)
        #expect(await reader.next() == "v")
        // Nobody has found it expired.
        world.advance(by: .seconds(11))
        let confirmed = try await cache.value(forKey: "k", ttl: .seconds(10)) { _ in .notModified }
        #expect(confirmed == "v")
        #expect(await reader.next() == "v")
        #expect(try await cache.optionalValue(forKey: "k", policy: .reload) { nil as String? } == nil)
        #expect(await reader.next() == .some(nil))
    }

    @Test("show what an index that is read anew has", arguments: [Tiers.both, .disk])
    func reloaded(tiers: Tiers) async throws {
        let home = try TemporaryDirectory()
        var configuration = Cache<String>.Configuration()
        if tiers == .disk { configuration.memory = nil }
        let cache = try Cache<String>(directory: home.appending("cache"), configuration: configuration)
        try await cache.setValue("v", forKey: "k")
        let reader = Reader(cache)
        #expect(await reader.next() == "v")
        try FileManager.default.removeItem(at: home.appending("cache"))
        // The next change makes another directory.
        try await cache.setValue("v", forKey: "other")
        #expect(await reader.next() == .some(nil))
    }

    @Test("show what a real process stores, without a call", .timeLimit(.minutes(10)))
    func realProcess() async throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let cache = try Cache<String>(directory: directory)
        let child = Process()
        child.executableURL = try Executables.url(of: "SharingChild")
        child.arguments = [directory.path, home.appending("log").path, "1", "1", "1", "\(getpid())", "leave"]
        try child.start()
        // The child stores a value under its number.
        for await value in cache.updates(forKey: "\(child.processIdentifier)") where value != nil {
            #expect(value == "v")
            break
        }
        child.waitUntilExit()
        #expect(child.terminationStatus == 0)
        try await cache.close()
    }

    @Test("caches of other namespaces do not disturb each other; clearing them all does")
    func namespaces() async throws {
        let disk = try TestWorld().diskCache()
        let caches = ["", "a", "b"].map { Cache<String>(disk: disk, namespace: $0) }
        let readers = caches.map { Reader($0) }
        for reader in readers { #expect(await reader.next() == .some(nil)) }
        for (number, cache) in caches.enumerated() { try await cache.setValue("\(number)", forKey: "k") }
        for (number, reader) in readers.enumerated() { #expect(await reader.next() == "\(number)") }
        try disk.removeAll()
        for reader in readers { #expect(await reader.next() == .some(nil)) }
        try disk.namespace("a").setString("by the disk tier", forKey: "k")
        #expect(await readers[1].next() == "by the disk tier")
    }

    @Test(
        "show the changes of another process within a tenth of a second, without a call",
        arguments: [Tiers.both, .disk])
    func processes(tiers: Tiers) async throws {
        let world = TestWorld()
        let cache = try cache(tiers, world)
        let reader = Reader(cache)
        #expect(await reader.next() == .some(nil))
        let other = try DiskCache(
            directory: URL(fileURLWithPath: "/cache", isDirectory: true), configuration: .init(),
            fileSystem: world.files.another(), clock: world.clock)
        for number in 0..<5 {
            try other.setString("\(number)", forKey: "k")
            world.advance(by: .milliseconds(100))
            #expect(await reader.next() == "\(number)")
        }
        try other.removeAll()
        world.advance(by: .milliseconds(100))
        #expect(await reader.next() == .some(nil))
        try other.close()
    }

    @Test("show the changes of other machines")
    func machines() async throws {
        let machines = Machines()
        let (one, two) = (try machines.cache(0), try machines.cache(1))
        let reader = Reader(two)
        #expect(await reader.next() == .some(nil))
        for number in 0..<3 {
            try await one.setValue("\(number)", forKey: "k")
            await one.sent()
            machines.advance(by: .milliseconds(100))
            var found = await reader.next()
            // It may have asked the server before the change was there.
            while found != "\(number)" { found = await reader.next() }
        }
        try await one.removeValue(forKey: "k")
        await one.sent()
        machines.advance(by: .milliseconds(100))
        #expect(await reader.next() == .some(nil))
    }
}
