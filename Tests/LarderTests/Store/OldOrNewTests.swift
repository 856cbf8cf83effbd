import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Promise 2: old or new")
struct OldOrNewTests {
    @Test("the next read sees a set, through every handle")
    func readYourWrites() throws {
        let world = World.grouped()
        let one = try world.open()
        let other = try world.open()
        for version in 0..<100 {
            try one.setString("\(version)", forKey: "k")
            #expect(other.string(forKey: "k") == "\(version)" && one.string(forKey: "k") == "\(version)")
        }
        try other.removeValue(forKey: "k")
        #expect(one.string(forKey: "k") == nil)
    }

    @Test("set, remove and set again of one key keep their order after a restart")
    func order() throws {
        var world = World.grouped()
        var cache = try world.open()
        try cache.setString("1", forKey: "k")
        try cache.removeValue(forKey: "k")
        try cache.setString("2", forKey: "k")
        try cache.setString("gone", forKey: "g")
        try cache.removeValue(forKey: "g")
        for _ in 0..<3 {
            world.restart()
            cache = try world.open()
            try cache.flush()
            #expect(cache.string(forKey: "k") == "2" && cache.string(forKey: "g") == nil && cache.count == 1)
        }
    }

    @Test("a removed value does not come back, even when the index is lost with the process")
    func removedStaysRemoved() throws {
        var world = World.grouped()
        let cache = try world.open()
        for version in 0..<5 { try cache.setString("\(version)", forKey: "k") }
        try cache.removeValue(forKey: "k")
        #expect(world.entryFiles == [], "the replaced files that waited are deleted too")
        world.remove("journal-0000000000000001.jsonl")
        let again = try world.open()
        try again.flush()
        #expect(again.string(forKey: "k") == nil && again.count == 0)
    }

    @Test("a removal during the scan is not undone when the scan finds older files")
    func removedBeforeReconciled() throws {
        var world = World.grouped()
        try world.open().setString("v", forKey: "k")
        world.remove("journal-0000000000000001.jsonl")
        let cache = try world.open()
        // Found already or not, the file is dead from here on.
        try cache.removeValue(forKey: "k")
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil)
        world.restart()
        let again = try world.open()
        try again.flush()
        #expect(again.string(forKey: "k") == nil && world.entryFiles == [])
    }

    @Test("a removed key stays removed through saves while an old file of it is unreadable and undeletable")
    func removedWithResidue() throws {
        var world = World.grouped()
        var cache = try world.open()
        try cache.setString("old", forKey: "k")
        try cache.setString("new", forKey: "k")
        world.remove(try world.journal)
        // The replaced file still exists and is unreadable.
        world.failRead(2)
        cache = try world.open()
        cache.settle()
        world.files.inject(nil)
        #expect(cache.statistics.failures == 1 && cache.store.provisional.update { $0.unreadable == [FileID(1)] })
        try cache.removeValue(forKey: "k")
        for number in 0..<20 { try cache.setString("v", forKey: "\(number)") }
        try cache.flush()
        try cache.close()
        world.restart()
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil && cache.count == 20)
        cache.checkInvariants(world, settled: true)
    }

    @Test("a cleared cache stays cleared")
    func cleared() throws {
        var world = World.grouped()
        let cache = try world.open()
        for number in 0..<50 { try cache.setString("v", forKey: "\(number)") }
        try cache.removeAll()
        try cache.setString("new", forKey: "1")
        world.restart()
        let again = try world.open()
        try again.flush()
        #expect(again.keys() == ["1"] && again.string(forKey: "1") == "new")
        #expect(world.files.image.names(at: "/cache/trash") == [])
        again.checkInvariants(world, settled: true)
    }

    @Test("a new life applies at once and after a restart, shorter or longer", arguments: [5, 500] as [Double])
    func renewal(seconds: Double) throws {
        var world = World.grouped()
        var cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .seconds(50), metadata: ["a": "b"])
        let file = try #require(world.files.image.content(at: "/cache/entries/0000000000000001"))
        #expect(try cache.setTimeToLive(.seconds(seconds), forKey: "k"))
        let renewed = try #require(world.files.image.content(at: "/cache/entries/0000000000000001"))
        let slot = file.count - 64..<file.count - 32
        #expect(renewed.count == file.count && renewed[..<slot.lowerBound] == file[..<slot.lowerBound])
        #expect(renewed[slot.upperBound...] == file[slot.upperBound...] && renewed[slot] != file[slot])
        let expiry = world.clock.date.addingTimeInterval(seconds)
        #expect(cache.entry(forKey: "k")?.expiresAt == expiry)
        world.restart()
        #expect(try world.open().entry(forKey: "k")?.expiresAt == expiry)
        // The footers alone prove it, too.
        world.remove("journal-0000000000000001.jsonl")
        cache = try world.open()
        try cache.flush()
        #expect(cache.entry(forKey: "k")?.expiresAt == expiry && cache.entry(forKey: "k")?.metadata == ["a": "b"])
        world.clock.advance(by: .seconds(seconds))
        #expect(cache.string(forKey: "k") == nil)
    }

    @Test("a use noted before a life was shortened does not extend it, whichever of the two the manifest has")
    func useBeforeRenewal() throws {
        let key = Key("a/b")
        var saved = RecordTests.entry
        saved.change = 20
        saved.life = Life(expires: saved.stored.advanced(byMilliseconds: 5), ttl: 5)
        let journal: [Record] = [
            .set(RecordTests.entry),
            .used(key: "a/b", file: 17, change: 17, at: saved.stored, expires: RecordTests.entry.life.expires),
            .life(key: "a/b", file: 17, change: 20, saved.life),
        ]
        // The manifest was copied after all of these records; its journal begins with any of them.
        for first in journal.indices {
            var shard = Shard()
            for record in [.set(saved)] + journal[first...] { _ = shard.apply(record, of: key) }
            #expect(shard.table.entry(key)?.life == saved.life)
        }
    }

    @Test("only a fresh entry gets a new life, and a zero life removes it")
    func renewalOfNothing() throws {
        let world = World.grouped()
        let cache = try world.open()
        #expect(try !cache.setTimeToLive(.days(1), forKey: "k"))
        try cache.setString("v", forKey: "k", ttl: .seconds(1))
        world.clock.advance(by: .seconds(1))
        #expect(try !cache.setTimeToLive(.days(1), forKey: "k"))
        #expect(cache.string(forKey: "k") == nil)
        try cache.setString("v", forKey: "k")
        #expect(try cache.setTimeToLive(.seconds(0), forKey: "k"))
        #expect(cache.string(forKey: "k") == nil && world.entryFiles == [])
    }

    @Test("a reader whose file a writer replaces reads the new file")
    func overtakenReader() throws {
        let world = World.grouped()
        let cache = try world.open()
        try cache.setString("old", forKey: "k")
        try cache.setString("new", forKey: "other")
        let (key, other) = (Key("k"), Key("other"))
        var replacement = try #require(cache.store.index.withShard(of: other) { $0.table.entry(other) })
        replacement.keyText = "k"
        // The writer intervenes between look-up and opening, when the old file has already been deleted.
        let (entry, index) = (replacement, cache.store.index)
        world.files.inject { call, _ in
            guard call == 1 else { return nil }
            index.withShard(of: key) { _ = $0.table.publish(entry, for: key) }
            return .fail(.noEntry)
        }
        #expect(cache.string(forKey: "k") == "new")
        let statistics = cache.statistics
        #expect(statistics.hits == 1 && statistics.misses == 0 && statistics.losses == 0)
    }
}
