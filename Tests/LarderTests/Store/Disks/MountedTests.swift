import Foundation
#if canImport(Glibc)
    import Glibc
#endif
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Real file systems that `.ci/mounts` has mounted for these tests, each in a directory of its name.
private let mounts = ProcessInfo.processInfo.environment["LARDER_MOUNTS"].map { URL(fileURLWithPath: $0) }

/// The disks among these that could be mounted.
private func mounted(_ disks: String...) -> [String] {
    disks.filter { disk in
        mounts.map { FileManager.default.fileExists(atPath: $0.appendingPathComponent(disk).path) } ?? false
    }
}

/// Freeing needs no room: removing, clearing and evicting work on a full disk, without inodes, and on a lower layer.
@Suite("On a disk of its own", .enabled(if: mounts != nil, "LARDER_MOUNTS is not set"), .serialized)
struct MountedTests {
    private static let sharings: [DiskCache.Sharing] = [.exclusive, .processes]

    /// A cache in an empty directory of a file system.
    private func open(
        _ disk: String, _ sharing: DiskCache.Sharing, named name: String = "cache", clearing: Bool = true,
        _ configure: (inout DiskCache.Configuration) -> Void = { _ in }
    ) throws -> DiskCache {
        let directory = mounts!.appendingPathComponent(disk).appendingPathComponent(name, isDirectory: true)
        if clearing { try? FileManager.default.removeItem(at: directory) }
        var configuration = DiskCache.Configuration()
        configuration.sharing = sharing
        configure(&configuration)
        return try DiskCache(directory: directory, configuration: configuration)
    }

    /// Fills a disk while `body` runs.
    private func filling(_ disk: String, _ body: () throws -> Void) throws {
        let path = mounts!.appendingPathComponent(disk).appendingPathComponent("filler").path
        defer { unlink(path) }
        let file = Foundation.open(path, O_WRONLY | O_CREAT, 0o600)
        defer { close(file) }
        for size in [1 << 16, 4096, 512, 1] {
            let bytes = [UInt8](repeating: 1, count: size)
            while write(file, bytes, size) == size {}
            // Some disks find out only when they write.
            fsync(file)
        }
        try body()
    }

    @Test("clearing everything works without room", arguments: mounted("ext4", "tmpfs"), sharings)
    func full(disk: String, sharing: DiskCache.Sharing) throws {
        let cache = try open(disk, sharing)
        let part = cache.namespace("part")
        for isWhole in [true, false] {
            for number in 0..<20 {
                try cache.setData(Data(repeating: 1, count: 3000), forKey: "\(number)")
                try part.setData(Data(repeating: 1, count: 3000), forKey: "\(number)")
            }
            try filling(disk) {
                if isWhole { try cache.removeAll() } else { try cache.namespace("").removeAll() }
                #expect(cache.count == 0)
                #expect(part.count == (isWhole ? 0 : 20))
                #expect(cache.data(forKey: "1") == nil)
            }
        }
        try cache.flush()
        try cache.setData(Data("again".utf8), forKey: "1")
        try cache.close()
        let again = try open(disk, sharing, clearing: false)
        #expect(again.count == 1)
        #expect(again.namespace("part").count == 20)
        #expect(try again.verify().isClean)
        try again.close()
    }

    private func inodes(_ disk: String) -> Int {
        var status = statvfs()
        return statvfs(mounts!.appendingPathComponent(disk).path, &status) == 0 ? Int(status.f_favail) : -1
    }

    @Test("clearing everything works without inodes", arguments: sharings)
    func clearWithoutInodes(sharing: DiskCache.Sharing) throws {
        let cache = try open("inodes", sharing)
        #expect(throws: CacheError.self) {
            for number in 0..<200 { try cache.setData(Data("value".utf8), forKey: "\(number)") }
        }
        #expect(cache.count > 20)
        #expect(inodes("inodes") == 0)
        try cache.removeAll()
        #expect(cache.count == 0)
        try cache.flush()
        try cache.setData(Data("again".utf8), forKey: "1")
        #expect(cache.count == 1)
        try cache.close()
    }

    /// A limit that leaves inodes to none.
    enum Limit: CaseIterable {
        case count, size, freeSpace

        func set(_ configuration: inout DiskCache.Configuration) {
            switch self {
            case .count: configuration.countLimit = 1000
            case .size: configuration.sizeLimit = 1 << 30
            case .freeSpace: configuration.minimumFreeSpace = 4096
            }
        }
    }

    @Test("a cache with limits evicts for inodes and for room", arguments: Limit.allCases, sharings)
    func evict(limit: Limit, sharing: DiskCache.Sharing) throws {
        for disk in mounted("inodes", "tmpfs", "ext4") {
            let size = disk == "inodes" ? 10 : 100_000
            let cache = try open(disk, sharing) { limit.set(&$0) }
            for number in 0..<200 {
                try cache.setData(Data(repeating: 1, count: size), forKey: "\(number)")
                #expect(cache.hasValue(forKey: "\(number)"))
            }
            #expect(cache.count >= 8 && cache.count < 200)
            #expect(cache.statistics.evictions.total > 0)
            try cache.close()
            try FileManager.default.removeItem(at: cache.directory)
        }
    }

    @Test("a copied file evicts for room", arguments: mounted("ext4", "tmpfs"), sharings)
    func evictForCopy(disk: String, sharing: DiskCache.Sharing) throws {
        let source = try TemporaryDirectory()
        let file = source.url.appendingPathComponent("file")
        try Data(repeating: 1, count: 1 << 20).write(to: file)
        let cache = try open(disk, sharing) { $0.countLimit = 1000 }
        for number in 0..<10 { try cache.copyFile(at: file, forKey: "\(number)") }
        #expect(cache.hasValue(forKey: "9"))
        try cache.close()
        try FileManager.default.removeItem(at: cache.directory)
    }

    @Test(
        "a cache on a lower layer can be cleared again and again", .enabled(if: !mounted("overlay").isEmpty),
        arguments: sharings)
    func overlay(sharing: DiskCache.Sharing) throws {
        // `.ci/mounts` has put an image with a cache there, one for each.
        let name = sharing == .exclusive ? "alone" : "warm"
        let cache = try open("overlay", sharing, named: name, clearing: false)
        #expect(cache.count == 20)
        for _ in 0..<3 {
            try cache.removeAll()
            #expect(cache.count == 0)
            try cache.setData(Data("again".utf8), forKey: "1")
            try cache.flush()
            let trash = cache.directory.appendingPathComponent("trash").path
            #expect((try? FileManager.default.contentsOfDirectory(atPath: trash)) ?? [] == [])
        }
        try cache.close()
    }

    @Test("no store ends the process on a disk that copies blocks on write", arguments: mounted("btrfs", "xfs"))
    func copyOnWrite(disk: String) throws {
        let cache = try open(disk, .processes)
        for number in 0..<20 { try cache.setData(Data(repeating: 1, count: 3000), forKey: "\(number)") }
        try filling(disk) {
            for number in 0..<20 {
                _ = try? cache.removeValue(forKey: "\(number)")
                try? cache.setData(Data(repeating: 2, count: 3000), forKey: "\(number)")
                _ = cache.data(forKey: "\(number)")
            }
            try? cache.flush()
            try? cache.close()
            // The next session, too.
            let again = try? open(disk, .processes, clearing: false)
            try again?.removeAll()
            #expect(again?.count ?? 0 == 0)
            try? again?.close()
        }
        let again = try open(disk, .processes, clearing: false)
        try again.setData(Data("again".utf8), forKey: "again")
        #expect(again.hasValue(forKey: "again"))
        try again.close()
    }

    @Test("a page with holes ends no process on a full disk", arguments: mounted("ext4", "tmpfs"), [true, false])
    func holes(disk: String, isShared: Bool) throws {
        let cache = try open(disk, .processes)
        try cache.setData(Data("value".utf8), forKey: "key")
        try cache.close()
        let page = cache.directory.appendingPathComponent("shared")
        let size = try Data(contentsOf: page).count
        // As `cp --sparse` and `tar -S` leave it.
        truncate(page.path, 64)
        truncate(page.path, off_t(size))
        try filling(disk) {
            do {
                let again = try open(disk, isShared ? .processes : .exclusive, clearing: false)
                #expect(again.data(forKey: "key") == Data("value".utf8))
                try again.close()
            } catch let error as CacheError {
                #expect(error.code == .noSpace)
            }
        }
        let again = try open(disk, .processes, clearing: false)
        #expect(again.data(forKey: "key") == Data("value".utf8))
        try again.close()
    }

    @Test(
        "the disk of a closed cache can be unmounted", .enabled(if: !mounted("unmounted").isEmpty),
        arguments: sharings)
    func unmounted(sharing: DiskCache.Sharing) throws {
        let disk = sharing == .exclusive ? "unmounted/alone" : "unmounted"
        let cache = try open(disk, sharing)
        try cache.setData(Data("value".utf8), forKey: "key")
        try cache.close()
        #expect(umount2(mounts!.appendingPathComponent(disk).path, 0) == 0, "errno \(errno)")
        #expect(cache.data(forKey: "key") == nil)
    }

    @Test("makes the lower layer of the test before", .enabled(if: mounts?.lastPathComponent == "lower"))
    func makeLower() throws {
        for (name, sharing) in [("warm", DiskCache.Sharing.processes), ("alone", .exclusive)] {
            let cache = try open("", sharing, named: name)
            for number in 0..<20 { try cache.setData(Data("old".utf8), forKey: "\(number)") }
            try cache.close()
        }
    }
}
