import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// On real files: the cache does not touch foreign files.
@Suite("Promise 7: the directory is ours alone, and only the directory")
struct OursAloneTests {
    private let home: TemporaryDirectory
    private let directory: URL
    private let manager = FileManager.default

    init() throws {
        home = try TemporaryDirectory()
        directory = home.appending("cache")
    }

    private func mode(_ path: String) throws -> Int {
        try #require(
            try manager.attributesOfItem(atPath: directory.appendingPathComponent(path).path)[.posixPermissions] as? Int
        )
    }

    @Test("files are 0600 and directories 0700")
    func modes() throws {
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: "k")
        try cache.removeAll()
        try cache.setString("v", forKey: "k")
        try cache.flush()
        for path in ["", "entries", "trash"] { #expect(try mode(path) == 0o700) }
        for name in home.names(in: "cache/entries") { #expect(try mode("entries/" + name) == 0o600) }
        for name in home.names(in: "cache") where name.hasSuffix("json") || name.hasSuffix("jsonl") {
            #expect(try mode(name) == 0o600)
        }
    }

    @Test(
        "keys never become paths",
        arguments: ["..", "../../escape", "/etc/passwd", ".", "", "a/../../b", "entries"])
    func keys(key: String) throws {
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: key)
        #expect(home.names() == ["cache"])
        #expect(home.names(in: "cache") == ["CACHEDIR.TAG", "entries", "journal-0000000000000001.jsonl", "shared"])
        #expect(home.names(in: "cache/entries") == ["0000000000000001"])
        #expect(cache.string(forKey: key) == "v")
        try cache.removeValue(forKey: key)
        #expect(home.names(in: "cache/entries") == [])
    }

    @Test(
        "a non-empty directory that is not a cache is refused and left untouched",
        arguments: [
            ["photo.jpg"], ["manifest.json"], ["entries/photo.jpg", "README"], ["trash/x", "y"],
            ["entries/0000000000000001", "notes"],
            ["manifest.json", "entries/index.html"], ["journal-1.jsonl"], ["entries/00c0ffee00000000"],
            ["journal-0000000000000001.jsonl"], ["trash/0000000000000001/0000000000000001"],
        ])
    func foreign(paths: [String]) throws {
        for path in paths {
            let url = directory.appendingPathComponent(path)
            try manager.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data("precious".utf8).write(to: url)
        }
        let error = #expect(throws: CacheError.self) { try DiskCache(directory: directory) }
        #expect(
            error?.code == .notACache && error?.path == directory.path && error?.message.contains("untouched") == true)
        for path in paths {
            #expect(try String(contentsOf: directory.appendingPathComponent(path), encoding: .utf8) == "precious")
        }
        let all = try manager.subpathsOfDirectory(atPath: directory.path).filter { path in
            !(try manager.attributesOfItem(atPath: directory.appendingPathComponent(path).path)[.type]
                as? FileAttributeType == .typeDirectory)
        }
        #expect(Set(all) == Set(paths))
    }

    @Test(
        "an empty or truncated index file does not prove that a directory is a cache",
        arguments: ["", "[", #"[{"lar"#, "\u{0}\u{0}", "\u{0}\u{0}\n{\"o\":\"se"],
        ["manifest.json", "manifest.plist", "journal-0000000000000001.jsonl"])
    func blankIndex(content: String, index: String) throws {
        try manager.createDirectory(
            at: directory.appendingPathComponent("entries"), withIntermediateDirectories: true)
        try Data(content.utf8).write(to: directory.appendingPathComponent(index))
        let entry = directory.appendingPathComponent("entries/0000c0ffee000000")
        try Data("precious".utf8).write(to: entry)
        let photo = directory.appendingPathComponent("photo.jpg")
        try Data("precious".utf8).write(to: photo)
        #expect(code { try DiskCache(directory: directory) } == .notACache)
        try manager.removeItem(at: photo)
        if !index.hasPrefix("journal") { #expect(code { try DiskCache(directory: directory) } == .notACache) }
        #expect(try String(contentsOf: entry, encoding: .utf8) == "precious")
        // Without any data that could be lost, a power cut may have left it of a new cache.
        try Data([0, 0]).write(to: entry)
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: "k")
        try cache.flush()
        #expect(cache.string(forKey: "k") == "v" && cache.count == 1)
    }

    @Test("a CACHEDIR.TAG of ours proves that a directory is a cache, if a power cut has torn all else")
    func provingTag() throws {
        try manager.createDirectory(
            at: directory.appendingPathComponent("entries"), withIntermediateDirectories: true)
        try Data().write(to: directory.appendingPathComponent("manifest.json"))
        try Data("torn".utf8).write(to: directory.appendingPathComponent("entries/0000000000000001"))
        let tag = directory.appendingPathComponent("CACHEDIR.TAG")
        let content = Data(DirectoryLayout.tagContent)
        for foreign in [content.prefix(43), content + [10]] {
            try foreign.write(to: tag)
            #expect(code { try DiskCache(directory: directory) } == .notACache)
        }
        try content.write(to: tag)
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: "k")
        try cache.close()
        #expect(try DiskCache(directory: directory).string(forKey: "k") == "v")
    }

    @Test("files of file managers do not make a directory foreign")
    func ignoredNames() throws {
        try manager.createDirectory(at: directory, withIntermediateDirectories: true)
        try Data().write(to: directory.appendingPathComponent(".DS_Store"))
        try DiskCache(directory: directory).setString("v", forKey: "k")
        #expect(home.names(in: "cache").contains(".DS_Store"))
    }

    @Test("a cache is found again after a power cut and the loss of its index", arguments: [true, false])
    func powerCut(isShared: Bool) throws {
        let world = isShared ? World.shared() : World()
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        for seed in 0..<100 {
            var generator = SeededGenerator(seed: UInt64(seed))
            var next = world
            var image = world.files.imageAfterPowerCut(using: &generator)
            for name in image.names(at: "/cache") where !["entries", "CACHEDIR.TAG"].contains(name) {
                image.remove(at: "/cache/" + name)
            }
            next.restart(with: image)
            let found = try next.open().string(forKey: "k")
            #expect(found == "v" || found == nil, "seed \(seed)")
        }
    }

    @Test("a directory with nothing but a CACHEDIR.TAG becomes a cache, and keeps the tag as it is")
    func foreignTag() throws {
        try manager.createDirectory(at: directory, withIntermediateDirectories: true)
        let tag = directory.appendingPathComponent("CACHEDIR.TAG")
        try data("Signature: 8a477f597d28d172789f06886806bc55").write(to: tag)
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: "k")
        try cache.flush()
        #expect(try cache.verify().isClean)
        try cache.removeAll()
        try cache.close()
        #expect(try Data(contentsOf: tag) == data("Signature: 8a477f597d28d172789f06886806bc55"))
        #expect(try DiskCache(directory: directory).string(forKey: "k") == nil)
    }

    @Test("the first change writes a CACHEDIR.TAG, in a new cache and in one without", arguments: [true, false])
    func tag(isShared: Bool) throws {
        var configuration = DiskCache.Configuration()
        configuration.sharing = isShared ? .processes : .exclusive
        let tag = directory.appendingPathComponent("CACHEDIR.TAG")
        for _ in 0..<2 {
            let cache = try DiskCache(directory: directory, configuration: configuration)
            #expect(!manager.fileExists(atPath: tag.path), "opening writes none")
            try cache.setString("v", forKey: "k")
            try cache.flush()
            let text = try String(contentsOf: tag, encoding: .utf8)
            #expect(text.hasPrefix("Signature: 8a477f597d28d172789f06886806bc55\n#") && text.contains("Larder"))
            try cache.close()
            try manager.removeItem(at: tag)
        }
    }

    @Test("whatever has the name of the CACHEDIR.TAG stays, and a full disk does without", arguments: ["link", "full"])
    func noTag(obstacle: String) throws {
        try manager.createDirectory(at: directory, withIntermediateDirectories: true)
        let tag = directory.appendingPathComponent("CACHEDIR.TAG")
        if obstacle == "link" {
            try manager.createSymbolicLink(at: tag, withDestinationURL: home.appending("nothing"))
            let cache = try DiskCache(directory: directory)
            try cache.setString("v", forKey: "k")
            try cache.close()
            #expect(try manager.destinationOfSymbolicLink(atPath: tag.path) == home.appending("nothing").path)
            #expect(home.names() == ["cache"])
        } else {
            let world = World()
            let cache = try world.open()
            let creations = Lock(0)
            world.files.inject { _, operation in
                guard operation == .create else { return nil }
                // The journal, the tag, the entry.
                let count = creations.withLock { count in
                    count += 1
                    return count
                }
                return count == 2 ? .fail(.noSpace) : nil
            }
            try cache.setString("v", forKey: "k")
            #expect(cache.string(forKey: "k") == "v" && cache.statistics.failures == 0)
            #expect(!world.names.contains("CACHEDIR.TAG"))
        }
    }

    @Test("foreign files, links, FIFOs and directories inside are not followed, opened or deleted")
    func intruders() throws {
        let outside = home.appending("outside")
        try Data("precious".utf8).write(to: outside)
        do {
            let cache = try DiskCache(directory: directory)
            try cache.setString("v", forKey: "k")
            try cache.close()
        }
        let entries = directory.appendingPathComponent("entries")
        let link = entries.appendingPathComponent("00000000000000aa").path
        try manager.createSymbolicLink(atPath: link, withDestinationPath: outside.path)
        try #require(mkfifo(entries.appendingPathComponent("00000000000000ab").path, 0o600) == 0)
        try manager.createDirectory(
            at: entries.appendingPathComponent("00000000000000ac"), withIntermediateDirectories: false)
        try Data("mine".utf8).write(to: entries.appendingPathComponent("note.txt"))
        try Data("mine".utf8).write(to: directory.appendingPathComponent("note.txt"))
        // The index is lost: every file in the directory is examined.
        for name in home.names(in: "cache") where name.hasSuffix("json") || name.hasSuffix("jsonl") {
            try manager.removeItem(at: directory.appendingPathComponent(name))
        }
        let cache = try DiskCache(directory: directory)
        try cache.flush()
        #expect(cache.keys() == ["k"] && cache.string(forKey: "k") == "v" && cache.statistics.failures == 0)
        let names = ["00000000000000aa", "00000000000000ab", "00000000000000ac", "note.txt"]
        #expect(Set(home.names(in: "cache/entries")).isSuperset(of: names))
        #expect(try String(contentsOf: outside, encoding: .utf8) == "precious")
        // New entries take numbers that no foreign name uses.
        for number in 0..<5 { try cache.setString("w", forKey: "new \(number)") }
        #expect(cache.count == 6)
        // A clear moves the directory with all its content; foreign files are not deleted there either.
        try cache.removeAll()
        try cache.flush()
        let trash = home.names(in: "cache/trash")
        #expect(trash.count == 1 && Set(home.names(in: "cache/trash/\(trash[0])")) == Set(names))
        #expect(home.names(in: "cache").contains("note.txt"))
        #expect(try String(contentsOf: outside, encoding: .utf8) == "precious")
    }

    @Test("a link or FIFO in the place of an entry's file is a miss, and stays")
    func replacedFile() throws {
        let outside = home.appending("outside")
        try Data("v".utf8).write(to: outside)
        let cache = try DiskCache(directory: directory)
        for key in ["link", "fifo"] {
            let before = home.names(in: "cache/entries")
            try cache.setString("v", forKey: key)
            let name = try #require(home.names(in: "cache/entries").first { !before.contains($0) })
            let path = directory.appendingPathComponent("entries/" + name).path
            try manager.removeItem(atPath: path)
            if key == "link" {
                try manager.createSymbolicLink(atPath: path, withDestinationPath: outside.path)
            } else {
                try #require(mkfifo(path, 0o600) == 0)
            }
            #expect(cache.string(forKey: key) == nil)
            #expect(throws: CacheError.self) { try cache.setTimeToLive(.days(2), forKey: key) }
        }
        #expect(cache.statistics.failures == 4)
        for key in ["link", "fifo"] {
            try cache.removeValue(forKey: key)
            #expect(!cache.hasValue(forKey: key))
        }
        #expect(home.names(in: "cache/entries").count == 2, "removing an entry does not delete foreign files")
        #expect(home.names(in: "cache/entries").count == 2)
        try cache.setString("new", forKey: "link")
        #expect(cache.string(forKey: "link") == "new")
        #expect(try String(contentsOf: outside, encoding: .utf8) == "v")
    }

    @Test("links with the cache's own names are not followed", arguments: ["entries", "trash", "manifest.json"])
    func linkedParts(name: String) throws {
        let outside = home.appending("outside")
        try manager.createDirectory(at: outside, withIntermediateDirectories: true)
        try Data("precious".utf8).write(to: outside.appendingPathComponent("0000000000000001"))
        do {
            let cache = try DiskCache(directory: directory)
            try cache.setString("v", forKey: "k")
            try cache.flush()
            try cache.close()
        }
        let path = directory.appendingPathComponent(name).path
        try? manager.removeItem(atPath: path)
        try manager.createSymbolicLink(atPath: path, withDestinationPath: outside.path)
        if let cache = try? DiskCache(directory: directory) {
            _ = cache.string(forKey: "k")
            try? cache.setString("w", forKey: "k")
            try? cache.removeAll()
            try? cache.flush()
            try? cache.close()
        } else {
            #expect(name == "entries")
        }
        #expect(home.names(in: "outside") == ["0000000000000001"])
        #expect(
            try String(contentsOf: outside.appendingPathComponent("0000000000000001"), encoding: .utf8) == "precious")
        #expect(try manager.destinationOfSymbolicLink(atPath: path) == outside.path)
    }

    @Test("the directory itself may be a link")
    func linkedDirectory() throws {
        let real = home.appending("real")
        try manager.createDirectory(at: real, withIntermediateDirectories: true)
        try manager.createSymbolicLink(at: directory, withDestinationURL: real)
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: "k")
        let same = try DiskCache(directory: real)
        #expect(same.string(forKey: "k") == "v", "two paths, one store")
        #expect(home.names(in: "real/entries").count == 1)
    }

    @Test("a file in the place of the directory, or a URL that is not a file URL, is a clear error")
    func noDirectory() throws {
        try Data("precious".utf8).write(to: directory)
        let error = #expect(throws: CacheError.self) { try DiskCache(directory: directory) }
        #expect(error?.code == .notACache && error?.path == directory.path)
        #expect(try String(contentsOf: directory, encoding: .utf8) == "precious")
        #expect(code { try DiskCache(directory: directory.appendingPathComponent("below")) } == .notACache)
        let web = try #require(URL(string: "https://example.com/cache"))
        #expect(code { try DiskCache(directory: web) } == .invalidName)
    }

    @Test("a name is one path component", arguments: ["", ".", "..", "a/b", "/"])
    func names(name: String) {
        let error = #expect(throws: CacheError.self) { try DiskCache(name: name) }
        #expect(error?.code == .invalidName && error?.path == name && error?.message.isEmpty == false)
    }

    @Test("a name or path with a NUL is refused")
    func nul() {
        #expect(code { try DiskCache(name: "a\u{0}b") } == .invalidName)
    }

    @Test("missing parent directories are created")
    func parents() throws {
        let deep = home.appending("a/b/c")
        try DiskCache(directory: deep).setString("v", forKey: "k")
        #expect(home.names(in: "a/b/c") == ["CACHEDIR.TAG", "entries", "journal-0000000000000001.jsonl", "shared"])
    }

    @Test("a directory deleted while open is recreated once, and reported")
    func deleted() throws {
        let log = EventLog()
        var configuration = DiskCache.Configuration()
        configuration.onEvent = log.note
        let cache = try DiskCache(directory: directory, configuration: configuration)
        try cache.setString("v", forKey: "k")
        try manager.removeItem(at: directory)
        #expect(cache.string(forKey: "k") == nil)
        try cache.setString("w", forKey: "k")
        #expect(cache.string(forKey: "k") == "w" && cache.count == 1)
        #expect(log.events(of: cache).contains { $0.kind == .reopened })
        try cache.close()
        #expect(try DiskCache(directory: directory).string(forKey: "k") == "w")
    }

    @Test("the content of the directory, deleted while open, is recreated too")
    func emptied() throws {
        let cache = try DiskCache(directory: directory)
        try cache.setString("v", forKey: "k")
        for name in home.names(in: "cache") { try manager.removeItem(at: directory.appendingPathComponent(name)) }
        #expect(cache.string(forKey: "k") == nil)
        try cache.setString("w", forKey: "k")
        #expect(cache.string(forKey: "k") == "w")
        try cache.close()
        #expect(try DiskCache(directory: directory).string(forKey: "k") == "w")
    }

    @Test("a handle stays with the directory that it opened, even if that is renamed and replaced")
    func renamed() throws {
        let clock = ManualClock()
        let cache = try DiskCache(
            directory: directory, configuration: .init(), fileSystem: PosixFileSystem(), clock: clock)
        try cache.setString("old", forKey: "k", ttl: .forever)
        try manager.moveItem(at: directory, to: home.appending("moved"))
        let other = try DiskCache(
            directory: directory, configuration: .init(), fileSystem: PosixFileSystem(), clock: clock)
        try other.setString("other", forKey: "k")
        clock.advance(by: .seconds(61))
        cache.settle()
        #expect(cache.string(forKey: "k") == "old" && other.string(forKey: "k") == "other")
        try cache.setString("new", forKey: "k")
        try cache.close()
        #expect(other.string(forKey: "k") == "other")
        let moved = try DiskCache(
            directory: home.appending("moved"), configuration: .init(), fileSystem: PosixFileSystem(), clock: clock)
        #expect(moved.string(forKey: "k") == "new")
    }
}
