import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Each test acts first, and flushes afterwards.
@Suite("Damaged segments", .storm)
struct SegmentDamageTests {
    private static func value(_ number: Int) -> String { "value \(number)" }

    /// A closed or killed cache with one segment.
    private func filled(isClosed: Bool, _ count: Int = 20) throws -> (world: World, segment: String) {
        var world = SegmentTests.world()
        let cache = try world.open()
        for number in 0..<count { try cache.setString(Self.value(number), forKey: "\(number)", ttl: .forever) }
        if isClosed { try cache.close() }
        world.restart()
        return (world, "entries/segments/" + (try #require(world.segments.first)))
    }

    /// Checks that each key has its own value or none, and returns the number of values.
    private func readAll(_ cache: DiskCache, _ count: Int, _ context: Comment) throws -> Int {
        var found = 0
        for number in 0..<count {
            guard let value = cache.string(forKey: "\(number)") else { continue }
            #expect(value == Self.value(number), context)
            found += 1
        }
        return found
    }

    @Test("a flipped bit costs at most the entry that it is in", arguments: [false, true], [false, true])
    func flippedBit(isClosed: Bool, losesIndex: Bool) throws {
        let (intact, segment) = try filled(isClosed: isClosed)
        let length = try #require(intact.files.image.content(at: "/cache/" + segment)).count
        var generator = RunSeed.generator()
        for position in [0, 17, 25, 33, 41, 57, 65, 90]
            + (0..<Sample.size(60, usually: 12)).map({ _ in Int.random(in: 0..<length, using: &generator) })
        {
            var world = intact
            try world.damage(segment) { $0[position] ^= 1 << UInt8.random(in: 0...7, using: &generator) }
            if losesIndex { world.loseIndex() }
            let cache = try world.open()
            let found = try readAll(cache, 20, "byte \(position)")
            #expect(found >= 19, "byte \(position)")
            try cache.setString("new", forKey: "0")
            try cache.removeValue(forKey: "1")
            #expect(cache.string(forKey: "0") == "new" && cache.string(forKey: "1") == nil)
            try cache.close()
            world.loseIndex()
            let again = try world.open()
            #expect(again.string(forKey: "0") == "new" && again.string(forKey: "1") == nil, "byte \(position)")
        }
    }

    @Test("a truncated segment costs the entries behind its end", arguments: [false, true])
    func truncated(losesIndex: Bool) throws {
        let (intact, segment) = try filled(isClosed: true)
        let length = try #require(intact.files.image.content(at: "/cache/" + segment)).count
        for kept in stride(from: 0, to: length, by: 101) {
            var world = intact
            try world.damage(segment) { $0.removeLast($0.count - kept) }
            if losesIndex { world.loseIndex() }
            // Without the index nothing but a header proves that the directory is a cache.
            if losesIndex, kept < 64 { continue }
            let cache = try world.open()
            let found = try readAll(cache, 20, "\(kept) bytes")
            #expect(found >= (kept - SegmentFormat.start) / 320 - 1 && found <= 20 * kept / length + 1, "\(kept) bytes")
            try cache.setString("new", forKey: "new")
            try cache.flush()
            #expect(cache.string(forKey: "new") == "new")
            cache.settle()
            cache.checkInvariants(world)
        }
    }

    @Test("a payload that holds a whole entry is no entry")
    func forged() throws {
        var (world, segment) = try filled(isClosed: true, 1)
        let content = try #require(world.files.image.content(at: "/cache/" + segment))
        let entry = Array(content[SegmentFormat.start...])
        world.configuration.inlineThreshold = 1 << 10
        var cache = try world.open()
        // At every distance from the beginning of an entry.
        for padding in 0..<Place.unit {
            try cache.setData(Data([UInt8](repeating: 0, count: padding) + entry), forKey: "forger \(padding)")
        }
        try cache.removeValue(forKey: "0")
        // Without their headers, a scan looks at every unit of the payloads.
        let places = (0..<Place.unit).compactMap { cache.store.index.entry(Key("forger \($0)"))?.file.place }
        #expect(places.count == Place.unit && places.allSatisfy(\.isInSegment))
        try world.damage(segment) { bytes in
            for place in places { bytes[place.offset + 50] ^= 1 }
        }
        world.loseIndex()
        cache = try world.open()
        #expect(cache.count == 0 && cache.string(forKey: "0") == nil)
    }

    @Test("two segments that were swapped return nothing of each other", arguments: [false, true])
    func swapped(losesIndex: Bool) throws {
        let (closed, first) = try filled(isClosed: true)
        var world = closed
        // The first segment is in use elsewhere, so another one is begun.
        let holder = try world.files.openDirectory(path: "/cache/entries/segments", creation: .never)
        let file = try world.files.open(.text(String(first.suffix(16))), in: holder, for: .reading)
        _ = try world.files.lock(file)
        let cache = try world.open()
        for number in 20..<40 { try cache.setString(Self.value(number), forKey: "\(number)", ttl: .forever) }
        try cache.close()
        let names = world.segments
        #expect(names.count == 2)
        var image = world.files.image
        let contents = names.map { image.content(at: "/cache/entries/segments/" + $0) ?? [] }
        image.setContent(contents[1], at: "/cache/entries/segments/" + names[0])
        image.setContent(contents[0], at: "/cache/entries/segments/" + names[1])
        world.restart(with: image)
        if losesIndex { for name in world.names where name.hasPrefix("manifest") { world.remove(name) } }
        let again = try world.open()
        #expect(try readAll(again, 40, "swapped") == 0)
        try again.setString("new", forKey: "0")
        #expect(again.string(forKey: "0") == "new")
    }

    @Test("a segment of a newer version is left alone")
    func newer() throws {
        var (world, segment) = try filled(isClosed: true)
        try world.damage(segment) { bytes in
            for begin in [0, 64] { bytes[begin + 14] = UInt8(ascii: "2") }
        }
        let before = world.files.image.content(at: "/cache/" + segment)
        for name in world.names where name.hasPrefix("manifest") { world.remove(name) }
        let cache = try world.open()
        #expect(try readAll(cache, 20, "newer") == 0)
        try cache.setString("new", forKey: "0")
        try cache.removeValue(forKey: "1")
        try cache.close()
        #expect(world.files.image.content(at: "/cache/" + segment) == before)
        #expect(world.segments.count == 2)
    }
}
