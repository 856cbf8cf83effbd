import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("A process that may not write reads by itself")
struct ReadOnlyTests {
    private static let errors: [Errno] = [.readOnly, .accessDenied]

    /// A closed cache. `isMarked`: it has been shared, and has a page.
    private func world(isMarked: Bool, inlineThreshold: Int = 0) throws -> World {
        var world = World {
            $0.sharing = isMarked ? .processes : .exclusive
            $0.inlineThreshold = inlineThreshold
        }
        let cache = try world.open()
        try cache.store("a", "one")
        try cache.close()
        world.configuration.sharing = .processes
        return world
    }

    @Test(
        "beside others that read, from files or segments, and its changes throw the reason",
        arguments: errors, [(false, 0), (true, 0), (true, 1000)])
    func reads(error: Errno, cache: (isMarked: Bool, inlineThreshold: Int)) throws {
        let world = try world(isMarked: cache.isMarked, inlineThreshold: cache.inlineThreshold)
        let before = world.files.image
        let caches = try (0..<2).map { _ in
            try world.open(through: world.files.another().refusingChanges(with: error))
        }
        for cache in caches {
            #expect(cache.content == ["a": "one 1 h"])
            for change in [
                { try cache.store("b", "two") }, { _ = try cache.removeStored("a") }, { try cache.removeAll() },
                { try cache.store("a", "two") },
            ] as [() throws -> Void] {
                let refusal = try #require(throws: CacheError.self) { try change() }
                #expect(refusal.code == .io)
                #expect(refusal.errno == error.rawValue)
                #expect(refusal.message.contains("\(error)"))
            }
            #expect(cache.content == ["a": "one 1 h"])
        }
        for cache in caches { try cache.close() }
        #expect(world.files.image.names(at: "/cache") == before.names(at: "/cache"))
        #expect(try world.with(world.files.another()).open().content == ["a": "one 1 h"])
    }

    @Test("but not beside one that writes, which is not let in beside it either", arguments: [true, false])
    func besideWriter(isMarked: Bool) throws {
        let world = try world(isMarked: isMarked)
        let reading = world.files.another().refusingChanges(with: .readOnly)
        let writer = try world.with(world.files.another()).open()
        let refusal = try #require(throws: CacheError.self) { _ = try world.open(through: reading) }
        #expect(refusal.code == .directoryInUse)
        #expect(refusal.message.contains("may only read"))
        try writer.close()
        let reader = try world.open(through: reading)
        #expect(code { _ = try world.with(world.files.another()).open() } == .directoryInUse)
        #expect(reader.content == ["a": "one 1 h"])
        try reader.close()
        #expect(try world.with(world.files.another()).open().content == ["a": "one 1 h"])
    }

    @Test("on a medium that is mounted read-only")
    func mounted() throws {
        let home = try TemporaryDirectory()
        let script = """
            mount -t tmpfs larder "$1" || exit 77
            "$2" "$1/cache" "$3" 1 1 1 $$ fill || exit 70
            mount -o remount,ro "$1" || exit 77
            "$2" "$1/cache" "$3" 1 1 1 $$ read-only
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let disk = home.appending("disk")
        try FileManager.default.createDirectory(at: disk, withIntermediateDirectories: false)
        process.arguments = [
            "unshare", "-m", "sh", "-c", script, "sh", disk.path, try Executables.url(of: "SharingChild").path,
            home.appending("log").path,
        ]
        process.standardInput = FileHandle.nullDevice
        try process.start()
        process.waitUntilExit()
        // 1: `unshare`; 127: there is none.
        if [1, 77, 127].contains(process.terminationStatus) {
            print("skipped: this process may not mount a disk")
            return
        }
        #expect(process.terminationStatus == 0)
    }
}
