import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A flush after a kill in the first change of a session leaves one journal, too.
struct FirstChangeRow: KillRow {
    let name = "the first change of a session"
    let least = 6
    var tried: Int? { 12 }

    /// It counts entry files.
    func configure(_ configuration: inout DiskCache.Configuration) { configuration.inlineThreshold = 0 }

    mutating func prepare(_ world: inout World) throws {
        try world.open().setString("v", forKey: "k")
        world.restart()
        try world.open().close()
    }

    mutating func begin(_ world: World) throws -> DiskCache? { try world.open() }

    mutating func act(_ cache: DiskCache, in world: World) throws { try cache.setString("v", forKey: "other") }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        guard scene.isFlushed else { return }
        #expect(scene.world.names.count { $0 != "CACHEDIR.TAG" } == 4, "\(scene.world.names), \(scene.context)")
        #expect(scene.world.entryFiles.count == cache.count, scene.context)
    }
}

/// In a change of the format of the manifest, the next opening has everything.
struct ManifestFormatRow: KillRow {
    let name = "a change of the manifest's format"
    let least = 40
    var tried: Int? { 12 }

    mutating func prepare(_ world: inout World) throws {
        let cache: DiskCache
        (world, cache) = try PropertyListManifestTests().filled(.json)
        try cache.close()
        world.configuration.manifestFormat = .propertyList
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        try cache.setString("other spelling", forKey: "\u{e9}")
        try cache.flush()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) { PropertyListManifestTests().expectAll(cache) }
}

/// A large payload is staged: after a kill it is not an entry, whatever its bytes.
struct LargePayloadRow: KillRow {
    private static let payload = Data(repeating: 7, count: 17 << 20)

    let name = "a set of a large payload"
    let least = 3
    var tried: Int? { 12 }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        try cache.setString("v", forKey: "first")
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws { try cache.setData(Self.payload, forKey: "large") }

    /// Before the flush: each look takes long.
    func check(_ cache: DiskCache, _ scene: KillScene) {
        if scene.isFlushed { return }
        let found = cache.data(forKey: "large")
        let isAllowed = found == Self.payload || found == nil && scene.number != nil
        #expect(isAllowed, scene.context)
    }
}

/// A value restored after a failed power-safe set stays, through every later kill and save.
struct TakenBackRow: KillRow {
    static let all: [any KillRow] = (1...3).map { TakenBackRow(failingSync: $0) }

    let failingSync: Int

    var name: String { "a session after a set whose sync \(failingSync) failed" }
    var least: Int { 60 }

    func configure(_ configuration: inout DiskCache.Configuration) {
        configuration.durability = .powerSafe
        // In a segment, a set has fewer syncs.
        configuration.inlineThreshold = 0
    }

    mutating func prepare(_ world: inout World) throws {
        let first = try world.open()
        for other in 0..<70 { try first.setString("v", forKey: "\(other)") }
        try first.setString("old", forKey: "k")
        first.settle()
        let syncs = Lock(0)
        world.files.inject { [failingSync] _, operation in
            guard operation == .sync else { return nil }
            return syncs.withLock { count in
                count += 1
                return count == failingSync ? .fail(.io) : nil
            }
        }
        #expect(code { try first.setString("new", forKey: "k") } == .io)
        world.files.inject(nil)
        // A torn line: the next session must check every file, and saves meanwhile.
        try world.damage(try world.journal) { $0 += Array("\n{\"k\":\"torn".utf8) }
    }

    mutating func act(_ next: DiskCache, in world: World) throws {
        try next.setString("other", forKey: "other")
        world.clock.advance(by: .seconds(1))
        next.settle()
        try next.close()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        #expect(cache.string(forKey: "k") == "old", scene.context)
    }

    func finish(_ cache: DiskCache, _ scene: inout KillScene) throws {
        scene.world.restart()
        let again = try scene.world.open()
        #expect(again.string(forKey: "k") == "old", "\(scene.context), opened again")
        try again.flush()
        #expect(again.string(forKey: "k") == "old", "\(scene.context), opened again, flushed")
    }
}
