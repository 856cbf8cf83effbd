import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A disk that loses power between the calls of a cache. `KillTableTests` cuts it inside of them.
@Suite("Power cuts", .storm)
struct CrashTests {
    @Test(
        "after a power cut, kill-safe keeps all values unchanged since the last sync, and is consistent",
        arguments: Sample.few(12, of: 1...40 as ClosedRange<UInt64>))
    func killSafePowerCut(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World.grouped()
        var story = CrashStory()
        var cache = try world.open()
        for number in 10..<20 { try story.set(cache, "k\(number)", "kept", ttl: .forever) }
        if generator.chance(50) { try cache.flush() }
        cache.settle()
        world.files.syncAll()
        for number in 0..<30 {
            let key = "k\(number % 7)"
            if generator.chance(70) {
                try story.set(cache, key, "value \(number)")
            } else {
                try story.remove(cache, key)
            }
            if generator.chance(5) { try cache.flush() }
        }
        world.restart(with: world.files.imageAfterPowerCut(using: &generator))
        cache = try world.open()
        story.checkPlausible(cache, "seed \(seed)")
        try cache.flush()
        for number in 10..<20 { #expect(cache.string(forKey: "k\(number)") == "kept", "seed \(seed)") }
        story.checkPlausible(cache, "seed \(seed)")
        try cache.flush()
        cache.checkInvariants(world, settled: true)
        for number in 0..<7 { try cache.setString("new", forKey: "k\(number)") }
        world.restart()
        cache = try world.open()
        try cache.flush()
        for number in 0..<7 { #expect(cache.string(forKey: "k\(number)") == "new", "seed \(seed)") }
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "after a power cut in a session after a clean close, no file stays unknown, and no removed value comes back",
        arguments: Sample.few(15, of: 1...60 as ClosedRange<UInt64>))
    func powerCutAfterClose(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World.grouped()
        var story = CrashStory()
        var cache = try world.open()
        for number in 0..<12 { try story.set(cache, "k\(number)", "kept", ttl: .forever) }
        try story.remove(cache, "k11")
        if generator.chance(50) { world.files.syncAll() }
        try cache.close()
        // If the system has written anything back since, it is the names and contents of this moment.
        if generator.chance(70) { world.files.syncAll() }
        world.restart(with: world.files.imageAfterPowerCut(using: &generator))
        world.files.syncAll()
        cache = try world.open()
        for number in 0..<Int.random(in: 1...12, using: &generator) {
            let key = "k\(number % 5)"
            if generator.chance(60) {
                try story.set(cache, key, "value \(number)")
            } else {
                try story.remove(cache, key)
            }
            if generator.chance(10) { try cache.flush() }
        }
        if generator.chance(30) { try cache.close() }
        world.restart(with: world.files.imageAfterPowerCut(using: &generator))
        cache = try world.open()
        story.checkPlausible(cache, "seed \(seed)")
        // A value removed now is removed for good, with everything that the power cut has left of it.
        for number in 0..<5 { try cache.removeValue(forKey: "k\(number)") }
        try cache.flush()
        let report = try cache.verify()
        #expect(report.orphans == 0, "seed \(seed)")
        // The index knows every file, and every value is whole.
        cache.checkInvariants(world, settled: true)
        let kept = cache.keys()
        for key in kept { #expect(cache.string(forKey: key) == "kept", "\(key), seed \(seed)") }
        world.restart()
        world.loseIndex()
        do {
            cache = try world.open()
        } catch let error as CacheError where error.code == .notACache {
            // Nothing is left by which the directory could be recognized. The power cut has torn all footers of the
            // values that the index kept, see `tornFooters`; no other file is left.
            #expect(world.fileCount <= kept.count, "seed \(seed)")
            return
        }
        for number in 0..<5 { #expect(cache.string(forKey: "k\(number)") == nil, "seed \(seed)") }
        try cache.flush()
        #expect(cache.keys().allSatisfy { ["k5", "k6", "k7", "k8", "k9", "k10"].contains($0) }, "seed \(seed)")
    }

    /// A kill-safe cache does not sync its entries. So the disk may have the names, the sizes and the payloads of any
    /// number of them, while their records and footers at the end are still zeros. With the index, which has the size and
    /// the checksum of each payload, they are whole values, and no file is unknown. The loss of the index as well is a
    /// second fault: then nothing shows that the files are ours, and they are left untouched.
    @Test("values whose footers a power cut has torn live as long as the index", arguments: 1...3)
    func tornFooters(count: Int) throws {
        var world = World.grouped { $0.inlineThreshold = 0 }
        let keys = (0..<count).map { "k\($0)" }
        var cache = try world.open()
        for key in keys { try cache.setString("kept", forKey: key, ttl: .forever) }
        try cache.close()
        var image = world.files.image
        for name in world.entryFiles {
            let path = "/cache/entries/" + name
            let content = try #require(image.content(at: path))
            image.setContent(content.prefix(4) + Array(repeating: 0, count: content.count - 4), at: path)
        }
        image.boot += 1
        world.restart(with: image)
        cache = try world.open()
        for key in keys { #expect(cache.string(forKey: key) == "kept") }
        try cache.flush()
        #expect(try cache.verify().isClean)
        cache.checkInvariants(world, settled: true)
        world.restart()
        let files = world.files.image.names(at: "/cache/entries")
        world.loseIndex()
        #expect(code { try world.open() } == .notACache)
        #expect(world.entryFiles.count == count && world.files.image.names(at: "/cache/entries") == files)
    }

    @Test(
        "a clean-shutdown marker vouches for no earlier journal whose end a power cut has cut off",
        arguments: [DiskCache.Sharing.exclusive, .processes], [3, 100])
    func cutJournal(sharing: DiskCache.Sharing, entriesPerGroup: Int) throws {
        var world = World {
            $0.sharing = sharing
            $0.entriesPerGroup = entriesPerGroup
        }
        var cache = try world.open()
        for number in 0..<12 { try cache.setString("kept", forKey: "k\(number)", ttl: .forever) }
        try cache.close()
        world.restart()
        cache = try world.open()
        for number in 0..<3 { try cache.setString("new", forKey: "k\(number)", ttl: .forever) }
        var image = world.files.image
        let cut = "/cache/" + (try world.journal)
        // Saves the index, whose journal has the marker.
        try cache.close()
        let marked = "/cache/" + (try world.journal)
        #expect(marked != cut)
        image.add(try #require(world.files.image.content(at: marked)), at: marked)
        // The new manifest is lost, and so are the lines of the journal before, which has only its header.
        let lines = try #require(image.content(at: cut)).split(separator: UInt8(ascii: "\n"))
        image.setContent(Array(lines[0]), at: cut)
        image.boot += 1
        world.restart(with: image)
        cache = try world.open()
        for number in 0..<12 { try cache.removeValue(forKey: "k\(number)") }
        try cache.flush()
        #expect(try cache.verify().orphans == 0)
        #expect(cache.count == 0 && world.fileCount == 0)
        cache.checkInvariants(world, settled: true)
    }

    @Test("after a failed sync of the removed clean-shutdown marker and a power cut, files and entries agree")
    func powerCutAfterFailedSync() throws {
        for seed in Sample.few(15, of: 1...60 as ClosedRange<UInt64>) {
            var generator = SeededGenerator(seed: seed)
            let sharing: DiskCache.Sharing = generator.chance(50) ? .processes : .exclusive
            var world = World.grouped {
                $0.sweepInterval = nil
                $0.sharing = sharing
            }
            var cache = try world.open()
            for number in 0..<5 { try cache.setString("kept", forKey: "k\(number)", ttl: .forever) }
            try cache.close()
            world.restart()
            world.files.syncAll()
            cache = try world.open()
            let hasFailed = Lock(false)
            world.files.inject { _, operation in
                guard operation == .sync else { return nil }
                return hasFailed.withLock { hasFailed in
                    defer { hasFailed = true }
                    return hasFailed ? nil : .fail(.io)
                }
            }
            // A shared directory has another journal to sync.
            let refused = code { try cache.setString("refused", forKey: "k0", ttl: .forever) }
            #expect(refused == (sharing == .exclusive ? .io : nil))
            #expect(hasFailed.withLock { $0 })
            try cache.setString("new", forKey: "k0", ttl: .forever)
            try cache.removeValue(forKey: "k1")
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            cache = try world.open()
            let value = cache.string(forKey: "k0")
            let possible = [nil, "kept", "new"] + (refused == nil ? ["refused"] : [])
            #expect(possible.contains(value), "seed \(seed)")
            try cache.flush()
            let report = try cache.verify()
            #expect(report.orphans == 0, "seed \(seed): an unknown file stays forever")
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("after a power cut in a cache's first seconds, the directory is still ours, and nothing is left forever")
    func powerCutAtBirth() throws {
        for seed in Sample.few(30, of: 1...150 as ClosedRange<UInt64>) {
            var generator = SeededGenerator(seed: seed)
            var world = World.grouped { $0.sweepInterval = nil }
            var cache = try world.open()
            for number in 0..<Int.random(in: 1...4, using: &generator) {
                try cache.setString("value \(number)", forKey: "\(number)")
            }
            if generator.chance(30) { try cache.removeAll() }
            if generator.chance(30) { try cache.flush() }
            cache.settle()
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            do {
                cache = try world.open()
            } catch {
                Issue.record("seed \(seed): \(error)")
                continue
            }
            try cache.setString("x", forKey: "x")
            try cache.flush()
            #expect(cache.string(forKey: "x") == "x")
            cache.checkInvariants(world, settled: true)
        }
    }
}
