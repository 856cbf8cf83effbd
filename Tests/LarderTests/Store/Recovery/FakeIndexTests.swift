import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("An index that claims more entries than there are files counts as lost", .storm)
struct FakeIndexTests {
    private func filled() throws -> World {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<20 { try cache.setString("v\(number)", forKey: "\(number)") }
        try cache.flush()
        return world
    }

    private func expectAll(_ world: World, _ context: Comment) throws {
        let cache = try world.open()
        for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v\(number)", context) }
        try cache.flush()
        #expect(cache.count == 20, context)
        cache.checkInvariants(world, settled: true)
    }

    private func fakes(_ lines: Int, _ line: (Int) -> Record) -> [UInt8] {
        var printer = RecordPrinter(reserving: 1 << 20)
        for number in 0..<lines {
            printer.append("\n")
            printer.append(line(number))
        }
        return printer.bytes
    }

    @Test("forged entries, removals, clears and obsolete files do not exhaust the memory", arguments: 0..<4)
    func lines(kind: Int) throws {
        let world = try filled()
        let lines = fakes(4_000) { number in
            var entry = RecordTests.entry
            entry.keyText = "fake \(number)"
            entry.file = FileID(1_000 + UInt64(number))
            switch kind {
            case 0: return .set(entry)
            case 1: return .remove(key: Key("fake \(number)"), number: 1)
            case 2: return .clear(.tag(Key("fake \(number)")), number: 1)
            default: return .obsolete(file: FileID(1_000 + UInt64(number)), of: nil)
            }
        }
        var image = world.files.image
        let path = "/cache/" + (try world.journal)
        image.setContent((image.content(at: path) ?? []) + lines, at: path)
        let files = MemoryFileSystem(image)
        let root = OwnedDescriptor(try files.openDirectory(path: "/cache", creation: .never))
        let entries = OwnedDescriptor(try files.open(.text("entries"), in: root.file, for: .directory))
        let listing = try RootListing(of: root, in: files, path: "/cache")
        for (freely, isFake) in [(64 << 10, true), (64 << 20, false)] {
            var reader = IndexReader(fileSystem: files, root: root, entries: entries, path: "/cache")
            reader.freely = freely
            reader.missing = 100
            let replay = try reader.read(listing, at: world.clock.now)
            #expect(replay.journals.isDamaged == isFake)
            let kept = replay.kept
            #expect((kept.entries + kept.others < 25) == isFake, "\(kept)")
        }
    }

    @Test("a journal of many clears is read in one pass over the entries")
    func manyClears() throws {
        var world = try filled()
        let lines = fakes(5_000) { .clear(.everything, number: UInt64($0 % 2)) }
        try world.damage(try world.journal) { $0 += lines }
        try expectAll(world, "")
    }

    @Test("a property list of references alone takes no memory, and a sparse file is not read to its end")
    func hollow() throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        do {
            let cache = try DiskCache(directory: directory)
            for number in 0..<20 { try cache.setString("v\(number)", forKey: "\(number)") }
            try cache.close()
        }
        // An array of a million references to one object.
        let count = 1_000_000
        var list = Array("bplist00".utf8) + [0x5F, 0x11, 0, 0] + [0xAF, 0x12]
        list += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: count >> $0) } + [UInt8](repeating: 0, count: count)
        let table = list.count
        list += [0, 0, 0, 8, 0, 0, 0, 12] + [UInt8](repeating: 0, count: 6) + [4, 1]
        for number in [2, 1, table] { list += (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
        #expect(PropertyList(Data(list)) != nil, "still a valid list")
        #expect(PropertyList(Data(list), mostObjects: list.count / 8) == nil)
        let plist = directory.appendingPathComponent("manifest.plist")
        for content in [list, []] {
            try Data(content).write(to: plist)
            if content.isEmpty {
                let handle = try FileHandle(forWritingTo: plist)
                try handle.truncate(atOffset: 4 << 30)
                try handle.close()
            }
            let cache = try DiskCache(directory: directory)
            for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v\(number)") }
            try cache.flush()
            try cache.close()
        }
        let journal = try #require(home.names(in: "cache").first { $0.hasPrefix("journal") })
        let handle = try FileHandle(forWritingTo: directory.appendingPathComponent(journal))
        try handle.truncate(atOffset: 1 << 40)
        try handle.close()
        let cache = try DiskCache(directory: directory)
        for number in 0..<20 { #expect(cache.string(forKey: "\(number)") == "v\(number)") }
    }

    @Test("a manifest too long for a property list is saved as JSON", .rare)
    func tooLongForPropertyList() throws {
        let home = try TemporaryDirectory()
        var configuration = DiskCache.Configuration()
        configuration.manifestFormat = .propertyList
        configuration.sweepInterval = nil
        let key = String(repeating: "k", count: 58_000)
        var cache = try DiskCache(directory: home.appending("cache"), configuration: configuration)
        for number in 0..<600 { try cache.setString("v", forKey: "\(number)" + key) }
        try cache.close()
        #expect(home.names(in: "cache").filter { $0.hasPrefix("manifest") } == ["manifest.json"])
        cache = try DiskCache(directory: home.appending("cache"), configuration: configuration)
        #expect(cache.count == 600 && !cache.store.provisional.isSet)
        for number in 0..<590 { try cache.removeValue(forKey: "\(number)" + key) }
        try cache.close()
        #expect(home.names(in: "cache").filter { $0.hasPrefix("manifest") } == ["manifest.plist"])
        #expect(try DiskCache(directory: home.appending("cache"), configuration: configuration).count == 10)
    }
}
