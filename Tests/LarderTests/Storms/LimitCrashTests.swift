import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// The same storm over limits, files and imports.
@Suite("Every crash point of copies, imports, evictions and exports", .storm)
struct LimitCrashTests {
    private static let large = String(repeating: "large ", count: 50_000)
    private static let list = """
        <plist version="1.0"><dict><key>a/b</key><date>2099-01-01T00:00:00Z</date>
        <key>c</key><date>2099-01-01T00:00:00Z</date></dict></plist>
        """

    private struct Story {
        /// Every value that a key was ever given.
        var given: [String: Set<String>] = [:]
        /// The values stored by returned calls, while nothing has been evicted.
        var acknowledged: [String: String] = [:]
        var pending: Set<String> = []
        var hasEvicted = false
        /// Keys evicted by a returned trim, and not stored since.
        var gone: Set<String> = []

        mutating func storing(_ values: [String: String], _ store: () throws -> Void) throws {
            for (key, value) in values { given[key, default: []].insert(value) }
            gone.subtract(values.keys)
            pending = Set(values.keys)
            try store()
            pending = []
            acknowledged.merge(values) { $1 }
        }

        mutating func set(_ cache: DiskCache, _ key: String, _ value: String) throws {
            try storing([key: value]) { try cache.setString(value, forKey: key) }
        }

        /// Trims do not throw: their effect counts if the process outlived them.
        mutating func trim(_ cache: DiskCache, _ isDead: () -> Bool, _ body: (DiskCache) -> Void) throws {
            hasEvicted = true
            body(cache)
            if isDead() { throw CacheError(code: .io, message: "killed in a trim") }
            gone.formUnion(Set(given.keys).subtracting(cache.keys()))
        }
    }

    private func prepared(_ format: ManifestFormat) throws -> World {
        var world = World.grouped {
            $0.manifestFormat = format
            $0.countLimit = 9
        }
        for path in ["/old", "/out"] { _ = try world.files.openDirectory(path: path, creation: .plain) }
        var image = world.files.image
        image.add(Array("small".utf8), at: "/out/small")
        image.add(Array(Self.large.utf8), at: "/out/large")
        image.add(Array("before".utf8), at: "/out/target")
        image.add(Array(Self.list.utf8), at: "/old/EGOCache.plist")
        image.add(Array("ab".utf8), at: "/old/a_b")
        image.add(Array("c".utf8), at: "/old/c")
        world.restart(with: image)
        return world
    }

    private func tell(_ story: inout Story, _ cache: DiskCache, isDead: () -> Bool) throws {
        let old = URL(fileURLWithPath: "/old", isDirectory: true)
        for number in 0..<3 { try story.set(cache, "k\(number)", "first \(number)") }
        try story.storing(["k0": "small"]) {
            try cache.copyFile(at: URL(fileURLWithPath: "/out/small"), forKey: "k0")
        }
        try story.storing(["large": Self.large]) {
            try cache.copyFile(at: URL(fileURLWithPath: "/out/large"), forKey: "large")
        }
        try story.storing(["a/b": "ab", "c": "c"]) {
            let report = try cache.importEGOCache(from: old)
            #expect(report.imported == ["a/b", "c"] || report.skipped.contains { $0.reason == .failed })
            if report.imported.count < 2 { throw CacheError(code: .io, message: "killed in the import") }
        }
        let isExported = try cache.exportFile(forKey: "large", to: URL(fileURLWithPath: "/out/target"))
        #expect(isExported || isDead())
        cache.settle()
        try story.trim(cache, isDead) { $0.trim(toCount: 5) }
        for number in 0..<8 { try story.set(cache, "n\(number)", "second \(number)") }
        try story.trim(cache, isDead) { $0.settle() }
        try story.set(cache, "n7", "third")
        try story.trim(cache, isDead) { $0.trim(toSize: 40) }
        try cache.verify()
        try story.set(cache, "k0", "last")
        try cache.close()
    }

    private func check(_ story: Story, _ cache: DiskCache, _ context: Comment) {
        for key in story.given.keys {
            let value = cache.string(forKey: key)
            if let value {
                let isPlausible = story.given[key]?.contains(value) == true
                #expect(isPlausible, "\(key), \(context)")
            }
            if story.gone.contains(key) {
                #expect(value == nil, "\(key) had been evicted, \(context)")
            } else if !story.hasEvicted, !story.pending.contains(key), let wanted = story.acknowledged[key] {
                let isThere = value == wanted
                #expect(isThere, "\(key), \(context)")
            }
        }
    }

    /// Tells the story until the process is killed in a call; nil when there is no such call.
    private func storyUntilKilled(_ world: World, in number: Int) -> Story? {
        var story = Story()
        let isReached = world.killing(in: number)
        do {
            let cache = try world.open()
            try tell(&story, cache) { isReached.withLock { $0 } }
            cache.settle()
        } catch {
            #expect(isReached.withLock { $0 }, "\(error)")
        }
        return isReached.withLock { $0 } ? story : nil
    }

    @Test(
        "no evicted entry comes back, and no value is incomplete",
        arguments: [ManifestFormat.json, .propertyList])
    func killed(format: ManifestFormat) throws {
        var points = 0
        for number in Sample.calls {
            var world = try prepared(format)
            guard let story = storyUntilKilled(world, in: number) else { break }
            points += 1
            for second in [5, 14, 40] {
                world.restart()
                world.files.inject { call, _ in call == second ? .kill : nil }
                if let cache = try? world.open() { cache.settle() }
            }
            world.restart()
            let target = world.files.image.content(at: "/out/target").map { String(decoding: $0, as: UTF8.self) }
            let isWhole = target == "before" || target == Self.large
            #expect(isWhole, "the export, killed in call \(number)")
            #expect(world.files.image.names(at: "/old") == ["EGOCache.plist", "a_b", "c"])
            let cache = try world.open()
            check(story, cache, "before reconciling, killed in call \(number)")
            try cache.flush()
            check(story, cache, "killed in call \(number)")
            #expect(cache.count <= 9)
            cache.checkInvariants(world, settled: true)
            #expect(try cache.verify().isClean)
        }
        print("limit crash test: \(points) points survived")
        #expect(points > Sample.least(of: 90))
    }

    @Test("the same for another process, which goes on")
    func killedBesideAnother() throws {
        var points = 0
        for number in Sample.calls {
            let world = try prepared(.json)
            let witness = try world.anotherProcess().open()
            guard let story = storyUntilKilled(world, in: number) else { break }
            points += 1
            check(story, witness, "beside it, killed in call \(number)")
            try witness.setString("witness", forKey: "w")
            try witness.flush()
            check(story, witness, "beside it, saved, killed in call \(number)")
            #expect(witness.count <= 9 && witness.string(forKey: "w") == "witness")
            try witness.close()
            let alone = world.with(world.files.another())
            let cache = try alone.open()
            check(story, cache, "afterwards, killed in call \(number)")
            try cache.flush()
            cache.checkInvariants(alone, settled: true)
            #expect(try cache.verify().isClean)
        }
        #expect(points > Sample.least(of: 90))
    }

    @Test(
        "after a power cut, with or without the index, a returned power-safe copy or import is there",
        arguments: 1...20 as ClosedRange<UInt64>)
    func powerSafe(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = try prepared(.json)
        world.configuration.durability = .powerSafe
        var cache = try world.open()
        try cache.copyFile(at: URL(fileURLWithPath: "/out/small"), forKey: "small")
        try cache.copyFile(at: URL(fileURLWithPath: "/out/large"), forKey: "large")
        try cache.importEGOCache(from: URL(fileURLWithPath: "/old"))
        var image = world.files.imageAfterPowerCut(using: &generator)
        if seed.isMultiple(of: 2) {
            for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        }
        world.restart(with: image)
        cache = try world.open()
        try cache.flush()
        let isLargeThere = cache.string(forKey: "large") == Self.large
        #expect(isLargeThere && cache.string(forKey: "small") == "small", "seed \(seed)")
        #expect(cache.string(forKey: "a/b") == "ab" && cache.string(forKey: "c") == "c", "seed \(seed)")
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }
}
