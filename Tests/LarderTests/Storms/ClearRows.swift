import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Removing a namespace keeps the others, and none of it comes back, even without the index.
struct NamespaceClearRow: KillRow {
    private static let entries = 12
    private var hasReturned = false

    let name = "removing a namespace"
    let least = 20
    var modes: [KillMode] { [.partsLost] }

    func configure(_ configuration: inout DiskCache.Configuration) { configuration.entriesPerGroup = 3 }

    mutating func prepare(_ world: inout World) throws {
        let cache = try world.open()
        for number in 0..<Self.entries {
            for name in ["a", "b"] { try cache.namespace(name).setString(name, forKey: "\(number)") }
            try cache.setString("none", forKey: "\(number)")
        }
        cache.settle()
    }

    /// Replaced files wait to be deleted and must not come back either.
    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        for number in 0..<5 { try cache.namespace("a").setString("newer", forKey: "\(number)") }
        cache.settle()
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        let space = cache.namespace("a")
        hasReturned = code { try space.removeAll() } == nil
        if hasReturned { #expect(space.keys().isEmpty) }
        cache.settle()
        try space.setString("after", forKey: "after")
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        let space = cache.namespace("a")
        guard scene.isFlushed else {
            let isDead = !hasReturned || (0..<Self.entries).allSatisfy { space.string(forKey: "\($0)") == nil }
            #expect(isDead, "before anything is reconciled, \(scene.context)")
            return
        }
        let left = space.keys().filter { $0 != "after" }
        #expect(hasReturned ? left.isEmpty : left.isEmpty || left.count == Self.entries, scene.context)
        #expect(cache.namespace("b").keys().count == Self.entries, scene.context)
        #expect(cache.keys().count == Self.entries, scene.context)
        if scene.number == nil { #expect(space.string(forKey: "after") == "after", scene.context) }
    }
}

extension KillMode {
    /// Parts of the index are lost, and recoveries killed.
    fileprivate static var partsLost: KillMode {
        let again = [[], [4], [30]]
        return KillMode(
            name: "parts of the index lost", aftermaths: { _ in Aftermath.each(Aftermath.losses, again: again) })
    }
}

/// Removing the part without a namespace keeps the namespaces, and none of it comes back, even without the index.
struct RootClearRow: KillRow {
    private static let entries = 6
    private var hasReturned = false

    let name = "removing the part without a namespace"
    let least = 8
    var modes: [KillMode] { [.partsLost] }

    mutating func prepare(_ world: inout World) throws {
        let cache = try world.open()
        for number in 0..<Self.entries {
            try cache.setString("root", forKey: "\(number)")
            try cache.namespace("a").setString("of a", forKey: "\(number)")
        }
        cache.settle()
    }

    /// Replaced files wait to be deleted and must not come back either.
    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        for number in 0..<3 { try cache.setString("newer", forKey: "\(number)") }
        cache.settle()
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        hasReturned = code { try cache.namespace("").removeAll() } == nil
        if hasReturned { #expect(cache.keys().isEmpty && cache.count == 0) }
        cache.settle()
        try cache.setString("after", forKey: "after")
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        let space = cache.namespace("a")
        guard scene.isFlushed else {
            for key in (0..<Self.entries).map(String.init) {
                if hasReturned { #expect(cache.string(forKey: key) == nil, scene.context) }
                #expect(space.string(forKey: key) == "of a", scene.context)
            }
            return
        }
        let left = cache.keys().filter { $0 != "after" }
        #expect(hasReturned ? left.isEmpty : left.isEmpty || left.count == Self.entries, scene.context)
        #expect(space.keys().count == Self.entries && space.count == Self.entries, scene.context)
        if scene.number == nil { #expect(cache.string(forKey: "after") == "after", scene.context) }
    }
}

/// Power-safe, it stays removed and the namespaces stay after a power cut, even without the index.
struct RootClearPowerCutRow: KillRow {
    private var hasReturned = false

    let name = "removing the part without a namespace, just filled"
    let least = 8
    var modes: [KillMode] { [.powerCuts(2, losingIndex: 1)] }

    /// In this session, so that a power cut may take anything that is not synced.
    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try RootPartTests().filled(world)
        cache.settle()
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        hasReturned = code { try cache.namespace("").removeAll() } == nil
        cache.settle()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        guard scene.isFlushed else {
            if hasReturned { #expect((0..<3).allSatisfy { cache.string(forKey: "\($0)") == nil }, scene.context) }
            #expect(cache.namespace("a").string(forKey: "1") == "of a", scene.context)
            return
        }
        RootPartTests().expect([hasReturned || cache.count == 0 ? 0 : 3, 2, 1], in: cache, scene.context)
    }
}

/// After a tag is removed, predecessors of tagged values stay dead.
struct TagClearRow: KillRow {
    private var hasReturned = false

    let name = "removing a tag"
    let least = 2
    var tried: Int? { 12 }

    /// What follows a completed removal is killed in many calls, what follows a kill in one.
    var modes: [KillMode] {
        let again = [[], [3], [6], [9], [12], [15], [18], [21]]
        return [
            KillMode(
                name: "index lost",
                aftermaths: { number in
                    let some = number == 0 ? again : [again[number % again.count]]
                    return Aftermath.each([[], ["manifest", "journal"]], again: some)
                })
        ]
    }

    func configure(_ configuration: inout DiskCache.Configuration) { configuration.sweepInterval = nil }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let disk = try world.open()
        try disk.setString("stays", forKey: "stays", ttl: .forever)
        try disk.flush()
        try disk.setString("first", forKey: "k")
        try disk.setString("second", forKey: "k", tags: ["t"])
        try disk.setString("third", forKey: "l", tags: ["t"])
        try disk.setString("fourth", forKey: "l")
        return disk
    }

    /// The process dies before the background deletes anything.
    mutating func act(_ disk: DiskCache, in world: World) throws {
        try disk.store.maintenance.alone {
            try disk.removeAll(tagged: "t")
            hasReturned = true
            #expect(disk.string(forKey: "k") == nil)
            world.files.kill()
        }
    }

    func check(_ disk: DiskCache, _ scene: KillScene) {
        guard scene.isFlushed else { return }
        let keys = disk.keys().sorted()
        let isPending = !hasReturned && keys == ["k", "l", "stays"] && disk.string(forKey: "k") == "second"
        #expect(isPending || keys == ["l", "stays"], scene.context)
        #expect(disk.string(forKey: "l") == "fourth", scene.context)
    }
}
