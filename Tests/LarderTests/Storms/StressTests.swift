import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Many threads at once", .storm)
struct StressTests {
    /// A value names its key and consists of one letter, so a partial value or another key's would be noticed.
    private static func value(_ key: Int, _ version: Int) -> Data {
        Data("\(key):\(version):".utf8)
            + Data(
                repeating: UInt8(ascii: "a") + UInt8(version % 26), count: version < 1000 ? 200 + version : 300 << 10)
    }

    private static func check(_ data: Data, _ key: Int) -> Bool {
        let parts = String(decoding: data, as: UTF8.self).split(separator: ":")
        guard parts.count == 3, Int(parts[0]) == key, let version = Int(parts[1]) else { return false }
        return data == value(key, version)
    }

    @Test("readers see complete values of their key, old or new")
    func oldOrNew() throws {
        let home = try TemporaryDirectory()
        let cache = try DiskCache(directory: home.appending("cache"))
        try checkOldOrNew([cache])
        cache.checkInvariants()
    }

    @Test("the same in two processes")
    func oldOrNewInTwo() throws {
        let world = World.shared()
        try checkOldOrNew([world.open(), world.anotherProcess().open()])
    }

    /// Eight threads, which take turns with the caches.
    private func checkOldOrNew(_ caches: [DiskCache]) throws {
        let wrong = Lock(0)
        let misses = Lock(0)
        for key in 0..<8 { try caches[0].setData(Self.value(key, 0), forKey: "\(key)") }
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            let cache = caches[thread / 2 % caches.count]
            var generator = SeededGenerator(seed: UInt64(thread))
            for step in 0..<Sample.size(400, usually: 150) {
                let key = Int.random(in: 0..<8, using: &generator)
                if thread % 2 == 0 {
                    try? cache.setData(Self.value(key, step), forKey: "\(key)")
                } else if let data = cache.data(forKey: "\(key)") {
                    if !Self.check(data, key) { wrong.withLock { $0 += 1 } }
                } else {
                    // Nothing is ever removed here: an overwritten key always has a value.
                    misses.withLock { $0 += 1 }
                }
            }
        }
        #expect(wrong.withLock { $0 } == 0 && misses.withLock { $0 } == 0)
        for cache in caches { #expect(cache.statistics.failures == 0 && cache.count == 8) }
    }

    @Test("all calls at the same time cause no wrong value and no failure, and in the end entries and files agree")
    func everything() throws {
        let home = try TemporaryDirectory()
        var configuration = DiskCache.Configuration()
        configuration.saveDelay = .milliseconds(1)
        configuration.sweepInterval = .milliseconds(5)
        let settings = configuration
        let clock = ManualClock()
        @Sendable func open(_: Int = 0) throws -> DiskCache {
            try DiskCache(
                directory: home.appending("cache"), configuration: settings, fileSystem: PosixFileSystem(), clock: clock
            )
        }
        let cache = try open()
        makeAllCalls([cache], clock, open)
        cache.removeExpired()
        try cache.flush()
        cache.checkInvariants()
        #expect(home.names(in: "cache/entries") == files(of: cache))
    }

    @Test("the same in two processes, which agree in the end")
    func everythingInTwo() throws {
        let first = World.shared {
            $0.saveDelay = .milliseconds(1)
            $0.sweepInterval = .milliseconds(5)
        }
        let worlds = [first, first.anotherProcess()]
        let caches = try worlds.map { try $0.open() }
        makeAllCalls(caches, first.clock) { try worlds[$0].open() }
        _ = caches.map { $0.removeExpired() }
        for cache in caches + caches { try cache.flush() }
        #expect(caches[0].keys().sorted() == caches[1].keys().sorted())
        #expect(first.entryFiles == files(of: caches[0]) && first.entryFiles == files(of: caches[1]))
    }

    private func files(of cache: DiskCache) -> [String] {
        cache.store.index.loadAll()
        let entries = (0..<Index.shardCount).flatMap { cache.store.index.snapshot($0) }
        return entries.map { FileName.number($0.file.number).description }.sorted()
    }

    /// Eight threads, which take turns with the caches. `open` opens another handle of one of them.
    private func makeAllCalls(
        _ caches: [DiskCache], _ clock: ManualClock, _ open: @Sendable (Int) throws -> DiskCache
    ) {
        let problems = Lock<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            let number = thread / 2 % caches.count
            let cache = caches[number]
            var generator = SeededGenerator(seed: UInt64(100 + thread))
            for step in 0..<Sample.size(500, usually: 200) {
                let key = Int.random(in: 0..<50, using: &generator)
                // Saves and sweeps run while the clock moves.
                if thread == 0 { clock.advance(by: .milliseconds(1)) }
                do {
                    switch Int.random(in: 0..<100, using: &generator) {
                    case 0..<35:
                        let ttl: TimeToLive = generator.chance(20) ? .seconds(0.002) : .default
                        try cache.setData(Self.value(key, step), forKey: "\(key)", ttl: ttl)
                    case 35..<75:
                        if let data = cache.data(forKey: "\(key)"), !Self.check(data, key) {
                            problems.withLock { $0.append("wrong value of \(key)") }
                        }
                    case 75..<83: try cache.removeValue(forKey: "\(key)")
                    case 83..<88: try cache.setTimeToLive(.seconds(Double(step % 3) + 0.001), forKey: "\(key)")
                    case 88..<92: _ = (cache.keys(), cache.count, cache.entry(forKey: "\(key)"), cache.statistics)
                    case 92..<95: cache.removeExpired()
                    case 95..<97: try cache.flush()
                    case 97: try cache.removeAll()
                    default: try open(number).close()
                    }
                } catch {
                    problems.withLock { $0.append("\(error)") }
                }
            }
        }
        #expect(problems.withLock { $0 } == [])
        for found in caches.map(\.statistics) {
            #expect(found.failures == 0 && found.corruptions == 0 && found.losses == 0)
        }
    }

    @Test(
        "values stay correct under limits, with trims, copies, exports and verifications",
        arguments: [ManifestFormat.json, .propertyList])
    func limited(format: ManifestFormat) throws {
        let home = try TemporaryDirectory()
        var configuration = DiskCache.Configuration()
        configuration.saveDelay = .milliseconds(1)
        configuration.sweepInterval = .milliseconds(5)
        configuration.manifestFormat = format
        configuration.countLimit = 30
        configuration.sizeLimit = 3 << 20
        configuration.ageLimit = .milliseconds(200)
        configuration.minimumFreeSpace = 1
        let clock = ManualClock()
        let called = Lock(0)
        let box = Lock<DiskCache?>(nil)
        configuration.onEvent = { _ in
            guard let cache = box.withLock({ $0 }) else { return }
            // A handler may call the cache.
            called.withLock { $0 += cache.count > 1000 ? 1_000_000 : 1 }
            if called.withLock({ $0 }) % 50 == 0 { cache.trim(toCount: 20) }
        }
        let cache = try DiskCache(
            directory: home.appending("cache"), configuration: configuration, fileSystem: PosixFileSystem(),
            clock: clock)
        box.withLock { $0 = cache }
        let problems = Lock<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 6) { thread in
            var generator = SeededGenerator(seed: UInt64(200 + thread))
            let file = home.appending("file \(thread)")
            for step in 0..<Sample.size(400, usually: 150) {
                let key = Int.random(in: 0..<60, using: &generator)
                if thread == 0 { clock.advance(by: .milliseconds(1)) }
                do {
                    switch Int.random(in: 0..<100, using: &generator) {
                    case 0..<50: try cache.setData(Self.value(key, step), forKey: "\(key)")
                    case 50..<80:
                        if let data = cache.data(forKey: "\(key)"), !Self.check(data, key) {
                            problems.withLock { $0.append("wrong value of \(key)") }
                        }
                    case 80..<84: try cache.removeValue(forKey: "\(key)")
                    case 84..<90:
                        try Self.value(key, generator.chance(50) ? 1000 : step).write(to: file)
                        try cache.copyFile(at: file, forKey: "\(key)")
                    case 90..<94:
                        if try cache.exportFile(forKey: "\(key)", to: file),
                            !Self.check(try Data(contentsOf: file), key)
                        {
                            problems.withLock { $0.append("wrong export of \(key)") }
                        }
                    case 94..<97:
                        cache.trim(toCount: 25)
                        cache.trim(toSize: 2 << 20)
                    case 97: try cache.removeAll()
                    default:
                        let report = try cache.verify()
                        if !report.isClean { problems.withLock { $0.append("\(report)") } }
                    }
                } catch {
                    problems.withLock { $0.append("\(error)") }
                }
            }
        }
        box.withLock { $0 = nil }
        #expect(problems.withLock { $0 } == [])
        #expect(cache.statistics.failures == 0 && cache.statistics.corruptions == 0 && cache.statistics.losses == 0)
        // How many the storm evicts is a matter of chance: each clear takes what would have been evicted.
        let before = cache.statistics.evictions.total
        for key in 0..<60 { try cache.setData(Self.value(key, 1), forKey: "\(key)") }
        try cache.flush()
        #expect(cache.statistics.evictions.total - before >= 30)
        cache.checkInvariants()
        #expect(cache.count <= 30 && cache.payloadSize <= 3 << 20)
        try cache.close()
        #expect(home.names(in: "cache/entries").count <= 30)
    }

    @Test("power-safe sets of many threads share syncs, and all return")
    func powerSafe() throws {
        let home = try TemporaryDirectory()
        var configuration = DiskCache.Configuration()
        configuration.durability = .powerSafe
        let cache = try DiskCache(directory: home.appending("cache"), configuration: configuration)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for step in 0..<15 { try? cache.setData(Self.value(thread, step), forKey: "\(thread)") }
        }
        for thread in 0..<4 { #expect(cache.data(forKey: "\(thread)") == Self.value(thread, 14)) }
        #expect(cache.statistics.stores == 60 && cache.statistics.failures == 0)
    }
}
