import Foundation
import Larder
import LarderTesting
import Testing

@Suite("A world with a seed")
struct SeedTests {
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

    @Test("passes the errors of the test on, and says what waits when it is stuck")
    func stuck() async throws {
        let world = TestWorld(seed: 1)
        await #expect(throws: Unreachable.self) { try await world.run { throw Unreachable() } }
        let names: Cache<String> = try world.cache()
        let source = TestSource<String>()
        let error = await #expect(throws: (any Error).self) {
            try await world.run { try await names.value(forKey: "42") { try await source.fetch() } }
        }
        #expect("\(error.map { "\($0)" } ?? "")".contains("waits for what never happens"))
        // The fetch goes on.
        source.succeed(with: "Ann")
        world.run()
        #expect(try await world.run { await names.value(forKey: "42") } == "Ann")
    }

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
