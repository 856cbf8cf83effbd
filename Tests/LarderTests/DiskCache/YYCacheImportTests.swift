#if SQLite
    import Foundation
    import LarderFiles
    import LarderTestSupport
    import LarderTesting
    import Testing

    @testable import Larder

    @Suite("Coming from YYCache: a directory is imported as it is")
    struct YYCacheImportTests {
        private let world: YYCacheWorld

        init() throws {
            world = try YYCacheWorld()
        }

        private func data(_ text: String) -> Data { Data(text.utf8) }

        @Test("values in rows and in files are imported for a day, and the sources are kept")
        func values() throws {
            let old = try world.fixture()
            try old.save("short", data("in a row"), at: 5, extended: data("an archive"))
            try old.save("long", data("in a file"), filename: "0123456789abcdef", at: 7)
            try old.save("path/to/é", data("third"))
            old.close()
            let before = try world.contents(of: old.url)
            let cache = try world.open()
            let report = try world.importing(cache)
            #expect(report.imported == ["long", "path/to/é", "short"] && report.importedBytes == 22)
            #expect(report.skipped.isEmpty && report.description == "imported 3 entries, 22 bytes; skipped 0")
            #expect(cache.string(forKey: "short") == "in a row" && cache.string(forKey: "long") == "in a file")
            #expect(cache.string(forKey: "path/to/é") == "third")
            #expect(cache.entry(forKey: "long")?.expiresAt == world.now.addingTimeInterval(86_400))
            #expect(cache.entry(forKey: "short")?.metadata == [:], "nothing is unarchived")
            #expect(try world.contents(of: old.url) == before)
            try cache.close()
            #expect(try world.open().verify().checked == 3)
        }

        @Test("what only the log has is imported, whatever its index says", arguments: [false, true])
        func log(isIndexDamaged: Bool) throws {
            let old = try world.fixture()
            try old.save("a", data("first"))
            try old.save("a", data("second"))
            for number in 0..<200 { try old.save("key \(number)", Data(repeating: UInt8(number), count: 2000)) }
            try old.kill()
            #expect(try Data(contentsOf: old.log).count > 400_000)
            if isIndexDamaged {
                let count = try Data(contentsOf: old.index).count
                var generator = RunSeed.generator()
                try Data(generator.bytes(count)).write(to: old.index)
            }
            let before = try world.contents(of: old.url)
            let cache = try world.open()
            #expect(try world.importing(cache).imported.count == 201)
            #expect(cache.string(forKey: "a") == "second")
            for number in 0..<200 {
                #expect(cache.data(forKey: "key \(number)") == Data(repeating: UInt8(number), count: 2000))
            }
            #expect(try world.contents(of: old.url) == before)
        }

        @Test("a log that was cut leaves the values of the last whole transaction")
        func cutLog() throws {
            let old = try world.fixture()
            for number in 0..<40 { try old.save("key \(number)", data("value \(number)")) }
            try old.kill()
            let whole = try Data(contentsOf: old.log)
            let cache = try world.open()
            var counts: [Int] = []
            for length in stride(from: 0, through: whole.count, by: max(1, whole.count / Sample.size(500, usually: 40)))
            {
                try whole.prefix(length).write(to: old.log)
                try cache.removeAll()
                let report = try? world.importing(cache)
                for key in report?.imported ?? [] {
                    #expect(cache.string(forKey: key) == key.replacingOccurrences(of: "key", with: "value"))
                }
                counts.append(report?.imported.count ?? 0)
            }
            #expect(counts == counts.sorted() && counts.last ?? 0 > 35)
        }

        @Test("many rows are imported, those that were used last as the last ones")
        func many() throws {
            let old = try world.fixture()
            try old.execute("begin")
            for number in 0..<3000 { try old.save("\(number)", data("value \(number)"), at: (number * 7919) % 3000) }
            try old.execute("commit")
            old.close()
            let cache = try world.open {
                $0.countLimit = 1000
                $0.eviction = .leastRecentlyUsed
            }
            #expect(try world.importing(cache).imported.count == 3000)
            cache.trim(toCount: 1000)
            try cache.flush()
            let count = cache.count
            #expect(count > 900 && count <= 1000)
            let expected = (0..<3000).filter { ($0 * 7919) % 3000 >= 3000 - count }.map { "\($0)" }
            #expect(Set(cache.keys()) == Set(expected))
        }

        @Test("an inline value may have 64 MiB, and not a byte more")
        func largest() throws {
            let old = try world.fixture()
            let largest = 64 << 20
            try old.insert(key: "'fits'", size: "\(largest)", data: "zeroblob(\(largest))")
            try old.insert(key: "'longer'", size: "\(largest + 1)", data: "zeroblob(\(largest + 1))")
            old.close()
            let cache = try world.open()
            let report = try world.importing(cache)
            #expect(report.imported == ["fits"] && report.importedBytes == largest)
            #expect(world.skipped(report) == ["longer": .tooLarge])
            #expect(cache.data(forKey: "fits") == Data(count: largest))
        }

        @Test("a file that the system copies is imported, too")
        func largeFile() throws {
            let old = try world.fixture()
            var generator = RunSeed.generator()
            let value = Data(generator.bytes((256 << 10) + 17))
            try old.save("large", value, filename: "large")
            old.close()
            let cache = try world.open()
            #expect(try world.importing(cache).importedBytes == value.count)
            #expect(cache.data(forKey: "large") == value)
        }

        @Test("a life that was given is the life, and one of zero keeps nothing")
        func lives() throws {
            let old = try world.fixture()
            try old.save("a", data("v"))
            old.close()
            let cache = try world.open { $0.defaultTTL = .hours(6) }
            #expect(world.skipped(try world.importing(cache, ttl: .seconds(0))) == ["a": .expired])
            #expect(cache.count == 0)
            for (ttl, seconds) in [(TimeToLive.days(7), 604_800.0), (.default, 21_600), (.days(1), 86_400)] {
                try world.importing(cache, ttl: ttl)
                #expect(cache.entry(forKey: "a")?.expiresAt == world.now.addingTimeInterval(seconds))
                try cache.removeAll()
            }
            try world.importing(cache, ttl: .forever)
            #expect(cache.hasValue(forKey: "a") && cache.entry(forKey: "a")?.expiresAt == nil)
        }

        @Test("importing again leaves later values alone")
        func again() throws {
            let old = try world.fixture()
            try old.save("a", data("old a"))
            try old.save("b", data("old b"), filename: "b")
            try old.save("c", data("old c"), filename: "c")
            old.close()
            let cache = try world.open()
            try cache.setString("newer", forKey: "a")
            try cache.setString("newer", forKey: "b")
            let first = try world.importing(cache)
            #expect(first.imported == ["c"] && world.skipped(first) == ["a": .alreadyStored, "b": .alreadyStored])
            #expect(try world.importing(cache).imported == [])
            #expect(cache.string(forKey: "a") == "newer" && cache.string(forKey: "b") == "newer")
        }

        @Test("values that do not fit are skipped with the error, and the import continues")
        func tooLarge() throws {
            let old = try world.fixture()
            try old.save("row", Data(count: 600))
            try old.save("file", Data(count: 600), filename: "f")
            try old.save("small", data("v"))
            old.close()
            let report = try world.importing(try world.open { $0.sizeLimit = 500 })
            #expect(report.imported == ["small"] && world.skipped(report) == ["row": .failed, "file": .failed])
            #expect(report.skipped[0].detail?.contains("tooLarge") == true)
        }

        @Test("sources go when they were imported, and the manifest when no row is left behind")
        func removing() throws {
            let old = try world.fixture()
            try old.save("a", data("a"), filename: "a")
            try old.save("b", data("b"), filename: "b")
            try old.save("c", data("c"))
            try data("unknown").write(to: old.file("unknown"))
            try old.kill()
            let cache = try world.open()
            try cache.setString("newer", forKey: "b")
            let first = try world.importing(cache, removesSources: true)
            #expect(first.imported == ["a", "c"])
            #expect(world.names("old/data") == ["b", "unknown"])
            #expect(
                world.names("old") == [
                    "data", "manifest.sqlite", "manifest.sqlite-shm", "manifest.sqlite-wal", "trash",
                ])
            try old.open()
            try old.execute("delete from manifest where key = 'a'")
            old.close()
            try cache.removeAll()
            let second = try world.importing(cache, removesSources: true)
            #expect(second.imported == ["b", "c"])
            #expect(world.names("old/data") == ["unknown"] && world.names("old") == ["data", "trash"])
            #expect(cache.string(forKey: "b") == "b")
            #expect(world.code { try world.importing(cache) } == .notFound)
        }

        private struct Undeletable: ForwardingFileSystem {
            let base = PosixFileSystem()

            func remove(
                _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
            ) throws(Errno) {
                let isNamed = ["a", YYCacheCopy.manifest].contains(name.description)
                // Not the copy of the manifest.
                if isNamed, (try? base.status(of: .text("trash"), in: directory)) != nil || name == .text("a") {
                    throw .accessDenied
                }
                try base.remove(name, in: directory, directory: isDirectory)
            }
        }

        @Test("a source that cannot be deleted is an event, and the value is there")
        func undeletable() throws {
            let old = try world.fixture()
            try old.save("a", data("a"), filename: "a")
            old.close()
            let events = Lock<[CacheEvent]>([])
            var configuration = world.configuration
            configuration.onEvent = { event in events.withLock { $0.append(event) } }
            let cache = try DiskCache(
                directory: world.home.appending("cache"), configuration: configuration, fileSystem: Undeletable(),
                clock: configuration.clock)
            #expect(try world.importing(cache, removesSources: true).imported == ["a"])
            #expect(world.names("old/data") == ["a"] && cache.string(forKey: "a") == "a")
            try cache.flush()
            #expect(events.withLock { $0 }.filter { $0.kind == .failed && $0.error?.code == .io }.count == 2)
        }

        @Test("the copy is for this user alone, and goes with its object")
        func copy() throws {
            let old = try world.fixture()
            try old.save("a", data("v"))
            try old.kill()
            let fileSystem = PosixFileSystem()
            let source = OwnedDescriptor(try fileSystem.openDirectory(path: old.url.path, creation: .never))
            try YYCacheCopy.$parent.withValue(world.temporary.path) {
                let copy = try YYCacheCopy(of: source, sourcePath: old.url.path, in: fileSystem)
                let folder = URL(fileURLWithPath: copy.path).deletingLastPathComponent()
                #expect(world.mode(folder) == 0o700)
                let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                #expect(Set(names) == Set(YYCacheCopy.files))
                for name in names { #expect(world.mode(folder.appendingPathComponent(name)) == 0o600) }
                withExtendedLifetime(copy) {}
            }
            #expect(world.names("temporary") == [])
        }

        @Test("a closed cache throws, and so do a missing directory, a URL of the network and a disk in memory")
        func refused() throws {
            let cache = try world.open()
            #expect(world.code { try world.importing(cache) } == .notFound)
            let old = try world.fixture()
            try old.save("a", data("v"))
            old.close()
            let remote = try #require(URL(string: "https://example.com/"))
            #expect(world.code { try cache.importYYCache(from: remote) } == .invalidName)
            let memory = try TestWorld().diskCache(name: "memory")
            #expect(world.code { try memory.importYYCache(from: old.url) } == .notFound)
            try cache.close()
            #expect(world.code { try world.importing(cache) } == .closed)
        }

        #if FoundationExtras || canImport(Darwin)
            @Test("objects are archives, which are read by their type")
            func archives() throws {
                let old = try world.fixture()
                let archive = try NSKeyedArchiver.archivedData(
                    withRootObject: NSString("hello"), requiringSecureCoding: false)
                try old.save("object", archive)
                old.close()
                let cache = try world.open()
                try world.importing(cache)
                #expect(cache.archivedObject(NSString.self, forKey: "object") == NSString("hello"))
            }
        #endif
    }
#endif
