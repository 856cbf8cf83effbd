import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A second removal finds nothing, because a killed one has left that to the opening. The killed process may have
/// deleted the file, too.
struct RemovedTwiceRow: KillRow {
    static let all: [any KillRow] = DeletionOrderTests.Removal.allCases.flatMap { first in
        DeletionOrderTests.Removal.allCases.map { RemovedTwiceRow(first: first, second: $0) }
    }

    let first: DeletionOrderTests.Removal
    let second: DeletionOrderTests.Removal

    var name: String { "a removal (\(first)) before another (\(second)) and a power cut" }
    var least: Int { 2 }
    var tried: Int? { 12 }

    var modes: [KillMode] {
        [DiskCache.Sharing.exclusive, .processes].map { sharing in
            KillMode(name: "\(sharing)", configure: { $0.sharing = sharing }) { _ in
                Array(repeating: Aftermath(keepsUnsynced: true), count: 6)
            }
        }
    }

    func configure(_ configuration: inout DiskCache.Configuration) {
        configuration.sweepInterval = nil
        configuration.durability = .powerSafe
    }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        // Its footer proves that the directory is a cache.
        try cache.namespace("anchor").setString("anchor", forKey: "anchor", ttl: .forever)
        try cache.setString("v", forKey: "k")
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws { try first.apply(to: cache) }

    mutating func react(_ scene: inout KillScene) throws {
        let cache = try scene.world.open()
        if scene.generator.chance(50) { cache.settle() }
        try second.apply(to: cache)
        scene.world.restart(with: scene.world.files.imageAfterPowerCut(using: &scene.generator))
        scene.world.lose(["journal", "manifest"])
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        #expect(cache.string(forKey: "k") == nil, scene.context)
    }
}

/// On a full disk, a clear killed while files are unread revives nothing.
struct FullDiskClearRow: KillRow {
    /// What is cleared. The root alone is everything: then directories are renamed, and no files are deleted.
    enum Part: CaseIterable {
        case namespace, rootBesideNamespace, everything
    }

    static let all: [any KillRow] = Part.allCases.map { FullDiskClearRow(cleared: $0) }

    let cleared: Part

    var name: String { "a clear on a full disk, while files are unread, of \(cleared)" }
    var least: Int { 3 }
    var tried: Int? { 1 }

    func configure(_ configuration: inout DiskCache.Configuration) {
        configuration.sweepInterval = nil
        // It is about entry files.
        configuration.inlineThreshold = 0
    }

    private func part(of cache: DiskCache) -> DiskCache {
        switch cleared {
        case .everything: cache
        case .namespace: cache.namespace("p")
        case .rootBesideNamespace: cache.namespace("")
        }
    }

    mutating func prepare(_ world: inout World) throws {
        let cache = try world.open()
        if cleared == .rootBesideNamespace { try cache.namespace("other").setString("x", forKey: "x") }
        let part = part(of: cache)
        for number in 0..<2500 { try part.setString("v", forKey: "a\(number)") }
        try part.setString("old", forKey: "k")
        try part.setString("new", forKey: "k")
        for number in 0..<200 { try part.setString("v", forKey: "b\(number)") }
        world.loseIndex()
    }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        #expect(part(of: cache).string(forKey: "k") == "new")
        return cache
    }

    func kills(in operation: MemoryFileSystem.Operation) -> Bool { cleared == .everything || operation == .remove }

    func fault(in operation: MemoryFileSystem.Operation) -> MemoryFileSystem.Fault? {
        operation == .create || operation == .write ? .fail(.noSpace) : nil
    }

    func candidates(_ calls: Int) -> [Int] {
        if calls > 991 { return [851, 901, 951, 991] }
        return calls < 4 ? [] : (1...4).map { calls * $0 / 4 }
    }

    mutating func act(_ cache: DiskCache, in world: World) {
        _ = code { try part(of: cache).removeAll() }
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        #expect(part(of: cache).string(forKey: "k") != "old", "the replaced value is back, \(scene.context)")
    }
}

/// A recovery killed while it deletes leaves no older file without the newer one.
struct DeletingRow: KillRow {
    let name = "a recovery that deletes"
    let least = 2
    var tried: Int? { 12 }
    var modes: [KillMode] { [KillMode(name: "index lost", aftermaths: { _ in [Aftermath(lost: Aftermath.index)] })] }

    func configure(_ configuration: inout DiskCache.Configuration) {
        configuration.sweepInterval = nil
        // It is about entry files.
        configuration.inlineThreshold = 0
    }

    mutating func prepare(_ world: inout World) throws {
        let cache = try world.open()
        try cache.setString("old", forKey: "k", ttl: .forever)
        try cache.flush()
        try cache.setString("new", forKey: "k", ttl: .seconds(1))
        for number in 0..<OpeningScan.mostAtOnce + 200 { try cache.setString("v", forKey: "\(number)") }
        world.remove(try world.journal)
        world.clock.advance(by: .seconds(2))
    }

    func kills(in operation: MemoryFileSystem.Operation) -> Bool { operation == .remove }
    func candidates(_ calls: Int) -> [Int] { Array((0..<calls).map { $0 + 1 }.prefix(4)) }

    mutating func act(_ cache: DiskCache, in world: World) throws { try cache.flush() }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        #expect(cache.string(forKey: "k") == nil, scene.context)
    }
}

/// A mark does not take the number that a killed renewal left in a slot.
struct RenewalRow: KillRow {
    let name = "a shorter life"
    let least = 1
    var tried: Int? { 12 }

    func configure(_ configuration: inout DiskCache.Configuration) {
        configuration.sweepInterval = nil
        // It is about entry files.
        configuration.inlineThreshold = 0
    }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        try cache.setKept("k", forKey: "k", ttl: .hours(10), tags: ["t"])
        try cache.flush()
        return cache
    }

    /// The slot is written before the journal.
    mutating func act(_ cache: DiskCache, in world: World) throws {
        try cache.setTimeToLive(.hours(5), forKey: "k")
    }

    /// As if it were killed before the background has got anywhere.
    mutating func react(_ scene: inout KillScene) throws {
        let cache = try scene.world.open()
        scene.world.files.setUnreadable(true, at: try cache.entryPath(forKey: "k"))
        try cache.expireAll(tagged: "t")
        cache.settle()
        #expect(cache.data(forKey: "k") == nil, scene.context)
        scene.world.lose()
        scene.world.restart()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        #expect(cache.data(forKey: "k") == nil, scene.context)
    }
}
