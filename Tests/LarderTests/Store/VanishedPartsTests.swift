import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// On real directories.
@Suite("Parts of the directory vanish while it is open")
struct VanishedPartsTests {
    private let home: TemporaryDirectory
    private let manager = FileManager.default
    private let clock = ManualClock()

    init() throws {
        home = try TemporaryDirectory()
    }

    private func open(_ sharing: DiskCache.Sharing, inline: Int = 100) throws -> DiskCache {
        var configuration = DiskCache.Configuration()
        configuration.sharing = sharing
        configuration.inlineThreshold = inline
        return try DiskCache(
            directory: home.appending("cache"), configuration: configuration, fileSystem: PosixFileSystem(),
            clock: clock)
    }

    /// Deletes what is there; everything for an empty path.
    private func delete(_ path: String) throws {
        let names = path.isEmpty ? home.names(in: "cache") : [path]
        for name in names { try? manager.removeItem(at: home.appending("cache/" + name)) }
    }

    private static let parts = ["entries/segments", "entries", "trash", "manifest.json", "journals", ""]

    @Test(
        "the next change is stored, survives a close, and everything before is a miss or intact",
        arguments: parts, [DiskCache.Sharing.exclusive, .processes])
    func nextChange(part: String, sharing: DiskCache.Sharing) throws {
        var cache = try open(sharing)
        try cache.removeAll()
        try cache.setString("short", forKey: "short")
        try cache.setString(String(repeating: "long", count: 100), forKey: "long")
        try cache.flush()
        if part == "journals" {
            for name in home.names(in: "cache") where name.hasPrefix("journal") { try delete(name) }
        } else {
            try delete(part)
        }
        for round in 0..<3 {
            try cache.setString("new", forKey: "new short \(round)")
            try cache.setString(String(repeating: "new", count: 100), forKey: "new long \(round)")
        }
        try cache.removeValue(forKey: "new short 0")
        #expect(try cache.setTimeToLive(.hours(1), forKey: "new short 1"))
        try cache.removeAll(tagged: "tag")
        for _ in 0..<2 {
            for key in ["short", "long"] {
                let value = cache.string(forKey: key)
                #expect(value == nil || value == (key == "short" ? key : String(repeating: key, count: 100)))
            }
            #expect(cache.string(forKey: "new short 0") == nil && cache.string(forKey: "new short 2") == "new")
            #expect(cache.string(forKey: "new short 1") == "new")
            #expect(cache.string(forKey: "new long 2") == String(repeating: "new", count: 100))
            #expect(cache.statistics.failures == 0)
            try cache.flush()
            try cache.close()
            cache = try open(sharing)
        }
    }

    @Test("values in a segment that was deleted are misses after the next change")
    func deletedSegments() throws {
        let cache = try open(.exclusive)
        try cache.setString("v", forKey: "k")
        try delete("entries/segments")
        try cache.setString("w", forKey: "other")
        #expect(cache.string(forKey: "k") == nil && cache.string(forKey: "other") == "w")
        #expect(cache.statistics.losses == 1 && cache.count == 1)
        #expect(try cache.verify().isClean)
    }

    @Test("another process makes the directory of the segments anew, and its values are found")
    func segmentsOfAnother() throws {
        let world = SegmentTests.world { $0.sharing = .processes }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("1", forKey: "one")
        #expect(two.string(forKey: "one") == "1")
        let segments = FileName.text("segments")
        let entries = two.store.disk.runAnyway { $0!.entries }
        let open = try other.files.open(segments, in: entries.file, for: .directory)
        for number in try other.files.numbers(.regular, in: open) {
            try other.files.remove(.number(number), in: open, directory: false)
        }
        try other.files.remove(segments, in: entries.file, directory: true)
        try two.setString("2", forKey: "two")
        #expect(one.string(forKey: "two") == "2" && one.statistics.losses == 0)
        try one.setString("3", forKey: "three")
        #expect(two.string(forKey: "three") == "3" && two.statistics.losses == 0)
    }

    @Test(
        "closing a cache that has only read succeeds, whatever was deleted", arguments: parts + ["cache"], [0, 100])
    func closeAfterReading(part: String, inline: Int) throws {
        for isNew in [true, false] {
            if !isNew {
                let cache = try open(.exclusive, inline: inline)
                try cache.setString("v", forKey: "k")
                try cache.close()
            }
            let cache = try open(.exclusive, inline: inline)
            #expect(cache.string(forKey: "k") == (isNew ? nil : "v"))
            if part == "cache" { try manager.removeItem(at: home.appending("cache")) } else { try delete(part) }
            _ = cache.string(forKey: "k")
            #expect(throws: Never.self) { try cache.close() }
            let again = try open(.exclusive, inline: inline)
            try again.setString("w", forKey: "k")
            #expect(again.string(forKey: "k") == "w")
            try again.close()
            try? manager.removeItem(at: home.appending("cache"))
        }
    }

    @Test(
        "a journal or manifest that was deleted is there again after the next save",
        arguments: ["journal", "manifest"])
    func deletedIndex(prefix: String) throws {
        let cache = try open(.exclusive)
        for number in 0..<20 { try cache.setString("v", forKey: "\(number)") }
        try cache.flush()
        try cache.setString("v", forKey: "20")
        for name in home.names(in: "cache") where name.hasPrefix(prefix) { try delete(name) }
        try cache.setString("v", forKey: "21")
        clock.advance(by: .seconds(1))
        cache.settle()
        #expect(home.names(in: "cache").contains { $0.hasPrefix(prefix) })
        try cache.close()
        let again = try open(.exclusive)
        #expect(again.count == 22 && again.statistics.adoptions == 0 && again.statistics.damagedLines == 0)
    }
}
