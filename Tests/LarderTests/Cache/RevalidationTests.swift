import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("FetchResult: expired values are revalidated without another transfer")
struct RevalidationTests {
    /// A server with one versioned document.
    final class Server: Sendable {
        struct State {
            var version = 1
            var requests: [String?] = []
            var transfers = 0
        }

        let state = Lock(State())

        func answer(_ cached: Lookup<String>?) -> FetchResult<String> {
            state.withLock { state in
                state.requests.append(cached?.metadata["etag"])
                let etag = "\(state.version)"
                if cached?.metadata["etag"] == etag { return .notModified }
                state.transfers += 1
                return .value("document \(etag)", metadata: ["etag": etag, "type": "text"])
            }
        }

        var requests: [String?] { state.withLock { $0.requests } }
        var transfers: Int { state.withLock { $0.transfers } }
    }

    @Test("not modified: the life restarts, and the value stays", arguments: Tiers.allCases)
    func notModified(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let server = Server()
        func lookup(_ policy: FetchPolicy = .cacheFirst) async throws -> Lookup<String> {
            try await cache.lookup(forKey: "k", ttl: .seconds(10), policy: policy) { server.answer($0) }
        }
        let first = try await lookup()
        #expect(first.value == "document 1" && first.source == .fetched && !first.isStale)
        #expect(try await lookup().source == (tiers == .diskAlone ? .disk : .memory))
        for _ in 0..<3 {
            world.clock.advance(by: .seconds(10))
            #expect(await cache.value(forKey: "k") == nil)
            let again = try await lookup()
            #expect(again.value == "document 1" && again.source == .revalidated && again.age == .zero)
            #expect(again.expiresAt == world.clock.date.addingTimeInterval(10))
            world.clock.advance(by: .seconds(5))
            let found = try #require(await cache.lookup(forKey: "k"))
            #expect(found.value == "document 1" && found.age == .seconds(5))
        }
        #expect(server.requests == [nil, "1", "1", "1"] && server.transfers == 1)
        // A reload revalidates a fresh value.
        #expect(try await lookup(.reload).source == .revalidated)
        server.state.withLock { $0.version = 2 }
        #expect(try await lookup().value == "document 1", "it is still fresh")
        let reloaded = try await lookup(.reload)
        #expect(reloaded.value == "document 2" && reloaded.source == .fetched)
        #expect(server.requests.suffix(2) == ["1", "1"] && server.transfers == 2)
        if tiers != .memoryAlone {
            #expect(await cache.entry(forKey: "k")?.metadata == ["etag": "2", "type": "text"])
        }
    }

    @Test("the payload is rewritten only when its metadata change; both survive kills and the loss of the index")
    func files() async throws {
        var world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        var cache = Cache<Data>(disk: disk, namespace: "n")
        let payload = Data(repeating: 7, count: 100_000)
        let policy = FetchPolicy.cacheFirst.keepStale(for: .days(7))
        func revalidate(_ answer: FetchResult<Data>) async throws -> Lookup<Data> {
            try await cache.lookup(forKey: "k", ttl: .seconds(10), tags: ["t"], policy: policy) { _ in answer }
        }
        _ = try await revalidate(.value(payload, metadata: ["etag": "1"]))
        let files = world.entryFiles
        world.clock.advance(by: .seconds(20))
        disk.settle()
        let calls = CallCounter()
        world.files.inject(calls.count)
        for metadata in [nil, ["etag": "1"]] {
            let before = calls.number(of: .write)
            let same = try await revalidate(.notModified(metadata: metadata))
            #expect(same.value == payload && world.entryFiles == files)
            #expect(calls.number(of: .write) == before + 2, "a line of the journal, and the life in the file")
            world.clock.advance(by: .seconds(20))
            disk.settle()
        }
        world.files.inject(nil)
        // A response that confirms a value may also restrict its use, and no loss may undo that.
        let renewed = try await revalidate(.notModified(ttl: .seconds(30), metadata: ["etag": "1", "vary": "accept"]))
        #expect(renewed.value == payload && renewed.expiresAt == world.clock.date.addingTimeInterval(30))
        for isDamaged in [false, true] {
            world.restart()
            if isDamaged {
                for name in world.names where name.hasPrefix("manifest") || name.hasPrefix("journal") {
                    world.remove(name)
                }
            }
            disk = try world.open()
            cache = Cache(disk: disk, namespace: "n")
            #expect(disk.namespace("n").entry(forKey: "k")?.metadata.count ?? 2 == 2, "before anything is repaired")
            try disk.flush()
            let entry = try #require(await cache.entry(forKey: "k"))
            #expect(entry.expiresAt == renewed.expiresAt && entry.tags == ["t"])
            #expect(entry.keptUntil == entry.expiresAt?.addingTimeInterval(7 * 86_400))
            #expect(entry.metadata == ["etag": "1", "vary": "accept"])
            #expect(await cache.value(forKey: "k") == payload)
        }
    }

    @Test("a renewal that cannot be written is in memory alone, and the disk is unchanged")
    func failing() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        let server = Server()
        func value() async throws -> String {
            try await cache.value(forKey: "k", ttl: .seconds(10)) { cached in
                guard case .notModified = server.answer(cached).outcome else { return server.answer(cached) }
                return .notModified(metadata: ["etag": "1", "more": "x"])
            }
        }
        #expect(try await value() == "document 1")
        world.clock.advance(by: .seconds(20))
        let key = cache.backend.key("k")
        let before = try #require(disk.store.index.withShard(of: key) { $0.table.entry(key) })
        world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
        #expect(try await value() == "document 1")
        world.files.inject(nil)
        let after = try #require(disk.store.index.withShard(of: key) { $0.table.entry(key) })
        #expect(after.life == before.life && after.metadata == before.metadata)
        #expect(await cache.value(forKey: "k") == "document 1", "from memory")
        #expect(disk.namespace("n").data(forKey: "k") == nil)
        cache.memoryTier?.removeAll()
        #expect(await cache.value(forKey: "k") == nil)
        #expect(try await value() == "document 1")
        #expect(await cache.entry(forKey: "k")?.metadata == ["etag": "1", "more": "x"])
        disk.checkInvariants()
    }

    @Test("metadata too long for a record is refused, and the entry stays readable")
    func tooLong() async throws {
        var world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        _ = try await cache.value(forKey: "k", ttl: .seconds(10)) { _ in .value("v", metadata: ["etag": "1"]) }
        world.clock.advance(by: .seconds(20))
        let long = String(repeating: "x", count: 2 << 20)
        let value = try await cache.value(forKey: "k") { _ in .notModified(metadata: ["etag": long]) }
        #expect(value == "v")
        world.restart()
        let reopened = Cache<String>(disk: try world.open(), namespace: "n")
        let again = try await reopened.value(forKey: "k") { cached in .value(cached?.metadata["etag"] ?? "none") }
        #expect(again == "1")
    }

    @Test("a value evicted during its revalidation is stored again if it is still valid", arguments: [true, false])
    func evicted(_ isNotModified: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        let server = Server()
        let source = HandDrivenSource<Void>()
        _ = try await cache.value(forKey: "k", ttl: .seconds(10), tags: ["t"]) { server.answer($0) }
        world.clock.advance(by: .seconds(20))
        let caller = begin {
            try await cache.value(forKey: "k", ttl: .seconds(10), tags: ["t"]) { cached in
                try await source.fetch()
                return server.answer(cached)
            }
        }
        await until("it is asked") { source.begun == 1 }
        disk.trim(toCount: 0)
        if !isNotModified { server.state.withLock { $0.version = 2 } }
        await source.answer(())
        let expected = isNotModified ? "document 1" : "document 2"
        #expect(try await caller.value == expected)
        #expect(await cache.value(forKey: "k") == expected)
        let entry = try #require(await cache.entry(forKey: "k"))
        #expect(entry.metadata["etag"] == (isNotModified ? "1" : "2") && entry.tags == ["t"])
    }

    /// The changes that others make meanwhile to an entry with the tag "t".
    enum Meanwhile: CaseIterable, Sendable {
        case remove, tag, namespace, everything, noLife

        func run(_ disk: DiskCache) throws {
            let space = disk.namespace("n")
            switch self {
            case .remove: try space.removeValue(forKey: "k")
            case .tag: try space.removeAll(tagged: "t")
            case .namespace: try space.removeAll()
            case .everything: try disk.removeAll()
            case .noLife: try space.setTimeToLive(.seconds(0), forKey: "k")
            }
        }
    }

    @Test(
        "a value removed during its revalidation does not come back, whatever tags the call has",
        arguments: Meanwhile.allCases, [true, false])
    func removedMeanwhile(_ change: Meanwhile, _ isNotModified: Bool) async throws {
        for tags in [[], ["t"], ["u"]] {
            let disk = try World { $0.sweepInterval = nil }.open()
            let cache = Cache<String>(disk: disk, namespace: "n")
            try await cache.setValue("old", forKey: "k", tags: ["t"])
            let source = HandDrivenSource<FetchResult<String>>()
            let caller = begin {
                try await cache.value(forKey: "k", tags: tags, policy: .reload) { _ in try await source.fetch() }
            }
            await until("it is asked") { source.begun == 1 }
            try change.run(disk)
            await source.answer(isNotModified ? .notModified : .value("from before the removal"))
            _ = try await caller.value
            #expect(await cache.value(forKey: "k") == nil, "with \(tags)")
            #expect(disk.namespace("n").keys() == [])
        }
    }

    @Test("a value removed while it is read for the fetch does not come back", arguments: Meanwhile.allCases)
    func removedWhileRead(_ change: Meanwhile) async throws {
        let handles = try CoherenceTests.Handles(World { $0.sweepInterval = nil })
        let (cache, disk) = (handles.first, handles.disk)
        try await cache.setValue("old", forKey: "k", tags: ["t"])
        // The payload has been read, and is being decoded.
        cache.memoryTier?.removeAll()
        handles.seam.interrupt { try? change.run(disk) }
        let value = try await cache.value(forKey: "k", policy: .reload) { cached in
            cached == nil ? .value("new") : .notModified
        }
        #expect(["old", "new"].contains(value))
        #expect(await cache.value(forKey: "k") != "old")
    }

    @Test("a fetch that was given a value during its removal does not bring it back")
    func amidRemoval() async throws {
        var world = World { $0.sweepInterval = nil }
        let first = try world.open()
        try first.namespace("n").setString("old", forKey: "k")
        try first.close()
        world.restart()
        // The first change of a session waits for the journal and is held up there.
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        disk.settle()
        // It waits for the journal too, until it has caught up with other processes for the first time.
        _ = await cache.value(forKey: "other")
        let source = HandDrivenSource<FetchResult<String>>()
        let (isHeld, isFree, isRemoved) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), Lock(false))
        Thread.detachNewThread {
            disk.store.info.run {
                isHeld.signal()
                isFree.wait()
            }
        }
        Thread.detachNewThread {
            isHeld.wait()
            isHeld.signal()
            _ = try? disk.namespace("n").removeValue(forKey: "k")
            isRemoved.withLock { $0 = true }
        }
        for _ in 0..<20_000 { await Task.yield() }
        let given = Lock<String?>(nil)
        let caller = begin {
            try await cache.value(forKey: "k", policy: .reload) { cached in
                given.withLock { $0 = cached?.value }
                return try await source.fetch()
            }
        }
        await until("it is asked") { source.begun == 1 }
        #expect(given.withLock { $0 } == "old")
        isFree.signal()
        await until("it is removed") { isRemoved.withLock { $0 } }
        await source.answer(.notModified)
        #expect(try await caller.value == "old")
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("new tags and a new must-revalidate setting are stored", arguments: Tiers.allCases)
    func changed(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let policy = FetchPolicy.reload.staleIfError(for: .forever)
        _ = try await cache.value(forKey: "k", tags: ["t"], policy: policy) { _ in
            .value("v", metadata: ["etag": "1"])
        }
        let strict = try await cache.value(forKey: "k", ttl: .seconds(10), tags: ["u"], policy: policy) { _ in
            .notModified(metadata: nil, mustRevalidate: true)
        }
        #expect(strict == "v")
        if tiers != .memoryAlone {
            let entry = try #require(await cache.entry(forKey: "k"))
            #expect(entry.tags == ["u"] && entry.metadata == ["etag": "1"])
            try await cache.removeAll(tagged: "t")
            #expect(await cache.value(forKey: "k") == "v")
        }
        world.clock.advance(by: .seconds(10))
        await #expect(throws: SourceFailure.self) {
            try await cache.value(forKey: "k", policy: policy) { throw SourceFailure() }
        }
        try await cache.removeAll(tagged: "u")
        let given = try await cache.value(forKey: "k") { cached in .value(cached?.value ?? "nothing") }
        #expect(given == "nothing")
    }

    @Test(
        "a value renewed until a date is as old as its renewal, and is not fetched early every time",
        arguments: Tiers.allCases)
    func untilDate(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let calls = Lock(0)
        @Sendable func value() async throws -> Lookup<String> {
            try await cache.lookup(forKey: "k", policy: .cacheFirst.eagerRefresh(atFraction: 0.8)) { cached in
                calls.withLock { $0 += 1 }
                let ttl = TimeToLive.until(world.clock.date + 100)
                return cached == nil ? .value("v", ttl: ttl) : .notModified(ttl: ttl)
            }
        }
        for _ in 0..<6 {
            _ = try await value()
            world.clock.advance(by: .seconds(100))
        }
        _ = try await value()
        let before = calls.withLock { $0 }
        for _ in 0..<10 {
            #expect(try await value().age == .zero)
            await until("nothing is under way") { cache.backend.flights.count == 0 }
        }
        #expect(calls.withLock { $0 } == before)
    }

    @Test("a value removed or set during its revalidation is not renewed", arguments: [true, false])
    func removed(_ isSet: Bool) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache = Cache<String>(disk: try world.open(), namespace: "n")
        let source = HandDrivenSource<Void>()
        _ = try await cache.value(forKey: "k", ttl: .seconds(10)) { _ in .value("old") }
        world.clock.advance(by: .seconds(20))
        let caller = begin {
            try await cache.value(forKey: "k") { _ in
                try await source.fetch()
                return .notModified
            }
        }
        await until("it is asked") { source.begun == 1 }
        if isSet { try await cache.setValue("mine", forKey: "k") } else { try await cache.removeValue(forKey: "k") }
        await source.answer(())
        #expect(try await caller.value == "old")
        #expect(await cache.value(forKey: "k") == (isSet ? "mine" : nil))
    }

    @Test(
        "a must-revalidate value is never a stale answer, but its fetch gets it", arguments: Tiers.allCases)
    func mustRevalidate(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let policy = FetchPolicy.staleWhileRevalidate(for: .forever).staleIfError(for: .forever).softTimeout(
            .seconds(1))
        func value(_ answer: @escaping @Sendable (Lookup<String>?) throws -> FetchResult<String>) async throws
            -> String
        {
            try await cache.value(forKey: "k", ttl: .seconds(10), policy: policy, revalidate: answer)
        }
        #expect(try await value { _ in .value("v", metadata: ["etag": "1"], mustRevalidate: true) } == "v")
        #expect(try await value { _ in throw SourceFailure() } == "v", "it is fresh")
        for _ in 0..<2 {
            world.clock.advance(by: .seconds(10))
            await #expect(throws: SourceFailure.self) { try await value { _ in throw SourceFailure() } }
            let again = try await value { cached in
                #expect(cached?.value == "v" && cached?.metadata == ["etag": "1"])
                return .notModified
            }
            #expect(again == "v", "and stays so after its renewal")
        }
    }

    @Test("the fetch gets the beginning and the end of the value's life", arguments: Tiers.allCases)
    func lifeOfCached(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        let begun = world.clock.date
        for round in 0..<4 {
            let value = try await cache.value(forKey: "k", ttl: .seconds(10)) { cached in
                if let cached {
                    #expect(cached.isStale && cached.age == .seconds(20) && cached.staleReason == nil)
                    #expect(cached.expiresAt == begun.addingTimeInterval(Double(20 * round - 10)))
                }
                return cached == nil ? .value("v") : .notModified
            }
            #expect(value == "v")
            world.clock.advance(by: .seconds(20))
        }
    }

    @Test("a senseless answer is an error", arguments: Tiers.allCases)
    func nonsense(_ tiers: Tiers) async throws {
        let cache: Cache<String> = try tiers.cache(in: World())
        let code = await code {
            try await cache.value(forKey: "k") { cached in
                #expect(cached == nil)
                return .notModified
            }
        }
        #expect(code == .notFound)
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("a value that can be revalidated is kept for a day by default, and every fetch gets it")
    func window() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let cache = Cache<String>(disk: disk, namespace: "n")
        _ = try await cache.value(forKey: "kept", ttl: .seconds(10)) { _ in .value("v") }
        _ = try await cache.value(forKey: "not kept", ttl: .seconds(10)) { "v" }
        let entries = disk.namespace("n").entries()
        for entry in entries {
            let beyond = try #require(entry.keptUntil?.timeIntervalSince(entry.expiresAt ?? .distantPast))
            #expect(beyond == (entry.key == "kept" ? 86_400 : 0))
        }
        #expect(entries.count == 2)
        world.clock.advance(by: .seconds(10))
        disk.removeExpired()
        #expect(disk.namespace("n").count == 1)
        let given = try await cache.value(forKey: "kept") { cached in .value(cached?.value ?? "nothing") }
        #expect(given == "v")
        // Policy windows begin at the expiry and end on time.
        world.clock.advance(by: .days(1) + .days(1))
        let gone = try await cache.value(forKey: "kept") { cached in .value(cached?.value ?? "nothing") }
        #expect(gone == "nothing")
    }
}

extension Duration {
    static func days(_ days: Int) -> Duration { .seconds(days * 86_400) }
}
