import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Events and statistics of two tiers")
struct TierEventTests {
    @Test("a cache gets the events of its keys, through whatever handle, and of no others")
    func filtered() async throws {
        let disk = try TestWorld().diskCache()
        let (log, other, all) = (EventLog(), EventLog(), EventLog())
        var configuration = Cache<String>.Configuration()
        configuration.onEvent = log.note
        let cache = Cache<String>(disk: disk, namespace: "a", configuration: configuration)
        configuration.onEvent = other.note
        let second = Cache<String>(disk: disk, namespace: "b", configuration: configuration)
        configuration.onEvent = all.note
        let whole = Cache<String>(disk: disk, namespace: "", configuration: configuration)
        try await cache.setValue("1", forKey: "k")
        try await cache.setValue("2", forKey: "k")
        try disk.namespace("a").removeValue(forKey: "k")
        try await cache.setValue("3", forKey: "k")
        try await cache.removeAll()
        try await second.setValue("1", forKey: "x")
        try await second.removeValue(forKey: "x")
        try await whole.removeAll()
        try disk.removeAll()
        func lines(_ log: EventLog) -> [String] {
            log.events(of: disk).map { "\($0.kind) \($0.namespace ?? "-") \($0.keys)" }
        }
        #expect(lines(log) == [#"replaced a ["k"]"#, #"removed a ["k"]"#, "cleared a []", "cleared - []"])
        #expect(lines(other) == [#"removed b ["x"]"#, "cleared - []"])
        #expect(lines(all).count == 6)
        #expect(all.events(of: disk).map(\.isOfAllNamespaces) == [false, false, false, false, false, true])
    }

    @Test("a stream has the events from its creation on, and ends with the cache")
    func streams() async throws {
        var disk: DiskCache? = try TestWorld().diskCache()
        let bare = try #require(disk?.events)
        var cache: Cache<String>? = disk.map { Cache<String>(disk: $0, namespace: "a") }
        let typed = try #require(cache?.events)
        try await cache?.setValue("1", forKey: "k")
        try await cache?.setValue("2", forKey: "k")
        try disk?.setString("1", forKey: "plain")
        try disk?.removeValue(forKey: "plain")
        (cache, disk) = (nil, nil)
        var kinds: [CacheEvent.Kind] = []
        for await event in typed { kinds.append(event.kind) }
        #expect(kinds == [.stored, .replaced])
        kinds = []
        for await event in bare { kinds.append(event.kind) }
        #expect(kinds == [.stored, .replaced, .stored, .removed])
    }

    @Test("listening ends when the reader of a stream stops, or the cache is deallocated")
    func unheard() async throws {
        let disk = try TestWorld().diskCache()
        var configuration = Cache<String>.Configuration()
        configuration.onEvent = { _ in }
        var cache: Cache<String>? = Cache<String>(disk: disk, namespace: "a", configuration: configuration)
        #expect(disk.store.events.isListening)
        try await cache?.setValue("1", forKey: "k")
        let reader = Task { [events = disk.events] in
            for await _ in events { return true }
            return false
        }
        try disk.namespace("a").removeValue(forKey: "k")
        #expect(await reader.value)
        cache = nil
        #expect(!disk.store.events.isListening)
        #expect(disk.store.index.tierCount == 0)
    }

    @Test("streams of a closed cache end at once")
    func afterTheEnd() async throws {
        let disk = try TestWorld().diskCache()
        try disk.setString("v", forKey: "k")
        try disk.close()
        for await _ in disk.events { Issue.record("a closed cache has no events") }
        let cache = Cache<String>(disk: disk, namespace: "")
        for await _ in cache.events { Issue.record("a closed cache has no events") }
        #expect(await cache.value(forKey: "k") == nil)
        #expect(disk.store.index.tierCount == 0 && !disk.store.events.isListening)
    }

    @Test("the stream of a cache in memory ends with it")
    func memoryOnly() async throws {
        var cache: Cache<String>? = TestWorld().memoryOnlyCache(of: String.self)
        let events = try #require(cache?.events)
        try await cache?.removeAll()
        cache = nil
        var kinds: [CacheEvent.Kind] = []
        for await event in events { kinds.append(event.kind) }
        #expect(kinds == [.cleared])
    }

    @Test("a slow reader misses the oldest events, and no caller waits for it")
    func slowReader() async throws {
        let disk = try TestWorld().diskCache()  // its clock does not advance: nothing is saved meanwhile
        let events = disk.events
        for number in 0..<1500 { try disk.setString("\(number)", forKey: "k") }
        disk.store.events.drain()
        try disk.close()
        var count = 0
        for await _ in events { count += 1 }
        #expect(count <= EventCenter.bound && count > 0)
    }
}
