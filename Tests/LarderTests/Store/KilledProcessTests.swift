import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Promise 3: a killed process loses nothing")
struct KilledProcessTests {
    @Test("a value stored by a returned call survives a kill, long before any save")
    func storedBeforeSave() throws {
        var world = World()
        let cache = try world.open()
        for number in 0..<200 { try cache.setString("v\(number)", forKey: "k\(number)") }
        try cache.setTimeToLive(.hours(1), forKey: "k7")
        #expect(!world.names.contains("manifest.json"))
        world.restart()
        let again = try world.open()
        for number in 0..<200 { #expect(again.string(forKey: "k\(number)") == "v\(number)") }
        #expect(again.entry(forKey: "k7")?.expiresAt == world.clock.date.addingTimeInterval(3600))
        again.checkInvariants()
    }

    @Test("the manifest is saved half a second after the first change, however many follow")
    func debounce() throws {
        let world = World()
        let cache = try world.open()
        try cache.setString("v", forKey: "0")
        for number in 1..<6 {
            world.clock.advance(by: .milliseconds(90))
            try cache.setString("v", forKey: "\(number)")
        }
        #expect(!world.names.contains("manifest.json"))
        world.clock.advance(by: .milliseconds(50))
        cache.settle()
        let names = ["CACHEDIR.TAG", "entries", "journal-0000000000000002.jsonl", "manifest.json", "shared"]
        #expect(world.names == names)
        let manifest = try #require(world.files.image.content(at: "/cache/manifest.json"))
        let json = try #require(try JSONSerialization.jsonObject(with: Data(manifest)) as? [[String: Any]])
        #expect(Set(json.dropFirst().compactMap { $0["k"] as? String }) == ["0", "1", "2", "3", "4", "5"])
    }

    @Test("after a flush only the entries, one manifest, one journal, the page and the tag are left")
    func nothingLeftBehind() throws {
        var world = World()
        var cache = try world.open()
        for round in 0..<5 {
            for number in 0..<40 { try cache.setString("\(round)", forKey: "\(number)") }
            for number in 30..<40 { try cache.removeValue(forKey: "\(number)") }
            if round % 2 == 0 { try cache.flush() }
            world.restart()
            cache = try world.open()
        }
        try cache.flush()
        #expect(world.names.count == 5 && world.entryFiles.count == 30)
        cache.checkInvariants(world, settled: true)
    }

    @Test("after a clean close, marked by the last record, the next opening lists no entries")
    func cleanClose() throws {
        var world = World()
        let cache = try world.open()
        for number in 0..<10 { try cache.setString("v", forKey: "\(number)") }
        try cache.close()
        let journal = String(
            decoding: try #require(world.files.image.content(at: "/cache/\(world.journal)")), as: UTF8.self)
        #expect(journal.contains(#"{"o":"closed""#))
        world.restart()
        let lists = CallCounter()
        world.files.inject(lists.count)
        let again = try world.open()
        again.settle()
        #expect(lists.number(of: .list) == 1, "the directory itself, not the entries")
        #expect(again.count == 10)
        _ = again.data(forKey: "1")
        #expect(try !again.removeValue(forKey: "none") && !again.setTimeToLive(.days(2), forKey: "none"))
        world.clock.advance(by: .seconds(60))
        again.settle()
        try again.close()
        #expect(
            lists.number(of: .write) == 0 && lists.number(of: .truncate) == 0,
            "a session without changes writes nothing, not even in its sweeps")
    }

    @Test("the sweep saves last uses that are a minute newer than on disk")
    func lastUse() throws {
        var world = World()
        let cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .forever)
        world.clock.advance(by: .seconds(59))
        _ = cache.string(forKey: "k")
        world.clock.advance(by: .seconds(2))
        let used = world.clock.date
        _ = cache.string(forKey: "k")
        world.clock.advance(by: .seconds(60))
        cache.settle()
        world.restart()
        #expect(try world.open().entry(forKey: "k")?.lastUsedAt == used)
    }

    @Test("every minute the sweep removes expired entries, with one event for many")
    func sweep() throws {
        let log = EventLog()
        let world = World { $0.onEvent = log.note }
        let cache = try world.open()
        for number in 0..<100 { try cache.setString("v", forKey: "\(number)", ttl: .seconds(Double(number + 1))) }
        world.clock.advance(by: .seconds(60))
        cache.settle()
        #expect(cache.count == 40 && world.entryFiles.count == 40)
        let expired = log.events(of: cache).filter { $0.kind == .expired }
        #expect(expired.reduce(0) { $0 + $1.count } == 60 && expired.count <= Index.shardCount)
        world.clock.advance(by: .seconds(60))
        cache.settle()
        #expect(cache.count == 0 && world.entryFiles.isEmpty)
        cache.checkInvariants()
    }

    @Test("an opening recounts the journal's records, so repeated kills do not make it grow forever")
    func recounted() throws {
        var world = World()
        for round in 0..<30 {
            let cache = try world.open()
            // Large enough that only changes to a quarter of the entries are worth a save.
            if round == 0 { for number in 0..<1200 { try cache.setString("v", forKey: "\(number)") } }
            for number in 0..<40 { try cache.setString("\(round)", forKey: "\(number)") }
            world.clock.advance(by: .seconds(1))
            cache.settle()
            world.restart()
        }
        let journals = world.names.filter { $0.hasPrefix("journal") }
        let lines = journals.reduce(0) { sum, name in
            sum + (world.files.image.content(at: "/cache/" + name) ?? []).filter { $0 == UInt8(ascii: "\n") }.count
        }
        #expect(lines < 1200 / 4 + 100, "thirty rounds of forty changes, and a save after each three hundred")
        #expect(try world.open().count == 1200)
    }

    @Test(
        "an opening purges expired entries: of a small index at once, of a large one in the background",
        arguments: [3, 512])
    func purgeOnOpen(entriesPerGroup: Int) throws {
        var world = World { $0.entriesPerGroup = entriesPerGroup }
        let cache = try world.open()
        for number in 0..<60 {
            try cache.setString("v", forKey: "\(number)", ttl: .seconds(number % 2 == 0 ? 10 : 1000))
        }
        try cache.close()
        world.restart()
        world.clock.advance(by: .seconds(10))
        let log = EventLog()
        world.configuration.onEvent = log.note
        let again = try world.open()
        if entriesPerGroup < 60 { again.settle() }
        #expect(again.count == 30 && again.statistics.expirations == 30)
        try again.flush()
        #expect(world.entryFiles.count == 30)
        #expect(log.events(of: again).first?.kind == .expired)
        again.checkInvariants(world, settled: true)
    }
}
