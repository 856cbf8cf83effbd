import Foundation
import LarderTesting
import Testing

@testable import Larder

@Suite("Promise 4: the entry files are the truth", .storm)
struct FilesAreTheTruthTests {
    private static func filled(close: Bool = false) throws -> World {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<4 { try cache.setString("v\(number)", forKey: "k\(number)", metadata: ["n": "\(number)"]) }
        try cache.flush()
        try cache.setString("w1", forKey: "k1")
        try cache.removeValue(forKey: "k2")
        try cache.setTimeToLive(.hours(1), forKey: "k3")
        try cache.setTimeToLive(.days(3), forKey: "k0")
        cache.settle()
        if close { try cache.close() }
        return world
    }

    private func expectAll(_ world: World, _ context: Comment) throws {
        let cache = try world.open()
        try cache.flush()
        #expect(Set(cache.keys()) == ["k0", "k1", "k3"], context)
        #expect(cache.string(forKey: "k0") == "v0" && cache.string(forKey: "k1") == "w1", context)
        #expect(cache.string(forKey: "k3") == "v3" && cache.entry(forKey: "k3")?.metadata == ["n": "3"], context)
        #expect(cache.entry(forKey: "k3")?.expiresAt == world.clock.date.addingTimeInterval(3600), context)
        #expect(cache.entry(forKey: "k0")?.expiresAt == world.clock.date.addingTimeInterval(3 * 86_400), context)
        cache.checkInvariants(world, settled: true)
    }

    @Test("entries survive the deletion of manifest and journals, in every combination", arguments: 0..<4)
    func deleted(combination: Int) throws {
        var world = try Self.filled(close: combination == 3)
        if combination != 1 { world.remove("manifest.json") }
        if combination != 0 { world.remove(try world.journal) }
        try expectAll(world, "combination \(combination)")
    }

    @Test("entries survive a manifest truncated at any byte", arguments: [false, true])
    func manifestTruncated(closed: Bool) throws {
        try forEachDamage(of: "manifest.json", closed: closed, truncations: true)
    }

    @Test("entries survive a manifest with any bit flipped", arguments: [false, true])
    func manifestFlipped(closed: Bool) throws {
        try forEachDamage(of: "manifest.json", closed: closed, truncations: false)
    }

    @Test("entries survive a journal truncated at any byte", arguments: [false, true])
    func journalTruncated(closed: Bool) throws {
        try forEachDamage(of: nil, closed: closed, truncations: true)
    }

    @Test("entries survive a journal with any bit flipped", arguments: [false, true])
    func journalFlipped(closed: Bool) throws {
        try forEachDamage(of: nil, closed: closed, truncations: false)
    }

    /// Whatever the damage to the index, the cache opens and has every entry with a valid footer, with its last life.
    private func forEachDamage(of name: String?, closed: Bool, truncations: Bool) throws {
        let original = try Self.filled(close: closed)
        let name = if let name { name } else { try original.journal }
        let content = original.files.image.content(at: "/cache/" + name) ?? []
        #expect(content.count > 80)
        for position in Sample.of(content.indices) {
            // Every bit once; in the other state of the journal, one bit of every byte.
            let bits = truncations ? 0..<1 : closed ? position % 8..<position % 8 + 1 : 0..<8
            for bit in bits {
                var world = original
                try world.damage(name) { bytes in
                    if truncations { bytes = Array(bytes.prefix(position)) } else { bytes[position] ^= 1 << bit }
                }
                // It looks as if the process had ended before the record: where others go on, the change was not made.
                let lineFeed = UInt8(ascii: "\n")
                let isInHeader = !content[..<position].dropLast().contains(lineFeed)
                let isBetweenLines = content[position] == lineFeed || isInHeader
                let mayLackLast = truncations && !closed && isBetweenLines
                try expectSurvivors(world, "\(name), byte \(position), bit \(bit)", mayLackLast: mayLackLast)
            }
        }
    }

    /// A lost remove record cannot bring the value back, because its file has been deleted. A lost renewal is read from
    /// the slot in the file if the entry is lost too; while the manifest still has the entry, the life before the
    /// renewal may apply again.
    private func expectSurvivors(_ world: World, _ context: Comment, mayLackLast: Bool) throws {
        let cache = try world.open()
        try cache.flush()
        #expect(Set(cache.keys()) == ["k0", "k1", "k3"], context)
        let last = cache.string(forKey: "k1")
        #expect(
            cache.string(forKey: "k0") == "v0" && (last == "w1" || mayLackLast && [nil, "v1"].contains(last)), context)
        #expect(cache.string(forKey: "k3") == "v3" && cache.string(forKey: "k2") == nil, context)
        cache.checkInvariants(world, settled: true)
    }

    @Test("a damaged footer costs at most its own entry, and only when the index is lost")
    func footerDamage() throws {
        let original = try Self.filled()
        let name = "entries/0000000000000001"
        let content = try #require(original.files.image.content(at: "/cache/" + name))
        for position in Sample.of(content.indices.dropFirst(2)) {
            for bit in 0..<9 {
                var world = original
                try world.damage(name) { bytes in
                    if bit == 8 { bytes = Array(bytes.prefix(position)) } else { bytes[position] ^= 1 << bit }
                }
                let cache = try world.open()
                #expect(cache.string(forKey: "k0") == "v0", "the index has enough information")
                world.remove("manifest.json")
                world.remove(try world.journal)
                let rebuilt = try world.open()
                try rebuilt.flush()
                #expect([nil, "v0"].contains(rebuilt.string(forKey: "k0")))
                #expect(rebuilt.string(forKey: "k1") == "w1" && rebuilt.string(forKey: "k3") == "v3")
                rebuilt.checkInvariants()
            }
        }
    }

    @Test("entries whose files another program deleted are forgotten at the next read or reconciliation")
    func filesDeleted() throws {
        var world = try Self.filled(close: true)
        world.remove("entries/0000000000000001")
        let cache = try world.open()
        #expect(cache.count == 3 && cache.string(forKey: "k0") == nil && cache.count == 2)
        #expect(cache.statistics.losses == 1)
        world.remove("entries/0000000000000004")
        let again = try world.open()
        #expect(!again.hasValue(forKey: "k3"), "until reconciliation, hasValue checks the file")
        try again.flush()
        #expect(again.keys() == ["k1"])
    }

    @Test("an intact payload is not deleted for its damaged footer, and the longest record is found again")
    func mentionedFooter() throws {
        var world = World()
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        let longest = ["m": String(repeating: "x", count: (1 << 20) - 128 - 152)]
        try cache.setString("long", forKey: "l", metadata: longest)
        try cache.flush()
        try world.damage("entries/0000000000000001") { $0[$0.count - 30] ^= 1 }
        try world.damage(try world.journal) { $0 += Array("\n{\"k\":\"torn".utf8) }
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == "v" && cache.count == 2)
        world.loseIndex()
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "l") == "long" && cache.entry(forKey: "l")?.metadata == longest)
    }

    private static let newerHeader = #"{"larder":\#(Record.lastVersion + 1)"#

    @Test("a directory in a newer format without entries is not filled")
    func newerWithoutEntries() throws {
        var world = try Self.filled()
        try world.damage("manifest.json") { $0 = Array(("[" + RecordTests.checked(Self.newerHeader) + "\n").utf8) }
        world.remove("entries")
        #expect(code { try world.open() } == .newerFormat)
        #expect(!world.names.contains("entries"))
    }

    @Test("an entry file in a newer format is left alone")
    func newerEntry() throws {
        var world = try Self.filled()
        try world.damage("entries/0000000000000001") { $0[$0.count - 2] = UInt8(ascii: "9") }
        world.remove("manifest.json")
        world.remove(try world.journal)
        let cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k0") == nil && world.entryFiles.contains("0000000000000001"))
    }

    @Test(
        "a newer manifest or journal is refused and left untouched",
        arguments: ["manifest.json", "journal-0000000000000002.jsonl"])
    func newerFormat(name: String) throws {
        var world = try Self.filled()
        let start = name.hasPrefix("m") ? "[" : ""
        let record = RecordTests.checked(Self.newerHeader + #","new":true"#)
        try world.damage(name) { $0 = Array((start + record + "\n").utf8) }
        let before = world.files.image
        #expect(code { try world.open() } == .newerFormat)
        // The page belongs to those that live.
        for path in world.names where path != "shared" {
            #expect(world.files.image.content(at: "/cache/" + path) == before.content(at: "/cache/" + path))
        }
        #expect(world.names == before.names(at: "/cache") && world.entryFiles == before.names(at: "/cache/entries"))
        #expect(world.files.openCount == 0, "the lock is free again")
    }
}
