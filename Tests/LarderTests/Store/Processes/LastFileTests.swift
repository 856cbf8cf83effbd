import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

/// One process ends a value, and another has still to delete the older one that it had replaced.
@Suite("The last file of a key is the last to go")
struct LastFileTests {
    enum End: String, CaseIterable {
        case removal, eviction, expiry, sweep, clear, clearOfTag, damage
    }

    /// Process 2 stores `k` twice, and owes the first file. Process 1 ends the value.
    private func ended(
        by end: End, _ inlineThreshold: Int
    ) throws -> (worlds: (World, World), one: DiskCache, two: DiskCache) {
        let world = World.shared { $0.inlineThreshold = inlineThreshold }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        let life: TimeToLive = end == .sweep ? .seconds(10) : .days(1)
        try two.setData(data("old"), forKey: "k")
        try two.setData(data("new"), forKey: "k", ttl: life, tags: ["t"])
        switch end {
        case .removal: try one.removeValue(forKey: "k")
        case .eviction: one.trim(toCount: 0)
        case .expiry: try one.expireValue(forKey: "k")
        case .sweep:
            world.clock.advance(by: .seconds(11))
            one.removeExpired()
        case .clear: try one.removeAll()
        case .clearOfTag: try one.removeAll(tagged: "t")
        case .damage:
            #expect(one.hasValue(forKey: "k"))
            let entry = try #require(one.store.index.entry(one.key("k")))
            #expect(one.store.recovery.removeUnreadable(entry, one.key("k"), as: .corrupt))
        }
        #expect(!one.hasValue(forKey: "k") && !two.hasValue(forKey: "k"))
        return ((world, other), one, two)
    }

    private static let losses = [["manifest"], ["journal"], ["shared"], ["manifest", "journal", "shared"]]

    @Test("so a lost index brings no older one back", arguments: End.allCases, [0, 1000])
    func lost(end: End, inlineThreshold: Int) throws {
        for (isFlushed, names) in [false, true].flatMap({ isFlushed in Self.losses.map { (isFlushed, $0) } }) {
            let (worlds, one, two) = try ended(by: end, inlineThreshold)
            if isFlushed { try one.flush() }
            try two.setData(data("other"), forKey: "other")
            var world = worlds.0
            world.files.kill()
            worlds.1.files.kill()
            var image = world.files.restarted().image
            for name in image.names(at: "/cache") where names.contains(where: name.hasPrefix) {
                image.remove(at: "/cache/\(name)")
            }
            for sharing in [DiskCache.Sharing.processes, .exclusive] {
                world.restart(with: image)
                world.configuration.sharing = sharing
                let cache = try world.open()
                let context = "\(names), \(sharing), \(isFlushed ? "flushed" : "not flushed")"
                #expect(!cache.hasValue(forKey: "k"), "\(context)")
                try cache.flush()
                #expect(cache.keys() == ["other"], "\(context)")
                try cache.close()
                #expect(world.fileCount == 1, "\(context)")
            }
        }
    }

    @Test("and goes when nobody has an older one", arguments: End.allCases, [0, 1000])
    func paid(end: End, inlineThreshold: Int) throws {
        let (worlds, one, two) = try ended(by: end, inlineThreshold)
        let world = worlds.0
        try one.setData(data("newest"), forKey: "k")
        for cache in [two, one, two, one] { try cache.flush() }
        #expect(one.stored("k")?.hasPrefix("newest") == true)
        #expect(!one.store.index.hasDebts && !two.store.index.hasDebts)
        for cache in [one, two] { try cache.close() }
        #expect(world.fileCount == 1)
        #expect(try world.open().verify().isClean)
    }

    @Test("nor does it keep its room when the disk has no other")
    func room() throws {
        let world = World.shared { $0.countLimit = 1000 }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        for number in 0..<4 { try two.setData(data("\(number)"), forKey: "owed") }
        for number in 0..<100 { try one.setData(Data(repeating: 1, count: 10_000), forKey: "\(number)") }
        for cache in [one, two] { cache.settle() }
        world.files.limitFreeSpace(to: 0)
        for number in 100..<120 {
            try one.setData(Data(repeating: 1, count: 10_000), forKey: "\(number)")
            #expect(one.hasValue(forKey: "\(number)"))
        }
    }
}
