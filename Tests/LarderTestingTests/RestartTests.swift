import Foundation
import Larder
import LarderTesting
import Testing

@Suite("A test's world: processes that end")
struct RestartTests {
    let world = TestWorld()

    @Test("after a restart a new cache has every acknowledged value, and lives continue")
    func restart() async throws {
        let before: Cache<String> = try world.cache()
        try await before.setValue("v", forKey: "k", ttl: .minutes(10))
        world.restart()
        let after: Cache<String> = try world.cache()
        #expect(await after.value(forKey: "k") == "v")
        world.advance(by: .seconds(600))
        #expect(await after.value(forKey: "k") == nil)
    }

    @Test("a killed process writes nothing, before or after the restart")
    func kill() async throws {
        let killed = try world.diskCache()
        try killed.setString("kept", forKey: "k")
        world.kill()
        #expect(world.isKilled)
        #expect(throws: CacheError.self) { try killed.setString("lost", forKey: "k") }
        world.restart()
        #expect(!world.isKilled)
        let next = try world.diskCache()
        #expect(throws: CacheError.self) { try killed.setString("lost", forKey: "k") }
        #expect(next.string(forKey: "k") == "kept")
        try next.setString("new", forKey: "k")
        #expect(next.string(forKey: "k") == "new")
    }

    @Test("a kill in any call of a write leaves the old value or the new one, and does not affect other keys")
    func killInEveryCall() throws {
        var number = 0
        var isKilled = true
        while isKilled {
            number += 1
            let world = TestWorld()
            let disk = try world.diskCache()
            try disk.setString("first", forKey: "a")
            try disk.setString("old", forKey: "b")
            world.kill(inCall: number)
            let isDone = (try? disk.setString("new", forKey: "b")) != nil
            isKilled = world.isKilled
            world.restart()
            let next = try world.diskCache()
            #expect(next.string(forKey: "a") == "first", "call \(number)")
            let value = next.string(forKey: "b")
            #expect(value == "new" || !isDone && value == "old", "call \(number)")
        }
        #expect(number > 2)
    }

    @Test("a power cut loses only unsynced changes", arguments: 0..<20 as Range<UInt64>)
    func powerCut(seed: UInt64) throws {
        let world = TestWorld()
        var configuration = DiskCache.Configuration()
        configuration.durability = .powerSafe
        let safe = try world.diskCache(name: "safe", configuration: configuration)
        let fast = try world.diskCache(name: "fast")
        for number in 0..<10 {
            try safe.setString("v\(number)", forKey: "\(number)")
            try fast.setString("v\(number)", forKey: "\(number)")
        }
        world.powerCut(seed: seed)
        let safeAgain = try world.diskCache(name: "safe", configuration: configuration)
        let fastAgain = try world.diskCache(name: "fast")
        for number in 0..<10 {
            #expect(safeAgain.string(forKey: "\(number)") == "v\(number)")
            let value = fastAgain.string(forKey: "\(number)")
            #expect(value == nil || value == "v\(number)")
        }
    }

    @Test("unsynced changes from before a restart can still be lost in a power cut")
    func powerCutLoses() throws {
        let losses = try (0..<20 as Range<UInt64>).filter { seed in
            let world = TestWorld()
            try world.diskCache().setString("v", forKey: "k")
            world.restart()
            world.powerCut(seed: seed)
            return try world.diskCache().string(forKey: "k") == nil
        }
        #expect(!losses.isEmpty && losses.count < 20)
    }

    @Test("a lost or damaged index costs no entries", arguments: [true, false])
    func index(isLost: Bool) async throws {
        let before: Cache<Int> = try world.cache(of: Int.self, name: "numbers")
        for number in 0..<50 { try await before.setValue(number, forKey: "\(number)") }
        try await before.flush()
        world.kill()
        if isLost { world.loseIndex(of: "numbers") } else { world.damageIndex(of: "numbers") }
        world.restart()
        let after: Cache<Int> = try world.cache(name: "numbers")
        try await after.flush()
        for number in 0..<50 { #expect(await after.value(forKey: "\(number)") == number) }
    }

    @Test("a damaged value is a miss on disk, and its copy in memory stays intact")
    func damage() async throws {
        let cache: Cache<String> = try world.cache()
        try await cache.setValue("v", forKey: "k")
        try await cache.setValue("v", forKey: "other")
        #expect(world.damageValue(forKey: "k", in: cache))
        #expect(!world.damageValue(forKey: "missing", in: cache))
        #expect(await cache.value(forKey: "k") == "v")
        cache.memory?.trim(toCount: 0)
        #expect(await cache.value(forKey: "k") == nil)
        #expect(await cache.value(forKey: "other") == "v")
    }

    @Test("worlds share nothing, and each name has its own directory")
    func apart() throws {
        let other = TestWorld()
        let disk = try world.diskCache(name: "a")
        try disk.setString("v", forKey: "k")
        #expect(try world.diskCache(name: "a").string(forKey: "k") == "v")
        #expect(try world.diskCache(name: "b").string(forKey: "k") == nil)
        #expect(try other.diskCache(name: "a").string(forKey: "k") == nil)
    }

    @Test("arranged faults end with a restart, and a full disk stays full")
    func faultsEnd() throws {
        world.failCalls()
        #expect(throws: CacheError.self) { try world.diskCache() }
        world.restart()
        let disk = try world.diskCache()
        try disk.setString("v", forKey: "k")
        world.isDiskFull = true
        world.restart()
        #expect(world.isDiskFull && world.failedCallCount == 0)
    }
}
