import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Short values are stored in segments")
struct SegmentTests {
    static func world(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        World {
            $0.inlineThreshold = 100
            configure(&$0)
        }
    }

    @Test("values up to the threshold share a segment, longer ones have files of their own")
    func threshold() throws {
        let world = Self.world()
        let cache = try world.open()
        for size in [0, 1, 99, 100, 101, 5_000] {
            try cache.setData(Data(repeating: UInt8(size % 251), count: size), forKey: "\(size)")
        }
        #expect(world.entryFiles.count == 2 && world.segments.count == 1)
        for size in [0, 1, 99, 100, 101, 5_000] {
            #expect(cache.data(forKey: "\(size)") == Data(repeating: UInt8(size % 251), count: size))
        }
        cache.checkInvariants(world, settled: true)
    }

    @Test("entries survive a close, a kill, and the loss of the index", arguments: 0..<4)
    func reopened(way: Int) throws {
        var world = Self.world()
        var cache = try world.open()
        for number in 0..<50 { try cache.setString("old \(number)", forKey: "\(number)") }
        for number in 0..<20 { try cache.setString("new \(number)", forKey: "\(number)") }
        for number in 10..<30 { try cache.removeValue(forKey: "\(number)") }
        if way == 0 { try cache.close() }
        world.restart()
        if way >= 2 { world.loseIndex() }
        cache = try world.open()
        if way == 3 { cache.settle() }
        for number in 0..<50 {
            let expected = number < 10 ? "new \(number)" : number < 30 ? nil : "old \(number)"
            #expect(cache.string(forKey: "\(number)") == expected, "\(number)")
        }
        try cache.setString("later", forKey: "later")
        cache.checkInvariants(world, settled: true)
        // Without the index, the background reads the segment, finds that most of it is dead, and cleans it.
        if way < 2 { #expect(world.segments.count == 1, "a killed process's segment is continued") }
        try cache.close()
    }

    @Test("a life is renewed in its segment")
    func renewed() throws {
        var world = Self.world()
        var cache = try world.open()
        try cache.setString("v", forKey: "k", ttl: .hours(1))
        #expect(try cache.setTimeToLive(.days(30), forKey: "k"))
        world.restart()
        world.loseIndex()
        cache = try world.open()
        world.clock.advance(by: .seconds(7_200))
        #expect(cache.string(forKey: "k") == "v")
    }

    @Test("a removed value does not come back when the index is lost", arguments: [false, true])
    func removed(isPowerSafe: Bool) throws {
        var world = Self.world { if isPowerSafe { $0.durability = .powerSafe } }
        var cache = try world.open()
        for round in 0..<3 { try cache.setString("v\(round)", forKey: "k") }
        try cache.removeValue(forKey: "k")
        if isPowerSafe { world.files.kill() }
        if isPowerSafe { world.files = world.files.restarted() } else { world.restart() }
        world.loseIndex()
        cache = try world.open()
        #expect(cache.string(forKey: "k") == nil)
        #expect(cache.statistics.adoptions == 0)
    }

    @Test("a value is exported from its segment, and verified there")
    func exported() throws {
        let world = Self.world()
        let cache = try world.open()
        try cache.setString("value", forKey: "k")
        let target = URL(fileURLWithPath: "/exports/k")
        _ = try world.files.openDirectory(path: "/exports", creation: .plain)
        #expect(try cache.exportFile(forKey: "k", to: target))
        #expect(world.files.image.content(at: "/exports/k") == Array("value".utf8))
        let report = try cache.verify()
        #expect(report.checked == 1 && report.orphans == 0)
    }

    @Test("a place whose mark is owed is not given to another value")
    func owedMark() throws {
        var world = Self.world()
        var cache = try world.open()
        try cache.setString("first", forKey: "first")
        // The value is written in part, and marking it fails, too.
        world.files.inject { _, operation in operation == .write ? .fail(.io) : nil }
        #expect(code { try cache.setString("failed", forKey: "failed") } == .io)
        world.files.inject(nil)
        try cache.setString("next", forKey: "next")
        try cache.flush()
        #expect(cache.string(forKey: "next") == "next")
        world.restart()
        world.loseIndex()
        cache = try world.open()
        #expect(cache.string(forKey: "next") == "next" && cache.string(forKey: "first") == "first")
        #expect(cache.string(forKey: "failed") == nil)
    }

    @Test("a segment that another process is creating is looked at again once it has a header")
    func segmentBeingCreated() throws {
        let world = Self.world { $0.sharing = .processes }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let gate = MemoryFileSystem.Hold()
        let isCreated = Flag()
        let isHeld = Flag()
        // The call after the creation of the segment.
        world.files.inject { _, operation in
            if operation == .create { isCreated.set() }
            guard isCreated.isSet, operation == .write, !isHeld.isSet else { return nil }
            isHeld.set()
            return .hold(gate)
        }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? one.setString("of one", forKey: "k")
            isDone.signal()
            gate.reached.signal()
        }
        gate.reached.wait()
        // It looks for a segment to continue.
        try two.setString("of two", forKey: "other")
        gate.free.signal()
        isDone.wait()
        world.files.inject(nil)
        try two.removeValue(forKey: "k")
        for cache in [one, two] { try cache.close() }
        var alone = world
        alone.restart()
        alone.loseIndex()
        let rebuilt = try alone.open()
        #expect(rebuilt.string(forKey: "k") == nil && rebuilt.string(forKey: "other") == "of two")
    }

    @Test("a call that begins a segment holds up no other call")
    func heldCreation() throws {
        let world = Self.world()
        let cache = try world.open()
        let (gate, isHeld) = (MemoryFileSystem.Hold(), Flag())
        world.files.inject { _, operation in
            guard operation == .makeDirectory, !isHeld.isSet else { return nil }
            isHeld.set()
            return .hold(gate)
        }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? cache.setString("held", forKey: "held")
            isDone.signal()
            gate.reached.signal()
        }
        gate.reached.wait()
        let key = World.key(besides: "held")
        try cache.setString("other", forKey: key)
        #expect(cache.string(forKey: key) == "other" && world.segments == [])
        gate.free.signal()
        isDone.wait()
        #expect(cache.string(forKey: "held") == "held" && isHeld.isSet)
    }

    @Test("a closed cache settles its segment, and gives it to the next process")
    func closed() throws {
        let world = Self.world { $0.sharing = .processes }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.setString("one", forKey: "1")
        try one.close()
        try two.setString("two", forKey: "2")
        #expect(world.segments.count == 1)
        #expect(two.string(forKey: "1") == "one" && two.string(forKey: "2") == "two")
        try two.close()
    }

    @Test("an unreadable segment hides its values until it can be read, and no number is used twice")
    func unreadable() throws {
        var world = Self.world()
        var cache = try world.open()
        // By its file the directory is recognized.
        try cache.setData(Data(repeating: 1, count: 500), forKey: "long")
        for number in 0..<10 { try cache.setString("v\(number)", forKey: "\(number)") }
        world.restart()
        world.loseIndex()
        let segment = "/cache/entries/segments/" + (try #require(world.segments.first))
        world.files.setUnreadable(true, at: segment)
        cache = try world.open()
        #expect((0..<10).allSatisfy { cache.string(forKey: "\($0)") == nil })
        try cache.setString("new", forKey: "3")
        try cache.removeValue(forKey: "4")
        #expect(cache.string(forKey: "3") == "new")
        world.files.setUnreadable(false, at: segment)
        try cache.flush()
        world.restart()
        cache = try world.open()
        for number in 0..<10 {
            let expected = number == 3 ? "new" : number == 4 ? nil : "v\(number)"
            #expect(cache.string(forKey: "\(number)") == expected, "\(number)")
        }
    }

    @Test("a clear deletes the segments, too", arguments: [1, 3])
    func cleared(rounds: Int) throws {
        let world = Self.world()
        let cache = try world.open()
        for _ in 0..<rounds {
            for number in 0..<10 { try cache.setString("v", forKey: "\(number)") }
            try cache.removeAll()
        }
        cache.settle()
        try cache.flush()
        #expect(world.segments == [] && world.files.image.names(at: "/cache/trash") == [])
        #expect(world.files.image.names(at: "/cache/entries") == [])
    }

    @Test("something else with the name of the segments, or of one, is left alone", arguments: Foreign.allCases)
    fileprivate func foreign(_ foreign: Foreign) throws {
        let temporary = try TemporaryDirectory()
        let directory = temporary.url.appendingPathComponent("cache")
        let outside = temporary.url.appendingPathComponent("outside")
        try FileManager.default.createDirectory(at: outside, withIntermediateDirectories: true)
        try Data("not ours".utf8).write(to: outside.appendingPathComponent("0000000000000001"))
        var configuration = DiskCache.Configuration()
        configuration.inlineThreshold = 100
        func open() throws -> DiskCache { try DiskCache(directory: directory, configuration: configuration) }
        var cache = try open()
        try cache.setData(Data(repeating: 1, count: 500), forKey: "long")
        try cache.close()
        let entries = directory.appendingPathComponent("entries")
        try foreign.make(in: entries, outside)
        for losesIndex in [false, true] {
            if losesIndex {
                for name in try FileManager.default.contentsOfDirectory(atPath: directory.path) where name != "entries"
                {
                    try FileManager.default.removeItem(at: directory.appendingPathComponent(name))
                }
            }
            cache = try open()
            try cache.setString("short", forKey: "short")
            #expect(cache.string(forKey: "short") == "short")
            try cache.removeValue(forKey: "short")
            try cache.flush()
            #expect(cache.data(forKey: "long") != nil && cache.string(forKey: "short") == nil)
            try cache.close()
        }
        cache = try open()
        try cache.removeAll()
        try? cache.flush()
        #expect(cache.keys() == [])
        try? cache.close()
        let kept = try Data(contentsOf: outside.appendingPathComponent("0000000000000001"))
        #expect(kept == Data("not ours".utf8))
    }

    fileprivate enum Foreign: CaseIterable {
        case file, link, fifo, linkedSegment, directory

        func make(in entries: URL, _ outside: URL) throws {
            let segments = entries.appendingPathComponent("segments")
            let segment = segments.appendingPathComponent("0000000000000001")
            if [.fifo, .linkedSegment, .directory].contains(self) {
                try FileManager.default.createDirectory(at: segments, withIntermediateDirectories: false)
            }
            switch self {
            case .file: try Data("not ours".utf8).write(to: segments)
            case .link: try FileManager.default.createSymbolicLink(at: segments, withDestinationURL: outside)
            case .fifo: #expect(mkfifo(segment.path, 0o600) == 0)
            case .linkedSegment:
                try FileManager.default.createSymbolicLink(
                    at: segment, withDestinationURL: outside.appendingPathComponent("0000000000000001"))
            case .directory: try FileManager.default.createDirectory(at: segment, withIntermediateDirectories: false)
            }
        }
    }
}
