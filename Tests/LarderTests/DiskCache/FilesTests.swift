import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Files, copied in and exported")
struct FilesTests {
    private let home: TemporaryDirectory
    private let cache: DiskCache
    private let manager = FileManager.default

    init() throws {
        home = try TemporaryDirectory()
        cache = try DiskCache(directory: home.appending("cache"))
    }

    private func write(_ bytes: Data, to name: String) throws -> URL {
        let url = home.appending(name)
        try bytes.write(to: url)
        return url
    }

    private func random(_ count: Int) -> Data {
        var generator = SeededGenerator(seed: UInt64(count))
        return Data(generator.bytes(count))
    }

    @Test(
        "files come back unchanged, small and large, even after a restart",
        arguments: [0, 1, 4096, 256 << 10, (256 << 10) + 1, (1 << 20) + 7, (5 << 20) + 31])
    func roundTrip(count: Int) throws {
        let bytes = random(count)
        let source = try write(bytes, to: "source")
        try cache.copyFile(at: source, forKey: "k", ttl: .hours(1), metadata: ["type": "x"])
        #expect(cache.data(forKey: "k") == bytes)
        #expect(cache.entry(forKey: "k")?.metadata == ["type": "x"] && cache.payloadSize == count)
        #expect(try Data(contentsOf: source) == bytes, "the source is left alone")
        try cache.close()
        let again = try DiskCache(directory: home.appending("cache"))
        #expect(try again.verify().isClean && again.data(forKey: "k") == bytes)
        let target = home.appending("target")
        #expect(try again.exportFile(forKey: "k", to: target))
        #expect(try Data(contentsOf: target) == bytes)
        #expect(home.names() == ["cache", "source", "target"], "no other files are left")
    }

    @Test("the holes of a sparse file stay holes", arguments: [0, 1, 2])
    func sparse(place: Int) throws {
        let (size, part) = (64 << 20, random(100_000))
        let source = home.appending("source")
        #expect(manager.createFile(atPath: source.path, contents: nil))
        let file = try FileHandle(forWritingTo: source)
        try file.truncate(atOffset: UInt64(size))
        // At the beginning, in the middle, or at the end.
        try file.seek(toOffset: UInt64((size - part.count) * place / 2))
        try file.write(contentsOf: part)
        try file.close()
        try cache.copyFile(at: source, forKey: "k")
        let target = home.appending("target")
        #expect(try cache.exportFile(forKey: "k", to: target))
        #expect(try Data(contentsOf: target) == Data(contentsOf: source))
        var (sparse, status) = (0, stat())
        for path in try manager.subpathsOfDirectory(atPath: home.url.path) {
            guard stat(home.appending(path).path, &status) == 0, status.st_size >= size else { continue }
            #expect(status.st_blocks * 512 < 1 << 20, "\(path)")
            sparse += 1
        }
        #expect(sparse == 3, "the source, the entry and the target")
    }

    @Test("a copy takes the content, but not mode or links", arguments: [10, 300 << 10])
    func mode(count: Int) throws {
        let source = try write(random(count), to: "source")
        try manager.setAttributes([.posixPermissions: 0o444], ofItemAtPath: source.path)
        try manager.createSymbolicLink(at: home.appending("link"), withDestinationURL: source)
        try cache.copyFile(at: home.appending("link"), forKey: "k")
        let name = try #require(home.names(in: "cache/entries").first)
        let attributes = try manager.attributesOfItem(atPath: home.appending("cache/entries/" + name).path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(attributes[.type] as? FileAttributeType == .typeRegular)
        #expect(try cache.exportFile(forKey: "k", to: home.appending("target")))
        let exported = try manager.attributesOfItem(atPath: home.appending("target").path)
        #expect(exported[.posixPermissions] as? Int != 0o600, "the mode of an ordinary file, not a private one")
    }

    @Test("a copy replaces the key's value, and a zero life removes it")
    func replacing() throws {
        try cache.setString("old", forKey: "k")
        try cache.copyFile(at: write(data("new"), to: "new"), forKey: "k")
        #expect(cache.string(forKey: "k") == "new" && cache.count == 1)
        try cache.copyFile(at: home.appending("new"), forKey: "k", ttl: .seconds(0))
        #expect(cache.string(forKey: "k") == nil && cache.count == 0)
    }

    @Test("an uncopyable file is refused with a specific error, and the old value stays")
    func refusals() throws {
        try cache.setString("old", forKey: "k")
        #expect(code { try cache.copyFile(at: home.appending("none"), forKey: "k") } == .notFound)
        #expect(code { try cache.copyFile(at: home.url, forKey: "k") } == .io)
        #expect(code { try cache.copyFile(at: URL(fileURLWithPath: "/dev/null"), forKey: "k") } == .io)
        let web = try #require(URL(string: "https://example.com/file"))
        #expect(code { try cache.copyFile(at: web, forKey: "k") } == .invalidName)
        #expect(code { try cache.exportFile(forKey: "k", to: web) } == .invalidName)
        let long = String(repeating: "k", count: Key.longest + 1)
        #expect(code { try cache.copyFile(at: home.url, forKey: long) } == .tooLarge)
        #expect(cache.string(forKey: "k") == "old")
    }

    @Test("a file larger than the size limit is refused before it is copied")
    func tooLarge() throws {
        var configuration = DiskCache.Configuration()
        configuration.sizeLimit = 400 << 10
        let small = try DiskCache(directory: home.appending("small"), configuration: configuration)
        try small.copyFile(at: write(random(300 << 10), to: "fits"), forKey: "k")
        #expect(code { try small.copyFile(at: write(random(500 << 10), to: "large"), forKey: "k") } == .tooLarge)
        #expect(small.payloadSize == 300 << 10 && home.names(in: "small/entries").count == 1)
    }

    @Test("an export replaces a file in one step, and a miss writes nothing")
    func exporting() throws {
        let target = try write(data("before"), to: "target")
        #expect(try !cache.exportFile(forKey: "none", to: target))
        #expect(try Data(contentsOf: target) == data("before"))
        try cache.setString("after", forKey: "k")
        #expect(try cache.exportFile(forKey: "k", to: target))
        #expect(try Data(contentsOf: target) == data("after"))
        #expect(cache.statistics.hits == 1 && cache.statistics.misses == 1)
    }

    @Test("a failed export throws, and leaves the target unchanged", arguments: ["none/target", "folder"])
    func unwritable(path: String) throws {
        try manager.createDirectory(at: home.appending("folder/inside"), withIntermediateDirectories: true)
        try cache.setString("v", forKey: "k")
        let error = #expect(throws: CacheError.self) {
            try cache.exportFile(forKey: "k", to: home.appending(path))
        }
        #expect(error?.code == .io && error?.errno != nil)
        #expect(error?.path?.hasPrefix(home.url.path) == true && error?.path?.contains("entries") == false)
        #expect(cache.statistics.failures == (path == "folder" ? 1 : 0) && cache.statistics.hits == 0)
        #expect(home.names() == ["cache", "folder"] && home.names(in: "folder") == ["inside"])
        #expect(cache.string(forKey: "k") == "v")
    }

    @Test("a damaged entry is never exported: it is a miss, and the target stays", arguments: [20, 300 << 10])
    func damaged(count: Int) throws {
        let target = try write(data("before"), to: "target")
        try cache.setData(random(count), forKey: "k")
        let name = try #require(home.names(in: "cache/entries").first)
        let file = home.appending("cache/entries/" + name)
        var bytes = try Data(contentsOf: file)
        bytes[count / 2] ^= 1
        try bytes.write(to: file)
        #expect(try !cache.exportFile(forKey: "k", to: target))
        #expect(try Data(contentsOf: target) == data("before"))
        #expect(cache.statistics.corruptions == 1 && cache.count == 0)
        #expect(home.names() == ["cache", "target"])
    }

    @Test("a file of two terabytes is refused, and not forgotten later")
    func huge() throws {
        let file = try write(Data(), to: "sparse")
        let handle = try FileHandle(forWritingTo: file)
        try handle.truncate(atOffset: 2 << 40)
        try handle.close()
        #expect(code { try cache.copyFile(at: file, forKey: "k") } == .tooLarge)
        #expect(home.names(in: "cache/entries") == [])
    }

    @Test("the next opening deletes the remains of a killed copy, whatever they end with")
    func leftover() throws {
        try cache.setString("v", forKey: "k")
        try cache.copyFile(at: write(random(300 << 10), to: "source"), forKey: "large")
        let names = home.names(in: "cache/entries")
        #expect(names.allSatisfy { $0.hasPrefix("0") })
        let copy = try #require(names.last)
        try manager.copyItem(
            at: home.appending("cache/entries/" + copy),
            to: home.appending("cache/entries/8" + copy.dropFirst()))
        try cache.close()
        try manager.removeItem(at: home.appending("cache/manifest.json"))
        let again = try DiskCache(directory: home.appending("cache"))
        try again.flush()
        #expect(home.names(in: "cache/entries") == names && again.count == 2)
        #expect(again.statistics.orphansDeleted == 1)
    }

    @Test("concurrent large copies, closing, clearing and verifying do not deadlock")
    func copiesAndBarriers() throws {
        let file = try write(random(2 << 20), to: "source")
        let failures = Lock<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for round in 0..<15 {
                do {
                    switch (thread + round) % 4 {
                    case 0, 1: try cache.copyFile(at: file, forKey: "\(round)")
                    case 2: try cache.removeAll()
                    default: try cache.verify()
                    }
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        #expect(failures.withLock { $0 } == [])
        let isClosed = Lock(false)
        DispatchQueue.concurrentPerform(iterations: 2) { thread in
            if thread == 0 {
                for round in 0..<10 {
                    if code({ try cache.copyFile(at: file, forKey: "after \(round)") }) != nil { break }
                }
            } else {
                try? cache.close()
                isClosed.withLock { $0 = true }
            }
        }
        #expect(isClosed.withLock { $0 })
        let again = try DiskCache(directory: home.appending("cache"))
        #expect(try again.verify().isClean)
        try again.flush()
        #expect(home.names(in: "cache/entries").count == again.count)
    }

    @Test(
        "an export onto anything but a regular file is refused, and replaces and follows nothing",
        arguments: ["link", "dangling link", "FIFO", "device"])
    func notRegularTarget(kind: String) throws {
        let secret = try write(data("secret"), to: "secret")
        let target = home.appending("target")
        switch kind {
        case "link": try manager.createSymbolicLink(at: target, withDestinationURL: secret)
        case "dangling link":
            try manager.createSymbolicLink(at: target, withDestinationURL: home.appending("nothing"))
        case "FIFO": try #require(mkfifo(target.path, 0o600) == 0)
        default:
            // The numbers of /dev/null on Linux.
            guard mknod(target.path, S_IFCHR | 0o600, 1 << 8 | 3) == 0 else {
                return print("skipped: only root may make a device")
            }
        }
        let type = try manager.attributesOfItem(atPath: target.path)[.type] as? FileAttributeType
        try cache.setString("v", forKey: "k")
        let error = #expect(throws: CacheError.self) { try cache.exportFile(forKey: "k", to: target) }
        #expect(error?.code == .io && error?.path == target.path && error?.message.contains("regular file") == true)
        #expect(try manager.attributesOfItem(atPath: target.path)[.type] as? FileAttributeType == type)
        #expect(try home.names() == ["cache", "secret", "target"] && Data(contentsOf: secret) == data("secret"))
        #expect(cache.statistics.hits == 0 && cache.string(forKey: "k") == "v")
    }

    @Test("a file that falsely reports to be empty is copied as it is read")
    func unknownSize() throws {
        let source = URL(fileURLWithPath: "/proc/self/status")
        guard FileManager.default.isReadableFile(atPath: source.path) else { return }
        let home = try TemporaryDirectory()
        let cache = try DiskCache(directory: home.appending("cache"))
        try cache.copyFile(at: source, forKey: "status")
        #expect(cache.string(forKey: "status")?.contains("VmRSS") == true)
    }
}
