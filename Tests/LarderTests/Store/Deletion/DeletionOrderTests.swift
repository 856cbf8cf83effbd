import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// The disk may keep any of the deletions that were not synced, in any order.
@Suite("After a power cut and the loss of the index, no older value of a key comes back", .storm)
struct DeletionOrderTests {
    enum Change: CaseIterable {
        case removed, expired, evicted

        func apply(to cache: DiskCache, in world: World) throws {
            switch self {
            case .removed: try cache.removeValue(forKey: "k")
            case .expired:
                world.clock.advance(by: .seconds(7200))
                _ = cache.removeExpired()
                cache.settle()
            case .evicted:
                cache.trim(toCount: 1)
                cache.settle()
            }
        }
    }

    @Test("with changes that are synced", arguments: Sample.few(2, of: Change.allCases))
    func powerSafe(change: Change) throws {
        var cuts = 0
        for seed in 1...100 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var world = World {
                $0.sweepInterval = nil
                $0.durability = .powerSafe
            }
            var cache = try world.open()
            for number in 1...3 { try cache.setString("old", forKey: "k", ttl: .days(Double(number) + 9)) }
            try cache.setString("new", forKey: "k", ttl: .hours(1))
            world.clock.advance(by: .seconds(1))
            // Used last, so it stays; its footer proves that the directory is a cache.
            try cache.setString("anchor", forKey: "anchor", ttl: .forever)
            if generator.chance(30) { cache.settle() }
            if generator.chance(70) { _ = world.killing(in: Int.random(in: 1...12, using: &generator)) }
            try? change.apply(to: cache, in: world)
            if world.files.isDead { cuts += 1 }
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            for name in world.names where name.hasPrefix("journal") || name.hasPrefix("manifest") { world.remove(name) }
            cache = try world.open()
            let context = Comment("seed \(seed), \(change)")
            for round in 0..<2 {
                let found = cache.string(forKey: "k")
                #expect(found == nil || found == "new" && change != .expired, context)
                if round == 0 { try cache.flush() }
            }
            cache.checkInvariants(world, settled: true)
        }
        #expect(cuts > 8)
    }

    /// What `RemovedTwiceRow` does, twice.
    enum Removal: CaseIterable {
        case one, all

        func apply(to cache: DiskCache) throws {
            switch self {
            case .one: try cache.removeValue(forKey: "k")
            case .all: try cache.removeAll()
            }
        }
    }

    @Test("a removal holds that found nothing because another process had deleted the file")
    func removedElsewhere() throws {
        for seed in Sample.few(8, of: 1...30 as ClosedRange<UInt64>) {
            var generator = SeededGenerator(seed: seed)
            var world = World.shared {
                $0.sweepInterval = nil
                $0.durability = .powerSafe
            }
            let cache = try world.open()
            try cache.namespace("anchor").setString("anchor", forKey: "anchor", ttl: .forever)
            try cache.setString("v", forKey: "k")
            let other = try world.anotherProcess().open()
            other.trim(toCount: 1)
            other.settle()
            try cache.removeValue(forKey: "k")
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            for name in world.names where name.hasPrefix("journal") || name.hasPrefix("manifest") { world.remove(name) }
            #expect(try world.open().string(forKey: "k") == nil, "seed \(seed)")
        }
    }

    @Test("a clear on a full disk holds, without a tombstone", arguments: [DiskCache.Sharing.exclusive, .processes])
    func clearedWithoutRoom(sharing: DiskCache.Sharing) throws {
        for seed in Sample.few(8, of: 1...30 as ClosedRange<UInt64>) {
            var generator = SeededGenerator(seed: seed)
            var world = World {
                $0.sweepInterval = nil
                $0.durability = .powerSafe
                $0.sharing = sharing
            }
            let cache = try world.open()
            try cache.namespace("anchor").setString("anchor", forKey: "anchor", ttl: .forever)
            for number in 0..<4 { try cache.setString("v", forKey: "\(number)") }
            world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
            try cache.removeAll()
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            for name in world.names where name.hasPrefix("journal") || name.hasPrefix("manifest") { world.remove(name) }
            let again = try world.open()
            for number in 0..<4 { #expect(again.string(forKey: "\(number)") == nil, "seed \(seed)") }
        }
    }
}
