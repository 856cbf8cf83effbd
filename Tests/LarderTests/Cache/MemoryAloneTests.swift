import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A full disk and a value above the size limit are the usual reasons.
@Suite("Values that the disk cannot store are kept in memory alone")
struct MemoryAloneTests {
    @Test("neither another cache nor the disk has an older value than the returned one")
    func coherence() async throws {
        let world = World { $0.sizeLimit = 100 }
        let disk = try world.open()
        let (one, two) = (Cache<String>(disk: disk, namespace: "n"), Cache<String>(disk: disk, namespace: "n"))
        try await one.setValue("v1", forKey: "k")
        let large = String(repeating: "v", count: 101)
        #expect(try await one.value(forKey: "k", policy: .reload) { large } == large)
        #expect(await one.value(forKey: "k") == large)
        #expect(await two.value(forKey: "k") != "v1")
        #expect(disk.namespace("n").string(forKey: "k") != "v1")
        one.memoryTier?.removeAll()
        #expect(await one.value(forKey: "k") != "v1")
    }

    @Test("a slow read does not overwrite a newer value")
    func promoteOverUnstored() async throws {
        let (world, decodes) = (World { $0.sweepInterval = nil }, JoinedReadTests.Decodes())
        let cache = Cache<String>(disk: try world.open(), namespace: "n", coder: decodes.coder)
        try world.open().namespace("n").setString("v1", forKey: "k")
        decodes.hold()
        let read = begin { await cache.value(forKey: "k") }
        await until("decode") { decodes.count == 1 }
        failWrites(world)
        #expect(try await cache.value(forKey: "k", policy: .reload) { "v2" } == "v2")
        #expect(await cache.value(forKey: "k") == "v2")
        decodes.letGo()
        _ = try await read.value
        #expect(await cache.value(forKey: "k") == "v2")
    }

    @Test("their lives can be set, and no older value comes back")
    func lifeOfUnstored() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        try await cache.setValue("v1", forKey: "k")
        failWrites(world)
        #expect(try await cache.value(forKey: "k", policy: .reload) { "v2" } == "v2")
        #expect(try await cache.value(forKey: "x") { "x1" } == "x1")
        world.files.inject(nil)
        let renewedX = try await cache.setTimeToLive(.hours(48), forKey: "x")
        #expect(renewedX)
        #expect(await cache.hasValue(forKey: "x"))
        #expect(try await cache.setTimeToLive(.hours(2), forKey: "k"))
        #expect(await cache.value(forKey: "k") == "v2")
    }

    @Test("a shorter life applies, and a zero life removes the value")
    func shorten() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        failWrites(world)
        #expect(try await cache.value(forKey: "x") { "x1" } == "x1")
        world.files.inject(nil)
        _ = try await cache.setTimeToLive(.seconds(1), forKey: "x")
        world.clock.advance(by: .seconds(10))
        #expect(await cache.value(forKey: "x") == nil, "its life was a second")
        failWrites(world)
        #expect(try await cache.value(forKey: "y") { "y1" } == "y1")
        world.files.inject(nil)
        _ = try await cache.setTimeToLive(.seconds(0), forKey: "y")
        #expect(await cache.value(forKey: "y") == nil, "removed")
    }

    @Test("removing an absence or an expired value returns false")
    func removeUnstored() async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        let long = String(repeating: "k", count: 70_000)
        #expect(try await cache.optionalValue(forKey: long) { nil } == nil)
        #expect(await cache.hasValue(forKey: long) == false)
        #expect(try await cache.removeValue(forKey: long) == false, "absent")
        _ = try await cache.value(forKey: long, ttl: .seconds(1), policy: .staleIfError(for: .hours(1))) { "v" }
        world.clock.advance(by: .seconds(10))
        #expect(await cache.hasValue(forKey: long) == false)
        #expect(try await cache.removeValue(forKey: long) == false, "stale")
    }

    @Test("a cache whose directory is closed still notices changes through other handles")
    func closedHandle() async throws {
        let world = World { $0.sweepInterval = nil }
        let (one, two) = (try world.open(), try world.open())
        let a = Cache<String>(disk: one, namespace: "n")
        let b = Cache<String>(disk: two, namespace: "n")
        try one.close()
        #expect(try await a.value(forKey: "k") { "v1" } == "v1")
        try await b.setValue("v2", forKey: "k")
        #expect(await a.value(forKey: "k") != "v1")
        try await b.removeValue(forKey: "k")
        #expect(await a.value(forKey: "k") != "v1")
    }

    @Test("a fetched value that is not to be stored removes them")
    func doNotKeep() async throws {
        let disk = try World().open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        try disk.close()
        _ = try await cache.value(forKey: "k") { "v1" }
        #expect(try await cache.value(forKey: "k", ttl: .seconds(0), policy: .reload) { "v2" } == "v2")
        #expect(await cache.value(forKey: "k") == nil)
    }
}
