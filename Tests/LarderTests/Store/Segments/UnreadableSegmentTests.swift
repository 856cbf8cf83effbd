import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Each test acts first, and flushes afterwards.
@Suite("Segments that cannot be read, or whose headers are damaged", .storm)
struct UnreadableSegmentTests {
    private static func world(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        World.exclusive {
            $0.inlineThreshold = 100
            $0.segmentLength = 4096
            $0.sweepInterval = nil
            configure(&$0)
        }
    }

    private static let keys = 0..<40
    private static let long = Data(repeating: 1, count: 500)

    /// A killed cache with several segments, the keys of the first of them, and its path.
    private static func killed(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) throws -> (
        world: World, segment: UInt64, keysInIt: Set<Int>
    ) {
        var world = world(configure)
        let cache = try world.open()
        try cache.setData(long, forKey: "long", ttl: .forever)
        for key in keys { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        try cache.flush()
        try cache.setString("last", forKey: "last", ttl: .forever)
        let segment = try #require(cache.store.index.entry("0")?.file.place.segment)
        let inIt = keys.filter { cache.store.index.entry(Key("\($0)"))?.file.place.segment == segment }
        #expect(inIt.count > 5 && inIt.count < 30)
        world.restart()
        return (world, segment, Set(inIt))
    }

    private static func path(_ segment: UInt64) -> String {
        "/cache/entries/segments/" + FileName.number(segment).description
    }

    private static func found(_ cache: DiskCache) -> Set<Int> {
        Set(keys.filter { cache.string(forKey: "\($0)") == "value \($0)" })
    }

    @Test("beside an intact index it costs its own values, and no others", arguments: [3, 512])
    func intactIndex(entriesPerGroup: Int) throws {
        let (killed, segment, inIt) = try Self.killed { $0.entriesPerGroup = entriesPerGroup }
        var world = killed
        world.files.setUnreadable(true, at: Self.path(segment))
        var cache = try world.open()
        func expectOthers(_ context: Comment) {
            #expect(cache.data(forKey: "long") == Self.long && cache.string(forKey: "last") == "last", context)
            #expect(Self.found(cache) == Set(Self.keys).subtracting(inIt), context)
        }
        expectOthers("at once")
        cache.settle()
        expectOthers("when everything else has been read")
        // Work goes on, and what it leaves is bounded by the removals.
        for round in 0..<300 {
            try cache.setString("round \(round)", forKey: "busy", ttl: .forever)
            try cache.setString("round \(round)", forKey: "removed \(round)", ttl: .forever)
            try cache.removeValue(forKey: "removed \(round)")
            try? cache.flush()
        }
        #expect(cache.store.index.obsoleteCount < 50)
        #expect(try world.files.image.content(at: "/cache/" + world.journal)?.count ?? 0 < 50_000)
        #expect(cache.statistics.segments.cleaned > 0, "other segments are cleaned")
        try? cache.close()
        world.files = world.files.restarted(with: world.files.image)
        world.files.setUnreadable(true, at: Self.path(segment))
        cache = try world.open()
        expectOthers("the next session")
        #expect(cache.string(forKey: "busy") == "round 299")
        // Readable again: nothing was lost, and no tombstone is needed any more.
        world.files.setUnreadable(false, at: Self.path(segment))
        try cache.flush()
        cache.settle()
        try cache.flush()
        #expect(Self.found(cache) == Set(Self.keys))
        #expect(cache.store.index.tombstoneCount == 0 && cache.store.reaper.tombstoneCount == 0)
        for round in 0..<300 { #expect(cache.string(forKey: "removed \(round)") == nil) }
        cache.checkInvariants(world, settled: true)
    }

    @Test("beside a lost index it hides older values until it can be read, and then all are back")
    func lostIndex() throws {
        var (world, segment, inIt) = try Self.killed()
        world.loseIndex()
        world.files.setUnreadable(true, at: Self.path(segment))
        var cache = try world.open()
        // It may have newer values of all keys.
        #expect(Self.found(cache).isEmpty && cache.data(forKey: "long") == nil)
        let removed = try #require(inIt.min())
        try cache.removeValue(forKey: "\(removed)")
        try cache.setString("new", forKey: "new", ttl: .forever)
        try cache.flush()
        #expect(cache.string(forKey: "new") == "new")
        world.files = world.files.restarted(with: world.files.image)
        world.files.setUnreadable(true, at: Self.path(segment))
        cache = try world.open()
        #expect(cache.string(forKey: "new") == "new" && Self.found(cache).isDisjoint(with: [removed]))
        cache.settle()
        world.files.setUnreadable(false, at: Self.path(segment))
        #expect(cache.store.reconciler.retry())
        cache.settle()
        #expect(Self.found(cache) == Set(Self.keys).subtracting([removed]) && cache.data(forKey: "long") == Self.long)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("beyond the bound of tombstones it is set aside, and hides no newer value of its keys from older ones")
    func setAside() throws {
        var world = Self.world { $0.mostTombstones = 500 }
        var cache = try world.open()
        for key in 0..<20 { try cache.setString("old", forKey: "\(key)", ttl: .forever) }
        // In another segment, with newer values.
        for round in 0..<4 {
            for key in 0..<10 { try cache.setString("new \(round)", forKey: "\(key)", ttl: .forever) }
        }
        let segment = try #require(cache.store.index.entry("0")?.file.place.segment)
        #expect(cache.store.index.entry("19")?.file.place.segment != segment)
        world.restart()
        world.loseIndex()
        world.files.setUnreadable(true, at: Self.path(segment))
        cache = try world.open()
        #expect(cache.string(forKey: "0") == nil)
        for number in 0...505 { try cache.removeValue(forKey: "n\(number)") }
        cache.settle()
        try cache.flush()
        #expect(cache.store.index.tombstoneCount == 0)
        let aside = try #require(world.entryFiles.first { $0.hasPrefix("10") })
        for context in ["this session", "the next", "the index lost again"] as [Comment] {
            #expect(world.entryFiles.contains(aside), context)
            #expect(cache.string(forKey: "0") == nil && cache.string(forKey: "15") == nil, context)
            try cache.setString("fresh", forKey: "fresh", ttl: .forever)
            #expect(cache.string(forKey: "fresh") == "fresh", context)
            world.files = world.files.restarted(with: world.files.image)
            if context == "the next" { world.loseIndex() }
            world.files.setUnreadable(true, at: "/cache/entries/" + aside)
            cache = try world.open()
            try cache.flush()
        }
        // Once readable it says which older values are dead.
        world.files.setUnreadable(false, at: "/cache/entries/" + aside)
        try cache.flush()
        cache.settle()
        for key in 0..<20 {
            let value = cache.string(forKey: "\(key)")
            #expect(value == nil || value == "old" && key >= 10 || value?.hasPrefix("new") == true, "\(key)")
            #expect(key < 10 || value == "old", "\(key)")
        }
        try cache.flush()
        #expect(!world.entryFiles.contains(aside))
        cache.checkInvariants(world, settled: true)
    }

    @Test("does not keep power-safe changes of other values from being made", arguments: [false, true])
    func powerSafe(isClosed: Bool) throws {
        var world = Self.world { $0.durability = .powerSafe }
        var cache = try world.open()
        try cache.setData(Self.long, forKey: "long", ttl: .forever)
        for key in 0..<5 { try cache.setString("v", forKey: "\(key)", ttl: .forever) }
        if isClosed { try cache.close() }
        world.restart()
        world.files.setUnreadable(true, at: "/cache/entries/segments/" + (try #require(world.segments.first)))
        cache = try world.open()
        #expect(throws: Never.self) { try cache.setData(Self.long, forKey: "other", ttl: .forever) }
        #expect(throws: Never.self) { try cache.removeValue(forKey: "long") }
        #expect(cache.data(forKey: "other") == Self.long && cache.data(forKey: "long") == nil)
    }

    @Test("verify reports its values, and checks all others")
    func verified() throws {
        let world = Self.world()
        let cache = try world.open()
        try cache.setData(Self.long, forKey: "long", ttl: .forever)
        for key in 0..<5 { try cache.setString("v", forKey: "\(key)", ttl: .forever) }
        world.files.setUnreadable(true, at: "/cache/entries/segments/" + (try #require(world.segments.first)))
        let report = try cache.verify()
        #expect(report.checked == 1 && report.unreadable.count == 5)
    }

    @Test("an unreadable file of its own does not stop the cleaning of segments")
    func unreadableFile() throws {
        var world = Self.world()
        var cache = try world.open()
        try cache.setData(Self.long, forKey: "long", ttl: .forever)
        try cache.setData(Self.long, forKey: "bad", ttl: .forever)
        let number = try #require(cache.store.index.entry("bad")?.file.number)
        world.restart()
        world.loseIndex()
        world.files.setUnreadable(true, at: "/cache/entries/" + FileName.number(number).description)
        cache = try world.open()
        cache.settle()
        for round in 0..<500 { try cache.setString("round \(round)", forKey: "busy", ttl: .forever) }
        try? cache.flush()
        cache.store.cleaner.cleanInBackground(isShort: true)
        try? cache.flush()
        #expect(cache.statistics.segments.cleaned > 0 && cache.string(forKey: "busy") == "round 499")
    }

    @Test(
        "damaged headers cost no value that the index knows",
        arguments: ["header of an entry", "headers of the segment"], [false, true])
    func damagedHeaders(damage: String, isClosed: Bool) throws {
        var world = World.exclusive { $0.inlineThreshold = 100 }
        var cache = try world.open()
        for key in Self.keys { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        let place = try #require(cache.store.index.entry("3")?.file.place)
        try cache.flush()
        if isClosed { try cache.close() } else { try cache.setString("v", forKey: "later", ttl: .forever) }
        world.restart()
        try world.damage("entries/segments/" + FileName.number(place.segment).description) { bytes in
            let range = damage == "header of an entry" ? place.offset + 50..<place.offset + 51 : 0..<SegmentFormat.start
            for position in range { bytes[position] ^= 0xFF }
        }
        cache = try world.open()
        #expect(Self.found(cache) == Set(Self.keys), "at once")
        cache.settle()
        try? cache.flush()
        #expect(Self.found(cache) == Set(Self.keys) && cache.statistics.losses == 0, "afterwards")
        // A removal cannot be marked; it is none the less final.
        try cache.removeValue(forKey: "3")
        #expect(cache.string(forKey: "3") == nil)
        world.restart()
        world.loseIndex()
        guard let again = try? world.open() else { return }
        #expect(again.string(forKey: "3") == nil)
    }

    @Test("an index of many short values is no forgery")
    func plausible() throws {
        var world = World.exclusive {
            $0.inlineThreshold = 100
            $0.entriesPerGroup = 3
        }
        let cache = try world.open()
        for key in 0..<400 { try cache.setString("v", forKey: "\(key)", ttl: .forever) }
        try cache.close()
        world.restart()
        let files = world.files
        let root = OwnedDescriptor(try files.openDirectory(path: "/cache", creation: .never))
        let entries = OwnedDescriptor(try files.open(.text("entries"), in: root.file, for: .directory))
        let listing = try RootListing(of: root, in: files, path: "/cache")
        var reader = IndexReader(fileSystem: files, root: root, entries: entries, path: "/cache")
        (reader.freely, reader.missing) = (1 << 10, 100)
        #expect(try !reader.read(listing, at: world.clock.now).journals.isDamaged)
        #expect(GroupedIndex(listing, reader) != nil)
    }

    @Test("after the loss of the index, segments are still cleaned")
    func numbers() throws {
        var world = Self.world()
        var cache = try world.open()
        for key in 0..<3 { try cache.setString("old \(key)", forKey: "old \(key)", ttl: .forever) }
        for round in 0..<400 { try cache.setString("round \(round)", forKey: "f", ttl: .forever) }
        try cache.flush()
        cache.store.cleaner.cleanInBackground(isShort: true)
        try cache.flush()
        try cache.removeValue(forKey: "f")
        try cache.close()
        world.restart()
        world.loseIndex()
        cache = try world.open()
        cache.settle()
        let segment = try #require(cache.store.index.entry("old 0")?.file.place.segment)
        for round in 0..<200 { try cache.setString("round \(round)", forKey: "f", ttl: .forever) }
        for key in 0..<2 { try cache.removeValue(forKey: "old \(key)") }
        for _ in 0..<20 {
            for round in 0..<5 { try cache.setString("round \(round)", forKey: "f", ttl: .forever) }
            try cache.flush()
            cache.store.cleaner.cleanInBackground(isShort: true)
            cache.settle()
        }
        let empty = world.segments.filter {
            world.files.image.content(at: "/cache/entries/segments/" + $0)?.count == SegmentFormat.start
        }
        #expect(empty.count < 3 && cache.store.index.entry("old 2")?.file.place.segment != segment)
        #expect(cache.string(forKey: "old 2") == "old 2")
    }

    @Test("a segment of a process that was killed before it wrote the header is deleted")
    func headerless() throws {
        var world = Self.world()
        var cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .forever)
        try cache.close()
        var image = world.files.image
        let left = "/cache/entries/segments/" + FileName.number(77).description
        image.setContent([], at: left)
        world.restart(with: image)
        cache = try world.open()
        try cache.flush()
        #expect(world.files.image.content(at: left) == nil && cache.string(forKey: "k") == "v")
    }
}
