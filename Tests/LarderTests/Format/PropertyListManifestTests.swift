import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("The manifest as a property list", .storm)
struct PropertyListManifestTests {
    func filled(_ format: ManifestFormat = .propertyList) throws -> (World, DiskCache) {
        let world = World { $0.manifestFormat = format }
        let cache = try world.open()
        try cache.setString("hello", forKey: "a/b", ttl: .hours(1), metadata: ["etag": "x"])
        try cache.setString("forever", forKey: "e\u{301}", ttl: .forever)
        try cache.setString("other spelling", forKey: "\u{e9}")
        try cache.setString("odd", forKey: "\u{e9} (file 3)")
        try cache.setString("zero", forKey: "\u{0}\"")
        return (world, cache)
    }

    func expectAll(_ cache: DiskCache, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(cache.string(forKey: "a/b") == "hello", sourceLocation: sourceLocation)
        #expect(cache.entry(forKey: "a/b")?.metadata == ["etag": "x"], sourceLocation: sourceLocation)
        #expect(cache.string(forKey: "e\u{301}") == "forever", sourceLocation: sourceLocation)
        #expect(cache.entry(forKey: "e\u{301}")?.expiresAt == nil, sourceLocation: sourceLocation)
        #expect(cache.string(forKey: "\u{e9}") == "other spelling", sourceLocation: sourceLocation)
        #expect(cache.string(forKey: "\u{e9} (file 3)") == "odd", sourceLocation: sourceLocation)
        #expect(cache.string(forKey: "\u{0}\"") == "zero" && cache.count == 5, sourceLocation: sourceLocation)
    }

    @Test("is a readable dictionary with everything that the next opening needs")
    func readable() throws {
        var (world, cache) = try filled()
        try cache.close()
        #expect(world.names.contains("manifest.plist") && !world.names.contains("manifest.json"))
        let bytes = Data(try #require(world.files.image.content(at: "/cache/manifest.plist")))
        let list = try #require(
            try PropertyListSerialization.propertyList(from: bytes, format: nil) as? [String: Any])
        let entries = try #require(list["entries"] as? [String: [String: Any]])
        let entry = try #require(entries["a/b"])
        #expect(entry["size"] as? Int == 5 && entry["stored"] as? Date == world.clock.date)
        #expect(entry["expires"] as? Date == world.clock.date.addingTimeInterval(3600))
        #expect(entry["metadata"] as? [String: String] == ["etag": "x"])
        #expect((entry["record"] as? String)?.hasPrefix(#"{"k":"a/b","n":1,"#) == true)
        world.restart()
        cache = try world.open()
        expectAll(cache)
        #expect(cache.statistics.damagedLines == 0 && cache.statistics.adoptions == 0)
        cache.checkInvariants(world)
    }

    @Test("may be replaced by JSON from one opening to the next, and back", arguments: [true, false])
    func switching(clean: Bool) throws {
        var (world, cache) = try filled(.json)
        for format in [ManifestFormat.propertyList, .json, .propertyList] {
            if clean { try cache.close() } else { try cache.flush() }
            world.restart()
            world.configuration.manifestFormat = format
            cache = try world.open()
            expectAll(cache)
            try cache.setString("hello", forKey: "a/b", ttl: .hours(1), metadata: ["etag": "x"])
            try cache.flush()
            let name = format == .json ? "manifest.json" : "manifest.plist"
            #expect(world.names.filter { $0.hasPrefix("manifest") } == [name])
            #expect(cache.statistics.damagedLines == 0)
        }
        cache.checkInvariants(world, settled: true)
    }

    @Test("of two manifests, the one with the higher generation wins", arguments: [true, false])
    func generations(newerIsJSON: Bool) throws {
        var (world, cache) = try filled(newerIsJSON ? .propertyList : .json)
        try cache.close()
        let older = newerIsJSON ? "/cache/manifest.plist" : "/cache/manifest.json"
        let image = world.files.image
        world.restart()
        world.configuration.manifestFormat = newerIsJSON ? .json : .propertyList
        cache = try world.open()
        try cache.removeValue(forKey: "e\u{301}")
        try cache.setTimeToLive(.seconds(7), forKey: "a/b")
        try cache.close()
        var both = world.files.image
        both.add(try #require(image.content(at: older)), at: older)
        world.restart(with: both)
        cache = try world.open()
        #expect(cache.count == 4 && !cache.hasValue(forKey: "e\u{301}") && cache.statistics.losses == 0)
        #expect(cache.entry(forKey: "a/b")?.expiresAt == world.clock.date.addingTimeInterval(7))
        try cache.setString("v", forKey: "new")
        try cache.flush()
        #expect(!world.names.contains(older.split(separator: "/").last.map(String.init) ?? ""))
        cache.checkInvariants(world, settled: true)
    }

    @Test("a flipped byte or a truncation costs time, but no entries, and returns no wrong value")
    func damage() throws {
        var (world, cache) = try filled()
        try cache.close()
        let image = world.files.image
        let bytes = try #require(image.content(at: "/cache/manifest.plist"))
        func expectWhole(_ changed: [UInt8], _ context: Comment) throws {
            var damaged = image
            damaged.setContent(changed, at: "/cache/manifest.plist")
            world.restart(with: damaged)
            cache = try world.open()
            try cache.flush()
            expectAll(cache)
            cache.checkInvariants(world, settled: true)
        }
        for position in Sample.of(bytes.indices) {
            var flipped = bytes
            flipped[position] ^= 1 << UInt8(position % 8)
            try expectWhole(flipped, "byte \(position)")
        }
        for length in Sample.few(12, of: Array(stride(from: 0, to: bytes.count, by: 37))) {
            try expectWhole(Array(bytes.prefix(length)), "\(length)")
        }
    }

    @Test("a list with an entry in the place of another is damaged, though each entry is valid")
    func mixedUp() throws {
        var manifest = PropertyListManifest(version: 2, generation: 3, last: 20)
        for number in 1...3 as ClosedRange<UInt64> {
            var entry = RecordTests.entry
            entry.keyText = "\(number)"
            entry.file = FileID(number)
            entry.change = number
            manifest.append(.set(entry))
        }
        let bytes = try #require(try manifest.encoded())
        #expect(PropertyListManifest.content(of: bytes)?.damagedRecords == 0)
        var list = try #require(
            try PropertyListSerialization.propertyList(from: bytes, format: nil) as? [String: Any])
        var entries = try #require(list["entries"] as? [String: Any])
        entries["1"] = entries["2"]
        list["entries"] = entries
        let mixed = try PropertyListSerialization.data(fromPropertyList: list, format: .binary, options: 0)
        #expect(PropertyListManifest.content(of: mixed)?.damagedRecords == 1)
    }

    @Test("a newer version is refused and left untouched")
    func newer() throws {
        var printer = RecordPrinter()
        printer.append(.header(version: Record.lastVersion + 1, generation: 9, last: 1))
        let header = String(decoding: printer.bytes, as: UTF8.self)
        let list = try PropertyListSerialization.data(
            fromPropertyList: ["header": header, "new": [1, 2]] as [String: Any], format: .binary, options: 0)
        var (world, cache) = try filled()
        try cache.close()
        var image = world.files.image
        image.setContent(Array(list), at: "/cache/manifest.plist")
        world.restart(with: image)
        #expect(code { try world.open() } == .newerFormat)
        #expect(world.files.image.content(at: "/cache/manifest.plist") == Array(list))
    }

    @Test("a directory with only such a manifest is a cache")
    func recognised() throws {
        var (world, cache) = try filled()
        try cache.close()
        let kept = try #require(world.files.image.content(at: "/cache/manifest.plist"))
        world.restart(with: MemoryImage())
        _ = try world.files.openDirectory(path: "/cache", creation: .plain)
        var image = world.files.image
        image.add(kept, at: "/cache/manifest.plist")
        image.add([1], at: "/cache/photo.jpg")
        world.restart(with: image)
        cache = try world.open()
        try cache.flush()
        #expect(cache.count == 0 && world.names.contains("photo.jpg"))
        image.setContent([1, 2, 3], at: "/cache/manifest.plist")
        world.restart(with: image)
        #expect(code { try world.open() } == .notACache)
    }

    @Test("is read back with fields of another version that are not text")
    func unknownFields() throws {
        var entry = RecordTests.entry
        entry.attachments = Attachments(unknown: Array(#","zz":""#.utf8) + [0xFF] + Array(#"""#.utf8))
        var manifest = PropertyListManifest(version: 2, generation: 3, last: 20)
        manifest.append(.set(entry))
        manifest.append(.remove(key: "gone", number: 4))
        manifest.append(.clear(.everything, number: 2))
        let bytes = try #require(try manifest.encoded())
        let content = try #require(PropertyListManifest.content(of: bytes))
        #expect(content.generation == 3 && content.damagedRecords == 0 && content.records.count == 4)
        guard case .set(let read) = content.records[3] else {
            Issue.record("the entry is missing")
            return
        }
        #expect(read.attachments?.unknown == entry.attachments?.unknown && read.key == entry.key)
    }
}
