import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Every test here acts before files and index are reconciled, and flushes afterward.
@Suite("An expired entry stays expired after kills, power cuts and the loss of the index", .storm)
struct SoftInvalidationLossTests {
    /// The progress of the background work when the process is killed.
    enum Moment: CaseIterable {
        case atOnce, settled, flushed, closed, sweptAndSaved

        func apply(to cache: DiskCache) throws {
            switch self {
            case .atOnce: break
            case .settled: cache.settle()
            case .flushed: try cache.flush()
            case .closed: try cache.close()
            case .sweptAndSaved:
                _ = cache.removeExpired()
                try cache.store.housekeeper.save(always: true)
            }
        }
    }

    static let losses = [[], ["manifest.json"], ["journal"], ["manifest.json", "journal"]]

    private func lose(_ loss: [String], in world: inout World) {
        for name in world.names where loss.contains(where: { name.hasPrefix($0) }) { world.remove(name) }
    }

    /// A saved directory with entries, of which a caller then expired "k" and others.
    private func expired(_ invalidation: Invalidation, _ moment: Moment) throws -> World {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<20 { try cache.setString("v", forKey: "\(number)") }
        for space in ["", "space"] {
            let part = cache.namespace(space)
            try part.setKept("k", forKey: "k", ttl: .forever, tags: ["t"])
            try part.setString("plain", forKey: "plain", tags: ["t"])
        }
        try cache.close()
        world.restart()
        cache = try world.open()
        let part = cache.namespace(invalidation.namespace)
        try part.setString("new", forKey: "new", tags: ["t"])
        if invalidation == .key { try part.expireValue(forKey: "plain") }
        if invalidation == .key { try part.expireValue(forKey: "new") }
        try invalidation.apply(to: cache)
        world.clock.advance(by: .seconds(5))
        try part.setString("later", forKey: "later", tags: ["t"])
        try moment.apply(to: cache)
        return world
    }

    @Test(
        "after a kill with parts of the index lost", arguments: Invalidation.allCases,
        Sample.few(2, of: Moment.allCases))
    func lost(invalidation: Invalidation, moment: Moment) throws {
        for loss in Sample.few(2, of: Self.losses) {
            let context = Comment("\(invalidation), \(moment), without \(loss)")
            var world = try expired(invalidation, moment)
            let end = world.clock.milliseconds - 5_000 + 60_000
            lose(loss, in: &world)
            world.restart()
            var cache = try world.open()
            world.files.holdingOtherReaders {
                let part = cache.namespace(invalidation.namespace)
                for key in ["k", "plain", "new"] { #expect(part.data(forKey: key) == nil, context) }
                let found = part.usable("k")
                #expect(found == "k" || found == nil && !loss.isEmpty, context)
            }
            // Killed again before reconciliation, then reconciled to the end, and once more without any index.
            for round in 0..<3 {
                world.restart()
                if round == 2 { lose(["manifest.json", "journal"], in: &world) }
                cache = try world.open()
                let part = cache.namespace(invalidation.namespace)
                for key in ["k", "plain", "new"] { #expect(part.data(forKey: key) == nil, context) }
                if round == 0 { continue }
                try cache.flush()
                for key in ["k", "plain", "new"] { #expect(part.data(forKey: key) == nil, context) }
                #expect(part.usable("k") == "k" && part.keptUntil("k") == end, context)
                #expect(part.usable("plain") == nil && part.usable("new") == nil, context)
                #expect(part.string(forKey: "later") == "later", context)
                let other = cache.namespace(invalidation == .namespace ? "" : "space")
                #expect(other.string(forKey: "k") == "k" && other.string(forKey: "plain") == "plain", context)
                let isRootExpired = invalidation == .root
                #expect(cache.string(forKey: "7") == (isRootExpired ? nil : "v"), context)
                // A manifest without its journal has no record of removals.
                #expect(cache.statistics.losses == 0 || loss == ["journal"], context)
                #expect(cache.statistics.corruptions == 0, context)
                cache.checkInvariants(world, settled: true)
                #expect(!cache.store.index.hasMarks && !cache.store.reaper.hasTombstones, context)
            }
        }
    }

    @Test(
        "after a power cut, if changes are synced", arguments: Invalidation.allCases, Sample.few(2, of: Moment.allCases)
    )
    func powerCut(invalidation: Invalidation, moment: Moment) throws {
        for seed in Sample.few(2, of: 1...8 as ClosedRange<UInt64>) {
            var generator = SeededGenerator(seed: seed)
            var world = World {
                $0.sweepInterval = nil
                $0.durability = .powerSafe
            }
            var cache = try world.open()
            let part = cache.namespace(invalidation.namespace)
            try part.setKept("k", forKey: "k", tags: ["t"])
            try part.setString("plain", forKey: "plain", ttl: .forever, tags: ["t"])
            if generator.chance(50) { try cache.flush() }
            if invalidation == .key { try part.expireValue(forKey: "plain") }
            try invalidation.apply(to: cache)
            let end = part.keptUntil("k")
            try part.setString("later", forKey: "later", tags: ["t"])
            try moment.apply(to: cache)
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            let isLost = generator.chance(50)
            if isLost { lose(["manifest.json", "journal"], in: &world) }
            cache = try world.open()
            let again = cache.namespace(invalidation.namespace)
            let context = Comment("seed \(seed), \(invalidation), \(moment)")
            #expect(again.data(forKey: "k") == nil && again.data(forKey: "plain") == nil, context)
            try cache.flush()
            #expect(again.data(forKey: "k") == nil && again.data(forKey: "plain") == nil, context)
            // The power may go while the life in the file is being changed; then only the index knows it.
            let mayBeTorn = moment == .atOnce && isLost
            let found = again.usable("k")
            #expect(found == "k" && again.keptUntil("k") == end || found == nil && mayBeTorn, context)
            #expect(again.string(forKey: "later") == "later", context)
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("an expiry during the rebuild of a lost index applies at once", arguments: Invalidation.allCases)
    func provisional(_ invalidation: Invalidation) throws {
        let count = OpeningScan.mostAtOnce + 700
        for loss in Sample.few(1, of: Self.losses.dropFirst()) {
            var world = World { $0.sweepInterval = nil }
            var cache = try world.open()
            try cache.namespace(invalidation.namespace).setKept("k", forKey: "k", tags: ["t"])
            for number in 0..<count {
                try cache.namespace(invalidation.namespace).setString("v", forKey: "\(number)", tags: ["t"])
            }
            try cache.flush()
            try cache.setString("more", forKey: "more")
            lose(loss, in: &world)
            world.restart()
            cache = try world.open()
            // The key waits for the scan; a scope does not.
            try invalidation.apply(to: cache)
            let part = cache.namespace(invalidation.namespace)
            #expect(part.data(forKey: "k") == nil && (invalidation == .key || part.data(forKey: "7") == nil))
            let image = world.files.image
            for isKilled in [false, true] {
                if isKilled {
                    world.restart(with: image)
                    lose(["manifest.json", "journal"], in: &world)
                    cache = try world.open()
                }
                let part = cache.namespace(invalidation.namespace)
                #expect(part.data(forKey: "k") == nil, "\(loss)")
                try cache.flush()
                #expect(part.data(forKey: "k") == nil && part.usable("k") == "k", "\(loss)")
                #expect(part.string(forKey: "7") == (invalidation == .key ? "v" : nil), "\(loss)")
                #expect(part.usable("7") == (invalidation == .key ? "v" : nil), "\(loss)")
                cache.checkInvariants(world, settled: true)
                #expect(!cache.store.index.hasMarks && !cache.store.reaper.hasTombstones)
            }
        }
    }

    @Test("a temporarily unreadable file does not bring back a fresh value", arguments: Invalidation.allCases)
    func unreadable(_ invalidation: Invalidation) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("older", forKey: "older")
        try cache.namespace(invalidation.namespace).setKept("k", forKey: "k", ttl: .forever, tags: ["t"])
        lose(["manifest.json", "journal"], in: &world)
        world.restart()
        world.failRead(1)
        cache = try world.open()
        cache.settle()
        let part = cache.namespace(invalidation.namespace)
        if invalidation == .key {
            #expect(try !part.expireValue(forKey: "k"), "it is not known yet")
        } else {
            try invalidation.apply(to: cache)
        }
        cache.settle()
        #expect(part.data(forKey: "k") == nil)
        world.files.inject(nil)
        try cache.flush()
        #expect(part.data(forKey: "k") == nil)
        #expect(part.usable("k") == (invalidation == .key ? nil : "k"), "a key is removed in this case")
        cache.checkInvariants(world, settled: true)
        #expect(!cache.store.index.hasMarks && !cache.store.reaper.hasTombstones)
    }

    @Test("an end that cannot be written to a file keeps its mark, and a later sweep writes it")
    func unwritable() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setKept("k", forKey: "k", tags: ["t"])
        try cache.setKept("l", forKey: "l", tags: ["t"])
        try cache.flush()
        try cache.expireAll(tagged: "t")
        let isBroken = Lock(true)
        world.files.inject { _, operation in
            operation == .open && isBroken.withLock { $0 } ? .fail(.io) : nil
        }
        cache.settle()
        #expect(cache.store.index.hasMarks || cache.statistics.failures == 0)
        isBroken.withLock { $0 = false }
        try cache.flush()
        #expect(!cache.store.index.hasMarks && !cache.store.reaper.hasTombstones)
        lose(["manifest.json", "journal"], in: &world)
        world.restart()
        cache = try world.open()
        #expect(cache.data(forKey: "k") == nil && cache.data(forKey: "l") == nil)
        try cache.flush()
        #expect(cache.usable("k") == "k" && cache.usable("l") == "l")
        #expect(cache.data(forKey: "k") == nil && cache.data(forKey: "l") == nil)
    }

    @Test("marks and tombstones are bounded by the number of unwritten ends")
    func bounded() throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<200 {
            try cache.setKept("v", forKey: "k \(number % 7)", tags: ["t\(number)"])
            world.clock.advance(by: .milliseconds(1))
            try cache.expireAll(tagged: "t\(number)")
            if number % 50 == 49 { try cache.flush() }
        }
        #expect(!cache.store.index.hasMarks && cache.store.reaper.tombstoneCount == 0)
        #expect(cache.store.provisional.marks.isEmpty)
        cache.checkInvariants(world, settled: true)
    }
}
