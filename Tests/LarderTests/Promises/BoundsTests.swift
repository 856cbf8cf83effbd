import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

/// Soaks that are bounded by counts, not by time.
@Suite("Everything that is kept for later is bounded by what is unresolved")
struct BoundsTests {
    /// A cache of `count` entries whose index is lost, and whose newest file the disk cannot read.
    private func withResidue(_ count: Int, limit: Int) throws -> (World, DiskCache, unreadable: String) {
        var world = World {
            $0.countLimit = limit
            $0.sweepInterval = nil
        }
        let cache = try world.open()
        for number in 0..<count { try cache.setString("before", forKey: "before \(number)") }
        world.remove(try world.journal)
        let name = "entries/" + (try #require(world.entryFiles.last))
        world.files.setUnreadable(true, at: "/cache/" + name)
        return (world, try world.open(), name)
    }

    private func manifestSize(_ world: World) -> Int {
        world.files.image.content(at: "/cache/manifest.json")?.count ?? 0
    }

    @Test("tombstones, while a file cannot be read: as many as are documented, and then the file is given up")
    func tombstones() throws {
        let (original, first, name) = try withResidue(50, limit: 100)
        var (world, cache) = (original, first)
        try cache.flush()
        #expect(cache.store.reconciliation.withLock { $0.unreadable.count } == 1)
        var most = 0
        for number in 0..<14_000 {
            try cache.setString("v", forKey: "\(number)")
            if number % 500 == 0 {
                cache.settle()
                most = max(most, cache.store.index.tombstoneCount)
            }
            if number == 8_000 {
                try cache.flush()
                #expect(cache.store.index.tombstoneCount > 7_000, "kept for the sake of the unread file")
                // They outlive the session.
                world.restart()
                world.files.setUnreadable(true, at: "/cache/" + name)
                cache = try world.open()
                #expect(cache.store.index.tombstoneCount > 7_000)
            }
        }
        cache.settle()
        #expect(most <= Store.mostTombstones + 600 && cache.store.index.tombstoneCount == 0)
        world.files.setUnreadable(false, at: "/cache/" + name)
        try cache.flush()
        #expect(manifestSize(world) < 200 * 110)
        #expect(!world.entryFiles.contains(String(name.dropFirst(8))), "what counts as obsolete is deleted")
        #expect(cache.keys().allSatisfy { !$0.hasPrefix("before") })
        cache.checkInvariants(world, settled: true)
        try cache.close()
        world.restart()
        #expect(try world.open().store.provisional.isSet == false)
    }

    @Test("a file that can be read again before that is none the worse")
    func readableAgain() throws {
        let (world, cache, name) = try withResidue(50, limit: 100)
        for number in 0..<3_000 { try cache.setString("v", forKey: "\(number)") }
        world.files.setUnreadable(false, at: "/cache/" + name)
        cache.settle()
        for number in 3_000..<13_000 {
            try cache.setString("v", forKey: "\(number)")
            if number % 500 == 0 { cache.settle() }
        }
        try cache.flush()
        #expect(cache.store.index.tombstoneCount == 0 && !cache.store.provisional.isSet)
        cache.checkInvariants(world, settled: true)
    }

    @Test("a file that cannot be unlinked is written down as obsolete, with one line")
    func undeletable() throws {
        var world = World { $0.countLimit = 20 }
        var cache = try world.open()
        try cache.setString("old", forKey: "k")
        let fails = Flag(true)
        world.files.inject { _, operation in operation == .remove && fails.isSet ? .fail(.notPermitted) : nil }
        try cache.setString("new", forKey: "k")
        try? cache.flush()
        #expect(cache.store.index.doomedCount == 1)
        world.restart()
        world.remove(try world.journal)
        cache = try world.open()
        #expect(cache.string(forKey: "k") == "new" && cache.statistics.adoptions == 0)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("the trash holds one directory open, however many there are, and empties under a low limit of descriptors")
    func trash() throws {
        var world = World()
        do {
            let cache = try world.open()
            try cache.setString("v", forKey: "k")
            try cache.removeAll()
            try cache.close()
        }
        var image = world.files.image
        for number in 1_000_001...1_000_400 as ClosedRange<UInt64> {
            let path = "/cache/trash/\(FileName.number(number))"
            image.addDirectory(at: path)
            for file in 1...3 as ClosedRange<UInt64> { image.add([1], at: "\(path)/\(FileName.number(file))") }
        }
        world.restart(with: image)
        let cache = try world.open()
        world.files.limitDescriptors(to: 12)
        let told = Lock((0, 0))
        try cache.removeAll { removed, total in told.withLock { $0 = (removed, total) } }
        cache.settle()
        cache.store.events.drain()
        #expect(world.files.image.names(at: "/cache/trash") == [])
        #expect(world.files.peakOpenCount <= 12 && cache.statistics.failures == 0)
        #expect(told.withLock { $0.0 } == told.withLock { $0.1 })
    }

    @Test("a cache under a low limit of descriptors goes on, and closes each one that it opens")
    func descriptors() throws {
        let world = World { $0.saveDelay = .zero }
        let cache = try world.open()
        world.files.limitDescriptors(to: 8)
        for number in 0..<3_000 {
            let key = "\(number % 50)"
            try cache.setString("\(number)", forKey: key)
            #expect(cache.string(forKey: key) == "\(number)")
            if number % 10 == 0 { try cache.removeValue(forKey: key) }
            if number % 500 == 0 { try cache.removeAll() }
            if number % 300 == 0 { try cache.flush() }
        }
        cache.settle()
        #expect(cache.statistics.failures == 0 && world.files.peakOpenCount <= 8)
        cache.checkInvariants()
    }

    @Test("reminders are made anew for what is there, not at each insert while a namespace is being cleared")
    func reminders() {
        var manifest = Manifest()
        let space = Namespace("n")
        func publish(_ number: UInt64, in space: Namespace) {
            var row = RecordTests.row
            row.key = "\(number)"
            row.file = number
            row.life = Life(expires: Timestamp(milliseconds: Int64(number)), ttl: 1000)
            row.attachments = Attachments(.init(namespace: space))
            manifest.publish(row, for: row.name)
        }
        for number in 1...5_000 as ClosedRange<UInt64> { publish(number, in: space) }
        _ = manifest.clear(.namespace(space), below: 5_001)
        let before = manifest.rebuildCount
        for number in 5_001...6_000 as ClosedRange<UInt64> { publish(number, in: .none) }
        #expect(manifest.rebuildCount == before)
        #expect(manifest.violations() == [])
    }

    @Test("entries of one namespace share what they have in common, however many handles there are")
    func namespaceHandles() throws {
        let cache = try World().open()
        for number in 0..<50 { try cache.namespace("n").setString("v", forKey: "\(number)") }
        var shared: Set<ObjectIdentifier> = []
        cache.store.index.forEachShard { shard in
            for row in shard.manifest.rows {
                if let attachments = row.attachments { shared.insert(.init(attachments)) }
            }
        }
        #expect(shared.count == 1)
    }
}

@Suite("An index that claims more than there is counts as lost")
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

    @Test("entries, removals, clears or obsolete files without number", arguments: 0..<4)
    func lines(kind: Int) throws {
        let world = try filled()
        let lines = fakes(4_000) { number in
            var row = RecordTests.row
            row.key = "fake \(number)"
            row.file = 1_000 + UInt64(number)
            switch kind {
            case 0: return .set(row)
            case 1: return .remove(key: Key("fake \(number)"), number: 1)
            case 2: return .clear(.tag(Key("fake \(number)")), number: 1)
            default: return .obsolete(file: 1_000 + UInt64(number), of: nil)
            }
        }
        var image = world.files.image
        let path = "/cache/" + (try world.journal)
        image.setContent((image.content(at: path) ?? []) + lines, at: path)
        let files = MemoryFileSystem(image)
        let root = SharedDescriptor(try files.openDirectory(path: "/cache", creation: .never))
        let entries = SharedDescriptor(try files.open(.text("entries"), in: root.file, for: .directory))
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

    @Test("a property list of references alone takes no memory, and a file with holes is not read to its end")
    func hollow() throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        do {
            let cache = try DiskCache(directory: directory)
            for number in 0..<20 { try cache.setString("v\(number)", forKey: "\(number)") }
            try cache.close()
        }
        // An array of a million mentions of one object.
        let count = 1_000_000
        var list = Array("bplist00".utf8) + [0x5F, 0x11, 0, 0] + [0xAF, 0x12]
        list += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: count >> $0) } + [UInt8](repeating: 0, count: count)
        let table = list.count
        list += [0, 0, 0, 8, 0, 0, 0, 12] + [UInt8](repeating: 0, count: 6) + [4, 1]
        for number in [2, 1, table] { list += (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
        #expect(PropertyList(Data(list)) != nil, "a list all the same")
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

    @Test("a manifest that is too long for a property list is saved as JSON")
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
