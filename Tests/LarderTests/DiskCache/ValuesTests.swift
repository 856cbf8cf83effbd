import Foundation
import LarderTesting
import Testing

@testable import Larder

@Suite("Values come back as they were stored")
struct ValuesTests {
    struct User: Codable, Equatable {
        var name: String
        var age: Int?
    }

    @Test("bytes of every size", arguments: [0, 1, 14, 15, 100, 4096, 100_000, 1 << 20])
    func bytes(count: Int) throws {
        var world = World()
        var generator = SeededGenerator(seed: UInt64(count))
        let bytes = Data(generator.bytes(count))
        try world.open().setData(bytes, forKey: "k")
        world.restart()
        let cache = try world.open()
        #expect(cache.data(forKey: "k") == bytes)
        #expect(cache.payloadSize == count && cache.entry(forKey: "k")?.payloadSize == count)
    }

    @Test("slices of data, strings, and Codable values down to a bare number")
    func kinds() throws {
        let cache = try World().open()
        try cache.setData(Data("abcdef".utf8)[2..<4], forKey: "slice")
        #expect(cache.data(forKey: "slice") == data("cd"))
        try cache.setString("é🍎\u{0}", forKey: "string")
        #expect(cache.string(forKey: "string") == "é🍎\u{0}")
        try cache.setValue(User(name: "Ann", age: nil), forKey: "user")
        #expect(cache.value(User.self, forKey: "user") == User(name: "Ann", age: nil))
        try cache.setValue(7, forKey: "int")
        #expect(cache.value(Int.self, forKey: "int") == 7)
        try cache.setValue(["a": [1, 2]], forKey: "nested")
        #expect(cache.value([String: [Int]].self, forKey: "nested") == ["a": [1, 2]])
    }

    @Test("a value without a JSON form is refused, and the old one kept")
    func unencodable() throws {
        let cache = try World().open()
        try cache.setValue(1.0, forKey: "k")
        #expect(code { try cache.setValue(Double.nan, forKey: "k") } == .unencodable)
        #expect(cache.value(Double.self, forKey: "k") == 1)
    }

    @Test("metadata and dates are available without reading the value")
    func entry() throws {
        var world = World()
        let start = world.clock.date
        var cache = try world.open()
        let metadata = ["etag": "\"abc\"", "": "é\n", "e\u{301}": "x"]
        try cache.setString("hello", forKey: "k", ttl: .minutes(10), metadata: metadata)
        world.clock.advance(by: .seconds(5))
        for _ in 0..<2 {
            let entry = try #require(cache.entry(forKey: "k"))
            #expect(entry.key == "k" && entry.payloadSize == 5 && entry.metadata == metadata)
            #expect(entry.storedAt == start && entry.lastUsedAt == start)
            #expect(entry.expiresAt == start.addingTimeInterval(600))
            world.restart()
            cache = try world.open()
        }
        #expect(cache.string(forKey: "k") == "hello")
        #expect(cache.entry(forKey: "k")?.lastUsedAt == world.clock.date)
        #expect(cache.entries().map(\.key) == ["k"] && cache.entries()[0].metadata == metadata)
    }

    @Test("metadata that makes a record longer than a megabyte is refused")
    func hugeMetadata() throws {
        let cache = try World().open()
        try cache.setString("old", forKey: "k")
        let huge = ["m": String(repeating: "x", count: 1 << 20)]
        #expect(code { try cache.setString("new", forKey: "k", metadata: huge) } == .tooLarge)
        #expect(cache.string(forKey: "k") == "old")
        let large = ["m": String(repeating: "x", count: 1_000_000)]
        try cache.setString("new", forKey: "k", metadata: large)
        #expect(cache.entry(forKey: "k")?.metadata == large)
    }

    @Test("count and size follow every change")
    func totals() throws {
        let cache = try World().open()
        try cache.setString("12345", forKey: "a")
        try cache.setString("123", forKey: "b")
        #expect(cache.count == 2 && cache.payloadSize == 8)
        try cache.setString("1", forKey: "a")
        #expect(cache.count == 2 && cache.payloadSize == 4)
        #expect(try cache.removeValue(forKey: "a") && cache.count == 1 && cache.payloadSize == 3)
        #expect(try !cache.removeValue(forKey: "a"))
        try cache.removeAll()
        #expect(cache.count == 0 && cache.payloadSize == 0 && cache.keys() == [])
    }

    @Test("statistics count every operation")
    func statistics() throws {
        let world = World()
        let cache = try world.open()
        try cache.setString("v", forKey: "a", ttl: .seconds(1))
        try cache.setString("v", forKey: "b")
        try cache.setString("w", forKey: "b")
        _ = (cache.data(forKey: "a"), cache.data(forKey: "b"), cache.data(forKey: "c"))
        try cache.removeValue(forKey: "b")
        world.clock.advance(by: .seconds(2))
        #expect(cache.data(forKey: "a") == nil)
        #expect(cache.removeExpired() == 1)
        let statistics = cache.statistics
        #expect(statistics.stores == 3 && statistics.hits == 2 && statistics.misses == 2)
        #expect(statistics.removals == 1 && statistics.expirations == 1 && statistics.failures == 0)
    }
}
