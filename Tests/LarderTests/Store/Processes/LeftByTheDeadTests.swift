import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("Files that no line mentions, after all processes of a directory were killed")
struct LeftByTheDeadTests {
    private static func world(inline: Int = 0) -> World {
        World.shared {
            $0.entriesPerGroup = 3
            $0.sweepInterval = nil
            $0.inlineThreshold = inline
        }
    }

    private static func kill(_ world: inout World) {
        world.files.kill()
        world.restart(with: world.files.restarted().image)
    }

    enum Change: CaseIterable {
        case remove, expire, set, tag, namespace, expireNamespace

        var isOfNamespace: Bool { self == .namespace || self == .expireNamespace }

        fileprivate func read(_ cache: DiskCache) -> String? {
            isOfNamespace ? cache.namespace("n").string(forKey: "3") : cache.string(forKey: "3")
        }

        /// A set of the key 3 that no call acknowledges.
        fileprivate func begin(_ cache: DiskCache) {
            _ = code {
                if isOfNamespace {
                    try cache.namespace("n").setString("killed", forKey: "3")
                } else {
                    try cache.setString("killed", forKey: "3", tags: ["t"])
                }
            }
        }

        fileprivate func apply(_ cache: DiskCache) throws {
            switch self {
            case .remove: try cache.removeValue(forKey: "3")
            case .expire: try cache.expireValue(forKey: "3")
            case .set: try cache.setString("new", forKey: "3")
            case .tag: try cache.removeAll(tagged: "t")
            case .namespace: try cache.namespace("n").removeAll()
            case .expireNamespace: try cache.namespace("n").expireAll()
            }
        }
    }

    private static func fill(_ cache: DiskCache, saves: Int = 1) throws {
        for number in 0..<20 { try cache.setString("v\(number)", forKey: "\(number)", tags: ["t"]) }
        for number in 0..<saves {
            try cache.setString("\(number)", forKey: "saves")
            try cache.flush()
        }
    }

    /// A set that is killed in a call; nil when it has fewer.
    private static func begin(_ change: Change, call: Int, inline: Int) throws -> World? {
        var world = world(inline: inline)
        let cache = try world.open()
        try fill(cache)
        let isReached = world.killing(in: call)
        change.begin(cache)
        cache.settle()
        if !isReached.withLock({ $0 }) { return nil }
        kill(&world)
        return world
    }

    enum Loss: CaseIterable { case index, page }

    /// An acknowledged change, after which nothing of the dead may be answered, whatever is lost.
    private static func change(_ change: Change, _ start: World, _ loss: Loss, _ comment: String) throws {
        var world = start
        let cache = try world.open()
        try change.apply(cache)
        let expected: String? = change == .set ? "new" : nil
        #expect(change.read(cache) == expected, "\(comment)")
        kill(&world)
        switch loss {
        case .index: world.loseIndex()
        case .page:
            var image = world.files.image
            image.boot += 1
            world.restart(with: image)
        }
        let last = try world.open()
        #expect(change.read(last) == expected, "afterwards, \(comment)")
        try last.flush()
        #expect(change.read(last) == expected, "flushed, \(comment)")
    }

    @Test("are covered by each later change", arguments: Change.allCases, Loss.allCases)
    func covered(change: Change, loss: Loss) throws {
        for inline in [0, 1_000] {
            for call in 1...30 {
                guard let world = try Self.begin(change, call: call, inline: inline) else { break }
                try Self.change(change, world, loss, "inline \(inline), call \(call)")
            }
        }
    }

    @Test("are covered, too, when an opening was killed before", arguments: [Change.tag, .namespace], [0, 1_000])
    func killedAgain(change: Change, inline: Int) throws {
        for call in stride(from: 2, through: 30, by: 2) {
            guard let start = try Self.begin(change, call: call, inline: inline) else { break }
            for again in 1...60 {
                var world = start
                world.restart(with: start.files.image)
                let isReached = world.killing(in: again)
                _ = try? world.open()
                if !isReached.withLock({ $0 }) { break }
                Self.kill(&world)
                try Self.change(change, world, .page, "call \(call), then \(again)")
            }
        }
    }

    @Test("are covered by a change of a survivor", arguments: Change.allCases)
    func survivor(change: Change) throws {
        for call in 1...30 {
            let world = Self.world()
            var other = world.anotherProcess()
            let cache = try world.open()
            try Self.fill(cache)
            let survivor = try other.open()
            let isReached = world.killing(in: call)
            change.begin(cache)
            cache.settle()
            if !isReached.withLock({ $0 }) { break }
            world.files.kill()
            survivor.store.disk.others.object.membership.buryTheDead()
            try change.apply(survivor)
            Self.kill(&other)
            other.loseIndex()
            let last = try other.open()
            #expect(change.read(last) == (change == .set ? "new" : nil), "call \(call)")
        }
    }

    @Test("stay dead, however often the index was saved before", arguments: [1, 28, 29, 40], [false, true])
    func manySaves(saves: Int, removes: Bool) throws {
        for call in 1...20 {
            var world = Self.world()
            let cache = try world.open()
            try Self.fill(cache, saves: saves)
            let isReached = world.killing(in: call)
            Change.remove.begin(cache)
            cache.settle()
            if !isReached.withLock({ $0 }) { break }
            Self.kill(&world)
            let second = try world.open()
            #expect(second.store.disk.others.object.page.isProved == true)
            if removes { try second.removeValue(forKey: "3") }
            let seen = second.string(forKey: "3")
            Self.kill(&world)
            #expect(try world.open().string(forKey: "3") == seen, "call \(call)")
        }
    }

    @Test("lie beside groups that a store verifies, too, when it moves to a directory of dead processes")
    func moved() throws {
        let world = Self.world()
        let first = try world.open()
        try first.setString("old", forKey: "old")
        try first.flush()
        try world.files.deleteTree("cache")
        let dead = world.anotherProcess()
        let victim = try dead.open()
        for number in 0..<60 { try victim.setString("v\(number)", forKey: "\(number)") }
        try victim.flush()
        dead.files.kill()
        world.files.tamper { image in
            guard var content = image.content(at: "/cache/manifest.json") else { return }
            content[content.count / 3] ^= 1
            image.setContent(content, at: "/cache/manifest.json")
        }
        try first.setString("new", forKey: "new")
        let second = try world.anotherProcess().open()
        try first.flush()
        for cache in [first, second] {
            for number in 0..<60 { #expect(cache.string(forKey: "\(number)") == "v\(number)") }
        }
    }
}
