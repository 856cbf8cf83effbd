import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// `KillTableTests` kills the process in each call of these.
@Suite("Power cuts after copies and imports", .storm)
struct LimitCrashTests {
    @Test(
        "after a power cut, with or without the index, a returned power-safe copy or import is there",
        arguments: Sample.few(6, of: 1...20 as ClosedRange<UInt64>))
    func powerSafe(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var world = World.grouped {
            $0.countLimit = 9
            $0.durability = .powerSafe
        }
        try LimitStory.prepare(&world)
        var cache = try world.open()
        try cache.copyFile(at: URL(fileURLWithPath: "/out/small"), forKey: "small")
        try cache.copyFile(at: URL(fileURLWithPath: "/out/large"), forKey: "large")
        try cache.importEGOCache(from: URL(fileURLWithPath: "/old"))
        var image = world.files.imageAfterPowerCut(using: &generator)
        if seed.isMultiple(of: 2) {
            for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        }
        world.restart(with: image)
        cache = try world.open()
        try cache.flush()
        let isLargeThere = cache.string(forKey: "large") == LimitStory.large
        #expect(isLargeThere && cache.string(forKey: "small") == "small", "seed \(seed)")
        #expect(cache.string(forKey: "a/b") == "ab" && cache.string(forKey: "c") == "c", "seed \(seed)")
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }
}
