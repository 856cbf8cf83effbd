import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Every test here acts before files and index are reconciled, and flushes afterward.
@Suite("All promises hold from the first call after opening", .storm)
struct FirstSecondTests {
    /// More entries than are read before the first answer.
    private static let many = OpeningScan.mostAtOnce + 700

    enum Loss: CaseIterable {
        case journalBits, journal, manifest, both, manifestBits

        func apply(to world: inout World, sparing spared: Set<Int> = []) throws {
            switch self {
            case .journal: world.remove(try world.journal)
            case .manifest: world.remove("manifest.json")
            case .both:
                world.remove(try world.journal)
                world.remove("manifest.json")
            case .journalBits: try world.damage(try world.journal) { Self.flipLines(&$0) }
            case .manifestBits: try world.damage("manifest.json") { Self.flipLines(&$0) }
            }
        }

        /// Flips one bit in each line but the first.
        private static func flipLines(_ bytes: inout [UInt8]) {
            for position in bytes.indices.dropLast(9) where bytes[position] == UInt8(ascii: "\n") {
                bytes[position + 8] ^= 4
            }
        }
    }

    /// A saved cache in which every other key was then overwritten, and which was then killed.
    private func overwritten(_ count: Int) throws -> World {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<count { try cache.setString("old", forKey: "\(number)") }
        try cache.flush()
        for number in stride(from: 0, to: count, by: 2) { try cache.setString("new", forKey: "\(number)") }
        return world
    }

    private func expectNewest(_ cache: DiskCache, _ count: Int, _ context: Comment) {
        for number in 0..<count {
            let value = cache.string(forKey: "\(number)")
            #expect(value == (number.isMultiple(of: 2) ? "new" : "old"), "\(number), \(context)")
        }
    }

    @Test(
        "reads right after damage lose nothing and return no old value", arguments: Sample.few(3, of: Loss.allCases),
        [300, many])
    func readAtOnce(loss: Loss, count: Int) throws {
        var world = try overwritten(count)
        try loss.apply(to: &world)
        let cache = try world.open()
        var misses = 0
        world.files.holdingOtherReaders {
            for number in 0..<count {
                let value = cache.string(forKey: "\(number)")
                if value == nil { misses += 1 }
                #expect(value == nil || value == (number.isMultiple(of: 2) ? "new" : "old"), "\(number), \(loss)")
            }
        }
        if count < OpeningScan.mostAtOnce { #expect(misses == 0, "few enough are read before the first answer") }
        try cache.flush()
        expectNewest(cache, count, "\(loss)")
        #expect(cache.statistics.losses == 0 && cache.statistics.corruptions == 0)
        cache.checkInvariants(world, settled: true)
        world.restart()
        expectNewest(try world.open(), count, "\(loss), a session later")
    }

    @Test("sets, removals and renewals right after damage last", arguments: Sample.few(2, of: Loss.allCases))
    func writeAtOnce(loss: Loss) throws {
        let count = Self.many
        var world = try overwritten(count)
        try loss.apply(to: &world)
        let cache = try world.open()
        try world.files.holdingOtherReaders {
            for number in 0..<40 { try cache.setString("newest", forKey: "\(number)") }
            for number in 40..<80 { try cache.removeValue(forKey: "\(number)") }
            for number in 80..<120 { _ = try cache.setTimeToLive(.days(2), forKey: "\(number)") }
            for number in 0..<40 { #expect(cache.string(forKey: "\(number)") == "newest") }
            for number in 40..<80 { #expect(!cache.hasValue(forKey: "\(number)")) }
        }
        // Killed at once, and the index lost again: the removals last.
        world.restart()
        world.remove(try world.journal)
        world.remove("manifest.json")
        for context in ["at once", "after the flush", "a session later"] as [Comment] {
            let cache = try world.open()
            if context == "after the flush" { try cache.flush() }
            for number in 0..<80 {
                let value = cache.string(forKey: "\(number)")
                let isMiss = value == nil
                #expect(
                    number < 40 ? value == "newest" || (isMiss && context == "at once") : isMiss,
                    "\(number), \(context)")
            }
            try cache.flush()
            cache.checkInvariants(world, settled: true)
            for number in 80..<count { #expect(cache.hasValue(forKey: "\(number)"), "\(number), \(context)") }
            world.restart()
        }
    }

    @Test(
        "clears, sweeps and trims right after damage wait for the scan or check the files",
        arguments: Sample.few(2, of: Loss.allCases))
    func manyAtOnce(loss: Loss) throws {
        let count = Self.many
        let original = World {
            $0.sweepInterval = nil
            $0.countLimit = 10_000
        }
        let filler = try original.open()
        for number in 0..<count {
            try filler.namespace(number % 3 == 0 ? "gone" : "kept").setString(
                "old", forKey: "\(number)", ttl: .seconds(100), tags: number % 3 == 1 ? ["tag"] : [])
        }
        try filler.flush()
        // Every second kept entry lives longer than the manifest says.
        for number in 0..<count where number % 3 == 2 && number % 2 == 0 {
            try filler.namespace("kept").setTimeToLive(.forever, forKey: "\(number)")
        }
        original.clock.advance(by: .seconds(101))
        var world = original
        try loss.apply(to: &world)
        let cache = try world.open()
        try cache.namespace("gone").removeAll()
        try cache.namespace("kept").removeAll(tagged: "tag")
        _ = cache.removeExpired()
        cache.trim(toCount: 9_000)
        try cache.flush()
        for number in 0..<count {
            let isKept = number % 3 == 2 && number % 2 == 0
            let space = number % 3 == 0 ? "gone" : "kept"
            #expect(cache.namespace(space).hasValue(forKey: "\(number)") == isKept, "\(number), \(loss)")
        }
        #expect(cache.statistics.evictions.total == 0)
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "a renewed entry is not deleted because an outdated line says that it has expired",
        arguments: Sample.few(2, of: Loss.allCases))
    func renewed(loss: Loss) throws {
        var world = World { $0.sweepInterval = .seconds(60) }
        var cache = try world.open()
        for number in 0..<20 { try cache.setString("v", forKey: "\(number)", ttl: .seconds(30)) }
        try cache.flush()
        for number in 0..<20 { try cache.setTimeToLive(.forever, forKey: "\(number)") }
        try loss.apply(to: &world)
        world.clock.advance(by: .seconds(100))
        cache = try world.open()
        world.files.holdingOtherReaders {
            for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v") }
            // A sweep that runs before anything is reconciled.
            world.clock.advance(by: .seconds(61))
        }
        try cache.flush()
        for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v") }
        cache.checkInvariants(world, settled: true)
    }

    @Test("a shortened life ends in time although its line is damaged", arguments: Sample.few(2, of: Loss.allCases))
    func shortened(loss: Loss) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<50 { try cache.setString("v", forKey: "\(number)") }
        try cache.flush()
        for number in 0..<50 { try cache.setTimeToLive(.seconds(1), forKey: "\(number)") }
        try loss.apply(to: &world)
        world.clock.advance(by: .seconds(2))
        cache = try world.open()
        world.files.holdingOtherReaders {
            for number in 0..<50 {
                #expect(cache.string(forKey: "\(number)") == nil && !cache.hasValue(forKey: "\(number)"))
            }
        }
        #expect(cache.keys() == [])
        try cache.flush()
        #expect(cache.count == 0)
    }

    @Test("memory does not serve a value longer than its file says", arguments: Sample.few(2, of: Loss.allCases))
    func promoted(loss: Loss) async throws {
        var world = World { $0.sweepInterval = nil }
        let disk = try world.open().namespace("n")
        try disk.setValue("v", forKey: "k")
        try disk.flush()
        try disk.setTimeToLive(.seconds(10), forKey: "k")
        try loss.apply(to: &world)
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        #expect(await cache.value(forKey: "k") == "v")
        world.clock.advance(by: .seconds(11))
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("a set-if-absent does not replace a value that the opening found in its file")
    func ifNotFresh() throws {
        var world = try overwritten(200)
        world.remove(try world.journal)
        let cache = try world.open()
        let store = cache.store
        try world.files.holdingOtherReaders {
            for number in 0..<200 {
                let request = SetRequest(
                    key: Key("\(number)"), life: .forever, attachments: nil, now: world.clock.now,
                    condition: .ifNotFresh)
                let isStored = try Array("import".utf8).withBytes { try store.set($0, request) }
                #expect(!isStored, "\(number)")
            }
        }
        try cache.flush()
        expectNewest(cache, 200, "")
    }

    @Test("a removal does not wait for background work, and its tombstone is deleted once every file is known")
    func removedAtOnce() throws {
        var world = try overwritten(Self.many)
        world.remove(try world.journal)
        world.remove("manifest.json")
        let cache = try world.files.holdingOtherReaders {
            let cache = try world.open()
            let calls = world.files.calls
            try cache.removeValue(forKey: "7")
            #expect(world.files.calls - calls < 16, "independent of the number of files")
            #expect(world.entryFiles.contains { $0.hasPrefix("40") })
            return cache
        }
        try cache.flush()
        #expect(!world.entryFiles.contains { $0.hasPrefix("40") })
        #expect(!cache.hasValue(forKey: "7") && cache.count == Self.many - 1)
        cache.checkInvariants(world, settled: true)
    }

    @Test("on a full disk a removal without room for a tombstone waits until none is needed")
    func removedOnFullDisk() throws {
        var world = try overwritten(Self.many)
        world.remove("manifest.json")
        world.remove(try world.journal)
        let cache = try world.open()
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        try cache.removeValue(forKey: "7")
        world.files.inject(nil)
        try cache.flush()
        #expect(!cache.hasValue(forKey: "7") && cache.count == Self.many - 1)
    }

    @Test("an entry with a number below an unreadable file's is a miss until that file is readable")
    func unreadable() throws {
        var world = try overwritten(20)
        world.remove(try world.journal)
        // The newest file: the new value of "18".
        let newest = try #require(world.entryFiles.last)
        world.files.setUnreadable(true, at: "/cache/entries/" + newest)
        let cache = try world.open()
        for _ in 0..<2 {
            for number in 0..<20 {
                #expect(cache.string(forKey: "\(number)") == nil, "any of them may have been replaced")
            }
            #expect(cache.keys() == [])
            try cache.flush()
        }
        try cache.setString("fresh", forKey: "3")
        #expect(cache.string(forKey: "3") == "fresh" && cache.keys() == ["3"])
        #expect(cache.statistics.failures > 0)
        world.files.setUnreadable(false, at: "/cache/entries/" + newest)
        try cache.removeValue(forKey: "3")
        try cache.setString("old", forKey: "3")
        try cache.flush()
        expectNewest(cache, 20, "readable again")
        cache.checkInvariants(world, settled: true)
    }

    @Test("the number of a renewal recorded only in the file is not reused")
    func changeNumbers() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .hours(1))
        try cache.flush()
        try cache.setTimeToLive(.days(9), forKey: "k")
        try world.damage(try world.journal) { $0[$0.count - 8] ^= 4 }
        cache = try world.open()
        #expect(try cache.setTimeToLive(.seconds(1), forKey: "k"))
        world.restart()
        world.clock.advance(by: .seconds(2))
        cache = try world.open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil && cache.count == 0)
    }

    @Test("a fetch reads no file on Swift's executor while the index is provisional")
    func fetchAsksNoFile() throws {
        var world = World { $0.sweepInterval = nil }
        let disk = try world.open().namespace("n")
        for number in 0..<8 { try disk.setValue("v", forKey: "\(number)") }
        try disk.flush()
        world.remove(try world.journal)
        let again = try world.open().namespace("n")
        let own = pthread_self()
        let calls = Lock(0)
        world.files.inject { _, _ in
            if pthread_self() == own { calls.withLock { $0 += 1 } }
            return nil
        }
        for number in 0..<8 { _ = again.store.recovery.knownEntry(again.key("\(number)"), at: world.clock.now) }
        #expect(calls.withLock { $0 } == 0)
        world.files.inject(nil)
    }

    @Test("an unreadable file does not make the directory foreign")
    func unreadableProof() throws {
        var world = World()
        let cache = try world.open()
        for number in 0..<3 { try cache.setString("v", forKey: "\(number)") }
        world.remove(try world.journal)
        let readable = 1
        for (number, name) in world.entryFiles.enumerated() where number != readable {
            world.files.setUnreadable(true, at: "/cache/entries/" + name)
        }
        let again = try world.open()
        try again.setString("w", forKey: "new")
        #expect(again.string(forKey: "new") == "w")
    }

    @Test("an opening without descriptors fails clearly, and the next one has everything")
    func noDescriptors() throws {
        var world = try overwritten(20)
        world.remove(try world.journal)
        world.failRead(1, with: .tooManyOpenFiles)
        #expect(code { try world.open() } == .io)
        world.files.inject(nil)
        expectNewest(try world.open(), 20, "")
    }

    @Test(
        "a stray file with a large number does not use up the numbers",
        arguments: ["0020000000000000", "001fffffffffffff"])
    func strayNumber(name: String) throws {
        var world = try overwritten(4)
        world.remove(try world.journal)
        var image = world.files.image
        image.add([], at: "/cache/entries/" + name)
        world.restart(with: image)
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.removeAll()
        try cache.setString("w", forKey: "k")
        #expect(cache.store.info.lastTaken < 1 << 30)
        // With another that can be neither read nor proven: it makes no entry a miss.
        image = world.files.image
        image.add([1], at: "/cache/entries/" + name)
        image.remove(at: "/cache/" + (try world.journal))
        world.restart(with: image)
        world.files.setUnreadable(true, at: "/cache/entries/" + name)
        cache = try world.open()
        #expect(cache.string(forKey: "k") == "w")
        try cache.setString("x", forKey: "k")
        #expect(cache.string(forKey: "k") == "x" && cache.store.info.lastTaken < 1 << 30)
    }
}
