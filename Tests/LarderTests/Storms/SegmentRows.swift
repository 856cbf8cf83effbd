import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Killed while it cleans, a process loses nothing, and nothing removed comes back.
struct CleaningRow: KillRow {
    private var expected = SegmentCleaningTests.filled

    let name = "cleaning segments"
    let least = 60

    var modes: [KillMode] {
        [Durability.killSafe, .powerSafe].map { durability in
            KillMode(name: "\(durability)", configure: { $0.durability = durability }) { _ in
                Aftermath.each([[], Aftermath.index], again: [[]])
            }
        }
    }

    mutating func prepare(_ world: inout World) throws {
        let durability = world.configuration.durability
        world = try SegmentCleaningTests.dirty { $0.durability = durability }
    }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        cache.settle()
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws { try cache.flush() }

    mutating func react(_ scene: inout KillScene) throws {
        let (number, actions) = (scene.number ?? 0, SegmentCleaningTests.Action.allCases)
        let action = actions[(number / 3 + number) % actions.count]
        let cache = try scene.world.open()
        try action.run(cache, &expected)
        SegmentCleaningTests.check(cache, expected, "\(scene.context), then \(action)")
        scene.world.restart()
        scene.world.loseIndex()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        SegmentCleaningTests.check(cache, expected, "\(scene.context), acted, the index lost (again)")
    }
}

/// A power cut while it cleans loses no value that was on stable storage.
struct CleaningPowerCutRow: KillRow {
    private var expected = SegmentCleaningTests.filled

    let name = "cleaning segments of stable storage"
    let least = 60

    var modes: [KillMode] {
        [Durability.killSafe, .powerSafe].map { durability in
            KillMode(name: "\(durability)", configure: { $0.durability = durability }) { _ in
                (0..<3).map { Aftermath(cut: $0) }
            }
        }
    }

    mutating func prepare(_ world: inout World) throws {
        let durability = world.configuration.durability
        world = try SegmentCleaningTests.dirty { $0.durability = durability }
    }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        cache.settle()
        world.files.syncAll()
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws { try cache.flush() }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        SegmentCleaningTests.check(cache, expected, scene.context)
    }

    mutating func use(_ cache: DiskCache, _ scene: KillScene) throws {
        try cache.removeValue(forKey: "1")
        expected[1] = nil
    }

    func finish(_ cache: DiskCache, _ scene: inout KillScene) throws {
        scene.world.restart()
        scene.world.loseIndex()
        SegmentCleaningTests.check(try scene.world.open(), expected, "\(scene.context), index lost")
    }
}

/// Wherever it is killed, a directory with a segment has a journal or a manifest of the new version.
struct FirstSegmentRow: KillRow {
    /// A session without a threshold.
    enum Before: CaseIterable {
        case nothing, closed, killed
    }

    static let all: [any KillRow] = Before.allCases.map { FirstSegmentRow(before: $0) }

    let before: Before

    var name: String { "the first segment, after a session: \(before)" }
    var least: Int { 5 }
    var leastTelling: Int? { Sample.size(5, usually: 0) }
    var tried: Int? { 12 }

    var modes: [KillMode] { KillMode.aloneAndShared }

    mutating func prepare(_ world: inout World) throws {
        world.configuration.inlineThreshold = 0
        if before != .nothing {
            let plain = try world.open()
            try plain.setString("own file", forKey: "old")
            if before == .closed { try plain.close() }
        }
        world.restart()
        world.configuration.inlineThreshold = 100
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        try cache.setString("v", forKey: "k")
        try cache.flush()
        try cache.close()
    }

    func inspect(_ remains: World, _ context: Comment) -> Bool {
        if remains.segments.isEmpty { return false }
        #expect(SegmentVersionTests.versions(remains).contains(3), context)
        return true
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        if before != .nothing { #expect(cache.string(forKey: "old") == "own file", scene.context) }
    }
}

/// A segment that could not be read after the last process had died is looked at again.
struct UnreadableSegmentRow: KillRow {
    static let all: [any KillRow] = [true, false].map { UnreadableSegmentRow(isSaved: $0) }

    let isSaved: Bool
    private var segment: UInt64 = 0
    private var other: DiskCache?

    init(isSaved: Bool) {
        self.isSaved = isSaved
    }

    var name: String { "a set in a segment that cannot be read afterwards\(isSaved ? ", saved before" : "")" }
    var least: Int { 1 }
    var leastTelling: Int? { 0 }
    var tried: Int? { 12 }

    var modes: [KillMode] { KillMode.aloneAndShared }

    mutating func prepare(_ world: inout World) throws {
        world = SegmentRetryTests.world(world.configuration.sharing) { $0.entriesPerGroup = 3 }
    }

    mutating func begin(_ world: World) throws -> DiskCache? {
        let cache = try world.open()
        other = world.configuration.sharing == .processes ? try world.anotherProcess().open() : nil
        try other?.setString("v", forKey: "other", ttl: .forever)
        for key in 0..<12 { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        if isSaved { try cache.flush() }
        segment = try SegmentRetryTests.segment(of: "11", in: cache)
        return cache
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        try cache.setString("never acknowledged", forKey: "k", ttl: .forever)
    }

    /// Whether the value has been appended.
    func inspect(_ remains: World, _ context: Comment) -> Bool {
        let content = remains.files.image.content(at: SegmentRetryTests.path(segment)) ?? []
        return Data(content).range(of: Data("never acknowledged".utf8)) != nil
    }

    mutating func react(_ scene: inout KillScene) throws {
        let path = SegmentRetryTests.path(segment)
        scene.world.files.setUnreadable(true, at: path)
        let cache = try scene.world.open()
        cache.settle()
        scene.world.files.setUnreadable(false, at: path)
        try cache.flush()
        try cache.setString("newer", forKey: "k", ttl: .forever)
        try cache.removeValue(forKey: "k")
        try cache.close()
        scene.world.restart()
        scene.world.loseIndex()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        #expect(cache.string(forKey: "k") == nil && cache.string(forKey: "11") == "value 11", scene.context)
    }
}
