import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("A directory belongs to one user")
struct AccessTests {
    /// The disk of user 1000, as another user sees it.
    private struct OtherUser: ForwardingFileSystem {
        let base: MemoryFileSystem
        let userID: UInt32
    }

    private static func refusal(_ body: () throws -> Void) throws -> CacheError {
        try #require(throws: CacheError.self) { try body() }
    }

    @Test(
        "and is refused to another one, also to root, beside its owner or alone",
        arguments: [DiskCache.Sharing.processes, .exclusive], [true, false])
    func refused(sharing: DiskCache.Sharing, isLive: Bool) throws {
        let world = World { $0.sharing = sharing }
        let cache = try world.open()
        try cache.store("a", "one")
        if !isLive { try cache.close() }
        let before = world.files.image
        for (user, name, access) in [
            (0, "root", .ownerOnly), (1001, "user 1001", .ownerOnly), (1001, "user 1001", .asOwner),
        ] as [(UInt32, String, DiskCache.Access)] {
            var other = world
            other.configuration.access = access
            let error = try Self.refusal {
                _ = try other.open(through: OtherUser(base: world.files.another(), userID: user))
            }
            #expect(error.code == .io)
            #expect(error.errno == Errno.notPermitted.rawValue)
            #expect(error.message.contains("belongs to user 1000") && error.message.contains("runs as \(name)"))
            #expect(error.message.contains(".asOwner") == (user == 0))
        }
        #expect(world.files.image.nodes.keys == before.nodes.keys)
        let again = isLive ? cache : try world.open()
        try again.store("b", "two")
        #expect(again.content == ["a": "one 1 h", "b": "two 1 h"])
    }

    @Test("but to the first user who writes in it where it has another owner; never to root")
    func first() throws {
        let world = World.exclusive()
        _ = try world.files.openDirectory(path: "/cache", creation: .plain)
        let root = OtherUser(base: world.files.another(), userID: 0)
        #expect(code { _ = try world.open(through: root) } == .io)
        let cache = try world.open(through: OtherUser(base: world.files.another(), userID: 1001))
        try cache.store("a", "one")
        #expect(cache.content == ["a": "one 1 h"])
    }

    @Test(
        "to whom root gives all that it creates with `access: .asOwner`",
        .enabled(if: geteuid() == 0, "only root can write as another user"),
        arguments: [DiskCache.Sharing.processes, .exclusive], [false, true])
    func given(sharing: DiskCache.Sharing, isNew: Bool) throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        #expect(chown(directory.path, 1000, 1001) == 0)
        if !isNew { #expect(try probe("fill-as-user", directory, in: home) == 0) }
        let before = home.names(in: "cache")
        #expect(code { _ = try DiskCache(directory: directory, configuration: .init(sharing: sharing)) } == .io)
        #expect(home.names(in: "cache") == before)

        var configuration = DiskCache.Configuration(sharing: sharing, access: .asOwner, inlineThreshold: 100)
        configuration.defaultTTL = .days(2)
        let cache = try DiskCache(directory: directory, configuration: configuration)
        try cache.setString("gone", forKey: "old")
        try cache.removeAll()
        try cache.setString("v", forKey: "k")
        try cache.setData(Data(repeating: 1, count: 10_000), forKey: "file")
        let source = home.appending("source")
        try Data(repeating: 2, count: Store.smallFile + 1).write(to: source)
        #expect(chown(source.path, 0, 0) == 0)
        try cache.copyFile(at: source, forKey: "large")
        #expect(try cache.exportFile(forKey: "large", to: home.appending("exported")))
        try cache.flush()
        try cache.namespace("n").setString("v", forKey: "k")
        try cache.namespace("n").removeAll()
        let tree = try #require(FileManager.default.enumerator(atPath: directory.path))
        for case let path as String in tree {
            var status = stat()
            // Replaced files are deleted in the background.
            guard lstat(directory.appendingPathComponent(path).path, &status) == 0 else { continue }
            #expect(status.st_uid == 1000, "\(path)")
            #expect(status.st_mode & 0o077 == 0, "\(path)")
        }
        var status = stat()
        #expect(stat(home.appending("exported").path, &status) == 0)
        #expect(status.st_uid == 0)
        try cache.close()
        #expect(try probe("as-user", directory, in: home) == 0)
    }

    /// Runs a probe in a process of its own; returns its status.
    private func probe(_ mode: String, _ directory: URL, in home: TemporaryDirectory) throws -> Int32 {
        try SharingProcess(1, directory: directory, logs: home.url, seed: 1, keys: 1, mode: [mode]).awaitEnd()
    }
}
