import Foundation
import Larder
import LarderTesting
import Testing

@Suite("A test's world: a disk that fails")
struct DiskFaultTests {
    let world = TestWorld()

    /// Returns the code of the error that a call throws; nil when it throws none.
    private func code(_ body: () async throws -> Void) async -> CacheError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? CacheError)?.code
        }
    }

    @Test("on a full disk writes throw and the old value stays, until room is made")
    func full() async throws {
        let cache: Cache<String> = try world.cache()
        try await cache.setValue("old", forKey: "k")
        #expect(!world.isDiskFull)
        world.isDiskFull = true
        #expect(world.isDiskFull && world.freeSpace == 0)
        #expect(await code { try await cache.setValue("new", forKey: "k") } == .noSpace)
        #expect(await code { try await cache.setValue("new", forKey: "other") } == .noSpace)
        #expect(await cache.value(forKey: "k") == "old")
        let fetched = try await cache.value(forKey: "fetched") { "v" }
        #expect(fetched == "v", "the full disk does not fail a fetching call")
        world.isDiskFull = false
        try await cache.setValue("new", forKey: "k")
        #expect(await cache.value(forKey: "k") == "new")
    }

    @Test("removing files makes room on a full disk")
    func room() async throws {
        let disk = try world.diskCache()
        for number in 0..<10 { try disk.setData(Data(count: 10_000), forKey: "\(number)") }
        world.settle()
        world.isDiskFull = true
        #expect(await code { try disk.setData(Data(count: 10_000), forKey: "new") } == .noSpace)
        try disk.removeValue(forKey: "1")
        world.settle()
        #expect(!world.isDiskFull && world.freeSpace >= 8_192)
        try disk.setData(Data(count: 10_000), forKey: "new")
        #expect(disk.data(forKey: "new")?.count == 10_000)
    }

    @Test("a small disk holds only values that fit on it")
    func small() async throws {
        let disk = try world.diskCache()
        world.freeSpace = 20 << 10
        try disk.setData(Data(count: 10_000), forKey: "fits")
        #expect(await code { try disk.setData(Data(count: 20_000), forKey: "does not") } == .noSpace)
        #expect(disk.data(forKey: "fits") != nil && disk.data(forKey: "does not") == nil)
    }

    @Test("failed reads are misses, and the values are readable again later")
    func reads() async throws {
        let disk = try world.diskCache()
        try disk.setString("v", forKey: "k")
        world.failCalls(.reads)
        #expect(disk.string(forKey: "k") == nil)
        #expect(world.failedCallCount > 0)
        world.endFaults()
        #expect(disk.string(forKey: "k") == "v")
    }

    @Test("faults have names", arguments: [TestFault.io, .permissionDenied, .tooManyOpenFiles, .noSpace])
    func names(_ fault: TestFault) async throws {
        let disk = try world.diskCache()
        world.failCalls(.writes, with: fault)
        #expect(await code { try disk.setString("v", forKey: "k") } == (fault == .noSpace ? .noSpace : .io))
        #expect(!fault.description.isEmpty)
    }

    @Test("the n-th call fails, for every n: reads never throw, and a write that throws has changed nothing")
    func everyCall() async throws {
        var number = 0
        while true {
            number += 1
            let world = TestWorld()
            let cache: Cache<String> = try world.cache()
            try await cache.setValue("old", forKey: "k")
            world.failCall(number)
            let failure = await code { try await cache.setValue("new", forKey: "k") }
            let value = await cache.value(forKey: "k")
            #expect(value == (failure == nil ? "new" : "old"), "call \(number)")
            cache.memory?.trim(toCount: 0)
            _ = await cache.value(forKey: "k")
            if world.failedCallCount == 0 { break }
            world.endFaults()
            #expect(await cache.value(forKey: "k") == value, "call \(number)")
        }
        #expect(number > 3)
    }

    @Test("a cache on a failing disk may fall back to memory, on the world's clock")
    func fallback() async throws {
        let log = Log<CacheEvent>()
        world.failCalls()
        let cache: Cache<String> = try world.cache(
            configuration: .init(fallsBackToMemory: true, onEvent: { log.append($0) }))
        world.settle()
        #expect(cache.disk == nil && log.all.map(\.kind) == [.failed])
        try await cache.setValue("v", forKey: "k", ttl: .seconds(10))
        #expect(await cache.value(forKey: "k") == "v")
        world.advance(by: .seconds(10))
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("only the next call of the chosen kind fails")
    func oneCall() async throws {
        let disk = try world.diskCache()
        try disk.setString("old", forKey: "k")
        world.settle()
        world.failCall(1, of: .writes)
        #expect(await code { try disk.setString("new", forKey: "k") } == .io)
        #expect(disk.string(forKey: "k") == "old")
        try disk.setString("new", forKey: "k")
        #expect(disk.string(forKey: "k") == "new" && world.failedCallCount == 1)
    }

    @Test("a hit in memory makes no file-system call, and one on disk a few")
    func counts() async throws {
        let cache: Cache<String> = try world.cache()
        try await cache.setValue("v", forKey: "k")
        world.settle()
        let before = world.fileCalls
        #expect(before.writes > 0 && before.total >= before.reads + before.writes)
        #expect(await cache.value(forKey: "k") == "v")
        #expect(world.fileCalls == before)
        cache.memory?.trim(toCount: 0)
        #expect(await cache.value(forKey: "k") == "v")
        #expect(world.fileCalls.reads > before.reads && world.fileCalls.writes == before.writes, "\(before)")
    }
}
