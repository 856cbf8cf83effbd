import Foundation
import Larder
import LarderTesting
import Testing

@Suite("A world with a seed")
struct SeedTests {
    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("shows a value that is fresh, then expired, then kept although the source is down")
    func lives() async throws {
        let world = TestWorld(seed: 1)
        let names: Cache<String> = try world.cache()
        let source = TestSource<String>(answers: ["Ann", "Bob"])
        @Sendable func name() async throws -> String {
            try await names.value(forKey: "42", ttl: .minutes(10), policy: .staleIfError(for: .hours(1))) {
                try await source.fetch("42")
            }
        }
        #expect(try await world.run { try await name() } == "Ann")
        world.advance(by: .seconds(599))
        #expect(try await world.run { try await name() } == "Ann", "fresh")
        world.advance(by: .seconds(1))
        #expect(try await world.run { try await name() } == "Bob", "expired")
        source.fail(with: Unreachable())
        world.advance(by: .seconds(600))
        #expect(try await world.run { try await name() } == "Bob", "the source is down")
        #expect(source.requestCount == 3)
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("runs nothing by itself")
    func background() async throws {
        let events = Events()
        let world = TestWorld(seed: 1)
        let cache = try world.diskCache(configuration: .init(onEvent: events.note))
        try await world.run { try cache.setString("a", forKey: "a") }
        world.run()
        let calls = world.fileCalls
        world.advance(by: .milliseconds(499))
        #expect(world.fileCalls == calls, "the save is not due")
        world.advance(by: .milliseconds(1))
        #expect(world.fileCalls != calls)
        try await world.run { try cache.removeAll() }
        #expect(events.kinds.contains(.cleared) == false, "nobody has delivered it")
        world.run()
        #expect(events.kinds.contains(.cleared))
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("passes the errors of the test on, and says what waits when it is stuck")
    func stuck() async throws {
        let world = TestWorld(seed: 1)
        await #expect(throws: Unreachable.self) { try await world.run { throw Unreachable() } }
        world.simulator?.patience = 50
        let names: Cache<String> = try world.cache()
        let source = TestSource<String>()
        let error = await #expect(throws: (any Error).self) {
            try await world.run { try await names.value(forKey: "42") { try await source.fetch() } }
        }
        #expect("\(error.map { "\($0)" } ?? "")".contains("waits for what does not happen"))
        // The fetch goes on.
        source.succeed(with: "Ann")
        world.run()
        #expect(try await world.run { await names.value(forKey: "42") } == "Ann")
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("survives kills and power cuts like any other")
    func restarts() async throws {
        let world = TestWorld(seed: 3)
        let cache = try world.diskCache()
        try await world.run { try cache.setString("a", forKey: "a") }
        world.restart()
        let next = try world.diskCache()
        #expect(try await world.run { next.string(forKey: "a") } == "a")
        world.powerCut(seed: 3)
        let last = try world.diskCache(configuration: .init(durability: .powerSafe))
        try await world.run { try last.setString("b", forKey: "b") }
        world.powerCut(seed: 4)
        let found = try world.diskCache(configuration: .init(durability: .powerSafe))
        #expect(try await world.run { found.string(forKey: "b") } == "b")
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("lets a part of a test wait for what is outside of the world")
    func outside() async throws {
        let world = TestWorld(seed: 1)
        let names: Cache<String> = try world.cache()
        let found = try await world.run {
            await Task { try? await names.setValue("Ann", forKey: "42") }.value
            await MainActor.run {}
            return await names.value(forKey: "42")
        }
        #expect(found == "Ann")
        let source = TestSource<String>()
        async let fetched = world.run { try await names.value(forKey: "43") { try await source.fetch() } }
        await source.waitForRequests(1)
        source.succeed(with: "Bob")
        #expect(try await fetched == "Bob")
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("runs several parts of a test at once, one within another, and beside a clock that moves")
    func parts() async throws {
        let world = TestWorld(seed: 1)
        let other = TestWorld(seed: 2)
        let (names, others): (Cache<String>, Cache<String>) = (try world.cache(), try other.cache())
        async let first: Void = world.run { try await names.setValue("Ann", forKey: "1") }
        async let second: Void = world.run { try await names.setValue("Bob", forKey: "2") }
        _ = try await (first, second)
        let found = try await world.run {
            try await other.run { try await others.setValue("Eve", forKey: "1") }
            try await world.run { try await names.setValue("Ann", forKey: "1") }
            world.run()
            return (await names.value(forKey: "1"), await names.value(forKey: "2"))
        }
        #expect(found == ("Ann", "Bob"))
        #expect(try await other.run { await others.value(forKey: "1") } == "Eve")

        let source = TestSource<String>()
        let late = Task {
            try await world.run {
                try await names.value(forKey: "3", policy: .default.hardTimeout(.seconds(30))) {
                    try await source.fetch()
                }
            }
        }
        await source.waitForRequests(1)
        world.advance(by: .seconds(30))
        let error = await #expect(throws: CacheError.self) { try await late.value }
        #expect(error?.code == .timedOut)
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("does the work that falls due when the clock moves within a part of a test")
    func clock() async throws {
        let world = TestWorld(seed: 1)
        let cache = try world.diskCache()
        try await world.run {
            try cache.setString("a", forKey: "a")
            world.run()
            let calls = world.fileCalls
            world.advance(by: .milliseconds(500))
            #expect(world.fileCalls != calls, "it is saved")
        }
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("passes cancellation on")
    func cancellation() async throws {
        let world = TestWorld(seed: 1)
        let part = Task {
            try await world.run {
                while !Task.isCancelled { await Task.yield() }
                return true
            }
        }
        part.cancel()
        #expect(try await part.value)
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("leaves nothing behind")
    func release() async throws {
        weak var simulator: Simulator?
        do {
            let world = TestWorld(seed: 1)
            simulator = world.simulator
            let cache = try world.diskCache()
            try await world.run { try cache.setString("a", forKey: "a") }
        }
        // The last thread may still be on its way out.
        for _ in 0..<100_000 where simulator != nil { await Task.yield() }
        #expect(simulator == nil)
    }
}

/// The kinds of events so far.
private final class Events: @unchecked Sendable {
    private let lock = NSLock()
    private var events: [CacheEvent.Kind] = []

    @Sendable func note(_ event: CacheEvent) {
        lock.lock()
        events.append(event.kind)
        lock.unlock()
    }

    var kinds: [CacheEvent.Kind] {
        lock.lock()
        defer { lock.unlock() }
        return events
    }
}
