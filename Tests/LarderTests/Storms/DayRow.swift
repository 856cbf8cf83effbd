import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A day of sets, removals, renewals, saves, clears and a close.
struct DayRow: KillRow {
    /// The start of a session: an empty directory, or one of these after a clean close.
    enum Beginning: CaseIterable {
        case empty, set, remove, renewal, clear, clearSpace, clearRoot, expire, expireSpace, expireRoot, quiet

        func change(_ story: inout CrashStory, _ cache: DiskCache) throws {
            switch self {
            case .empty, .quiet: break
            case .set: try story.set(cache, "k7", "changed")
            case .remove: try story.remove(cache, "k7")
            case .renewal: try cache.setTimeToLive(.hours(2), forKey: "k7")
            case .clear: try story.removeAll(cache)
            case .clearSpace: try story.removeSpace(cache)
            case .clearRoot: try story.removeRoot(cache)
            case .expire: try story.expire(cache, "k4")
            case .expireSpace: try story.expireSpace(cache)
            case .expireRoot: try story.expireRoot(cache)
            }
        }
    }

    static let all: [any KillRow] = Beginning.allCases.map(DayRow.init)

    let beginning: Beginning
    private var story = CrashStory()
    /// The call after which the story starts.
    private var start = 0

    init(_ beginning: Beginning) {
        self.beginning = beginning
    }

    var name: String { "a day that begins with \(beginning)" }
    var least: Int { 70 }

    var modes: [KillMode] {
        // Of the nights before, there are as many with a session as without.
        if beginning == .quiet { return [.powerCuts(2)] }
        let kills = [
            mode("kill-safe"), mode("power-safe", .powerSafe),
            mode("kill-safe, segments", inlineThreshold: 100),
            mode("power-safe, segments", .powerSafe, inlineThreshold: 100),
            // Some of the values of each key are longer.
            mode("kill-safe, mixed", inlineThreshold: 6),
        ]
        return beginning == .empty ? kills + [.powerCuts(1)] : kills
    }

    /// Killed again during recovery, which must be repeatable: at one of four calls, in turn.
    private func mode(_ name: String, _ durability: Durability = .killSafe, inlineThreshold: Int? = nil) -> KillMode {
        KillMode(
            name: name,
            configure: {
                $0.durability = durability
                if let inlineThreshold { $0.inlineThreshold = inlineThreshold }
            },
            aftermaths: { number in [Aftermath(again: [[3, 9, 17, 31][number % 4]])] })
    }

    /// Every beginning is followed by the same story. Once that is under way, each beginning but the first is killed in
    /// one of nine calls, and the beginnings take turns.
    func candidates(_ calls: Int) -> [Int] {
        #expect(calls > 200)
        let all = Array(1...max(1, calls))
        guard beginning != .empty, beginning != .quiet, let place = Beginning.allCases.firstIndex(of: beginning) else {
            return all
        }
        return all.filter { $0 <= start + 60 || ($0 - start) % 9 == place % 9 }
    }

    func configure(_ configuration: inout DiskCache.Configuration) { configuration.entriesPerGroup = 3 }

    mutating func prepare(_ world: inout World) throws {
        if beginning != .empty { try story.begin(&world) }
    }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        try beginning.change(&story, cache)
        start = world.files.calls
        try story.tell(cache, world)
        cache.settle()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        if scene.isFlushed || scene.aftermath.cut == nil { story.check(cache, scene.context) }
    }

    func finish(_ cache: DiskCache, _ scene: inout KillScene) throws {
        try cache.setString("works", forKey: "works")
        #expect(cache.string(forKey: "works") == "works")
    }
}
